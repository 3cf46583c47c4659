"""RemoteEncoder: prompts tokenized by a replica's /tokenize. The last resort: slow, and a load on the engine.

vLLM renders the chat there with its own template, so this also serves families that jinja does not render.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.errors import GatewayError
from gateway.prompt.blocks import pack_tokens
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import longest_prompt
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.unrendered import Unrendered

logger = logging.getLogger(__name__)

#: ``(model, body of /tokenize) -> token ids``. May raise ``OSError``, ``ValueError`` or ``GatewayError``.
RemoteTokenize = Callable[[str, dict[str, object]], Awaitable[list[int]]]


class RemoteEncoder:
    """``model`` is a name the replicas serve. An answer later than ``deadline_s`` is not waited for."""

    def __init__(self, model: str, tokenize: RemoteTokenize, *, deadline_s: float, max_prompt_chars: int) -> None:
        self._model = model
        self._tokenize = tokenize
        self._deadline_s = deadline_s
        self._max_prompt_chars = max_prompt_chars

    def encode_now(self, request: InferenceRequest) -> EncodedPrompt | None:
        known = self._known_or_question(request)
        return known if isinstance(known, EncodedPrompt) else None

    async def encode(self, request: InferenceRequest) -> EncodedPrompt:
        known = self._known_or_question(request)
        return known if isinstance(known, EncodedPrompt) else await self._ask(known)

    def _known_or_question(self, request: InferenceRequest) -> EncodedPrompt | dict[str, object]:
        """What needs no replica (token ids, and what cannot be known), or the body of /tokenize."""
        if request.chat is not None and request.chat.gap:
            return EncodedPrompt.unknown(request.chat.gap)
        if request.size > self._max_prompt_chars:
            return EncodedPrompt.unknown("too_long")
        try:
            body = chat_body(request.chat) if request.chat is not None else _prompt_body(request)
        except Unrendered as unknown:
            return EncodedPrompt.unknown(unknown.reason)
        if isinstance(body, bytes):
            return EncodedPrompt.of(body)
        return {"model": self._model, "add_special_tokens": request.add_special_tokens, **body}

    async def _ask(self, body: dict[str, object]) -> EncodedPrompt:
        try:
            async with asyncio.timeout(self._deadline_s):
                ids = await self._tokenize(self._model, body)
            return EncodedPrompt.of(pack_tokens(ids), "remote_tokenize")
        except TimeoutError:
            return EncodedPrompt.unknown("remote_timeout")
        except (OSError, ValueError, TypeError, OverflowError, GatewayError) as error:
            logger.debug("/tokenize failed: %s", type(error).__name__)
            return EncodedPrompt.unknown("remote_failed")


def chat_body(chat: ChatPrompt) -> dict[str, object]:
    """A body of vLLM's /tokenize: the client's own messages and tools, all else through ``chat_template_kwargs``.

    Raises :class:`Unrendered` where a template would have to be tried first.
    """
    if chat.suit is not None:
        raise Unrendered("no_template")
    body: dict[str, Any] = {
        "messages": chat.raw_messages,
        "add_generation_prompt": chat.add_generation_prompt,
        "continue_final_message": chat.continue_final_message,
        "chat_template_kwargs": chat.template_kwargs,
    }
    return body if chat.raw_tools is None else {**body, "tools": chat.raw_tools}


def _prompt_body(request: InferenceRequest) -> dict[str, object] | bytes:
    """The body for a text; token ids need no tokenizer and come back packed."""
    prompt = longest_prompt(request)
    return {"prompt": prompt} if isinstance(prompt, str) else pack_tokens(prompt)
