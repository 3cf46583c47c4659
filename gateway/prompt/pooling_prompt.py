"""The prompts of embeddings, classifications and other poolings: texts, token ids or chats (vLLM 0.32).

Of several chats there is one to route on: the longest. /v2/embed is Cohere's form: texts, or parts of one message.
"""

from __future__ import annotations

from typing import Any

from gateway.prompt.chat_form import longest_chat, read_chat_form
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.json_body import JsonBody
from gateway.prompt.text_prompts import Prompt, read_prompts
from gateway.prompt.unrendered import Unrendered

_COHERE = ("texts", "inputs", "images")  # one of them


def read_pooling(body: JsonBody) -> ChatPrompt | tuple[Prompt, ...]:
    """Raises :class:`Unrendered`."""
    prompt, messages = body.get("input"), body.get("messages")
    if prompt is None and messages is None:
        return _read_cohere(body)
    if prompt is not None and messages is not None:
        raise Unrendered("prompt")
    if messages is not None:
        return _read_chats(messages, body)
    return _read_chats(prompt, body) if _is_chat(prompt) else read_prompts(prompt)


def _is_chat(prompt: object) -> bool:
    """Whether ``input`` holds messages, or lists of them."""
    first = prompt[0] if isinstance(prompt, list) and prompt else None
    return isinstance(first[0] if isinstance(first, list) and first else first, dict)


def _read_chats(messages: object, body: JsonBody) -> ChatPrompt:
    """Without an answer to come: nothing is rendered to begin one, and no tools, reasoning or documents are known."""
    options = {
        "chat_template": body.get("chat_template"),
        "chat_template_kwargs": body.get("chat_template_kwargs"),
        "add_generation_prompt": body.flag("add_generation_prompt", default=False),
        "continue_final_message": body.flag("continue_final_message", default=False),
    }
    return read_chat_form(longest_chat(messages), options, size=body.size)


def _read_cohere(body: JsonBody) -> ChatPrompt | tuple[Prompt, ...]:
    given = [name for name in _COHERE if body.get(name) is not None]
    if len(given) != 1:
        raise Unrendered("prompt")
    if body.get("input_type") is not None:
        raise Unrendered("input_type")  # the model's own files say what it puts in front
    if body.get("max_tokens") is not None and body.get("truncate") != "NONE":
        raise Unrendered("truncated")
    if given == ["images"]:
        raise Unrendered("image")
    if given == ["inputs"]:
        return read_chat_form(
            longest_chat(_cohere_chats(body.get("inputs"))), {"add_generation_prompt": False}, size=body.size
        )
    texts = body.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Unrendered("prompt")
    return read_prompts(texts)


def _cohere_chats(inputs: object) -> list[list[dict[str, Any]]]:
    if not isinstance(inputs, list) or not all(isinstance(entry, dict) for entry in inputs):
        raise Unrendered("prompt")
    return [[{"role": "user", "content": _cohere_parts(entry.get("content"))}] for entry in inputs]


def _cohere_parts(content: object) -> list[dict[str, Any]]:
    """Only the fields that the engine passes on."""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise Unrendered("content")
    return [
        {name: part[name] for name in ("type", "text", "image_url") if part.get(name) is not None} for part in content
    ]
