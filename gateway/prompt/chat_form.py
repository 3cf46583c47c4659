"""Chat prompts of other forms' fields, as vLLM makes them: of /v1/messages, /v1/responses, an embedding, a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.unrendered import Unrendered

_OPTIONS = (
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "chat_template_kwargs",
    "documents",
    "reasoning_effort",
)


def read_chat_form(
    messages: Sequence[Any],
    options: Mapping[str, Any],
    *,
    tools: Sequence[Any] | None = None,
    size: int,
) -> ChatPrompt:
    """``messages``, ``tools`` and ``options`` are fields of a chat's body. ``size``: bytes of the client's body.

    Raises :class:`Unrendered`. A chat's own body cannot have an empty list of tools; a template that gets one may
    render otherwise than without.
    """
    fields = {**options, "messages": messages, "tools": tools or None}
    chat = ChatPrompt.parse(JsonBody(fields, size))
    return chat if tools is None or tools else replace(chat, tools=[], raw_tools=[])


def read_chat_batch(body: JsonBody) -> ChatPrompt:
    """A body with several chats, which share all else and have no tools. Raises :class:`Unrendered`."""
    return read_chat_form(
        longest_chat(body.get("messages")), {name: body.get(name) for name in _OPTIONS}, size=body.size
    )


def longest_chat(messages: object) -> Sequence[Any]:
    """The one to route on, of several; the messages themselves, if there is one. Raises :class:`Unrendered`."""
    if not isinstance(messages, list) or not messages:
        raise Unrendered("messages")
    if not isinstance(messages[0], list):
        return messages
    try:
        longest: Sequence[Any] = max(messages, key=lambda chat: len(repr(chat)))
    except RecursionError:
        raise Unrendered("messages") from None
    return longest
