"""The rows, one a file: the part to change. ``__main__`` has their order."""
