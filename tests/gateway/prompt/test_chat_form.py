"""Chats in other forms' clothes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prompt.chat_form import longest_chat, read_chat_batch, read_chat_form
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.recorded_forms import FIRST_USER, body_of

TOOL = {"type": "function", "function": {"name": "f"}}
LONG = [{"role": "user", "content": "a much longer one"}]


def test_it_is_what_a_chats_body_would_be() -> None:
    """Field by field."""
    options = {"chat_template_kwargs": {"x": 1}, "add_generation_prompt": False}
    body = body_of(messages=FIRST_USER, tools=[TOOL], **options)

    assert read_chat_form(FIRST_USER, options, tools=[TOOL], size=0) == ChatPrompt.parse(body)


@pytest.mark.parametrize(("given", "seen"), [(None, None), ([], [])])
def test_no_tools_and_none_of_them_differ(given: list[Any] | None, seen: list[Any] | None) -> None:
    """A template may say so, and the engine's /tokenize is asked with the same."""
    chat = read_chat_form(FIRST_USER, {}, tools=given, size=0)

    assert (chat.tools, chat.raw_tools) == (seen, seen)


def test_of_several_the_longest_counts() -> None:
    """In a batch and elsewhere."""
    assert longest_chat([FIRST_USER, LONG]) == LONG
    assert longest_chat(FIRST_USER) == FIRST_USER
    assert read_chat_batch(body_of(messages=[FIRST_USER, LONG])).raw_messages == LONG


def test_a_batch_shares_its_options() -> None:
    """It begins an answer, like a chat, unless it says otherwise; tools are not for it."""
    plain = read_chat_batch(body_of(messages=[FIRST_USER], tools=[TOOL]))
    told = read_chat_batch(body_of(messages=[FIRST_USER], add_generation_prompt=False, reasoning_effort="low"))

    assert (plain.add_generation_prompt, plain.tools) == (True, None)
    assert (told.add_generation_prompt, told.template_kwargs["reasoning_effort"]) == (False, "low")


@pytest.mark.parametrize("messages", [None, "x", [], {}])
def test_no_chats(messages: object) -> None:
    """The engine refuses them."""
    with pytest.raises(Unrendered):
        longest_chat(messages)


def test_chats_nested_too_deeply_to_compare() -> None:
    """They have no prompt."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(Unrendered):
        longest_chat([deep, deep])
