"""TokenBlocks: a trace's blocks as token ids: equal blocks are equal tokens, and unlike ones are not."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from loadtest.replay.trace import Turn


class TokenBlocks:
    """``vocabulary``: tokens that the model takes in prompts, at least two."""

    def __init__(self, vocabulary: Sequence[int], block_tokens: int) -> None:
        self._vocabulary = vocabulary
        self._block_tokens = block_tokens
        self._blocks: dict[int, list[int]] = {}

    def prompt(self, turn: Turn, asked: str) -> list[int]:
        """The turn's prompt. ``asked`` names the request: the tokens after the last full block are its own."""
        tokens = [token for block in turn.blocks for token in self._tokens(block)]
        return tokens + self._drawn(f"after {asked}", turn.prompt_tokens - len(tokens))

    def _tokens(self, block: int) -> list[int]:
        if block not in self._blocks:
            self._blocks[block] = self._drawn(f"block {block}", self._block_tokens)
        return self._blocks[block]

    def _drawn(self, seed: str, count: int) -> list[int]:
        return Random(seed).choices(self._vocabulary, k=count)
