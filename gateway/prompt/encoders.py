"""EncoderRegistry: one PromptEncoder for each base model, loaded when the model is first seen."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jinja2 import TemplateError

from gateway.prompt.chat_template import ChatTemplate
from gateway.prompt.encoder import AbsentEncoder, LocalEncoder, PromptEncoder
from gateway.prompt.remote_encoder import RemoteEncoder, RemoteTokenize
from gateway.prompt.tokenizer import Tokenizer, load_tokenizer
from gateway.prompt.tokenizer_files import TokenizerFiles, TokenizerNotFound
from gateway.prompt.tokenizer_finder import FoundTokenizer, Hub, TokenizerFinder

logger = logging.getLogger(__name__)


class EncoderRegistry:
    """``spec`` is the setting PREFIXWAY_TOKENIZER. Close it: it owns threads."""

    def __init__(
        self,
        spec: str,
        *,
        hub: Hub | None,
        remote: RemoteTokenize | None,
        max_prompt_chars: int,
        remote_deadline_s: float = 0.5,
        threads: int = 2,
    ) -> None:
        self._finder = TokenizerFinder(spec, hub)
        self._remote = remote
        self._max_prompt_chars = max_prompt_chars
        self._remote_deadline_s = remote_deadline_s
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="encode")
        # Loading takes seconds: it must not stand in front of requests, nor two loads beside each other.
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="load-tokenizer")
        self._tokenizers: dict[Path, Tokenizer] = {}  # only the loader's one thread touches it
        self._loading: dict[str, asyncio.Lock] = {}
        self._encoders: dict[str, PromptEncoder] = {}
        self._reasons: dict[str, str] = {}  # why a model has no tokenizer, as last logged

    def get(self, model: str) -> PromptEncoder | None:
        """``None`` for a model that is not loaded, or not yet."""
        return self._encoders.get(model)

    async def load(self, model: str, root: str) -> PromptEncoder:
        """Find and load the tokenizer of ``model``; ``root`` is its ``root`` in /v1/models.

        Until it is found the encoder asks a replica, or has no answer; loading again looks again. Loaded: no change.
        """
        async with self._loading.setdefault(model, asyncio.Lock()):
            if not isinstance(self._encoders.get(model), LocalEncoder):
                self._encoders.setdefault(model, self._fallback(model, "no_tokenizer"))
                self._encoders[model] = await self._load(model, root)
            return self._encoders[model]

    def close(self) -> None:
        """Waits for no thread: what still runs has nobody to answer."""
        for executor in (self._executor, self._loader):
            executor.shutdown(wait=False, cancel_futures=True)

    async def _load(self, model: str, root: str) -> PromptEncoder:
        loop = asyncio.get_running_loop()
        try:
            found, tokenizer = await loop.run_in_executor(self._loader, self._find, model, root)
        except TokenizerNotFound as reason:
            self._warn_absent(model, reason)
            return self._encoders[model]
        logger.info(
            "tokenizer of %s: %s (%s), %s",
            model,
            found.step,
            found.files.tokenizer_json,
            type(tokenizer).__name__,
        )
        return LocalEncoder(
            tokenizer,
            _compile(found.files, model),
            chat_encoder=self._fallback(model, "no_template"),
            executor=self._executor,
            max_prompt_chars=self._max_prompt_chars,
            native_chats=found.files.native_chats,
        )

    def _find(self, model: str, root: str) -> tuple[FoundTokenizer, Tokenizer]:
        found = self._finder.find(model, root)
        path = found.files.tokenizer_json.resolve()
        if path not in self._tokenizers:
            self._tokenizers[path] = load_tokenizer(found.files)
        return found, self._tokenizers[path]

    def _fallback(self, model: str, reason: str) -> PromptEncoder:
        if self._remote is None:
            return AbsentEncoder(reason)
        return RemoteEncoder(
            model, self._remote, deadline_s=self._remote_deadline_s, max_prompt_chars=self._max_prompt_chars
        )

    def _warn_absent(self, model: str, reason: TokenizerNotFound) -> None:
        """Once for each reason: it is looked for again and again."""
        if self._reasons.get(model) == str(reason):
            return
        self._reasons[model] = str(reason)
        consequence = "prompts stay unknown" if self._remote is None else "a replica tokenizes every prompt, slowly"
        logger.warning("no tokenizer for %s, %s. Set PREFIXWAY_TOKENIZER. Tried: %s", model, consequence, reason)


def _compile(files: TokenizerFiles, model: str) -> dict[str, ChatTemplate]:
    templates: dict[str, ChatTemplate] = {}
    for name, source in files.chat_templates.items():
        try:
            templates[name] = ChatTemplate(source, files.special_tokens)
        except TemplateError as error:
            logger.warning("%s: chat template %r does not compile: %s", model, name, error)
    return templates
