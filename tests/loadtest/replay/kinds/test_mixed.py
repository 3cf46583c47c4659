"""Generated short chats among huge prompts."""

from __future__ import annotations

from collections import Counter
from random import Random

from loadtest.replay.kinds.mixed import make


def test_huge_prompts_are_few_share_nothing_and_are_most_of_the_tokens() -> None:
    """Six in a hundred."""
    sessions = make(2000, Random(1))
    huge = [session.turns[0] for session in sessions if session.key.startswith("huge")]
    counts = Counter(block for session in sessions for block in session.turns[0].blocks)
    assert len(huge) == 120
    assert len(sessions) == 2000
    assert all(counts[block] == 1 for turn in huge for block in turn.blocks)
    total = sum(session.turns[0].prompt_tokens for session in sessions)
    assert sum(turn.prompt_tokens for turn in huge) > total / 2
