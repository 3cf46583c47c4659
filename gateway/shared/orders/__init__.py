"""What operators order for all processes, until it is cleared."""
