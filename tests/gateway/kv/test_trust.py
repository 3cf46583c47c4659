"""How far a replica's events are believed."""

from __future__ import annotations

from gateway.kv.trust import FeedState


def test_trust_falls_with_the_feeds_state() -> None:
    """Fresh counts in full, blind not at all, and each says its reason."""
    assert [(state.label, state.trust) for state in FeedState] == [("fresh", 1.0), ("suspect", 0.5), ("blind", 0.0)]
