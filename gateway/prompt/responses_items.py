"""The input items of /v1/responses as chat messages. Knows OpenAI's items, no template.

Follows vLLM 0.32 (``vllm/entrypoints/openai/responses/utils.py``): what the model did in one turn (reasoning, text,
calls) are several items and one message. Of an answer's parts only the first counts there, so it does here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.prompt.unrendered import Unrendered

_CUSTOM_INPUT = "input"  # the one argument of the function that stands for a custom tool
_ROLES = frozenset({"user", "system", "developer", "assistant"})
_OPEN = frozenset({"in_progress", "incomplete"})


def read_items(items: object) -> list[dict[str, Any]]:
    """Raises :class:`Unrendered` on what the engine refuses, or keeps to itself."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise Unrendered("messages")
    messages: list[dict[str, Any]] = []
    for item in items:
        if not isinstance(item, dict):
            raise Unrendered("messages")
        _add(messages, item)
    return messages


def is_open_ended(items: object) -> bool:
    """Whether the model goes on inside the last item instead of answering it."""
    last = items[-1] if isinstance(items, list) and items else None
    if not isinstance(last, dict) or last.get("type", "message") not in ("message", "reasoning"):
        return False
    return isinstance(status := last.get("status"), str) and status in _OPEN


def flat_name(namespace: str, name: str) -> str:
    """What the model sees of a function in a namespace."""
    return f"{namespace}__{name}"


def _add(messages: list[dict[str, Any]], item: dict[str, Any]) -> None:
    kind = item.get("type", "message")
    if kind == "function_call":
        _merge_call(messages, _read_call(item))
    elif kind == "custom_tool_call":
        _merge_call(messages, _read_custom_call(item))
    elif kind == "reasoning":
        _merge(messages, "reasoning", _read_reasoning(item))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        messages.append({"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")})
    elif kind == "message" and isinstance(role := item.get("role"), str) and role in _ROLES:
        _add_message(messages, item)
    else:
        raise Unrendered("messages")


def _add_message(messages: list[dict[str, Any]], item: dict[str, Any]) -> None:
    text = _first_text(item.get("content")) if item["role"] == "assistant" else None
    if text is None:
        messages.append({**item})
    else:
        _merge(messages, "content", text)


def _first_text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else None
    return text if isinstance(text, str) else None


def _merge(messages: list[dict[str, Any]], field: str, value: str) -> None:
    """Into the model's message in front, if that has none yet."""
    if (message := _model_message(messages)) and message.get(field) is None:
        message[field] = value
    else:
        messages.append({"role": "assistant", field: value})


def _merge_call(messages: list[dict[str, Any]], call: dict[str, Any]) -> None:
    if (message := _model_message(messages)) is None:
        messages.append({"role": "assistant", "tool_calls": [call]})
        return
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise Unrendered("tool_calls")
    message["tool_calls"] = [*calls, call]


def _model_message(messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    return messages[-1] if messages and messages[-1]["role"] == "assistant" else None


def _read_call(item: dict[str, Any]) -> dict[str, Any]:
    name, namespace = _text(item, "name"), item.get("namespace")
    if not isinstance(namespace, str | None):
        raise Unrendered("tool_calls")
    return _call(item, flat_name(namespace, name) if namespace else name, _text(item, "arguments"))


def _read_custom_call(item: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps({_CUSTOM_INPUT: _text(item, "input")}, ensure_ascii=False)
    return _call(item, _text(item, "name"), arguments)


def _call(item: dict[str, Any], name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": _text(item, "call_id"), "function": function, "type": "function"}


def _text(item: Mapping[str, Any], field: str) -> str:
    value = item.get(field)
    if not isinstance(value, str):
        raise Unrendered("tool_calls")
    return value


def _read_reasoning(item: dict[str, Any]) -> str:
    """The text itself, or else its summary; only the first part of either."""
    if item.get("encrypted_content"):
        raise Unrendered("messages")
    for field in ("content", "summary"):
        parts = item.get(field)
        if isinstance(parts, list) and parts:
            text = _first_text(parts)
            if text is None:
                raise Unrendered("messages")
            return text
    return ""
