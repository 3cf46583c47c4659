"""/v1/responses becomes the chat that vLLM makes of it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given

from gateway.prompt.json_body import JsonBody
from gateway.prompt.responses_prompt import read_responses
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.recorded_forms import (
    FIRST_USER,
    arbitrary_fields,
    as_vllm_has_it,
    as_we_have_it,
    body_of,
    recorded,
)

CASES = [case for case in recorded("responses") if case.get("messages")]
FIELDS = ("input", "instructions", "reasoning", "tools", "chat_template_kwargs", "previous_response_id", "prompt")


def test_every_recorded_body_becomes_vllms_chat() -> None:
    """Messages, tools, and what else the template gets."""
    assert len(CASES) > 100
    for case in CASES:
        assert as_we_have_it(read_responses(JsonBody(case["body"], 0))) == as_vllm_has_it(case), case["body"]


def test_a_call_is_printed_as_vllms_template_prints_it() -> None:
    """The name before the arguments: unlike a chat's, these calls pass through no model of pydantic's."""
    for case in CASES:
        ours = [call for m in read_responses(JsonBody(case["body"], 0)).messages for call in m.get("tool_calls", ())]
        theirs = [call for message in case["messages"] for call in message.get("tool_calls") or ()]
        assert [(list(call), list(call["function"])) for call in ours] == [
            (list(call), list(call["function"])) for call in theirs
        ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"input": "x", "previous_response_id": "resp_1"}, "previous_response"),
        ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
        ({}, "messages"),
        ({"input": []}, "messages"),
        ({"input": ["x"]}, "messages"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "messages"),
        ({"input": "x", "instructions": 5}, "messages"),
        ({"input": "x", "tools": [{"type": "unheard_of"}]}, "tools"),
        ({"input": "x", "reasoning": "high"}, "kwargs"),
        ({"input": "x", "reasoning": {"effort": 5}}, "kwargs"),
        ({"input": "x", "chat_template_kwargs": {"chat_template": "y"}}, "client_template"),
    ],
)
def test_what_cannot_be_known_has_a_reason(fields: dict[str, Any], reason: str) -> None:
    """The replica decides what it is."""
    with pytest.raises(Unrendered) as unknown:
        read_responses(JsonBody(fields, 0))

    assert reason == unknown.value.reason


def test_the_engine_is_asked_with_a_chat() -> None:
    """Its /tokenize knows no responses: messages and tools are a chat's."""
    chat = read_responses(body_of(input="hi", tools=[{"type": "function", "name": "f"}]))

    assert (list(chat.raw_messages), chat.raw_tools) == (FIRST_USER, [{"type": "function", "function": {"name": "f"}}])


def test_text_before_an_image_is_kept() -> None:
    """As in a chat: the gap is where the image is."""
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "http://x"}]

    assert read_responses(body_of(input=[{"role": "user", "content": parts}])).gap == "image"


@given(arbitrary_fields(*FIELDS))
def test_arbitrary_fields_are_read_or_have_a_reason(fields: dict[str, Any]) -> None:
    """No other way to end; and the client's own stay as they are."""
    before = json.dumps(fields)
    with contextlib.suppress(Unrendered):
        read_responses(JsonBody(fields, 0))

    assert json.dumps(fields) == before
