"""Trust: how far what events told of a replica is believed, and why.

Pure. It follows from the state of the replica's feed alone. Trust scales credit inside the cost of a replica; it never
hides a replica.
"""

from __future__ import annotations

from enum import Enum


class FeedState(Enum):
    """The reason, as a metric label, and its ``trust`` 0..1: how much of a predicted hit to count on."""

    FRESH = "fresh", 1.0  # connected, every batch applied in order
    SUSPECT = "suspect", 0.5  # catching up, or what is known may be another process's
    BLIND = "blind", 0.0  # no connection, or none for too long

    def __init__(self, label: str, trust: float) -> None:
        self.label = label
        self.trust = trust
