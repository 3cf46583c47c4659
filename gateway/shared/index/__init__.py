"""Who holds what, written by one process for each replica and read by all."""
