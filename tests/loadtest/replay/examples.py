"""Small traces for tests of the replay."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.replay.trace import Session, Trace, Turn

BLOCK = 512


def turn(tokens: int, output: int = 10, family: int = 0, think_s: float = 0.0) -> Turn:
    """Prompts of one family are beginnings of each other."""
    return Turn(tokens, output, [family * 10_000 + place for place in range(tokens // BLOCK)], think_s)


def open_trace(turns: Sequence[Turn], gap_s: float = 1.0) -> Trace:
    """One after the other, ``gap_s`` apart, whatever became of those before."""
    sessions = [Session(f"s{number}", number * gap_s, [asked]) for number, asked in enumerate(turns)]
    return Trace("open", BLOCK, sessions)


def dialogue(turns: Sequence[Turn], key: str = "s", begins_s: float = 0.0) -> Session:
    return Session(key, begins_s, turns)
