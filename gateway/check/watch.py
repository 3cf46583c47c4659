"""Watch: looks at what the gateway knows of its replicas, about twice a second, and tells what is wrong.

Asks nobody and costs little: a few comparisons a replica. A symptom must last before it counts, and a finding stays
for a while after its symptom has gone, so that nothing flickers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from gateway.check.finding import Finding, found
from gateway.check.finding_book import FindingBook
from gateway.check.knowledge import Knowledge
from gateway.check.restless import Restless
from gateway.check.symptoms import Symptom, of_coverage, of_evidence, of_replica, of_server, of_tokenizer
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.evidence import Evidence

_STAYS_S = 10.0

_Place = tuple[str, str]


class Watch:
    """``evidence``: what requests showed of an engine process. ``tokenizers``: by base model, what encodes its prompts.
    ``more``: what is to be seen elsewhere, as in Redis. ``suspect`` is told of each replica that a check may find out
    more about, with the names of its symptoms.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        book: FindingBook,
        *,
        evidence: Callable[[ReplicaKey], Evidence | None],
        tokenizers: Callable[[], Mapping[str, str]],
        more: Callable[[], Iterable[Symptom]] = tuple,
        suspect: Callable[[Replica, Collection[str]], None],
        interval_s: float = 0.5,
    ) -> None:
        self._knowledge = knowledge
        self._book = book
        self._evidence = evidence
        self._tokenizers = tokenizers
        self._more = more
        self._suspect = suspect
        self._interval_s = interval_s
        self._restless = Restless()
        self._began: dict[_Place, float] = {}  # when each symptom that is seen was first seen
        self._last: dict[_Place, tuple[Finding, float]] = {}  # findings, and when their symptoms were last seen

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(self._interval_s)

    def look(self) -> None:
        """Once."""
        now, seen, suspects = self._knowledge.clock(), dict[_Place, float](), dict[str, set[str]]()
        for symptom in self._symptoms():
            place = symptom.name, symptom.replica_id
            seen[place] = began_s = self._began.get(place, now)
            if now - began_s >= symptom.suspicious_s:
                suspects.setdefault(symptom.replica_id, set()).add(symptom.name)
            if now - began_s >= symptom.lasts_s:
                self._last[place] = found(symptom.name, symptom.replica_id, symptom.detail), now
        self._began = seen
        for place in [place for place, (_, last_s) in self._last.items() if now - last_s > _STAYS_S]:
            del self._last[place]
        self._forget_departed()
        self._book.seen(finding for finding, _ in self._last.values())
        for replica in self._knowledge.pool.replicas if suspects else ():
            if replica.id in suspects:
                self._suspect(replica, suspects[replica.id])

    def _symptoms(self) -> Iterator[Symptom]:
        all_evidence: list[Evidence] = []
        for server in self._knowledge.pool.servers:
            yield from of_server(server)
            for replica in server.replicas if server.healthy and not server.drained else ():
                if (evidence := self._evidence(replica.key)) is not None:
                    all_evidence.append(evidence)
                yield from self._of_replica(replica, evidence)
        yield from of_coverage(all_evidence)
        for model, kind in self._tokenizers().items():
            yield from of_tokenizer(model, kind)
        yield from self._more()

    def _of_replica(self, replica: Replica, evidence: Evidence | None) -> Iterator[Symptom]:
        yield from of_replica(replica, self._knowledge)
        if (stats := self._knowledge.stats(replica)) is not None:
            yield from self._restless.of(replica.id, stats, self._knowledge.clock())
        if evidence is not None:
            yield from of_evidence(replica, evidence, self._knowledge.stats(replica))

    def _forget_departed(self) -> None:
        pool = self._knowledge.pool
        here = {server.id for server in pool.servers} | {replica.id for replica in pool.replicas}
        for place in [place for place in self._last if place[1] and place[1] not in here]:
            del self._last[place]
        self._book.forget_all_but(here)
        self._restless.forget_all_but(here)
