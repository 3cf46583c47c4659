"""System prompts of unequal popularity (Zipf), an open loop; new ones come with many requests at once.

A structure without a public counterpart: what a platform with many applications sees when one of them goes live.
"""

from __future__ import annotations

from itertools import count
from random import Random

from loadtest.replay.kinds.growing_prompt import GrowingPrompt
from loadtest.replay.kinds.spread import Spread
from loadtest.replay.trace import Session

_SYSTEM = Spread({0: 600, 0.25: 2000, 0.5: 4000, 0.75: 8000, 1: 16_000})
_QUESTION = Spread({0: 20, 0.5: 250, 0.9: 1500, 1: 6000})
_ANSWER = Spread({0: 5, 0.5: 150, 0.9: 450, 1: 1500})
_HOT_TOKENS = 6000
_REQUESTS_S = 10.0
_PROMPTS = 100
_NEW = 1 / 150  # of all requests are the first of a new prompt
_BURST = (20, 40)  # requests
_BURST_S = 2.0  # their mean distance in time from the first one


def make(requests: int, rng: Random, *, hot_from: float | None = None) -> list[Session]:
    """``hot_from``: the part of the requests after which one new prompt gets every second request."""
    ids = count()
    popular = [GrowingPrompt(ids, _SYSTEM.whole(rng)) for _ in range(_PROMPTS)]
    weights = [1 / (rank + 1) for rank in range(_PROMPTS)]
    hot = GrowingPrompt(ids, _HOT_TOKENS)
    at_s, timed = 0.0, list[tuple[float, GrowingPrompt]]()
    while len(timed) < requests:
        at_s += rng.expovariate(_REQUESTS_S)
        if hot_from is not None and len(timed) >= hot_from * requests and rng.random() < 0.5:
            timed.append((at_s, hot))
        elif rng.random() < _NEW:
            new = GrowingPrompt(ids, _SYSTEM.whole(rng))
            popular[rng.randrange(_PROMPTS)] = new
            timed.extend((at_s + rng.expovariate(1 / _BURST_S), new) for _ in range(rng.randint(*_BURST)))
        else:
            timed.append((at_s, rng.choices(popular, weights)[0]))
    timed.sort(key=lambda item: item[0])
    return [_asked(number, at_s, system, rng) for number, (at_s, system) in enumerate(timed)]


def _asked(number: int, at_s: float, system: GrowingPrompt, rng: Random) -> Session:
    prompt = system.copy()
    prompt.grow(_QUESTION.whole(rng))
    return Session(f"user-{number}", at_s, (prompt.turn(_ANSWER.whole(rng)),))
