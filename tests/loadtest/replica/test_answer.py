"""What the simulated model says."""

from __future__ import annotations

import pytest

from loadtest.replica.answer import Speaker
from loadtest.replica.model_folder import ModelFolder

FOLDER = ModelFolder()


def test_equal_prompts_get_equal_answers() -> None:
    """On every replica; other prompts get others."""
    first, second = Speaker(FOLDER, (5, 9)), Speaker(FOLDER, (5, 9))

    assert first.answer([1, 2], 99, ignore_eos=False) == second.answer([1, 2], 99, ignore_eos=False)
    assert first.answer([1, 2], 99, ignore_eos=False) != first.answer([1, 3], 99, ignore_eos=False)


@pytest.mark.parametrize("limit", range(1, 12))
def test_never_says_more_than_the_limit(limit: int) -> None:
    """``stop`` means that the end-of-sequence token came; ``length`` that it did not."""
    answer = Speaker(FOLDER, (5, 9)).answer([1, 2], limit, ignore_eos=False)

    assert len(answer.tokens) <= limit
    assert (answer.tokens[-1] == FOLDER.eos_token_id) == (answer.finish_reason == "stop")


def test_can_be_made_to_go_on_or_to_say_something() -> None:
    """ignore_eos fills the limit; a fixed text is said to every prompt."""
    assert len(Speaker(FOLDER, (5, 9)).answer([1], 50, ignore_eos=True).tokens) == 50
    spoken = Speaker(FOLDER, (5, 9), "Hello there").answer([1], 50, ignore_eos=False)
    assert FOLDER.decode(spoken.tokens, skip_special_tokens=True) == "Hello there"
