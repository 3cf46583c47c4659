"""Anthropic's tools become a chat's, after what messages of the system changed of them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prompt.anthropic_tools import read_anthropic_tools
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.recorded_forms import FIRST_USER, SCHEMA

F = {"name": "f", "description": "d", "input_schema": SCHEMA}
G = {"name": "g", "input_schema": SCHEMA, "defer_loading": True}


def change(kind: str, **tool: Any) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": f"tool_{kind}", "tool": tool}]}


def names(tools: object, *messages: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in read_anthropic_tools(tools, messages) or []]


def test_none() -> None:
    """An empty list is one, for a template."""
    assert read_anthropic_tools(None, FIRST_USER) is None
    assert read_anthropic_tools([], FIRST_USER) == []


def test_a_schema_is_an_objects_unless_it_says_otherwise() -> None:
    """The engine adds the type behind the rest."""
    (tool,) = read_anthropic_tools([{"name": "f", "input_schema": {"properties": {}}}], []) or []

    assert list(tool["function"]["parameters"].items()) == [("properties", {}), ("type", "object")]


def test_tools_are_added_and_taken_away() -> None:
    """In the order of the messages; what is in effect at the end counts."""
    by_value = change("addition", type="tool_definition", definition={"name": "h", "input_schema": SCHEMA})
    away = change("removal", type="tool_reference", name="f")
    back = change("addition", type="tool_reference", name="f")

    assert names([F, G]) == ["f", "g"]
    assert names([F, G], by_value, away) == ["g", "h"]
    assert names([F, G], away, back) == ["f", "g"]
    assert names(None, by_value) == ["h"]


def test_a_tool_added_by_name_is_deferred_no_more() -> None:
    """Declared from the start, and shown now."""
    (tool,) = read_anthropic_tools([G], [change("addition", type="tool_reference", name="g")]) or []

    assert tool["function"]["defer_loading"] is None


@pytest.mark.parametrize(
    ("tools", "messages"),
    [
        ("x", []),
        ([5], []),
        ([{"name": "web_search", "type": "web_search_20250305"}], []),
        ([F], [change("removal", type="tool_reference", name="unknown")]),
        ([F], [change("addition", type="tool_reference", name=["f"])]),
        ([F], [change("addition", type="tool_definition", definition=5)]),
        ([F], [{"role": "system", "content": [{"type": "tool_addition"}]}]),
    ],
)
def test_what_the_engine_refuses(tools: object, messages: list[dict[str, Any]]) -> None:
    """Its own tools among it: they have no schema."""
    with pytest.raises(Unrendered):
        read_anthropic_tools(tools, messages)
