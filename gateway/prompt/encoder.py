"""PromptEncoder: a request's prompt to token ids, for one base model; long work leaves the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import cached_property, partial
from typing import Protocol

from gateway.prompt.beginning import certain_tokens
from gateway.prompt.blocks import pack_tokens
from gateway.prompt.chat_prompt import ChatPrompt
from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.json_body import is_unicode
from gateway.prompt.template_manners import TemplateManners
from gateway.prompt.template_trial import manners_of
from gateway.prompt.text_prompts import Prompt
from gateway.prompt.tokenizer import Tokenizer
from gateway.prompt.unrendered import Unrendered

logger = logging.getLogger(__name__)


class PromptEncoder(Protocol):
    """Never raises for an odd prompt: the answer then holds no tokens and the reason."""

    def encode_now(self, request: InferenceRequest) -> EncodedPrompt | None:
        """``None`` where another thread or a replica has to be waited for."""
        ...

    async def encode(self, request: InferenceRequest) -> EncodedPrompt: ...


class LocalEncoder:
    """Tokenizer and chat templates in this process: inline what is small, in ``executor`` what is large.

    ``templates`` by name (``default``, perhaps ``tool_use``). A model without goes to ``chat_encoder`` with
    its chats; ``native_chats``: since vLLM renders them in Python, and nothing can be done about it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        templates: Mapping[str, ChatTemplate],
        *,
        chat_encoder: PromptEncoder,
        executor: Executor,
        max_prompt_chars: int,
        native_chats: bool = False,
    ) -> None:
        self.native_chats = native_chats
        self._tokenizer = tokenizer
        self._templates = templates
        self._chat_encoder = chat_encoder
        self._executor = executor
        self._max_prompt_chars = max_prompt_chars
        self._has_failed = False

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
            return self._encode(request)
        except Unrendered as unknown:
            return EncodedPrompt.unknown(unknown.reason)
        except Exception as error:  # noqa: BLE001 - `tokenizers` raises no other; a lost prefix is no reason to refuse
            if not self._has_failed:
                self._has_failed = True
                logger.warning(
                    "a prompt could not be tokenized: %s; more of them are only counted", type(error).__name__
                )
            return EncodedPrompt.unknown("tokenizer_error")

    def _encode(self, request: InferenceRequest) -> EncodedPrompt:
        """Raises :class:`Unrendered`, and whatever the tokenizer raises."""
        chat = self._suited(request.chat)
        prompt = self._text(chat) if chat is not None else longest_prompt(request)
        self._check(prompt)
        if isinstance(prompt, tuple):
            return EncodedPrompt.of(pack_tokens(prompt))
        if chat is not None and chat.gap:
            encode = partial(self._tokenizer.encode, add_special_tokens=request.add_special_tokens)
            return EncodedPrompt.beginning(certain_tokens(prompt, encode), chat.gap)
        return EncodedPrompt.of(self._tokenizer.encode(prompt, add_special_tokens=request.add_special_tokens))

    @cached_property
    def _manners(self) -> TemplateManners:
        return manners_of(self._templates)

    def _suited(self, chat: ChatPrompt | None) -> ChatPrompt | None:
        return chat if chat is None or chat.suit is None else chat.suit(self._manners)

    def _check(self, prompt: Prompt) -> None:
        if len(prompt) > self._max_prompt_chars:
            raise Unrendered("too_long")
        if isinstance(prompt, str) and not is_unicode(prompt):
            raise Unrendered("not_unicode")

    def _text(self, chat: ChatPrompt) -> str:
        name = "tool_use" if chat.tools is not None and "tool_use" in self._templates else "default"
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
