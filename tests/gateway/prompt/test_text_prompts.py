"""OpenAI's four forms of a prompt."""

from __future__ import annotations

import pytest

from gateway.prompt.text_prompts import Prompt, read_prompts
from gateway.prompt.unrendered import Unrendered


@pytest.mark.parametrize(
    ("raw", "prompts"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
        (["a", [1]], ("a", (1,))),
    ],
)
def test_all_forms(raw: object, prompts: tuple[Prompt, ...]) -> None:
    """Texts and token ids, one or several."""
    assert prompts == read_prompts(raw)


@pytest.mark.parametrize("raw", [None, [], [[]], 5, {}, [1, "a"], [1, True], [None], [-1], [2**32], [1.0], [["a"]]])
def test_anything_else(raw: object) -> None:
    """The engine decides what it is."""
    with pytest.raises(Unrendered):
        read_prompts(raw)
