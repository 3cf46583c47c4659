"""Thinning: gives up a part of what is known to be held in one hash space, the least useful first, step by step.

What was asked for lately is kept, then what was stored last, each with all that comes before it in its prompts. The
rest goes, and of a prompt the deepest first. So after every step what is left is a part of what is held and has no
holes: it credits too little, never too much. That a block goes later which was given up changes nothing; one stored
on top of it brings it back, where its hash is still understood.

Events go on between two steps: whoever applies them tells what they stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gateway.kv.ownership import Ownership
from gateway.kv.resolver import Resolver

#: Blocks looked at in a step: one or two milliseconds.
STEP = 1_500
_GONE = -1


class Thinning:
    """One pass. Costs a walk over all that is held, so it should give up a good part of it."""

    def __init__(self, resolver: Resolver, ownership: Ownership, step: int = STEP) -> None:
        self._step = step
        self._resolver = resolver
        self._ownership = ownership
        self._kept: set[int] = set()
        self.given_up = 0  # blocks

    def stored(self, blocks: Iterable[int]) -> None:
        """These were stored since the last step."""
        for block in blocks:
            self._kept.update(self._not_kept(block))

    def steps(self, keep: int, asked: Iterable[int]) -> Iterator[None]:
        """Give up all but about ``keep`` blocks. ``asked``: the deepest ones of prompts that were asked for, the last
        first. What is given up is told by :meth:`Ownership.take_changes` after each step.
        """
        blocks = self._ownership.blocks()
        yield from self._keep_useful(blocks, keep, asked)
        waits: dict[int, int] = {}  # block to go -> how many on top of it have to go first
        for position, block in enumerate(blocks):
            if block not in self._kept:
                parent = self._resolver.parent(block)
                waits[parent] = waits.get(parent, 0) + 1
            if position % self._step == 0:
                yield
        done = self.given_up + self._step
        for position, block in enumerate(blocks):
            self._give_up(block, waits)
            if self.given_up >= done or position % self._step == 0:
                done = self.given_up + self._step
                yield

    def _keep_useful(self, blocks: Sequence[int], keep: int, asked: Iterable[int]) -> Iterator[None]:
        kept, looked_at = self._kept, 0
        for source in (asked, reversed(blocks)):
            for block in source:
                room = keep - len(kept)
                if room <= 0:
                    return
                if block in self._ownership:
                    path = self._not_kept(block)
                    kept.update(path[-room:])  # of the last one only the beginning may fit
                    looked_at += len(path)
                looked_at += 1
                if looked_at >= self._step:
                    looked_at = 0
                    yield

    def _not_kept(self, block: int) -> list[int]:
        """``block`` and what comes before it, back to what is kept already."""
        kept, path = self._kept, [block]
        if block in kept:
            return []
        for ancestor in self._resolver.ancestors(self._resolver.parent(block)):
            if ancestor in kept:
                break
            path.append(ancestor)
        return path

    def _give_up(self, block: int, waits: dict[int, int]) -> None:
        """``block``, if nothing on top of it is left, and what waited only for it."""
        while block and block not in self._kept and not waits.get(block):
            waits[block] = _GONE
            self.given_up += self._ownership.give_up(block)
            block = self._resolver.parent(block)
            if block in waits:
                waits[block] -= 1
