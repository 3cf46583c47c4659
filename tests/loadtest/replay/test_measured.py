"""How a cell is named."""

from __future__ import annotations

from tests.loadtest.replay.hand_made import CELL, OTHER


def test_a_cell_says_what_differs_from_the_usual() -> None:
    assert str(CELL) == "chats, 8 replicas, load 0.6"
    assert str(OTHER) == "chats, 8 replicas, load 0.6, 3 gateways"
