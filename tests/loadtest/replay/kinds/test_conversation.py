"""Generated chats."""

from __future__ import annotations

from collections import defaultdict
from itertools import count, pairwise
from random import Random

from loadtest.replay.kinds.conversation import Chats, make
from loadtest.replay.trace import Turn


def chats(requests: int, options: Chats) -> dict[str, list[Turn]]:
    found: defaultdict[str, list[Turn]] = defaultdict(list)
    for session in options.sessions(requests, Random(3), count()):
        found[session.key].extend(session.turns)
    return found


def test_a_turn_repeats_the_chat_and_its_answers() -> None:
    """Where nobody edits, a prompt begins with the one before, and is longer by more than the answer."""
    for turns in chats(600, Chats(edits=0.0)).values():
        for sooner, later in pairwise(turns):
            assert later.blocks[: len(sooner.blocks)] == sooner.blocks
            assert later.prompt_tokens > sooner.prompt_tokens + sooner.output_tokens


def test_everybody_has_the_system_prompt_and_only_that_in_common() -> None:
    """One block."""
    found = chats(300, Chats())
    assert {turn.blocks[0] for turns in found.values() for turn in turns} == {0}
    second = [{turn.blocks[1] for turn in turns if len(turn.blocks) > 1} for turns in found.values()]
    assert len(set().union(*second)) == sum(len(blocks) for blocks in second)


def test_no_prompt_is_longer_than_the_context() -> None:
    """A chat that would be ends."""
    options = Chats(longest=20_000, goes_on=0.9, most=0.99)
    turns = [turn for turns in chats(500, options).values() for turn in turns[1:]]
    assert max(turn.prompt_tokens for turn in turns) <= 20_000


def test_times_are_steps_of_three_seconds() -> None:
    """As the public trace's; load levels spread them."""
    assert {session.begins_s % 3 for session in make(200, Random(1))} == {0.0}
