"""Chooser: a gateway as a run sees it, ours or a rival's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from gateway.kv.tiers import Tier
from loadtest.replay.engine import Engine
from loadtest.replay.trace import Turn


class Asked(NamedTuple):
    """One request as it comes to a gateway."""

    number: int
    turn: Turn
    session: str
    streamed: bool


class Ticket(Protocol):
    """A request on its way. :meth:`ended` is called once; :meth:`first_token` before it, at once for a stream."""

    @property
    def replica(self) -> int: ...

    def first_token(self) -> None: ...

    def ended(self, cached_tokens: int) -> None: ...


class Chooser(Protocol):
    """One gateway. Replicas are numbers."""

    def joined(self, number: int) -> None: ...

    def left(self, number: int) -> None: ...

    def heard(self, number: int, tier: Tier, stored: Collection[int], removed: Collection[int]) -> None: ...

    def choose(self, asked: Asked) -> Ticket | None: ...


#: The engines, which gateways read load reports of.
Engines = Sequence[Engine]
