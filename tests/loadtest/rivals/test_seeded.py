"""What most rivals have in common."""

from __future__ import annotations

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, fleet


def ties(seed: int, *, forgetting: bool = False) -> list[int]:
    """Whom "random" chooses of eight equal replicas, twenty times."""
    rival, views, found = load("random", {"seed": seed}), fleet(*[0] * 8), []
    for _ in range(20):
        view = rival.select(asked(()), views).view
        found.append(view.number)
        if forgetting:
            rival.ended(asked(()), view)
            rival.left(view.number)
    return found


def test_ties_fall_by_the_seed() -> None:
    assert ties(1) == ties(1)
    assert ties(1) != ties(2)


def test_ends_and_departures_change_nothing_by_themselves() -> None:
    assert ties(1, forgetting=True) == ties(1)
