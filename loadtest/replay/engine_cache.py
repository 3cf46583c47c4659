"""EngineCache: a simulated replica's GPU blocks, as many as it has, by content.

The rules are vLLM's (``v1/core/block_pool.py``) at the grain of the trace's blocks: a block can be found from the step
on that computes it; those of a finished request stay, and go least recently used first, the end of a prompt before its
beginning. What a request will ever need is set aside when it is let in: nothing is preempted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class Hold:
    """One request's blocks. ``taken``: those of its prompt that others can find, too."""

    __slots__ = ("blocks", "computed", "found", "reserved", "taken")

    def __init__(self, blocks: Sequence[int], found: int, reserved: int) -> None:
        self.blocks = blocks
        self.found = found  # how many were there when it came
        self.computed = found  # how many of the prompt's blocks are there by now
        self.taken = list(blocks[:found])
        self.reserved = reserved  # set aside: yet to be computed, of its answer, or a second copy


class EngineCache:
    """Counts blocks. Whoever owns it publishes ``stored`` and ``removed`` and empties them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.stored: list[int] = []
        self.removed: list[int] = []
        self._used: dict[int, int] = {}  # block -> requests that hold it
        self._idle: OrderedDict[int, None] = OrderedDict()  # held by none, least recently used first
        self._reserved = 0

    @property
    def usage(self) -> float:
        """Part of the blocks that requests hold, 0..1."""
        return (len(self._used) + self._reserved) / self.capacity

    def match(self, blocks: Sequence[int], most: int) -> int:
        """How many of the first ``most`` of ``blocks`` are there."""
        used, idle = self._used, self._idle
        for place in range(most):
            if blocks[place] not in used and blocks[place] not in idle:
                return place
        return most

    def admit(self, blocks: Sequence[int], most: int, total: int) -> Hold | None:
        """Let a request in that needs ``total`` blocks at its end. ``most``: how many of its prompt's may be found.

        ``None``: there is no room for it now. One that needs more than there are gets what there is.
        """
        found = self.match(blocks, most)
        used, idle = self._used, self._idle
        reserved = min(total, self.capacity) - found
        woken = sum(1 for block in blocks[:found] if block not in used)
        if len(used) + self._reserved + woken + reserved > self.capacity:
            return None
        for block in blocks[:found]:
            if block in used:
                used[block] += 1
            else:
                del idle[block]
                used[block] = 1
        self._reserved += reserved
        self._make_room()
        return Hold(blocks, found, reserved)

    def compute(self, hold: Hold, blocks: int) -> None:
        """A step computes the prompt up to its first ``blocks`` full blocks: from now on they can be found."""
        used, idle = self._used, self._idle
        for block in hold.blocks[hold.computed : blocks]:
            if block in used or block in idle or not hold.reserved:
                continue  # a second copy, which nobody will find
            used[block] = 1
            hold.taken.append(block)
            hold.reserved -= 1
            self._reserved -= 1
            self.stored.append(block)
        hold.computed = max(hold.computed, blocks)

    def release(self, hold: Hold) -> None:
        """The request is over."""
        used, idle = self._used, self._idle
        self._reserved -= hold.reserved
        for block in reversed(hold.taken):
            if used[block] > 1:
                used[block] -= 1
            else:
                del used[block]
                idle[block] = None

    def _make_room(self) -> None:
        idle, removed = self._idle, self.removed
        while len(self._used) + len(idle) + self._reserved > self.capacity:
            block, _ = idle.popitem(last=False)
            removed.append(block)
