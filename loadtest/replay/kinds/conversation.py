"""Chats, an open loop: prompts that grow by the last answer and the next message; sometimes an earlier message changes.

The defaults are the quantiles of Mooncake's conversation trace (FAST'25, its first 60 %): one assistant whose system
prompt is a block long; 3.25 requests a second, of which two thirds begin a chat; times at steps of 3 s.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from loadtest.replay.kinds.growing_prompt import BLOCK_TOKENS, GrowingPrompt
from loadtest.replay.kinds.spread import Spread
from loadtest.replay.trace import Session

_FIRST = Spread({0: 890, 0.05: 900, 0.25: 1377, 0.5: 5700, 0.75: 13_700, 0.9: 26_000, 0.99: 92_000, 1: 125_000})
_MESSAGE = Spread({0: 1, 0.35: 10, 0.5: 26, 0.75: 370, 0.9: 4300, 0.95: 7500, 0.99: 18_900, 1: 60_000})
_ANSWER = Spread({0: 1, 0.05: 9, 0.25: 158, 0.5: 356, 0.75: 477, 0.9: 607, 0.99: 1170, 1: 2000})
_PAUSE_S = Spread({0: 25, 0.05: 30, 0.25: 66, 0.5: 123, 0.75: 255, 0.9: 441, 0.99: 942, 1: 1800})
_KEPT = Spread({0: 0.01, 0.25: 0.11, 0.5: 0.23, 0.75: 0.5, 0.9: 0.88, 1: 0.99})


@dataclass(frozen=True, slots=True)
class Chats:
    """``systems``: tokens of each assistant's system prompt. ``goes_on``: how probable a second turn is; every turn
    makes the next one more probable by ``more``, up to ``most``. ``edits``: part of the turns that change something
    earlier. ``step_s``: grain of the times.
    """

    systems: tuple[int, ...] = (BLOCK_TOKENS,)
    first: Spread = field(default=_FIRST)
    message: Spread = field(default=_MESSAGE)
    answer: Spread = field(default=_ANSWER)
    pause_s: Spread = field(default=_PAUSE_S)
    chats_s: float = 1.9  # chats that begin in a second
    goes_on: float = 0.37
    more: float = 0.09
    most: float = 0.66
    edits: float = 0.22
    longest: int = 125_000  # tokens
    step_s: float = 3.0

    def sessions(self, requests: int, rng: Random, ids: Iterator[int]) -> list[Session]:
        """As many requests, each a session of its own that shares its key with its chat; in order of time."""
        systems = [GrowingPrompt(ids, tokens) for tokens in self.systems]
        due: list[tuple[float, int, int, GrowingPrompt]] = []  # time, chat, turn
        chats, begins_s, sessions = 0, 0.0, list[Session]()
        while len(sessions) < requests:
            if not due or begins_s < due[0][0]:
                heapq.heappush(due, (begins_s, chats, 0, self._begun(rng.choice(systems), rng)))
                chats, begins_s = chats + 1, begins_s + rng.expovariate(self.chats_s)
            at_s, chat, turn, prompt = heapq.heappop(due)
            answer = self.answer.whole(rng)
            sessions.append(Session(f"chat-{chat}", at_s // self.step_s * self.step_s, (prompt.turn(answer),)))
            if rng.random() < min(self.most, self.goes_on + self.more * turn):
                self._go_on(prompt, answer, rng)
                if prompt.tokens <= self.longest:
                    heapq.heappush(due, (at_s + self.pause_s.draw(rng), chat, turn + 1, prompt))
        return sessions

    def _begun(self, system: GrowingPrompt, rng: Random) -> GrowingPrompt:
        prompt = system.copy()
        prompt.grow(max(1, self.first.whole(rng) - prompt.tokens))
        return prompt

    def _go_on(self, prompt: GrowingPrompt, answer: int, rng: Random) -> None:
        if rng.random() < self.edits:
            prompt.rewrite(max(*self.systems, int(prompt.tokens * _KEPT.draw(rng))))
        prompt.grow(answer + self.message.whole(rng))


def make(requests: int, rng: Random) -> list[Session]:
    """As Mooncake's conversation trace."""
    return Chats().sessions(requests, rng, count())
