"""A trace's blocks as tokens."""

from __future__ import annotations

from loadtest.live.token_blocks import TokenBlocks
from loadtest.replay.trace import Turn

WORDS = range(100, 2000)


def test_equal_blocks_are_equal_tokens_and_unlike_ones_are_not() -> None:
    """Whoever asks, and in another run."""
    first, other = TokenBlocks(WORDS, 16), TokenBlocks(WORDS, 16)

    prompts = [
        blocks.prompt(Turn(48, 1, ids), asked)
        for blocks, ids, asked in [
            (first, (1, 2, 3), "a"),
            (first, (1, 2, 4), "b"),
            (other, (1, 2, 3), "c"),
        ]
    ]

    assert [len(prompt) for prompt in prompts] == [48, 48, 48]
    assert prompts[0] == prompts[2]
    assert prompts[0][:32] == prompts[1][:32]
    assert prompts[0][32:] != prompts[1][32:]
    assert set(prompts[0]) <= set(WORDS)


def test_what_is_over_is_the_requests_own() -> None:
    blocks = TokenBlocks(WORDS, 16)

    one, other, again = (blocks.prompt(Turn(16 + 15, 1, (1,)), asked) for asked in ("a", "b", "a"))

    assert one == again
    assert one[:16] == other[:16]
    assert one[16:] != other[16:]


def test_thousands_of_blocks_are_all_unlike() -> None:
    blocks = TokenBlocks(WORDS, 16)

    assert len({tuple(blocks.prompt(Turn(16, 1, (number,)), "")) for number in range(5000)}) == 5000
