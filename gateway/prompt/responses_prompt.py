"""The prompt of /v1/responses: the chat that vLLM makes of it (0.32, ``OnlineRenderer.render_responses``).

For models that jinja renders. What a response that is gone on from holds, the replica alone knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.prompt.chat_form import read_chat_form
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.responses_items import is_open_ended, read_items
from gateway.prompt.responses_tools import read_response_tools
from gateway.prompt.unrendered import Unrendered


def read_responses(body: JsonBody) -> ChatPrompt:
    """Raises :class:`Unrendered`."""
    if body.get("previous_response_id") is not None:
        raise Unrendered("previous_response")
    if body.get("prompt") is not None:
        raise Unrendered("prompt")
    items = body.get("input")
    goes_on = is_open_ended(items)
    options = {
        "chat_template_kwargs": body.get("chat_template_kwargs"),
        "reasoning_effort": _effort(body.get("reasoning")),
        "add_generation_prompt": not goes_on,
        "continue_final_message": goes_on,
    }
    messages = [*_instructions(body.get("instructions")), *read_items(items)]
    chat = read_chat_form(messages, options, tools=read_response_tools(body.get("tools")), size=body.size)
    _name_calls_first(chat)
    return chat


def _instructions(raw: object) -> list[dict[str, Any]]:
    if not isinstance(raw, str | None):
        raise Unrendered("messages")
    return [{"role": "system", "content": raw}] if raw else []


def _effort(reasoning: object) -> object:
    if reasoning is None:
        return None
    if not isinstance(reasoning, Mapping) or not isinstance(effort := reasoning.get("effort"), str | None):
        raise Unrendered("kwargs")
    return effort


def _name_calls_first(chat: ChatPrompt) -> None:
    """Here calls do not pass through the models that put a function's arguments in front of its name, and a template
    may print a call as JSON.
    """
    for message in chat.messages:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            call["function"] = {"name": function["name"], "arguments": function["arguments"]}
