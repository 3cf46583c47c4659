"""Coding agents, a closed loop: the quantiles of 200 published dialogues (callanjfox/kv-cache-tester).

An agent's prompt begins with its tools' descriptions, which many agents share, and grows by its answer and what a tool
gave, up to 100,000 tokens or 60 turns. Sometimes it writes most of its prompt anew.
"""

from __future__ import annotations

from itertools import accumulate, count
from random import Random

from loadtest.replay.kinds.growing_prompt import GrowingPrompt
from loadtest.replay.kinds.spread import Spread
from loadtest.replay.trace import Session, Turn

_TOOLS = Spread({0: 6000, 0.2: 9000, 0.5: 12_300, 0.9: 12_800, 1: 13_500})
_FIRST = Spread({0: 9000, 0.05: 13_000, 0.25: 17_700, 0.5: 20_400, 0.75: 45_400, 0.9: 74_800, 1: 96_000})
_RESULT = Spread({0: 5, 0.05: 30, 0.25: 110, 0.5: 330, 0.75: 1100, 0.9: 3300, 0.99: 17_000, 1: 75_000})
_ANSWER = Spread({0: 60, 0.05: 85, 0.25: 133, 0.5: 206, 0.75: 386, 0.9: 809, 0.99: 4300, 1: 11_300})
_THINK_S = Spread({0: 1, 0.05: 3, 0.25: 5, 0.5: 8, 0.75: 24, 0.9: 118, 1: 120})
_TURNS = Spread({0: 2, 0.05: 5, 0.25: 18, 0.5: 45, 0.6: 60, 1: 61})
_KEPT = Spread({0: 0.09, 0.25: 0.13, 0.5: 0.27, 0.75: 0.5, 1: 0.93})
_REWRITES = 0.015
_MOST_TOKENS, _MOST_TURNS = 100_000, 60
_TOOL_SETS = 60
_FLAT = 4  # how alike the popularities of the most popular sets of tools are
_SESSIONS_S = 1.0


def make(requests: int, rng: Random) -> list[Session]:
    """As the published dialogues; as many sessions as have at least so many requests."""
    ids = count()
    tools = [GrowingPrompt(ids, _TOOLS.whole(rng)) for _ in range(_TOOL_SETS)]
    weights = list(accumulate(1 / (rank + _FLAT) for rank in range(_TOOL_SETS)))
    at_s, sessions, made = 0.0, list[Session](), 0
    while made < requests:
        (begun,) = rng.choices(tools, cum_weights=weights)
        sessions.append(Session(f"agent-{len(sessions)}", at_s, _turns(begun.copy(), rng)))
        made += len(sessions[-1].turns)
        at_s += rng.expovariate(_SESSIONS_S)
    return sessions


def _turns(prompt: GrowingPrompt, rng: Random) -> list[Turn]:
    prompt.grow(max(100, _FIRST.whole(rng) - prompt.tokens))
    turns: list[Turn] = []
    wanted = min(_MOST_TURNS, _TURNS.whole(rng))
    while len(turns) < wanted and prompt.tokens <= _MOST_TOKENS:
        answer = _ANSWER.whole(rng)
        turns.append(prompt.turn(answer, _THINK_S.draw(rng) if turns else 0.0))
        if rng.random() < _REWRITES:
            prompt.rewrite(int(prompt.tokens * _KEPT.draw(rng)))
        prompt.grow(answer + _RESULT.whole(rng))
    return turns
