"""Content blocks become chat messages."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prompt.anthropic_blocks import has_text, read_message, system_text
from gateway.prompt.unrendered import Unrendered

TEXT = {"type": "text", "text": "a"}


def read(role: str, *blocks: object) -> list[dict[str, Any]]:
    return list(read_message({"role": role, "content": list(blocks)}))


def test_texts() -> None:
    """One is a string; empty ones disappear, and with them a message of the user, but none of the model."""
    assert list(read_message({"role": "user", "content": "x"})) == [{"role": "user", "content": "x"}]
    assert read("user", TEXT, {"type": "text", "text": ""}) == [{"role": "user", "content": "a"}]
    assert read("user", TEXT, TEXT) == [{"role": "user", "content": [TEXT, TEXT]}]
    assert (read("user"), read("assistant")) == ([], [{"role": "assistant"}])


def test_what_the_model_did() -> None:
    """Thoughts joined, calls with arguments as JSON; what was redacted stays unsaid."""
    thoughts = [{"type": "thinking", "thinking": "h"}, {"type": "redacted_thinking", "data": "x"}]
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "é"}}

    assert read("assistant", *thoughts, thoughts[0], TEXT, call) == [
        {
            "role": "assistant",
            "content": "a",
            "reasoning": "hh",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": "\\u00e9"}'}}
            ],
        }
    ]


def test_answers_of_tools_come_first() -> None:
    """Each a message; then its images, as the user's; then the tools that it found; then what the user said."""
    content = [TEXT, TEXT, {"type": "image", "source": {}}, {"type": "tool_reference", "tool_name": "g"}]

    messages = read("user", TEXT, {"type": "tool_result", "tool_use_id": "t1", "content": content})

    assert [(message["role"], message.get("tool_call_id")) for message in messages] == [
        ("tool", "t1"),
        ("user", None),
        ("tool", "t1"),
        ("user", None),
    ]
    assert messages[0]["content"] == "a\na"
    assert messages[2]["content"] == [{"type": "tool_reference", "name": "g"}]


@pytest.mark.parametrize(("content", "text"), [("x", "x"), (None, ""), ([], ""), ([TEXT], "a")])
def test_a_tools_answer_is_a_text(content: object, text: str) -> None:
    """Of each of its forms."""
    (message,) = read("user", {"type": "tool_result", "tool_use_id": "t", "content": content})

    assert message == {"role": "tool", "tool_call_id": "t", "content": text}


def test_an_answer_in_the_models_own_message_is_printed() -> None:
    """As Python prints it: so does vLLM."""
    assert read("assistant", {"type": "tool_result", "content": [{"type": "text", "text": "it's"}]}) == [
        {"role": "assistant", "content": "Tool result: [{'type': 'text', 'text': \"it's\"}]"}
    ]


def test_system_texts_are_joined() -> None:
    """Without the attribution, and whatever is no text."""
    billing = {"type": "text", "text": "x-anthropic-billing-header: cch=1"}

    assert system_text([TEXT, billing, {"type": "tool_removal"}, {"type": "text"}, TEXT]) == "aa"
    assert [has_text(text) for text in ("a", "", billing["text"])] == [True, False, False]


@pytest.mark.parametrize(
    "block",
    [
        5,
        {"type": "document", "source": {}},
        {"type": ["text"]},
        {"type": "text", "text": 5},
        {"type": "tool_use", "name": "f", "input": {}},
        {"type": "tool_use", "id": "t", "name": "f", "input": "x"},
        {"type": "tool_result", "tool_use_id": "t", "content": [5]},
    ],
)
def test_what_the_engine_refuses(block: object) -> None:
    """Or, of a call without an id, makes up anew each time."""
    with pytest.raises(Unrendered):
        read("assistant" if isinstance(block, dict) and block["type"] == "tool_use" else "user", block)


def test_arguments_nested_too_deeply_to_print() -> None:
    """They are refused, not the gateway's death."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    for block in (
        {"type": "tool_use", "id": "t", "name": "f", "input": deep},
        {"type": "tool_result", "content": [deep]},
    ):
        with pytest.raises(Unrendered):
            read("assistant", block)
