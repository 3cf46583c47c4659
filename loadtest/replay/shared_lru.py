"""SharedLru: one cache of prompt blocks that everybody shares; the least recently used block goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from loadtest.replay.trace import Turn


class SharedLru:
    """``blocks``: how many it holds; ``None``: all there are."""

    def __init__(self, blocks: int | None) -> None:
        self._most = blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self, turn: Turn, block_tokens: int) -> int:
        """Tokens of the prompt that it finds: full blocks, and never the prompt's last token, which must be computed
        whatever is cached. Keeps all of the prompt's blocks; the deeper ones will go sooner.
        """
        held = self._blocks
        found = 0
        for block in turn.blocks:
            if block not in held:
                break
            found += 1
        if self._most is None:
            held.update(dict.fromkeys(turn.blocks[found:]))
        else:
            self._touch(turn.blocks, self._most)
        return min(found, (turn.prompt_tokens - 1) // block_tokens) * block_tokens

    def _touch(self, blocks: Sequence[int], most: int) -> None:
        held = self._blocks
        for block in reversed(blocks):
            held[block] = None
            held.move_to_end(block)
        for _ in range(len(held) - most):
            held.popitem(last=False)
