"""PrefixKeys: by how much of a prompt to hash it, so that what many requests begin with does not follow one key."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class PrefixKeys:
    """Counts in the last ``window`` requests how many begin with a prefix: with as much as ever served as a key."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._recent: deque[Sequence[int]] = deque()  # what was counted of each
        self._counts: dict[int, int] = {}

    def key(self, blocks: Sequence[int], share: float) -> int:
        """The last block of the shortest prefix that at most ``share`` of the recent requests have in common.

        At least one block; all of the prompt where all of it is common.
        """
        most = max(1.0, share * len(self._recent))
        counted: list[int] = []
        for block in blocks:
            counted.append(block)
            self._counts[block] = self._counts.get(block, 0) + 1
            if self._counts[block] <= most:
                break
        self._recent.append(counted)
        if len(self._recent) > self._window:
            self._forget(self._recent.popleft())
        return counted[-1]

    def _forget(self, counted: Sequence[int]) -> None:
        for block in counted:
            self._counts[block] -= 1
            if not self._counts[block]:
                del self._counts[block]
