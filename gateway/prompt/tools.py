"""Tool definitions as the engine hands them to a chat template. Knows OpenAI's shape of a tool, no template.

vLLM (0.32, ``ChatCompletionToolsParam.model_dump()``) fixes the order of the fields, fills ``description``
and ``parameters`` with null and drops what it does not know; templates print the result as JSON, so it shows.
"""

from __future__ import annotations

from typing import Any

from gateway.prompt.json_body import read_flag
from gateway.prompt.unrendered import Unrendered

Tool = dict[str, Any]


def read_tools(raw: object) -> list[Tool] | None:
    """``None`` where there are none. Raises :class:`Unrendered` on what the engine would refuse."""
    if raw is None:
        return None
    if not isinstance(raw, list) or not raw:
        raise Unrendered("tools")
    return [_read_tool(tool) for tool in raw]


def _read_tool(raw: object) -> Tool:
    function = raw.get("function") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(function, dict) or raw.get("type", "function") != "function":
        raise Unrendered("tools")
    deferred = raw.get("defer_loading")
    inner_deferred = function.get("defer_loading")
    tool: Tool = {
        "type": "function",
        "function": _read_function(function, deferred if inner_deferred is None else inner_deferred),
    }
    if deferred is not None:
        tool["defer_loading"] = read_flag(deferred, default=False)
    return tool


def _read_function(raw: dict[str, Any], deferred: object) -> dict[str, Any]:
    name, description, parameters = raw.get("name"), raw.get("description"), raw.get("parameters")
    if not isinstance(name, str) or not isinstance(description, str | None) or not isinstance(parameters, dict | None):
        raise Unrendered("tools")
    function: dict[str, Any] = {"name": name, "description": description, "parameters": parameters}
    for field, value in (("strict", raw.get("strict")), ("defer_loading", deferred)):
        if value is not None:
            function[field] = read_flag(value, default=False)
    return function
