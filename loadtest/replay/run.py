"""Run: a trace through one strategy and a simulated fleet. Deterministic but for ``decide_s``, which is real time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from time import perf_counter

from gateway.kv.tiers import Tier
from loadtest import rivals
from loadtest.replay.agenda import Agenda
from loadtest.replay.chooser import Asked, Chooser, Ticket
from loadtest.replay.engine import Engine, Job
from loadtest.replay.lower_tier import LowerTier
from loadtest.replay.outcome import Outcome, QueueSample, Served
from loadtest.replay.own_chooser import OwnChooser
from loadtest.replay.rival_chooser import RivalChooser
from loadtest.replay.scenario import Scenario
from loadtest.replay.trace import Session, Trace

_QUEUE_SAMPLES = 200
_RIVAL = "rival:"


def replay(
    trace: Trace,
    scenario: Scenario,
    strategy: str,
    *,
    options: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Outcome:
    """Play ``trace``, which is at its load already, to its end.

    ``strategy``: a name of :mod:`router_strategies`, or ``rival:`` and one of :mod:`loadtest.rivals`; ``options`` are
    its own. ``seed``: of ties, of who is streamed, and of the gateway that a request goes to. Raises ``ValueError``.
    """
    run = _Run(trace, scenario, strategy, options or {}, seed)
    run.agenda.run()
    served = sorted(run.served, key=lambda row: row[0])
    return Outcome(
        strategy, trace.name, seed, [row for _, row in served], run.queues, run.decisions, run.decide_s, run.errors
    )


class _Run:
    """One run under way."""

    def __init__(
        self, trace: Trace, scenario: Scenario, strategy: str, options: Mapping[str, object], seed: int
    ) -> None:
        self.agenda = Agenda()
        self.served: list[tuple[int, Served]] = []
        self.queues: list[QueueSample] = []
        self.decisions = self.errors = 0
        self.decide_s = 0.0
        self._scenario = scenario
        self._random = Random(f"{seed} of {trace.name}")
        self._events: deque[tuple[float, int, Tier, Sequence[int], Sequence[int]]] = deque()
        storage = LowerTier(scenario.engine.l2_blocks)
        self._engines = [
            Engine(
                number,
                scenario.engine,
                block_tokens=trace.block_tokens,
                speed=scenario.speed(number),
                agenda=self.agenda,
                storage=storage,
                publish=self._published,
            )
            for number in range(scenario.replicas)
        ]
        self._gateways = [self._gateway(strategy, options, trace, seed + number) for number in range(scenario.gateways)]
        self._asked = 0
        self._plan(trace)

    def _gateway(self, strategy: str, options: Mapping[str, object], trace: Trace, seed: int) -> Chooser:
        if not strategy.startswith(_RIVAL):
            return OwnChooser(
                strategy,
                options,
                self._scenario,
                block_tokens=trace.block_tokens,
                agenda=self.agenda,
                engines=self._engines,
                seed=seed,
            )
        rival = rivals.load(strategy.removeprefix(_RIVAL), {"seed": seed, **options})
        return RivalChooser(
            rival, self._scenario, block_tokens=trace.block_tokens, agenda=self.agenda, engines=self._engines
        )

    def _plan(self, trace: Trace) -> None:
        first_s, last_s = trace.sessions[0].begins_s, trace.sessions[-1].begins_s
        span_s = last_s - first_s
        joining = {change.replica for change in self._scenario.changes if change.joins}
        for number in range(self._scenario.replicas):
            if number not in joining:
                self._join_or_leave(number, joins=True)
        for change in self._scenario.changes:
            self.agenda.at(
                first_s + change.at * span_s,
                lambda change=change: self._join_or_leave(change.replica, joins=change.joins),  # type: ignore[misc]
            )
        for sample in range(_QUEUE_SAMPLES):
            self.agenda.at(first_s + span_s * sample / _QUEUE_SAMPLES, self._sample_queues)
        for session in trace.sessions:
            self._plan_turn(session, 0, session.begins_s)

    def _join_or_leave(self, number: int, *, joins: bool) -> None:
        for gateway in self._gateways:
            (gateway.joined if joins else gateway.left)(number)

    def _sample_queues(self) -> None:
        self.queues.append(QueueSample(self.agenda.now, [engine.queued_tokens for engine in self._engines]))

    # Requests

    def _plan_turn(self, session: Session, number: int, after_s: float) -> None:
        if number < len(session.turns):
            self.agenda.at(after_s + session.turns[number].think_s, lambda: self._ask(session, number))

    def _ask(self, session: Session, number: int) -> None:
        turn = session.turns[number]
        streamed = self._scenario.streamed >= 1 or self._random.random() < self._scenario.streamed
        asked = Asked(self._asked, turn, session.key, streamed)
        self._asked += 1
        gateway = self._gateways[0]
        if len(self._gateways) > 1:
            gateway = self._random.choice(self._gateways)
        self._hear_events()
        began = perf_counter()
        ticket = gateway.choose(asked)
        self.decide_s += perf_counter() - began
        self.decisions += 1
        if ticket is None:
            self.errors += 1
            self._plan_turn(session, number + 1, self.agenda.now)
        else:
            self._send(session, number, asked, ticket)

    def _send(self, session: Session, number: int, asked: Asked, ticket: Ticket) -> None:
        arrived_s, engine = self.agenda.now, self._engines[ticket.replica]
        first_token_s = 0.0

        def first_token() -> None:
            nonlocal first_token_s
            first_token_s = self.agenda.now
            if asked.streamed:
                ticket.first_token()

        def finished() -> None:
            if not asked.streamed:
                ticket.first_token()
            ticket.ended(job.cached_tokens)
            self.served.append((asked.number, _served(job, engine, arrived_s, first_token_s, self.agenda.now)))
            self._plan_turn(session, number + 1, self.agenda.now)

        job = Job(asked.turn, first_token, finished)
        engine.submit(job)

    # KV events

    def _published(self, number: int, tier: Tier, stored: Sequence[int], removed: Sequence[int]) -> None:
        self._events.append((self.agenda.now + self._scenario.event_delay_s, number, tier, stored, removed))

    def _hear_events(self) -> None:
        """Gateways hear of them when it matters: before they choose."""
        events, now = self._events, self.agenda.now
        while events and events[0][0] <= now:
            _, number, tier, stored, removed = events.popleft()
            for gateway in self._gateways:
                gateway.heard(number, tier, stored, removed)


def _served(job: Job, engine: Engine, arrived_s: float, first_token_s: float, finished_s: float) -> Served:
    return Served(
        arrived_s=arrived_s,
        first_token_s=first_token_s,
        finished_s=finished_s,
        replica=engine.number,
        prompt_tokens=job.turn.prompt_tokens,
        output_tokens=job.turn.output_tokens,
        l0_tokens=job.l0_tokens,
        l1_tokens=job.l1_tokens,
        l2_tokens=job.l2_tokens,
        alone_s=engine.alone_s(job),
    )
