"""What proves that routing works, as the settings want it: the watch, the checks, and the book of what they find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from prometheus_client.registry import Collector

from gateway.check.background_checks import BackgroundChecks
from gateway.check.finding_book import FindingBook
from gateway.check.knowledge import Knowledge
from gateway.check.replica_caller import ReplicaCaller
from gateway.check.replica_checks import ReplicaChecks
from gateway.check.symptoms import Symptom
from gateway.check.watch import Watch
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.evidence import Evidence
from gateway.observe.finding_metrics import FindingMetrics
from gateway.prompt.encoder import PromptEncoder
from gateway.settings import Settings
from gateway.supervisor import Part
from gateway.together_or_alone import Fellowship

_UNINDEXED_S = 10.0


class ProofParts:
    """``encoder``: of a base model. ``tokenizers``: by base model, the kind of that. ``evidence``: what requests
    showed of an engine process. ``more``: further symptoms of the gateway as a whole.

    Close it when nothing runs any more.
    """

    def __init__(
        self,
        settings: Settings,
        pool: ReplicaPool,
        fellowship: Fellowship,
        *,
        encoder: Callable[[str], PromptEncoder | None],
        tokenizers: Callable[[], Mapping[str, str]],
        evidence: Callable[[ReplicaKey], Evidence | None],
        more: Callable[[], Iterable[Symptom]],
        clock: Callable[[], float],
    ) -> None:
        self._fellowship = fellowship
        self._clock = clock
        self.knowledge = knowledge_of(settings, pool, fellowship, encoder=encoder, clock=clock)
        self.book = FindingBook(clock)
        self._caller = ReplicaCaller(api_key=settings.replica_api_key)
        self._background = BackgroundChecks(
            self.knowledge,
            ReplicaChecks(self.knowledge, self._caller),
            self.book,
            interval_s=settings.check_interval_s,
            may_check=fellowship.may_check,
        )
        self._checks = settings.background_checks
        self._losses = fellowship.index_losses
        self._watch = Watch(
            self.knowledge,
            self.book,
            evidence=evidence,
            tokenizers=tokenizers,
            more=lambda: (*more(), *self._of_the_index()),
            suspect=self._suspect,
        )
        self.collectors: tuple[Collector, ...] = (FindingMetrics(self._in_force),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What runs in the background."""
        return (self._watch, self._background) if self._checks else (self._watch,)

    def findings(self) -> Sequence[Mapping[str, object]]:
        """For /status, the oldest first."""
        now = self._clock()
        return [
            {
                "name": finding.name,
                "replica": finding.replica_id,
                "severity": finding.severity.name.lower(),
                "detail": finding.detail,
                "mend": finding.mend,
                "since_s": round(now - since_s, 1),
            }
            for finding, since_s in self.book.standing()
        ]

    async def close(self) -> None:
        await self._caller.close()

    def _suspect(self, replica: Replica, symptoms: Collection[str]) -> None:
        if self._checks:
            self._background.suspect(replica, symptoms)

    def _in_force(self) -> Iterable[tuple[str, str]]:
        return ((finding.name, finding.replica_id) for finding, _ in self.book.standing())

    def _of_the_index(self) -> Iterable[Symptom]:
        """What became of the entries in Redis, where the index lies there."""
        before, self._losses = self._losses, self._fellowship.index_losses
        if self._losses > before:
            detail = f"entries of {self._losses - before} replicas had gone from Redis, and were written anew"
            yield Symptom("index_lost", "", detail, 0.0)
        for key in self._fellowship.unindexed():
            yield Symptom("index_lost", key.replica_id, "Redis has nothing of it", _UNINDEXED_S)


def knowledge_of(
    settings: Settings,
    pool: ReplicaPool,
    fellowship: Fellowship,
    *,
    encoder: Callable[[str], PromptEncoder | None],
    clock: Callable[[], float],
) -> Knowledge:
    """What the checks go by: the gateway's own objects."""
    return Knowledge(
        pool,
        fellowship.events,
        fellowship.memory,
        secret=lambda: fellowship.secret.value,
        encoder=encoder,
        events_wanted=settings.kv_events.mode != "off",
        clock=clock,
    )
