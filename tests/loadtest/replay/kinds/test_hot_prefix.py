"""Generated system prompts of unequal popularity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from loadtest.replay.kinds.hot_prefix import make
from loadtest.replay.trace import Session


def shares(sessions: Sequence[Session]) -> Counter[int]:
    return Counter(session.turns[0].blocks[0] for session in sessions)


def test_few_prompts_are_popular_and_new_ones_come_at_once() -> None:
    """The first has a share of its own; a new one has 20 requests within seconds."""
    sessions = make(3000, Random(1))
    counts = shares(sessions)
    assert counts.most_common(1)[0][1] > 0.08 * 3000
    assert len(counts) > 50
    begun: dict[int, list[float]] = {}
    for session in sessions:
        begun.setdefault(session.turns[0].blocks[0], []).append(session.begins_s)
    new = [times for times in begun.values() if times[0] > 30 and len(times) >= 20]
    assert any(times[19] - times[0] < 10 for times in new)


def test_a_prompt_that_turns_hot_takes_half_of_the_traffic_from_then_on() -> None:
    """And had none before."""
    sessions = make(2000, Random(1), hot_from=0.5)[:2000]
    hot, _ = shares(sessions[1100:]).most_common(1)[0]
    assert shares(sessions[:950])[hot] == 0
    assert 0.4 < shares(sessions[1100:])[hot] / 900 < 0.6
