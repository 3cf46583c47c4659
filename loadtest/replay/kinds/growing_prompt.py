"""GrowingPrompt: a prompt that others begin with too, that grows from turn to turn, and that may be cut."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.replay.trace import Turn

BLOCK_TOKENS = 512


class GrowingPrompt:
    """``ids`` gives the blocks of one trace their ids. A block has one once it is full."""

    __slots__ = ("_blocks", "_ids", "tokens")

    def __init__(self, ids: Iterator[int], tokens: int = 0) -> None:
        self._ids = ids
        self._blocks: list[int] = []
        self.tokens = 0
        self.grow(tokens)

    def grow(self, tokens: int) -> None:
        """Text that nobody else has is added."""
        self.tokens += tokens
        missing = self.tokens // BLOCK_TOKENS - len(self._blocks)
        self._blocks.extend(next(self._ids) for _ in range(missing))

    def cut(self, tokens: int) -> None:
        """Only the first tokens stay."""
        self.tokens = min(self.tokens, tokens)
        del self._blocks[self.tokens // BLOCK_TOKENS :]

    def rewrite(self, kept: int) -> None:
        """What is beyond the first tokens is replaced by other text of the same length."""
        tokens = self.tokens
        self.cut(kept)
        self.grow(tokens - self.tokens)

    def copy(self) -> GrowingPrompt:
        """One that begins with this one."""
        other = GrowingPrompt(self._ids)
        other.tokens = self.tokens
        other._blocks = self._blocks.copy()
        return other

    def turn(self, output_tokens: int, think_s: float = 0.0) -> Turn:
        """A request with the prompt as it is now."""
        return Turn(self.tokens, output_tokens, tuple(self._blocks), think_s)
