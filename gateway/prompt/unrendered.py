"""Unrendered: the prompt of this request cannot be known here."""

from __future__ import annotations


class Unrendered(Exception):
    """Raised inside the prompt room only. ``reason`` is one word of a fixed vocabulary, never client text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
