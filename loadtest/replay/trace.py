"""Trace: what is asked of a fleet and when, without any text.

A prompt is a chain of block ids: equal ids mean equal prefixes up to and including that block. Sessions follow each
other in time; the turns of a session follow each other's answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

_GOLDEN = 0.6180339887498949  # its multiples lie as far from each other as can be, however many there are


class Turn(NamedTuple):
    """One request. ``blocks``: ids of the prompt's full blocks; the tokens after the last of them have none."""

    prompt_tokens: int  # at least 1
    output_tokens: int  # at least 1
    blocks: Sequence[int]
    think_s: float = 0.0  # seconds after the end of the answer before it; of the first turn: after the session began


class Session(NamedTuple):
    """Requests that go one after the other. ``key``: what a client would name the session; sessions may share one."""

    key: str
    begins_s: float
    turns: Sequence[Turn]


@dataclass(frozen=True, slots=True)
class Trace:
    """Sessions in the order in which they begin. A trace with one turn a session is open: nobody waits for answers."""

    name: str
    block_tokens: int
    sessions: Sequence[Session] = field(repr=False)
    notes: tuple[str, ...] = ()  # what a reader left out or guessed, for people

    @property
    def requests(self) -> int:
        return sum(len(session.turns) for session in self.sessions)

    @property
    def is_open(self) -> bool:
        return all(len(session.turns) == 1 for session in self.sessions)

    def first(self, requests: int) -> Trace:
        """Its first sessions: as many as have ``requests`` requests, the last of them cut short."""
        chosen: list[Session] = []
        for session in self.sessions:
            if requests <= 0:
                break
            chosen.append(session._replace(turns=session.turns[:requests]))
            requests -= len(session.turns)
        return replace(self, sessions=chosen)

    def sample(self, requests: int, seed: int) -> Trace:
        """At most so many requests, others for every seed; ``begins_s`` starts at 0.

        An open trace: a stretch that starts where the seed says (seed 0: at the beginning), and after the end goes on
        with the beginning. Otherwise: sessions drawn at random, which take each other's places in time.
        """
        return (self._from(seed * _GOLDEN % 1) if self.is_open else self._shuffled(Random(seed))).first(requests)

    def _from(self, part: float) -> Trace:
        if not self.sessions:
            return self
        start = int(part * len(self.sessions))
        later, sooner = self.sessions[start:], self.sessions[:start]
        first_s, last_s = self.sessions[0].begins_s, self.sessions[-1].begins_s
        turn_s = last_s - first_s + (last_s - first_s) / max(1, len(self.sessions) - 1)
        turned = [(session, 0.0) for session in later] + [(session, turn_s) for session in sooner]
        zero_s = later[0].begins_s
        return replace(self, sessions=[s._replace(begins_s=s.begins_s + shift_s - zero_s) for s, shift_s in turned])

    def _shuffled(self, rng: Random) -> Trace:
        drawn = rng.sample(self.sessions, len(self.sessions))
        times = [session.begins_s - self.sessions[0].begins_s for session in self.sessions]
        return replace(self, sessions=[s._replace(begins_s=at_s) for s, at_s in zip(drawn, times, strict=True)])
