"""Which processes there are, and what they agree on."""
