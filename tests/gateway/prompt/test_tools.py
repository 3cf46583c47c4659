"""Tools reach the template as vLLM dumps them."""

from __future__ import annotations

import pytest

from gateway.prompt.tools import read_tools
from gateway.prompt.unrendered import Unrendered


def test_fields_have_the_engines_order_and_nulls() -> None:
    """Description and parameters are always there, unknown fields never."""
    raw = [{"x": 1, "function": {"parameters": {"b": 1, "a": 2}, "name": "f", "y": 2}, "type": "function"}]

    tools = read_tools(raw)

    assert tools == [
        {"type": "function", "function": {"name": "f", "description": None, "parameters": {"b": 1, "a": 2}}}
    ]
    assert tools is not None
    assert list(tools[0]) == ["type", "function"]
    assert list(tools[0]["function"]) == ["name", "description", "parameters"]


def test_optional_flags_come_last() -> None:
    """strict and defer_loading only where stated; the tool's defer_loading is its function's too."""
    (tool,) = read_tools([{"function": {"name": "f", "strict": "true"}, "defer_loading": True}]) or []

    assert list(tool["function"]) == ["name", "description", "parameters", "strict", "defer_loading"]
    assert tool["function"]["strict"] is True
    assert tool["defer_loading"] is True


def test_no_tools() -> None:
    """Absent and null are the same."""
    assert read_tools(None) is None


@pytest.mark.parametrize(
    "raw",
    [
        [],
        {},
        "f",
        [5],
        [{}],
        [{"type": "custom", "function": {"name": "f"}}],
        [{"function": {}}],
        [{"function": {"name": "f", "description": 5}}],
        [{"function": {"name": "f", "parameters": []}}],
    ],
)
def test_what_the_engine_refuses_is_not_rendered(raw: object) -> None:
    """Its 400 is the answer; here it is only unknown."""
    with pytest.raises(Unrendered):
        read_tools(raw)
