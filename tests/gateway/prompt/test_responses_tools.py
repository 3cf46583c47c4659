"""Flat tools become a chat's; tools that no model is shown disappear."""

from __future__ import annotations

import pytest

from gateway.prompt.responses_tools import read_response_tools
from gateway.prompt.unrendered import Unrendered
from tests.gateway.prompt.recorded_forms import SCHEMA


@pytest.mark.parametrize("raw", [None, [], ()])
def test_none(raw: object) -> None:
    """An empty list is none, as in no list."""
    assert read_response_tools(raw) is None


def test_a_function_moves_into_its_own_object() -> None:
    """With the fields that a chat's tool has."""
    tool = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True, "async": False, "output_schema": {}}

    assert read_response_tools([tool]) == [
        {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}
    ]


def test_a_namespace_gives_its_functions() -> None:
    """Under joined names; of its other tools none."""
    tools = [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]

    assert read_response_tools([{"type": "namespace", "name": "ns", "description": "d", "tools": tools}]) == [
        {"type": "function", "function": {"name": "ns__f"}}
    ]


def test_a_custom_tool_is_a_function_of_one_text() -> None:
    """Under the argument's name that calls of it get, too."""
    (tool,) = read_response_tools([{"type": "custom", "name": "sh", "format": {"type": "text"}}]) or []

    assert tool["function"]["name"] == "sh"
    assert tool["function"]["parameters"]["required"] == ["input"]


@pytest.mark.parametrize("kind", ["web_search", "web_search_preview", "code_interpreter", "file_search", "mcp"])
def test_the_servers_own_tools_are_shown_to_no_model(kind: str) -> None:
    """The list is there, and empty: a template may tell that from none."""
    assert read_response_tools([{"type": kind}]) == []


@pytest.mark.parametrize(
    "raw",
    [
        "x",
        {"type": "function"},
        [5],
        [{"type": "new"}],
        [{"type": ["function"]}],
        [{"type": "namespace"}],
        [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}],
    ],
)
def test_what_the_engine_refuses(raw: object) -> None:
    """Or what only a newer one knows."""
    with pytest.raises(Unrendered):
        read_response_tools(raw)
