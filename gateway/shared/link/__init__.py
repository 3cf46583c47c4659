"""The connection to Redis: what may be asked of it, and what happens when it does not answer."""
