"""What of a chat body reaches the template besides its messages."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.unrendered import Unrendered


def parse(**fields: Any) -> ChatPrompt:
    return ChatPrompt.parse(JsonBody({"messages": [{"role": "user", "content": "x"}], **fields}, 0))


def test_defaults() -> None:
    """A generation prompt is asked for; nothing else is."""
    chat = parse()

    assert (
        chat.add_generation_prompt,
        chat.continue_final_message,
        chat.template_kwargs,
        chat.tools,
    ) == (True, False, {}, None)


def test_body_fields_win_over_kwargs() -> None:
    """As vLLM merges them; null and "auto" count as unset."""
    chat = parse(
        chat_template_kwargs={
            "documents": [{"a": "b"}],
            "add_generation_prompt": False,
            "x": None,
            "y": "auto",
            "z": 0,
        },
        documents=[{"title": "t"}],
    )

    assert chat.template_kwargs == {"documents": [{"title": "t"}], "z": 0}
    assert chat.add_generation_prompt


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high", "enable_thinking": True}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        (
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
        ({"chat_template_kwargs": {"padding": True, "max_length": 5, "thinking": True}}, {"thinking": True}),
    ],
)
def test_reasoning_effort_switches_thinking(fields: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """Unless the client says otherwise; arguments without effect on the text are left out."""
    assert kwargs == parse(**fields).template_kwargs


def test_keeps_the_clients_own_for_the_engine() -> None:
    """/tokenize is asked with what the client sent."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    tools = [{"function": {"name": "f"}}]

    chat = parse(messages=messages, tools=tools)

    assert chat.raw_messages is messages
    assert chat.raw_tools is tools


def test_a_gap_is_named() -> None:
    """Why only the text before it can be known."""
    assert parse().gap == ""
    assert parse(messages=[{"role": "user", "content": [{"type": "file"}]}]).gap == "file"


@pytest.mark.parametrize("name", ["messages", "conversation", "tools", "tokenize", "return_assistant_tokens_mask"])
def test_reserved_kwargs_are_not_rendered(name: str) -> None:
    """vLLM refuses them or they change what is rendered."""
    with pytest.raises(Unrendered):
        parse(chat_template_kwargs={name: 1})
