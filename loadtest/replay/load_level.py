"""Load levels: how fast a trace must be played to keep a fleet as busy as a scenario says.

    load = work / (capacity * span)

- work: engine seconds of what is asked, if all replicas shared one LRU cache of their total size (a closed loop: one
  that forgets nothing): prefill of the uncached tokens, and what each output token adds to a step of decoding.
- capacity: the sum of the replicas' speeds; one that joins or leaves counts for the part of the time that it is there.
- span: from the first session's beginning to the last one's. In a closed loop, whose sessions begin, last and end, it
  is such that an average piece of work is done by a fleet so busy (:mod:`loadtest.replay.busy_span`).

Real replicas do not share a cache, so the fleet is busier than ``load`` says: how much busier is the strategy's doing.
Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import median

from loadtest.replay.busy_span import BusySpan
from loadtest.replay.offered_work import in_order, offered
from loadtest.replay.scenario import Change, Scenario
from loadtest.replay.shared_lru import SharedLru
from loadtest.replay.trace import Session, Trace

_REACHED = 0.9  # of the load that is wanted: less is worth a note
_CROWD = 2.0  # requests at one time on average: then times are of a coarse grain, and not the requests' own


def at_load(trace: Trace, scenario: Scenario, seed: int) -> Trace:
    """The trace at ``scenario.load``; the seed decides what its times leave open.

    Open: requests that a coarse clock has put on one moment are spread over its grain. Closed loop: sessions begin in
    random order with random (Poisson) gaps; think times stay. A closed loop with too few sessions for the load says so
    in its notes. Raises ``ValueError`` for a load that is not above 0, and for a fleet of nothing.
    """
    rate = _capacity(scenario) * scenario.load
    if rate <= 0:
        raise ValueError(f"a load of {scenario.load} on {_capacity(scenario):g} replicas: both must be above 0")
    if not trace.sessions:
        return trace
    rng = Random(seed)
    if trace.is_open:
        return _open_at(replace(trace, sessions=_spread(trace.sessions, rng)), scenario, rate)
    return _closed_at(replace(trace, sessions=_begun_at_random(trace.sessions, rng)), scenario, rate)


def bound(trace: Trace, *, warmup: float = 0.0) -> float:
    """The part of all prompt tokens that a cache finds which forgets nothing and is everywhere: no strategy has more.

    Only full blocks can be found, and never a prompt's last token. ``warmup``: share of the requests, the first ones,
    that fill the cache and are not counted. In a closed loop these are the first ones if answers took no time: others
    than those of a run, which may so be a few tenths of a percent better.
    """
    return _found(trace, SharedLru(None), int(warmup * trace.requests))


def shared_lru(trace: Trace, blocks: int) -> float:
    """The part of all prompt tokens that one cache of so many blocks finds which all replicas share (requests in the
    order in which they would come if answers took no time).
    """
    return _found(trace, SharedLru(blocks))


def grain_s(times: Sequence[float]) -> float:
    """The grain of the clock behind these times, which ascend, in seconds; 0 for times that are requests' own.

    Mooncake's conversations stand at 3,000 ms steps, ten at each.
    """
    crowds = Counter(times)
    if len(crowds) < 2 or len(times) < _CROWD * len(crowds):
        return 0.0
    distinct = list(crowds)
    return median(later - sooner for sooner, later in pairwise(distinct))


def _spread(sessions: Sequence[Session], rng: Random) -> list[Session]:
    times = [session.begins_s for session in sessions]
    grain = grain_s(times)
    if times[0] == times[-1]:
        return _begun_at_random(sessions, rng)
    if grain:
        times = [at_s + rng.random() * grain for at_s in times]
    return _begun_at(times, sessions)


def _begun_at_random(sessions: Sequence[Session], rng: Random) -> list[Session]:
    at_s, times = 0.0, []
    for _ in sessions:
        times.append(at_s)
        at_s += rng.expovariate(1.0)
    return _begun_at(times, rng.sample(sessions, len(sessions)))


def _begun_at(times: Iterable[float], sessions: Sequence[Session]) -> list[Session]:
    """In order of these times, from 0 on."""
    begun = sorted(zip(times, range(len(sessions)), strict=True))
    first_s = begun[0][0]
    return [sessions[number]._replace(begins_s=at_s - first_s) for at_s, number in begun]


def _open_at(trace: Trace, scenario: Scenario, rate: float) -> Trace:
    cache = SharedLru(scenario.replicas * scenario.engine.l0_blocks)
    portions = offered(trace.sessions, cache, trace.block_tokens, scenario.engine.speeds, load=scenario.load)
    return _stretched(trace, sum(portion.work_s for portion in portions) / rate)


def _closed_at(trace: Trace, scenario: Scenario, rate: float) -> Trace:
    portions = offered(trace.sessions, SharedLru(None), trace.block_tokens, scenario.engine.speeds, load=scenario.load)
    last_s = trace.sessions[-1].begins_s or 1.0
    busy = BusySpan([session.begins_s / last_s for session in trace.sessions], portions)
    span_s = busy.seconds(rate)
    reached = scenario.load * busy.rate(span_s) / rate
    if reached < _REACHED * scenario.load:
        few = f"too few sessions for a load of {scenario.load:g}: about {reached:.2f}"
        trace = replace(trace, notes=(*trace.notes, few))
    return _stretched(trace, span_s)


def _stretched(trace: Trace, span_s: float) -> Trace:
    last_s = trace.sessions[-1].begins_s
    scale = span_s / last_s if last_s else 1.0
    return replace(trace, sessions=[session._replace(begins_s=session.begins_s * scale) for session in trace.sessions])


def _capacity(scenario: Scenario) -> float:
    return sum(
        scenario.speed(replica) * _present([change for change in scenario.changes if change.replica == replica])
        for replica in range(scenario.replicas)
    )


def _present(changes: Sequence[Change]) -> float:
    """The part of the time that a replica is there; one that ever joins is not there at first."""
    there, since, total = not any(change.joins for change in changes), 0.0, 0.0
    for change in sorted(changes, key=lambda change: change.at):
        total += (change.at - since) * there
        there, since = change.joins, change.at
    return total + (1.0 - since) * there


def _found(trace: Trace, cache: SharedLru, uncounted: int = 0) -> float:
    turns = [turn for _, turn in in_order(trace.sessions)]
    found = [cache.take(turn, trace.block_tokens) for turn in turns]
    return sum(found[uncounted:]) / max(1, sum(turn.prompt_tokens for turn in turns[uncounted:]))
