"""The tools of /v1/responses as a chat's tools. Knows OpenAI's flat shape of a tool, no template.

vLLM (0.32, ``vllm/tool_parsers/utils.py``) shows models functions only: those of a namespace under a joined name, a
custom tool as a function of one text; tools that a server runs itself are left out.
"""

from __future__ import annotations

from typing import Any

from gateway.prompt.responses_items import flat_name
from gateway.prompt.unrendered import Unrendered

_FUNCTION_FIELDS = ("name", "description", "parameters", "strict", "defer_loading")
_SHOWN_TO_NONE = frozenset(
    {"apply_patch", "code_interpreter", "computer", "computer_use_preview", "file_search", "image_generation"}
    | {"local_shell", "mcp", "programmatic_tool_calling", "shell", "tool_search"}
    | {"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}
)
_CUSTOM_PARAMETERS = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The freeform text payload for this tool."}},
    "required": ["input"],
    "additionalProperties": False,
}


def read_response_tools(raw: object) -> list[dict[str, Any]] | None:
    """``None``: the request has none. An empty list: none that a model is shown. Raises :class:`Unrendered`."""
    if not raw:
        return None
    if not isinstance(raw, list):
        raise Unrendered("tools")
    return [function for tool in raw for function in _functions(tool)]


def _functions(tool: object) -> list[dict[str, Any]]:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(kind, str):
        raise Unrendered("tools")
    if kind == "function":
        return [_function(tool)]
    if kind == "custom":
        return [_function({**_described(tool), "parameters": _CUSTOM_PARAMETERS})]
    if kind == "namespace":
        return _in_namespace(tool)
    if kind in _SHOWN_TO_NONE:
        return []
    raise Unrendered("tools")


def _function(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {name: fields[name] for name in _FUNCTION_FIELDS if name in fields}}


def _described(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool.get("name"), "description": tool.get("description")}


def _in_namespace(namespace: dict[str, Any]) -> list[dict[str, Any]]:
    name, tools = namespace.get("name"), namespace.get("tools")
    if not isinstance(name, str) or not isinstance(tools, list):
        raise Unrendered("tools")
    functions = [tool for tool in tools if isinstance(tool, dict) and tool.get("type") == "function"]
    if not all(isinstance(function.get("name"), str) for function in functions):
        raise Unrendered("tools")
    return [_function({**function, "name": flat_name(name, function["name"])}) for function in functions]
