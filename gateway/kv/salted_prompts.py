"""SaltedPrompts: where prompts begin that were sent with a cache salt.

Some publishers do not tell the salt of what they store: vLLM before 0.18, and LMCache of its host memory. A salted
prompt's blocks then look like those of the same text without a salt, which others would be credited with. So what such
a publisher stores under a beginning that was sent with a salt is not believed to be anybody's. Pure state.
"""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 100_000


class SaltedPrompts:
    """Bounded; the least recently sent go first. What other processes send is not known here."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._beginnings: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._beginnings)

    def __contains__(self, block: object) -> bool:
        return block in self._beginnings

    def sent(self, blocks: Iterable[int]) -> None:
        """A prompt that begins so was sent with a salt. ``blocks``: own hashes of its first block in several sizes, as
        without the salt.
        """
        beginnings = self._beginnings
        for block in blocks:
            beginnings.pop(block, None)
            beginnings[block] = None
        while len(beginnings) > self._most:
            del beginnings[next(iter(beginnings))]
