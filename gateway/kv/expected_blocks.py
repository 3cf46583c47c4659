"""ExpectedBlocks: what is expected of one replica because of what was sent there.

Bookkeeping for :mod:`gateway.kv.routed`, which says when what goes. Pure state.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

NEVER = float("inf")


class ExpectedBlocks:
    """A block's bit is set while it is in any of the three dictionaries.

    Of an answer only its size is known. It is kept as one entry under ``~`` the last block of its prompt, a negative
    number, and goes before that block does.
    """

    __slots__ = (
        "_answers",
        "answer_blocks",
        "bit",
        "block_size",
        "capacity",
        "grace",
        "in_flight",
        "kept",
        "next_gone_s",
    )

    def __init__(self, bit: int, capacity: int) -> None:
        self.bit = bit
        self.capacity = capacity  # tokens
        self.block_size = 0  # tokens; of the prompt added last
        self.in_flight: dict[int, int] = {}  # block -> requests that have it
        self.grace: OrderedDict[int, float] = OrderedDict()  # block -> when it goes, soonest first
        self.kept: OrderedDict[int, float] = OrderedDict()
        self.answer_blocks = 0  # of all answers kept
        self.next_gone_s = NEVER  # nothing goes before that
        self._answers: dict[int, int] = {}  # blocks of each, by its entry in kept

    @property
    def entries(self) -> int:
        """What its memory is proportional to."""
        return len(self.in_flight) + len(self.grace) + len(self.kept)

    def keep_answer(self, prompt: Sequence[int], blocks: int, gone_s: float) -> None:
        """One of so many blocks that followed ``prompt`` is kept, until then if nothing else ends it.

        The answer that an earlier turn ended with is part of a prompt now. One that is given again is kept once.
        """
        answers = self._answers
        if answers:
            for continued in [~block for block in islice(prompt, len(prompt) - 1) if ~block in answers]:
                del self.kept[continued]
                self._forget_answer(continued)
        if blocks > 0:
            entry = ~prompt[-1]
            longer = max(0, blocks - answers.get(entry, 0))
            answers[entry] = answers.get(entry, 0) + longer
            self.answer_blocks += longer
            self.kept[entry] = gone_s
            self.kept.move_to_end(entry)

    def take_oldest(self, most: int) -> list[int]:
        """Keep about ``most`` blocks fewer, those of answers included; the blocks of prompts among them."""
        gone: list[int] = []
        kept, left = self.kept, most
        while kept and left > 0:
            entry, _ = kept.popitem(last=False)
            if entry < 0:
                left -= self._forget_answer(entry)
            else:
                gone.append(entry)
                left -= 1
        return gone

    def blocks_of(self, gone: Sequence[int]) -> list[int]:
        """The blocks among entries that are kept no more. Answers among them are forgotten."""
        for entry in gone:
            if entry < 0:
                self._forget_answer(entry)
        return [block for block in gone if block >= 0]

    def _forget_answer(self, entry: int) -> int:
        blocks = self._answers.pop(entry)
        self.answer_blocks -= blocks
        return blocks
