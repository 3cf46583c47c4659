"""The JSON of answers, by hand."""

from __future__ import annotations

import pytest

from loadtest.replica.answer_shape import AnswerShape, ChatShape, Choice, CompletionShape, Usage

CHAT, COMPLETION = ChatShape("7", 12, "m"), CompletionShape("7", 12, "m")


@pytest.mark.parametrize(
    ("shape", "id_", "whole", "chunk"),
    [
        (CHAT, "chatcmpl-7", "chat.completion", "chat.completion.chunk"),
        (COMPLETION, "cmpl-7", "text_completion", "text_completion"),
    ],
)
def test_every_part_names_the_answer(shape: AnswerShape, id_: str, whole: str, chunk: str) -> None:
    """Id, object, time and model are in each chunk and in the whole."""
    usage = Usage(3, 2, 1)
    parts = [shape.chunk(0, "a", None), shape.usage_chunk(usage), shape.whole([Choice("ab", "stop")], usage)]

    assert [part["object"] for part in parts] == [chunk, chunk, whole]
    assert {(part["id"], part["created"], part["model"]) for part in parts} == {(id_, 12, "m")}


def test_text_is_where_clients_look_for_it() -> None:
    """A delta or a text in a chunk, a message or a text in the whole."""
    assert CHAT.chunk(1, "a", "stop")["choices"][0]["delta"] == {"content": "a"}
    assert COMPLETION.chunk(1, "a", "stop")["choices"][0]["text"] == "a"
    assert CHAT.whole([Choice("ab", "stop")], Usage(1, 1, 0))["choices"][0]["message"]["content"] == "ab"
    assert [row["text"] for row in COMPLETION.whole([Choice("a", "stop"), Choice("b", "length")], Usage(1, 1, 0))[
        "choices"
    ]] == ["a", "b"]  # fmt: skip
    assert COMPLETION.opening(0) is None


def test_usage_names_cached_tokens_only_where_they_are_reported() -> None:
    """Details are absent without --enable-prompt-tokens-details, never a made-up 0."""
    assert Usage(3, 2, 0).json()["prompt_tokens_details"] == {"cached_tokens": 0}
    assert Usage(3, 2, None).json() == {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}
