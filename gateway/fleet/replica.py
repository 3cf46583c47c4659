"""Replica: one cache and one queue, a server's data-parallel rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.fleet.inflight import Workload
from gateway.fleet.load_report import LoadReport
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.strangers import Strangers
from router_strategies import Candidate

if TYPE_CHECKING:
    from gateway.fleet.server import Server

_BELIEVED_S = 5.0  # what a report shows of strangers, when none follows that differs


class Replica:
    """State of one rank. Written by the router's attempts and what other gateways tell of theirs (workload), and by
    the probes (the rest).
    """

    def __init__(self, server: Server, key: ReplicaKey) -> None:
        self.server = server
        self.key = key
        self.id = key.replica_id
        self.workload = Workload()
        self.speed = server.spec.speed  # prefill rate relative to the others
        self.named = Candidate(self.id, speed=self.speed)  # as strategies see it that look at nothing else
        self.report = LoadReport()
        self.reported_s: float | None = None
        self.kv_blocks = 0  # in its GPU; 0: unknown
        self.kv_tokens = 0  # that they hold; 0: unknown
        self.reported_load = (-1.0, -1.0, -1.0)  # waiting, running, KV usage 0..1; -1: unknown
        self.strangers: Strangers | None = None
        self._ended_before = 0  # requests, when it was asked for its report
        self._stepped_s = float("-inf")  # when its engine is known to have worked last

    def __repr__(self) -> str:
        return f"<Replica {self.id} inflight={self.workload.inflight} incarnation={self.key.incarnation}>"

    @property
    def pinned_rank(self) -> int | None:
        """The rank a request must name to land here; ``None`` where the server has only one."""
        return self.key.rank if len(self.server.replicas) > 1 else None

    def asked(self) -> None:
        """For a report, which is on its way from now on. Requests that end meanwhile may be in it."""
        self._ended_before = self.workload.ended

    def reported(self, report: LoadReport, now: float) -> None:
        """What it says of itself; :meth:`asked` was called before."""
        if not self.report.is_standing(report):
            self._stepped_s = now
        if self.reported_s is not None and report.generated_tokens != self.report.generated_tokens:
            self.server.silence.excused(now)
        self.report = report
        self.reported_s = now
        self.kv_blocks = report.kv_blocks or 0
        self.kv_tokens = report.kv_tokens or 0
        self.reported_load = (_known(report.waiting), _known(report.running), _known(report.kv_usage))
        known = self.workload.inflight + self.workload.ended - self._ended_before
        self.strangers = Strangers.of(report.waiting, report.running, known)
        self.unreported(now)

    def unreported(self, now: float) -> None:
        """It says nothing new. Those that others sent may be gone by now; nobody knows."""
        if now - self._stepped_s > _BELIEVED_S:
            self.strangers = None

    def restart(self) -> ReplicaKey:
        """Its engine is a new process with an empty cache. The new key."""
        self.key = self.key._replace(incarnation=self.key.incarnation + 1)
        self.strangers = None
        return self.key


def _known(value: float | None) -> float:
    return -1.0 if value is None else value
