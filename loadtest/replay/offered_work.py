"""Offered work: engine seconds of each request, and about when in its session it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadtest.replay.shared_lru import SharedLru
from loadtest.replay.trace import Session, Turn
from loadtest.replica.scheduler import Speeds

_MOST_LOAD = 0.8  # beyond it queues are no longer a matter of load alone


class Portion(NamedTuple):
    """One request. ``after_s``: from its session's beginning."""

    session: int
    after_s: float
    work_s: float


def offered(
    sessions: Sequence[Session], cache: SharedLru, block_tokens: int, speeds: Speeds, *, load: float
) -> list[Portion]:
    """What ``sessions`` ask for: prefill of the tokens that ``cache`` does not find, and what each token of output adds
    to a step of decoding. Requests come to the cache in the order in which they would come if answers took no time.

    ``load``: of the engines, by which answers come later: what others use of their time one has to wait for.
    """
    slowness = 1 / (1 - min(_MOST_LOAD, load))
    after = [0.0] * len(sessions)
    portions = []
    for session, turn in in_order(sessions):
        cached = cache.take(turn, block_tokens)
        prefill_s = speeds.prefill_s(cached, turn.prompt_tokens - cached)
        context = turn.prompt_tokens + turn.output_tokens / 2
        decode_s = turn.output_tokens * (speeds.sequence_s + speeds.context_token_s * context)
        after[session] += turn.think_s
        portions.append(Portion(session, after[session], prefill_s + decode_s))
        after[session] += (prefill_s + decode_s + turn.output_tokens * speeds.step_s) * slowness
    return portions


def in_order(sessions: Sequence[Session]) -> Iterator[tuple[int, Turn]]:
    """Turns as they would come if answers took no time, each with its session's number."""
    timed = []
    for number, session in enumerate(sessions):
        at_s = session.begins_s
        for turn in session.turns:
            at_s += turn.think_s
            timed.append((at_s, number, turn))
    timed.sort(key=lambda item: item[:2])
    return ((number, turn) for _, number, turn in timed)
