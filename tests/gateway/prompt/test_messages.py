"""Messages reach the template as vLLM would hand them over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.prompt.messages import fill_gaps, first_gap, in_format, read_messages
from gateway.prompt.unrendered import Unrendered


def as_string(*messages: object) -> list[dict[str, Any]]:
    return in_format(read_messages(list(messages)), "string")


def as_parts(*messages: object) -> list[dict[str, Any]]:
    return in_format(read_messages(list(messages)), "openai")


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_text_parts_are_joined_by_newlines() -> None:
    """A list of text parts gives the same string as vLLM's: one line each."""
    message = {"role": "user", "content": [text_part("a"), text_part("b")]}

    assert as_string(message) == [{"role": "user", "content": "a\nb"}]


def test_string_content_becomes_a_part() -> None:
    """Templates that read parts get one part; other fields of a part pass."""
    cached = {**text_part("b"), "cache_control": {"type": "ephemeral"}}

    assert [text_part("a")] == as_parts({"role": "user", "content": "a"})[0]["content"]
    assert [cached] == as_parts({"role": "user", "content": [{**cached, "uuid": None}]})[0]["content"]


@pytest.mark.parametrize("content", [None, [], [{"type": "text", "text": None}]])
def test_no_content_is_empty(content: object) -> None:
    """Never ``None``: templates would print it."""
    message = {"role": "assistant", "content": content}

    assert [as_string(message)[0]["content"], as_parts(message)[0]["content"]] == ["", []]


def test_other_text_types_count_as_text() -> None:
    """refusal, thinking, input_text and output_text; a tool reference gives its name."""
    content = [
        {"type": "refusal", "refusal": "no"},
        {"type": "thinking", "thinking": "hm", "closed": True},
        {"type": "input_text", "text": "in"},
        {"type": "tool_reference", "name": "f"},
    ]
    message = {"role": "assistant", "content": content}

    assert as_string(message)[0]["content"] == "no\nhm\nin\nf"
    assert as_parts(message)[0]["content"][3] == {"type": "tool_reference", "name": "f"}


def test_tool_answers_stay_one_string() -> None:
    """Most templates expect a string there even if they read parts elsewhere."""
    answer = {"role": "tool", "tool_call_id": "c", "content": [text_part("a"), text_part("b")]}

    assert as_parts(answer) == [{"role": "tool", "content": "a\nb", "tool_call_id": "c"}]


def test_empty_texts_leave_no_line() -> None:
    """In a joined string; parts, and the string of a tool answer among parts, keep them."""
    content = [text_part(""), text_part("a"), text_part(""), text_part("b")]

    assert as_string({"role": "user", "content": content})[0]["content"] == "a\nb"
    assert as_string({"role": "tool", "content": content})[0]["content"] == "a\nb"
    assert as_parts({"role": "user", "content": content})[0]["content"] == content
    assert as_parts({"role": "tool", "content": content})[0]["content"] == "\na\n\nb"


def test_names_and_tasks_pass() -> None:
    """As text only; a developer's tools pass as they are."""
    named = {"role": "developer", "content": "x", "name": "n", "task": 5, "tools": [1], "unknown": 1}

    assert as_string(named) == [{"role": "developer", "content": "x", "name": "n", "tools": [1]}]


def test_tool_calls_are_normalised() -> None:
    """Arguments become objects, fields the engine's order, unknown fields stay behind."""
    call = {"type": "function", "index": 0, "function": {"name": "f", "arguments": '{"b": 1, "a": 2}'}, "id": "c"}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}

    (normal,) = as_string(message)[0]["tool_calls"]

    assert list(normal) == ["id", "function", "type", "index"]
    assert list(normal["function"]) == ["arguments", "name"]
    assert list(normal["function"]["arguments"]) == ["b", "a"]
    assert call["function"]["arguments"] == '{"b": 1, "a": 2}'  # type: ignore[index] # the client's own stays as it was


@pytest.mark.parametrize("arguments", ["", None, "not json", "[1]", "42", [], {}])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: object) -> None:
    """As vLLM does, so that a conversation with one broken call can go on."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}

    assert as_string({"role": "assistant", "tool_calls": [call]})[0]["tool_calls"][0]["function"]["arguments"] == {}


def test_empty_tool_calls_are_dropped() -> None:
    """An empty list must not look like a call to a template."""
    assert as_string({"role": "assistant", "content": "x", "tool_calls": []}) == [{"role": "assistant", "content": "x"}]


def test_reasoning_has_both_names() -> None:
    """The deprecated name is read, both are given; only the assistant has any."""
    message = {"role": "assistant", "content": "x", "reasoning_content": "r"}

    assert {"reasoning": "r", "reasoning_content": "r"}.items() <= as_string(message)[0].items()
    assert "reasoning" not in as_string({**message, "role": "user"})[0]


def test_billing_line_of_system_messages_is_cut() -> None:
    """It changes with every request; vLLM drops it, whether alone, in front of text or in a part."""
    line = "x-anthropic-billing-header: cch=1"

    for content in (f"{line}\nreal", [text_part(f"{line}\nreal")], [text_part(line), text_part("real")]):
        assert as_string({"role": "system", "content": content})[0]["content"] == "real"
    assert as_string({"role": "system", "content": line})[0]["content"] == ""
    assert line == as_string({"role": "user", "content": line})[0]["content"]


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"type": "image_url", "image_url": {"url": "data:"}}, "image"),
        ({"image_url": "data:"}, "image"),
        ({"type": "input_audio", "input_audio": {}}, "audio"),
        ({"type": "video_url", "video_url": {"url": ""}}, "video"),
        ({"type": "file", "file": {}}, "file"),
        ({"type": "prompt_embeds", "data": ""}, "prompt_embeds"),
        ({"type": "nonsense"}, "content"),
        ({"type": []}, "content"),
        ({"text": "no type"}, "content"),
        ({"type": "text", "text": 5}, "content"),
        ({"type": "text", "text": "x", "uuid": "u"}, "content"),
    ],
)
def test_what_is_no_text_is_a_gap(part: object, reason: str) -> None:
    """Each with its reason: a fixed word. The first of them counts."""
    messages = read_messages([{"role": "user", "content": [text_part("a"), part, {"type": "file"}]}])

    assert first_gap(messages) == reason
    assert first_gap(read_messages([{"role": "user", "content": [text_part("a")]}])) == ""


def test_gaps_are_filled_where_the_engine_puts_them() -> None:
    """A template of strings sees something in front of the message's text; one of parts sees it in its place."""
    image = {"type": "image_url", "image_url": {"url": ""}, "detail": "low"}
    odd = {"type": "hologram"}
    messages = read_messages(
        [{"role": "user", "content": "a"}, {"role": "user", "content": [text_part("b"), image, odd]}]
    )

    strings = in_format(fill_gaps(messages, "string", "?", keep_parts=True), "string")
    parts, texts = (
        in_format(fill_gaps(messages, "openai", "?", keep_parts=keep), "openai")[1]["content"] for keep in (True, False)
    )

    assert [message["content"] for message in strings] == ["a", "?\nb"]
    assert parts == [text_part("b"), {"type": "image", "detail": "low"}, text_part("?")]
    assert texts == [text_part("b"), text_part("?"), text_part("?")]


def test_a_part_that_is_none_is_not_read() -> None:
    """Neither text nor object."""
    with pytest.raises(Unrendered):
        read_messages([{"role": "user", "content": [5]}])


def test_a_billing_line_is_cut_beside_a_gap() -> None:
    """Which stays."""
    line = text_part("x-anthropic-billing-header: cch=1")

    assert first_gap(read_messages([{"role": "system", "content": [line, {"type": "file"}]}])) == "file"


@pytest.mark.parametrize("raw", [None, [], {}, "text", [5], [{}], [{"role": 5}], [{"role": "user", "content": 5}]])
def test_odd_messages_are_not_rendered(raw: object) -> None:
    """The engine will refuse them; that is not the gateway's to say."""
    with pytest.raises(Unrendered):
        read_messages(raw)


@pytest.mark.parametrize("calls", [5, [5], [{}], [{"function": 5}], [{"type": "custom", "function": {}}]])
def test_odd_tool_calls_are_not_rendered(calls: object) -> None:
    """Likewise."""
    with pytest.raises(Unrendered):
        read_messages([{"role": "assistant", "tool_calls": calls}])


def test_arguments_nested_beyond_reason_are_not_rendered() -> None:
    """Python's parser gives up on them, here and in the engine."""
    call = {"function": {"name": "f", "arguments": '{"a":' * 100_000}}

    with pytest.raises(Unrendered):
        read_messages([{"role": "assistant", "tool_calls": [call]}])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["role", "content", "tool_calls", "name", "type", "text", "function", "arguments", "uuid"])
objects = st.recursive(
    json_values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=5), max_leaves=20
)


@given(st.lists(st.dictionaries(fields, objects, max_size=5) | objects, max_size=4))
def test_arbitrary_messages_are_read_or_unrendered(raw: list[object]) -> None:
    """No other way to end, in both formats."""
    try:
        messages = read_messages(raw)
    except Unrendered:
        return
    if first_gap(messages):
        messages = fill_gaps(messages, "openai", "?", keep_parts=False)
    assert all(isinstance(message["content"], str) for message in in_format(messages, "string"))
    assert len(messages) == len(in_format(messages, "openai"))
