"""Short chats among huge prompts that share nothing, an open loop.

A structure without a public counterpart: what is hard on a gateway that counts requests, for whom all are alike.
"""

from __future__ import annotations

from itertools import count
from random import Random

from loadtest.replay.kinds.conversation import Chats
from loadtest.replay.kinds.growing_prompt import GrowingPrompt
from loadtest.replay.kinds.spread import Spread
from loadtest.replay.trace import Session

_CHATS = Chats(
    systems=(600, 800, 1100, 1100, 1600, 2100),
    first=Spread({0: 700, 0.5: 1400, 0.9: 2600, 1: 4000}),
    message=Spread({0: 5, 0.5: 60, 0.9: 400, 1: 1500}),
    answer=Spread({0: 5, 0.5: 180, 0.9: 450, 1: 1000}),
    pause_s=Spread({0: 4, 0.5: 25, 0.9: 90, 1: 300}),
    chats_s=4.0,
    goes_on=0.7,
    most=0.8,
    edits=0.05,
    step_s=0.001,
)
_HUGE = Spread({0: 20_000, 0.5: 45_000, 0.9: 90_000, 1: 120_000})
_HUGE_ANSWER = Spread({0: 20, 0.5: 300, 1: 1500})
_HUGE_PART = 0.06  # of the requests


def make(requests: int, rng: Random) -> list[Session]:
    """Of every hundred requests six are huge."""
    ids = count()
    huge = round(requests * _HUGE_PART)
    chats = _CHATS.sessions(requests - huge, rng, ids)
    last_s = chats[-1].begins_s if chats else 0.0
    alone = [
        Session(
            f"huge-{number}",
            round(rng.uniform(0.0, last_s), 3),
            (GrowingPrompt(ids, _HUGE.whole(rng)).turn(_HUGE_ANSWER.whole(rng)),),
        )
        for number in range(huge)
    ]
    return sorted([*chats, *alone], key=lambda session: session.begins_s)
