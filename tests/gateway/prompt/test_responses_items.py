"""Items of one turn become one message."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prompt.responses_items import flat_name, is_open_ended, read_items
from gateway.prompt.unrendered import Unrendered

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]}


def made_call(identifier: str = "c1", name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": identifier, "function": {"name": name, "arguments": arguments}, "type": "function"}


def test_a_text_is_the_users() -> None:
    """The short form of the input."""
    assert read_items("hi") == [{"role": "user", "content": "hi"}]


def test_a_turn_of_the_model_is_one_message() -> None:
    """What it thought, said and called."""
    assert read_items([THOUGHT, SAID, CALL, {**CALL, "call_id": "c2"}]) == [
        {"role": "assistant", "reasoning": "hm", "content": "so", "tool_calls": [made_call(), made_call("c2")]}
    ]


def test_a_second_thought_or_word_begins_a_message() -> None:
    """There is room for one of each."""
    messages = read_items([THOUGHT, THOUGHT, SAID, SAID])

    assert [sorted(message) for message in messages] == [
        ["reasoning", "role"],
        ["content", "reasoning", "role"],
        ["content", "role"],
    ]


def test_answers_of_tools() -> None:
    """Of functions and of custom tools alike."""
    answer = {"call_id": "c1", "output": "sunny"}
    items = [{"type": kind, **answer} for kind in ("function_call_output", "custom_tool_call_output")]

    assert read_items(items) == 2 * [{"role": "tool", "content": "sunny", "tool_call_id": "c1"}]


def test_names_in_a_namespace_are_joined() -> None:
    """As the tool's name is."""
    assert read_items([{**CALL, "namespace": "ns"}])[0]["tool_calls"] == [made_call(name=flat_name("ns", "f"))]


def test_a_custom_tools_text_is_its_functions_argument() -> None:
    """Its one argument, as JSON that keeps letters."""
    item = {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls é"}

    assert read_items([item])[0]["tool_calls"] == [made_call(name="sh", arguments='{"input": "ls é"}')]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": [{"text": "a"}, {"text": "b"}], "summary": [{"text": "s"}]}, "a"),
        ({"content": [], "summary": [{"text": "s"}]}, "s"),
        ({"content": None, "summary": []}, ""),
    ],
)
def test_thoughts_are_the_text_or_its_summary(fields: dict[str, Any], text: str) -> None:
    """Of each the first part only."""
    assert read_items([{"type": "reasoning", **fields}]) == [{"role": "assistant", "reasoning": text}]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "reasoning", "content": [5]},
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "message", "role": ["user"], "content": "x"},
        {"role": "tool", "content": "x"},
        {**CALL, "arguments": {}},
        {**CALL, "namespace": 5},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": ["message"]},
        "text",
    ],
)
def test_what_the_engine_refuses_is_not_read(item: object) -> None:
    """Nor what it keeps to itself."""
    with pytest.raises(Unrendered):
        read_items([item])


@pytest.mark.parametrize(
    ("last", "is_open"),
    [
        ({**SAID, "status": "in_progress"}, True),
        ({**SAID, "status": "incomplete"}, True),
        ({**THOUGHT, "status": "in_progress"}, True),
        ({"role": "user", "content": "x", "status": "in_progress"}, True),
        ({**SAID, "status": "completed"}, False),
        ({**CALL, "status": "in_progress"}, False),
        (SAID, False),
        ({**SAID, "status": []}, False),
        (5, False),
    ],
)
def test_an_unfinished_last_message_is_gone_on_with(last: object, is_open: bool) -> None:
    """By its status alone."""
    assert is_open_ended([SAID, last]) is is_open
    assert not is_open_ended("text")
    assert not is_open_ended([])
