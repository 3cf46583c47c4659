"""Replica: one cache and one queue, a server's data-parallel rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.fleet.inflight import Workload
from gateway.fleet.load_report import LoadReport
from gateway.fleet.replica_key import ReplicaKey
from router_strategies import Candidate

if TYPE_CHECKING:
    from gateway.fleet.server import Server


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

    def __repr__(self) -> str:
        return f"<Replica {self.id} inflight={self.workload.inflight} incarnation={self.key.incarnation}>"

    @property
    def pinned_rank(self) -> int | None:
        """The rank a request must name to land here; ``None`` where the server has only one."""
        return self.key.rank if len(self.server.replicas) > 1 else None

    def reported(self, report: LoadReport, now: float) -> None:
        if self.reported_s is not None and report.generated_tokens != self.report.generated_tokens:
            self.server.silence.excused(now)
        self.report = report
        self.reported_s = now
        self.kv_blocks = report.kv_blocks or 0
        self.kv_tokens = report.kv_tokens or 0
        self.reported_load = (_known(report.waiting), _known(report.running), _known(report.kv_usage))

    def restart(self) -> ReplicaKey:
        """Its engine is a new process with an empty cache. The new key."""
        self.key = self.key._replace(incarnation=self.key.incarnation + 1)
        return self.key


def _known(value: float | None) -> float:
    return -1.0 if value is None else value
