"""Answer: what a simulated model says. Equal prompts get equal answers, on every replica."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from loadtest.replica.model_folder import ModelFolder


class Answer(NamedTuple):
    """The tokens to generate, and how vLLM would say it ended."""

    tokens: list[int]
    finish_reason: str


class Speaker:
    """Speaks in words that encode to themselves: a conversation's next prompt holds the same tokens."""

    def __init__(self, folder: ModelFolder, answer_tokens: tuple[int, int], text: str = "") -> None:
        self._folder = folder
        self._answer_tokens = answer_tokens
        self._fixed = folder.encode(text, add_special_tokens=False)

    def answer(self, prompt: Sequence[int], limit: int, *, ignore_eos: bool) -> Answer:
        """At most ``limit`` tokens, the end-of-sequence token among them."""
        digest = hashlib.sha256(struct.pack(f"<{len(prompt)}I", *prompt)).digest()
        rng = Random(digest)
        length = rng.randint(*self._answer_tokens)
        if ignore_eos:
            return Answer(rng.choices(self._folder.word_ids, k=limit), "length")
        tokens = self._fixed or rng.choices(self._folder.word_ids, k=min(length, limit))
        if len(tokens) < limit:
            return Answer([*tokens, self._folder.eos_token_id], "stop")
        return Answer(tokens[:limit], "length")
