"""Generated coding agents."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from loadtest.replay.kinds.agentic import make


def test_sessions_grow_within_their_bounds_and_wait_between_turns() -> None:
    """The first turn comes at once; the others when somebody has thought, or a tool has run."""
    sessions = make(3000, Random(5))
    assert sum(len(session.turns) for session in sessions) >= 3000
    for session in sessions:
        assert len(session.turns) <= 60
        assert session.turns[0].think_s == 0.0
        assert all(1 <= turn.think_s <= 120 for turn in session.turns[1:])
        assert all(turn.prompt_tokens <= 100_000 for turn in session.turns)
        lengths = [turn.prompt_tokens for turn in session.turns]
        assert lengths == sorted(lengths)


def test_agents_share_the_descriptions_of_their_tools() -> None:
    """Some sets of tools are popular, others used once."""
    first = Counter(session.turns[0].blocks[0] for session in make(5000, Random(5)))
    assert 20 < len(first) <= 60
    assert max(first.values()) > 10


def test_some_prompts_are_written_anew() -> None:
    """One in seventy turns: its cache is lost from some place on."""
    lost = kept = 0
    for session in make(5000, Random(5)):
        for sooner, later in pairwise(session.turns):
            kept += later.blocks[: len(sooner.blocks)] == sooner.blocks
            lost += later.blocks[: len(sooner.blocks)] != sooner.blocks
    assert 0.005 < lost / (lost + kept) < 0.03
