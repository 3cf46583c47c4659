"""Questions about long documents, an open loop: the quantiles of Mooncake's synthetic trace (FAST'25).

More than half of the requests ask about one of few documents (one to ten requests), which come ever more often as time
goes on; the others are short prompts, or long ones that nobody asks about again.
"""

from __future__ import annotations

from itertools import count
from random import Random

from loadtest.replay.kinds.growing_prompt import GrowingPrompt
from loadtest.replay.kinds.spread import Spread
from loadtest.replay.trace import Session

_DOCUMENT = Spread({0: 600, 0.05: 2700, 0.25: 11_200, 0.5: 20_000, 0.75: 35_700, 0.9: 44_500, 0.99: 66_800, 1: 150_000})
_LONG = Spread({0: 2000, 0.05: 3600, 0.25: 14_600, 0.5: 16_800, 0.75: 21_300, 0.9: 29_300, 0.99: 62_800, 1: 134_000})
_SHORT = Spread({0: 13, 0.05: 18, 0.25: 27, 0.5: 52, 0.75: 200, 0.9: 680, 1: 2000})
_QUESTION = Spread({0: 5, 0.5: 60, 0.9: 400, 1: 1500})
_ANSWER = Spread({0: 2, 0.25: 6, 0.5: 15, 0.75: 53, 0.9: 115, 0.99: 514, 1: 890})
_LONG_ANSWER = Spread({0: 1, 0.05: 14, 0.25: 135, 0.5: 250, 0.75: 354, 0.9: 513, 1: 840})
_REQUESTS_S = 3.9
_DOCUMENTS = 0.1  # of all requests
_SHORT_PART, _LONG_PART = 0.31, 0.14
_MOST_QUESTIONS = 24


def make(requests: int, rng: Random) -> list[Session]:
    """As Mooncake's synthetic trace. Places in time are 0..1 first, and become even then."""
    ids = count()
    placed: list[tuple[float, Session]] = []
    for _ in range(round(requests * _SHORT_PART)):
        placed.append((_early(rng), _alone(GrowingPrompt(ids, _SHORT.whole(rng)), rng, len(placed))))
    for _ in range(round(requests * _LONG_PART)):
        placed.append((_early(rng), _alone(GrowingPrompt(ids, _LONG.whole(rng)), rng, len(placed))))
    mean_more = (1 - _SHORT_PART - _LONG_PART) / _DOCUMENTS - 2  # questions after the second
    document = 0
    while len(placed) < requests:
        questions = min(_MOST_QUESTIONS, 2 + int(rng.expovariate(1 / (mean_more + 0.5))))
        placed.extend(_asked(GrowingPrompt(ids, _DOCUMENT.whole(rng)), questions, rng, f"document-{document}"))
        document += 1
    placed.sort(key=lambda item: item[0])
    at_s, sessions = 0.0, []
    for _, session in placed:
        sessions.append(session._replace(begins_s=round(at_s, 3)))
        at_s += rng.expovariate(_REQUESTS_S)
    return sessions


def _early(rng: Random) -> float:
    """A place in time, twice as often near the beginning as in the middle, and never at the end."""
    return 1 - float((1 - rng.random()) ** 0.5)


def _alone(prompt: GrowingPrompt, rng: Random, number: int) -> Session:
    return Session(f"prompt-{number}", 0.0, (prompt.turn(_LONG_ANSWER.whole(rng)),))


def _asked(document: GrowingPrompt, questions: int, rng: Random, key: str) -> list[tuple[float, Session]]:
    first = _early(rng)
    asked = []
    for number in range(questions):
        prompt = document.copy()
        prompt.grow(_QUESTION.whole(rng))
        place = first + (1 - first) * rng.random() * (number > 0)
        asked.append((place, Session(key, 0.0, (prompt.turn(_ANSWER.whole(rng)),))))
    return asked
