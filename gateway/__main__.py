"""``python -m gateway``: the same as the ``prefixway`` command."""

from gateway.cli import main

if __name__ == "__main__":
    main()
