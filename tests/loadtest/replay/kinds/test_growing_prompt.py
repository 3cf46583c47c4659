"""GrowingPrompt: which blocks stay when a prompt grows, forks or changes."""

from __future__ import annotations

from itertools import count

from loadtest.replay.kinds.growing_prompt import GrowingPrompt


def blocks(prompt: GrowingPrompt) -> list[int]:
    return list(prompt.turn(1).blocks)


def test_a_growing_prompt_keeps_its_full_blocks() -> None:
    """A block has an id from when it is full."""
    prompt = GrowingPrompt(count(), 1000)
    assert blocks(prompt) == [0]
    prompt.grow(24)
    assert blocks(prompt) == [0, 1]
    assert prompt.turn(7, 2.5)[:2] == (1024, 7)
    assert prompt.turn(7, 2.5).think_s == 2.5


def test_copies_share_what_was_full_and_part_after_it() -> None:
    """The partly full block becomes another one in each."""
    system = GrowingPrompt(count(), 1000)
    one, other = system.copy(), system.copy()
    one.grow(600)
    other.grow(600)
    assert blocks(one)[0] == blocks(other)[0]
    assert not set(blocks(one)[1:]) & set(blocks(other)[1:])
    assert (system.tokens, len(blocks(system))) == (1000, 1)


def test_a_rewritten_prompt_is_as_long_and_shares_only_its_beginning() -> None:
    """What was beyond the part is other text."""
    prompt = GrowingPrompt(count(), 512 * 10)
    prompt.rewrite(1800)
    assert prompt.tokens == 5120
    assert blocks(prompt)[:3] == [0, 1, 2]
    assert min(blocks(prompt)[3:]) >= 10


def test_cutting_beyond_the_end_changes_nothing() -> None:
    """There is nothing there."""
    prompt = GrowingPrompt(count(), 600)
    prompt.cut(5000)
    assert prompt.tokens == 600
    prompt.cut(511)
    assert (prompt.tokens, blocks(prompt)) == (511, [])
