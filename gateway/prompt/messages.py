"""Chat messages as the engine hands them to a chat template. Knows OpenAI's message shapes, not templates.

Two steps, because the second depends on the template: :func:`read_messages` checks and normalises what the
client sent, :func:`in_format` gives the contents the shape that the template reads. Follows vLLM 0.32
(``vllm/renderers/chat_utils.py``, and pydantic's field order for ``tool_calls``) for text. A content part that is
none (:class:`Gap`) stays where it is, so that the text before it can be told; anything else that is odd raises
:class:`Unrendered`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from gateway.prompt.unrendered import Unrendered

ContentFormat = Literal["string", "openai"]
Message = dict[str, Any]

_TEXT_FIELD = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
    "tool_reference": "name",
}
_MEDIA = {
    "image": ("image_url", "input_image", "image_pil", "image_embeds"),
    "audio": ("audio_url", "input_audio", "audio_embeds"),
    "video": ("video_url", "video_embeds"),
    "prompt_embeds": ("prompt_embeds",),
}
_TYPED_MEDIA = frozenset({"image", "audio", "video"})
_MEDIA_OF_FIELD = {field: medium for medium, fields in _MEDIA.items() for field in fields}
# Fields of a content part that vLLM knows; it passes all others on to the template beside the text.
_PART_FIELDS = (
    {*_MEDIA_OF_FIELD, *_TEXT_FIELD.values()} | {"type", "uuid", "data", "file", "closed", "prompt_cache_breakpoint"}
) - {"input_image", "prompt_embeds"}
# Claude Code's attribution line changes with every request; vLLM cuts it off so that prefixes stay equal.
_BILLING_LINE = "x-anthropic-billing-header"


class Gap(NamedTuple):
    """A content part whose tokens cannot be known. ``reason``: a word of ours. ``part``: what a template that reads
    parts gets in its place; ``None``: not known either.
    """

    reason: str
    part: dict[str, Any] | None


Part = dict[str, Any] | Gap


def read_messages(raw: object) -> list[Message]:
    """What the template will see of ``raw``, with ``content`` a string or a list of parts.

    A part is ``{"type": "text", "text": ..}``, ``{"type": "tool_reference", "name": ..}`` or a :class:`Gap`. The input
    stays as it is. Raises :class:`Unrendered`.
    """
    if not isinstance(raw, list) or not raw:
        raise Unrendered("messages")
    return [_read_message(message) for message in raw]


def first_gap(messages: Iterable[Message]) -> str:
    """Why what follows some point is not known; "": there is no such point."""
    for message in messages:
        content = message["content"]
        if type(content) is list:
            for part in content:
                if type(part) is Gap:
                    return part.reason
    return ""


def in_format(messages: Sequence[Message], content_format: ContentFormat) -> list[Message]:
    """``messages`` with every content as one string, or as a list of parts (tool answers stay one string)."""
    shape = _as_string if content_format == "string" else _as_parts
    return [{**message, "content": shape(message)} for message in messages]


def fill_gaps(
    messages: Sequence[Message], content_format: ContentFormat, text: str, *, keep_parts: bool
) -> list[Message]:
    """``messages`` with ``text`` where the engine puts what stands for a :class:`Gap`.

    For a template that reads strings that is in front of the message's text, wherever the part was: the engine may put
    it later, never earlier. ``keep_parts``: a template that reads parts gets the gap's own part, where that is known.
    """
    if content_format == "openai":
        return [_filled(message, text, keep_parts=keep_parts) for message in messages]
    return [_led_by(message, text) if first_gap([message]) else message for message in messages]


def _read_message(raw: object) -> Message:
    if not isinstance(raw, dict) or not isinstance(raw.get("role"), str):
        raise Unrendered("messages")
    role: str = raw["role"]
    message: Message = {"role": role, "content": _read_content(role, raw.get("content"))}
    if role == "assistant":
        _add_assistant_fields(message, raw)
    elif role == "tool" and "tool_call_id" in raw:
        message["tool_call_id"] = raw["tool_call_id"]
    for name in ("name", "task"):
        if isinstance(raw.get(name), str):
            message[name] = raw[name]
    if role == "developer":
        message["tools"] = raw.get("tools")
    return message


def _read_content(role: str, raw: object) -> str | list[Part]:
    if raw is None:
        return []
    if isinstance(raw, str):
        if role != "system" or not raw.startswith(_BILLING_LINE):
            return raw
        raw = [raw]
    if not isinstance(raw, list):
        raise Unrendered("content")
    parts = [part for entry in raw if (part := _read_part(entry)) is not None]
    return list(_without_billing_line(parts)) if role == "system" else parts


def _read_part(raw: object) -> Part | None:
    """One content part; ``None`` if the engine skips it. Raises :class:`Unrendered` where it is none at all."""
    if isinstance(raw, str):
        return {"type": "text", "text": raw}
    if not isinstance(raw, dict):
        raise Unrendered("content")
    kind = raw.get("type")
    medium = _medium(raw, kind)
    if medium:
        return Gap(medium, _medium_part(medium, raw))
    field = _TEXT_FIELD.get(kind) if isinstance(kind, str) else None
    if field is None or raw.get("uuid") is not None:
        return Gap("content", None)
    value = raw.get(field)
    if value is None and kind in ("text", "refusal"):
        return None
    if not isinstance(value, str):
        return Gap("content", None)
    if kind == "tool_reference":
        return {"type": kind, "name": value}
    return {"type": "text", "text": value, **_extra_fields(raw)}


def _medium_part(medium: str, raw: dict[str, Any]) -> dict[str, Any] | None:
    """What the engine hands to a template that reads parts; of prompt embeddings it is a text of its own."""
    return {"type": medium, **_extra_fields(raw)} if medium in _TYPED_MEDIA else None


def _extra_fields(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in _PART_FIELDS}


def _medium(part: dict[str, Any], kind: object) -> str:
    """Which medium a part holds, by its type or, as the engine allows, by a field alone; ``""`` for text."""
    if isinstance(kind, str):
        return _MEDIA_OF_FIELD.get(kind, "") or ("file" if kind == "file" else "")
    return next((_MEDIA_OF_FIELD[field] for field in part if field in _MEDIA_OF_FIELD), "")


def _without_billing_line(parts: Iterable[Part]) -> Iterable[Part]:
    for part in parts:
        if isinstance(part, Gap):
            yield part
            continue
        text = part.get("text", "")
        if not text.startswith(_BILLING_LINE):
            yield part
        elif rest := text.partition("\n")[2]:
            yield {**part, "text": rest}


def _add_assistant_fields(message: Message, raw: dict[str, Any]) -> None:
    calls = raw.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise Unrendered("tool_calls")
        message["tool_calls"] = [_read_tool_call(call) for call in calls]
    reasoning = raw.get("reasoning")
    if reasoning is None:
        reasoning = raw.get("reasoning_content")
    if reasoning is not None:
        message["reasoning"] = message["reasoning_content"] = reasoning


def _read_tool_call(raw: object) -> dict[str, Any]:
    """Arguments become an object, as templates want; fields take the order of the engine's own models."""
    function = raw.get("function") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(function, dict) or raw.get("type", "function") != "function":
        raise Unrendered("tool_calls")
    parsed = {"arguments": _read_arguments(function.get("arguments"))}
    function = _ordered({**function, **parsed}, ("arguments", "name"))
    return _ordered({**raw, "function": function}, ("id", "function", "type"))


def _read_arguments(raw: object) -> dict[str, Any]:
    if isinstance(raw, str) and raw:
        try:
            raw = json.loads(raw)
        except ValueError:
            return {}
        except RecursionError:
            raise Unrendered("tool_calls") from None
    return raw if isinstance(raw, dict) else {}


def _ordered(fields: dict[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    """``fields`` with those named in ``first`` in front, where present."""
    return {name: fields[name] for name in first if name in fields} | fields


def _as_string(message: Message) -> str:
    """Texts joined by newlines; the engine leaves empty ones out."""
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(filter(None, map(_part_text, content)))


def _led_by(message: Message, text: str) -> Message:
    known = [part for part in message["content"] if type(part) is not Gap]
    return {**message, "content": [{"type": "text", "text": text}, *known]}


def _filled(message: Message, text: str, *, keep_parts: bool) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return message
    filler = {"type": "text", "text": text}
    parts = [((keep_parts and part.part) or filler) if isinstance(part, Gap) else part for part in content]
    return {**message, "content": parts}


def _as_parts(message: Message) -> str | list[dict[str, Any]]:
    """Tool answers of text alone stay one string, in which the engine does keep empty texts."""
    content: str | list[dict[str, Any]] = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "tool" and all(part["type"] == "text" for part in parts):
        return "\n".join(map(_part_text, parts))
    return parts


def _part_text(part: dict[str, Any]) -> str:
    text: str = part["text"] if part["type"] == "text" else part["name"]
    return text
