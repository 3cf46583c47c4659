"""Anthropic's tools as a chat's tools. Knows their shape, no template.

vLLM (0.32) shows a template one list: the tools in effect at the conversation's end, after those that messages of the
system added or took away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gateway.prompt.unrendered import Unrendered


def read_anthropic_tools(raw: object, messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """``None`` where there are none. Raises :class:`Unrendered` on what the engine would refuse."""
    changes = list(_changes(messages))
    if raw is None and not changes:
        return None
    if not isinstance(raw, list | None):
        raise Unrendered("tools")
    tools = [_checked(tool) for tool in raw or []]
    return [_function(tool) for tool in (_changed(tools, changes) if changes else tools)]


def _changes(messages: Iterable[dict[str, Any]]) -> Iterator[tuple[bool, object]]:
    """(whether it is an addition, the tool) of each change."""
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            kind = block.get("type") if isinstance(block, dict) else None
            if kind in ("tool_addition", "tool_removal"):
                yield kind == "tool_addition", block.get("tool")


def _changed(tools: list[dict[str, Any]], changes: list[tuple[bool, object]]) -> list[dict[str, Any]]:
    by_name = {tool["name"]: tool for tool in tools}
    removed: set[str] = set()
    for is_addition, change in changes:
        if not isinstance(change, dict):
            raise Unrendered("tools")
        name = _define(by_name, change) if change.get("type") == "tool_definition" else _known(by_name, change)
        if is_addition:
            removed.discard(name)
            if change.get("type") != "tool_definition":
                by_name[name] = {**by_name[name], "defer_loading": None}
        else:
            removed.add(name)
    return [tool for name, tool in by_name.items() if name not in removed]


def _define(by_name: dict[str, dict[str, Any]], change: dict[str, Any]) -> str:
    tool = _checked(change.get("definition"))
    by_name[tool["name"]] = tool
    name: str = tool["name"]
    return name


def _known(by_name: dict[str, dict[str, Any]], change: dict[str, Any]) -> str:
    name = change.get("name")
    if not isinstance(name, str) or name not in by_name:
        raise Unrendered("tools")
    return name


def _checked(tool: object) -> dict[str, Any]:
    """A tool that the server runs itself has no schema: the engine takes none of those."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        raise Unrendered("tools")
    if not isinstance(tool.get("input_schema"), dict):
        raise Unrendered("tools")
    return tool


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool["input_schema"]
    function = {
        "name": tool["name"],
        "description": tool.get("description"),
        "parameters": schema if "type" in schema else {**schema, "type": "object"},
        "strict": tool.get("strict"),
        "defer_loading": tool.get("defer_loading"),
    }
    return {"type": "function", "function": function}
