"""Embeddings and the like: texts, token ids, chats, and Cohere's form."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given

from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.pooling_prompt import read_pooling
from gateway.prompt.text_prompts import Prompt
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.recorded_forms import FIRST_USER, arbitrary_fields, body_of

LONG = [{"role": "user", "content": "a much longer one"}]
FIELDS = (
    "input",
    "messages",
    "texts",
    "inputs",
    "images",
    "input_type",
    "max_tokens",
    "truncate",
    "chat_template_kwargs",
)


def chat(**fields: Any) -> ChatPrompt:
    read = read_pooling(body_of(**fields))
    assert isinstance(read, ChatPrompt)
    return read


@pytest.mark.parametrize(
    ("fields", "prompts"),
    [
        ({"input": "a"}, ("a",)),
        ({"input": ["a", "b"]}, ("a", "b")),
        ({"input": [1, 2]}, ((1, 2),)),
        ({"input": [[1, 2], [3]]}, ((1, 2), (3,))),
        ({"texts": ["a", "b"]}, ("a", "b")),
        ({"texts": ["a"], "truncate": "NONE", "max_tokens": 5}, ("a",)),
    ],
)
def test_texts_and_token_ids(fields: dict[str, Any], prompts: tuple[Prompt, ...]) -> None:
    """OpenAI's forms, and Cohere's texts."""
    assert read_pooling(JsonBody(fields, 0)) == prompts


@pytest.mark.parametrize("field", ["input", "messages"])
@pytest.mark.parametrize("messages", [LONG, [FIRST_USER, LONG]])
def test_chats(field: str, messages: list[Any]) -> None:
    """One or several, in either field; of several the longest counts."""
    assert chat(**{field: messages}).raw_messages == LONG


def test_no_answer_is_begun() -> None:
    """Unless the client wants it; what else a chat would have is not looked at."""
    plain = chat(messages=FIRST_USER, tools=[{"function": {"name": "f"}}], reasoning_effort="low", documents=[{}])

    assert (plain.add_generation_prompt, plain.tools, plain.template_kwargs) == (False, None, {})
    assert chat(messages=FIRST_USER, add_generation_prompt=True).add_generation_prompt
    assert chat(messages=FIRST_USER, chat_template_kwargs={"x": 1}).template_kwargs == {"x": 1}


def test_coheres_parts_are_a_users_message() -> None:
    """Of several inputs the longest counts; text before an image does."""
    text, image = {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "http://x"}}

    read = chat(inputs=[{"content": [text]}, {"content": [text, image]}])

    assert (read.raw_messages, read.gap, read.add_generation_prompt) == (
        [{"role": "user", "content": [text, image]}],
        "image",
        False,
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "prompt"),
        ({"data": {"image": "x"}}, "prompt"),
        ({"input": "a", "messages": FIRST_USER}, "prompt"),
        ({"input": []}, "prompt"),
        ({"messages": "x"}, "messages"),
        ({"messages": FIRST_USER, "chat_template": "x"}, "client_template"),
        ({"texts": ["a"], "images": ["x"]}, "prompt"),
        ({"texts": "a"}, "prompt"),
        ({"texts": ["a"], "input_type": "search_query"}, "input_type"),
        ({"texts": ["a"], "max_tokens": 5}, "truncated"),
        ({"images": ["data:"]}, "image"),
        ({"inputs": "x"}, "prompt"),
        ({"inputs": [{"content": "x"}]}, "content"),
    ],
)
def test_what_cannot_be_known_has_a_reason(fields: dict[str, Any], reason: str) -> None:
    """The replica decides what it is."""
    with pytest.raises(Unrendered) as unknown:
        read_pooling(JsonBody(fields, 0))

    assert reason == unknown.value.reason


@given(arbitrary_fields(*FIELDS))
def test_arbitrary_fields_are_read_or_have_a_reason(fields: dict[str, Any]) -> None:
    """No other way to end."""
    with contextlib.suppress(Unrendered):
        read_pooling(JsonBody(fields, 0))
