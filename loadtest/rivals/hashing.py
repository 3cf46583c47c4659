"""Session affinity by consistent hashing: what most gateways offer for conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from loadtest.rivals._choosing import fewest_requests, pick
from loadtest.rivals._hash_ring import OnRing
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class Session(OnRing):
    """A session stays with the replica that follows it on a hash ring, whatever its load.

    Source: ``consistent_hash`` of vLLM Router 0.1.17 (src/policies/consistent_hash.rs; 160 points a replica) and
    ``session`` of vLLM production-stack (2026-08). Without a session: the fewest requests in flight, where
    production-stack takes the fewest arrivals of the last minute. ``placement`` says where replicas lie on the
    ring.
    """

    reads_events: ClassVar[bool] = False

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        if not request.session:
            return pick(request, fewest_requests(views, self._random))
        by_number = {view.number: view for view in views}
        return pick(request, by_number[next(self._ring.following(request.session, by_number))])


RIVALS: dict[str, type[Rival]] = {"session": Session}
