"""PromptEncoder: a request's prompt to token ids, for one base model; long work leaves the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Protocol

from gateway.prompt.blocks import pack_tokens
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.inference_request import InferenceRequest, Prompt
from gateway.prompt.json_body import is_unicode
from gateway.prompt.tokenizer import Tokenizer
from gateway.prompt.unrendered import Unrendered


class PromptEncoder(Protocol):
    """Never raises for an odd prompt: the answer then holds no tokens and the reason."""

    def encode_now(self, request: InferenceRequest) -> EncodedPrompt | None:
        """``None`` where another thread or a replica has to be waited for."""
        ...

    async def encode(self, request: InferenceRequest) -> EncodedPrompt: ...


class LocalEncoder:
    """Tokenizer and chat templates in this process: inline what is small, in ``executor`` what is large.

    ``templates`` by name (``default``, perhaps ``tool_use``). A model without goes to ``chat_encoder`` with
    its chats.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        templates: Mapping[str, ChatTemplate],
        *,
        chat_encoder: PromptEncoder,
        executor: Executor,
        max_prompt_chars: int,
    ) -> None:
        self._tokenizer = tokenizer
        self._templates = templates
        self._chat_encoder = chat_encoder
        self._executor = executor
        self._max_prompt_chars = max_prompt_chars

    def encode_now(self, request: InferenceRequest) -> EncodedPrompt | None:
        if request.chat is not None and not self._templates:
            return self._chat_encoder.encode_now(request)
        return self._encoded(request) if request.size <= self._tokenizer.inline_chars else None

    async def encode(self, request: InferenceRequest) -> EncodedPrompt:
        if request.chat is not None and not self._templates:
            return await self._chat_encoder.encode(request)
        if request.size <= self._tokenizer.inline_chars:
            return self._encoded(request)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._encoded, request)

    def _encoded(self, request: InferenceRequest) -> EncodedPrompt:
        """In whatever thread calls."""
        try:
            return EncodedPrompt.of(self._tokens(request))
        except Unrendered as unknown:
            return EncodedPrompt.unknown(unknown.reason)

    def _tokens(self, request: InferenceRequest) -> bytes:
        prompt = self._text(request.chat) if request.chat is not None else longest_prompt(request)
        if len(prompt) > self._max_prompt_chars:
            raise Unrendered("too_long")
        if isinstance(prompt, tuple):
            return pack_tokens(prompt)
        if not is_unicode(prompt):
            raise Unrendered("not_unicode")
        return self._tokenizer.encode(prompt, add_special_tokens=request.add_special_tokens)

    def _text(self, chat: ChatPrompt) -> str:
        name = "tool_use" if chat.tools and "tool_use" in self._templates else "default"
        template = self._templates.get(name)
        if template is None:
            raise Unrendered("no_template")
        return template.render(chat)


class AbsentEncoder:
    """Without a tokenizer (or without a chat template: ``reason`` says which) only token ids are known."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def encode(self, request: InferenceRequest) -> EncodedPrompt:
        return self.encode_now(request)

    def encode_now(self, request: InferenceRequest) -> EncodedPrompt:
        if request.chat is not None:
            return EncodedPrompt.unknown(self._reason)
        try:
            prompt = longest_prompt(request)
        except Unrendered as unknown:
            return EncodedPrompt.unknown(unknown.reason)
        if isinstance(prompt, str):
            return EncodedPrompt.unknown(self._reason)
        return EncodedPrompt.of(pack_tokens(prompt))


def longest_prompt(request: InferenceRequest) -> Prompt:
    """The prompt to route on, of several the longest. Raises :class:`Unrendered` if it cannot be known."""
    if request.unrendered:
        raise Unrendered(request.unrendered)
    if not request.prompts:
        raise Unrendered("prompt")
    return max(request.prompts, key=len)
