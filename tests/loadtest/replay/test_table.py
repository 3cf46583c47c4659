"""A table as text."""

from __future__ import annotations

from loadtest.replay.table import Table


def test_words_stand_left_and_numbers_right() -> None:
    table = Table("fruit", ["name", "pieces", "taste"], [["fig", "7", "sweet"], ["pomegranate", "12", "sour"]])

    assert str(table).splitlines() == [
        "fruit",
        "name         pieces  taste",
        "fig               7  sweet",
        "pomegranate      12  sour",
    ]
