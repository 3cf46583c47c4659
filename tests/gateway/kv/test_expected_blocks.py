"""What is kept of one replica: prompts by block, answers by size."""

from __future__ import annotations

from gateway.kv.expected_blocks import ExpectedBlocks


def _keeping(*prompts: list[int]) -> ExpectedBlocks:
    """Prompts with answers of three blocks, one after the other, deepest block first."""
    replica = ExpectedBlocks(1, 1000)
    for now, prompt in enumerate(prompts):
        replica.keep_answer(prompt, 3, now)
        for block in reversed(prompt):
            replica.kept[block] = now
            replica.kept.move_to_end(block)
    return replica


def test_an_answer_goes_before_its_prompt() -> None:
    """It is counted, and gives back as much as it was."""
    replica = _keeping([1, 2], [5, 6])
    assert (replica.answer_blocks, replica.entries) == (6, 6)

    assert replica.take_oldest(2) == []  # an answer goes whole
    assert replica.answer_blocks == 3
    assert replica.take_oldest(2) == [2, 1]
    assert replica.take_oldest(100) == [6, 5]
    assert (replica.answer_blocks, replica.entries) == (0, 0)


def test_the_next_turn_contains_the_answer() -> None:
    """It is a prompt's part now, and not kept twice."""
    replica = _keeping([1, 2])
    replica.keep_answer([1, 2, 3, 4], 5, 1.0)

    assert replica.answer_blocks == 5


def test_the_same_prompt_again_has_one_answer() -> None:
    """The longest that it had."""
    replica = _keeping([1, 2], [1, 2])
    replica.keep_answer([1, 2], 1, 5.0)

    assert (replica.answer_blocks, replica.entries) == (3, 3)


def test_no_answer_leaves_nothing() -> None:
    """As of an embedding."""
    replica = ExpectedBlocks(1, 1000)
    replica.keep_answer([1, 2], 0, 1.0)

    assert (replica.answer_blocks, replica.entries) == (0, 0)
    assert replica.blocks_of([4, 5]) == [4, 5]
