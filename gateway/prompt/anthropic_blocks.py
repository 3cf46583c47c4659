"""Anthropic's messages and their content blocks as chat messages. Knows the blocks, no template.

Follows vLLM 0.32 (``vllm/entrypoints/anthropic/serving.py``): answers of tools become messages in front of the one
that holds them, and empty texts disappear.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gateway.prompt.unrendered import Unrendered

# Claude Code's attribution line changes with every request; vLLM leaves its block out so that prefixes stay equal.
_BILLING_LINE = "x-anthropic-billing-header"
_IMAGE_MARK = {"type": "image_url", "image_url": {"url": ""}}  # which one it is does not matter: it is not rendered
_WITHOUT_EFFECT = frozenset({"redacted_thinking", "tool_reference", "tool_addition", "tool_removal"})


def has_text(text: str) -> bool:
    return bool(text) and not text.startswith(_BILLING_LINE)


def system_text(blocks: object) -> str:
    """The texts of a system prompt, joined. Raises :class:`Unrendered`."""
    texts = [_text(block, "text") for block in _blocks(blocks) if block.get("type") == "text"]
    return "".join(filter(has_text, texts))


def read_message(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of the user or the model: one chat message, or several, or none. Raises :class:`Unrendered`."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise Unrendered("messages")
    if isinstance(content, str):
        yield {"role": role, "content": content}
        return
    blocks = _blocks(content)
    if role == "user":
        for block in blocks:
            if block.get("type") == "tool_result":
                yield from _tool_answers(block)
    converted = _read_blocks(role, blocks)
    if role == "assistant" or "content" in converted:
        yield converted


def _blocks(content: object) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise Unrendered("content")
    return content


def _read_blocks(role: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    parts = [part for block in blocks for part in _parts(role, block)]
    reasoning = [_text(block, "thinking") for block in blocks if _is_thought(block)]
    calls = [_read_call(block) for block in blocks if block.get("type") == "tool_use"]
    message: dict[str, Any] = {"role": role}
    if reasoning:
        message["reasoning"] = "".join(reasoning)
    if calls:
        message["tool_calls"] = calls
    if parts:
        message["content"] = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    return message


def _parts(role: str, block: dict[str, Any]) -> list[dict[str, Any]]:
    """What a block adds to its message's content."""
    kind = block.get("type")
    if kind == "text":
        return [{"type": "text", "text": text}] if (text := _text(block, "text")) else []
    if kind == "image":
        return [_IMAGE_MARK] if block.get("source") else []
    if kind == "tool_result":
        return [] if role == "user" else [{"type": "text", "text": f"Tool result: {_printed(block.get('content'))}"}]
    if kind in ("thinking", "tool_use") or (isinstance(kind, str) and kind in _WITHOUT_EFFECT):
        return []
    raise Unrendered("content")


def _is_thought(block: dict[str, Any]) -> bool:
    return block.get("type") == "thinking" and block.get("thinking") is not None


def _read_call(block: dict[str, Any]) -> dict[str, Any]:
    identifier, arguments = block.get("id"), block.get("input")
    if not identifier or not isinstance(identifier, str) or not isinstance(arguments, dict | None):
        raise Unrendered("tool_calls")  # without an id the engine makes one of the time
    try:
        function = {"name": _text(block, "name"), "arguments": json.dumps(arguments or {})}
    except RecursionError:
        raise Unrendered("tool_calls") from None
    return {"id": identifier, "type": "function", "function": function}


def _tool_answers(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its text; then its images, as the user's; then the tools that it found."""
    identifier, content = _text(block, "tool_use_id"), block.get("content")
    items = [] if content is None or isinstance(content, str) else _blocks(content)
    texts = [_text(item, "text") for item in items if item.get("type") == "text"]
    text = content if isinstance(content, str) else "\n".join(texts)
    yield {"role": "tool", "tool_call_id": identifier, "content": text}
    if images := [_IMAGE_MARK for item in items if item.get("type") == "image"]:
        yield {"role": "user", "content": images}
    names = [item.get("tool_name") or item.get("name") for item in items if item.get("type") == "tool_reference"]
    if found := [{"type": "tool_reference", "name": name} for name in names if name]:
        yield {"role": "tool", "tool_call_id": identifier, "content": found}


def _printed(content: object) -> str:
    """As Python prints it: so does the engine."""
    try:
        return str(content) if content else ""
    except RecursionError:
        raise Unrendered("content") from None


def _text(block: dict[str, Any], field: str) -> str:
    """ "": it has none."""
    value = block.get(field)
    if not isinstance(value, str | None):
        raise Unrendered("content")
    return value or ""
