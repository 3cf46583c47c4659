"""Whether events told of new prompts, asked a moment after their end."""

from __future__ import annotations

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.router.confirmations import Confirmation, Confirmations

A, B = ReplicaKey("m", "a"), ReplicaKey("m", "b")


class Events:
    """Told of these blocks of ``A``; nobody follows ``B``."""

    def __init__(self, *blocks: int) -> None:
        self.blocks = set(blocks)

    def announced(self, key: ReplicaKey, tier: Tier, block: int) -> bool | None:
        return block in self.blocks if key == A and tier is Tier.L0 else None


def test_asked_once_and_not_too_early() -> None:
    """What was told meanwhile counts; a replica that nobody follows is left out."""
    events = Events(1)
    confirmations = Confirmations(events.announced, grace_s=2.0)
    for key, block, kind in ((A, 1, "plain"), (A, 2, "lora"), (B, 1, "plain"), (A, 3, "salted")):
        confirmations.expect(key, block, kind, 10.0)
    early = confirmations.due(11.9)
    events.blocks.add(2)
    due = confirmations.due(12.0)

    assert early == confirmations.due(99.0) == []
    assert due == [Confirmation(A, "plain", True), Confirmation(A, "lora", True), Confirmation(A, "salted", False)]


def test_no_more_than_so_many_wait() -> None:
    """Those beyond are not asked about."""
    confirmations = Confirmations(Events().announced, grace_s=2.0, most=3)
    for block in range(10):
        confirmations.expect(A, block, "plain", 0.0)

    assert len(confirmations.due(9.0)) == 3
    assert "0 waiting" in repr(confirmations)
