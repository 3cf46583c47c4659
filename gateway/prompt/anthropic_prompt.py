"""The prompt of Anthropic's /v1/messages: the chat that vLLM makes of it (0.32, ``AnthropicServingMessages``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gateway.prompt.anthropic_blocks import has_text, read_message, system_text
from gateway.prompt.anthropic_tools import read_anthropic_tools
from gateway.prompt.chat_form import read_chat_form
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.template_manners import TemplateManners
from gateway.prompt.unrendered import Unrendered

_AS_IT_IS = TemplateManners()


def read_anthropic(body: JsonBody) -> ChatPrompt:
    """Some of it depends on the model's templates (``ChatPrompt.suit``). Raises :class:`Unrendered`."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Unrendered("messages")
    chat = _read(body, messages, _AS_IT_IS)
    if _thinks_not(body) or any(message.get("role") == "system" for message in messages):
        chat.suit = lambda manners: _read(body, messages, manners)
    return chat


def _read(body: JsonBody, messages: list[dict[str, Any]], manners: TemplateManners) -> ChatPrompt:
    options = {
        "chat_template_kwargs": body.get("chat_template_kwargs"),
        "reasoning_effort": manners.thinking_off if _thinks_not(body) else _effort(body.get("output_config")),
    }
    return read_chat_form(
        list(_chat_messages(body.get("system"), messages, manners.system_first)),
        options,
        tools=read_anthropic_tools(body.get("tools"), messages),
        size=body.size,
    )


def _chat_messages(system: object, messages: list[dict[str, Any]], system_first: bool) -> Iterator[dict[str, Any]]:
    leading = [system if isinstance(system, str) else system_text(system)] if system else []
    inline = [message for message in messages if message.get("role") == "system"]
    if system_first:
        leading += [_inline_text(message) for message in inline]
    if text := "".join(leading):
        yield {"role": "system", "content": text}
    for message in messages:
        if message.get("role") != "system":
            yield from read_message(message)
        elif not system_first and (text := _inline_text(message)):
            yield {"role": "system", "content": text}


def _inline_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content if has_text(content) else ""
    return system_text(content)


def _thinks_not(body: JsonBody) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "disabled"


def _effort(config: object) -> object:
    effort = config.get("effort") if isinstance(config, dict) else None
    if not isinstance(config, dict | None) or not isinstance(effort, str | None):
        raise Unrendered("kwargs")
    return effort
