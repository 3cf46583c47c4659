"""Server: one vLLM HTTP server, its health and its replicas."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from gateway.fleet.breaker import Breaker
from gateway.fleet.event_source import EventSource
from gateway.fleet.model_card import ModelCard, base_card
from gateway.fleet.outcome import Outcome, Sign
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.server_spec import ServerSpec
from gateway.fleet.silence import Silence

_log = logging.getLogger(__name__)
_UNHEALTHY_AFTER = 3  # probes missed in a row: one slow answer of a busy server is no outage
_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 30.0
_TOLD = 3
_ASLEEP = "asleep"
_GIVEN_UP = (Outcome.CLIENT_GONE, Outcome.FIRST_BYTE_TIMEOUT)


class Server:
    """Healthy by its probes, which an engine asleep is not, allowed by its breaker, ready when it also is neither
    draining, held back, backing off nor stalled.

    Held back: whoever found it says that it is not ready for requests. What is known of it is kept.

    Stalled: requests of ours wait for their first byte, and for ``stall_s`` it has sent none to anybody. It gets no
    new ones, and those that wait go on waiting: a long prefill looks the same. If they leave without a byte the
    breaker opens at once, so that one request at a time finds out whether it answers again.
    """

    def __init__(
        self,
        spec: ServerSpec,
        breaker: Breaker,
        *,
        stall_s: float = 60.0,
        ended_while_draining: Callable[[Server], None] = lambda _: None,
    ) -> None:
        self.spec = spec
        self.id = spec.id
        self.breaker = breaker
        self.silence = Silence()
        self.stalls = 0  # how often the breaker opened because of one
        self._stall_s = stall_s
        self._ended_while_draining = ended_while_draining
        self.cards: tuple[ModelCard, ...] = ()
        self.replicas: list[Replica] = []
        self.event_sources: dict[int, EventSource] = {}
        self.process_start_s: float | None = None
        self.asleep = False  # its process answers, its engine serves nobody
        self.draining = False
        self.held_back = False
        self.drained = False  # draining, and nothing that ran then runs any more: kept by the pool
        self.healthy = False
        self.was_healthy = False
        self.fault = "not probed yet"
        self.refutation = ""  # why it is another server than was meant, by the last probe that could tell
        self._missed = 0
        self._resets: float | None = None  # that its process counted
        self._resets_seen = 0  # of those that it will count, by others' eyes
        self._backoff_until_s = 0.0

    def __repr__(self) -> str:
        return f"<Server {self.id} {'healthy' if self.healthy else self.fault}>"

    @property
    def namespace(self) -> str | None:
        """What its caches hold: the base model's name. ``None`` until /v1/models answered."""
        card = base_card(self.cards)
        return None if card is None else card.id

    def serves(self, model: str) -> bool:
        """Whether a request for ``model`` may go here. A server that does not tell its models may serve any."""
        return not self.cards or any(card.id == model for card in self.cards)

    def key(self, rank: int) -> ReplicaKey:
        return ReplicaKey(self.namespace or "", self.id, rank)

    @property
    def has_strangers(self) -> bool:
        """Whether its last report showed requests of others."""
        return any(replica.strangers is not None for replica in self.replicas)

    @property
    def inflight(self) -> int:
        """Requests that its replicas were given and have not finished, by whichever gateway."""
        return sum(replica.workload.inflight for replica in self.replicas)

    def is_ready(self, now: float) -> bool:
        return (
            self.healthy
            and not self.draining
            and not self.held_back
            and now >= self._backoff_until_s
            and (self.breaker.is_closed or self.breaker.allows(now))
            and not (self.silence.waiting and self.is_stalled(now))
        )

    def obstacle(self, now: float) -> str:
        """Why it is not ready, in a word or two; "": it is."""
        if not self.healthy:
            return _ASLEEP if self.asleep else "unhealthy"
        if self.draining:
            return "draining"
        if self.held_back:
            return "held back"
        if now < self._backoff_until_s:
            return "pushing back"
        if not self.breaker.allows(now):
            return f"breaker {self.breaker.state(now).replace('_', ' ')}"
        return "stalled" if self.is_stalled(now) else ""

    def is_stalled(self, now: float) -> bool:
        silence = self.silence
        return silence.waiting > 0 and silence.seconds(now) >= self._stall_s

    def trouble(self, now: float) -> tuple[bool, bool, bool]:
        """Of healthy servers that are not ready, the one with the least of it is the least bad: it merely pushes back,
        else it is held back, else stalled, else its breaker is open.
        """
        return not self.breaker.is_closed, self.is_stalled(now), self.held_back

    def probe_answered(self) -> None:
        self._missed = 0
        self._well()

    def slept(self, asleep: bool) -> None:
        """A probe that it answered read whether its engine is asleep."""
        if asleep is not self.asleep:
            self.asleep = asleep
            self._well()

    def _well(self) -> None:
        """What is asleep is well, but whatever it is sent waits until somebody wakes it."""
        self.healthy = not self.asleep
        self.was_healthy = self.was_healthy or self.healthy
        self.fault = _ASLEEP if self.asleep else ""
        self.refutation = ""

    def probe_missed(self, fault: str) -> None:
        """``fault`` says what happened, for people."""
        self._missed += 1
        self.fault = fault
        if self._missed >= _UNHEALTHY_AFTER or not self.was_healthy:
            self.healthy = False

    def refuted(self, fault: str) -> None:
        """A probe showed that it is another server than was meant: no slowness, so once is enough."""
        self.healthy = False
        self.fault = self.refutation = fault

    def reset_seen(self) -> None:
        """Its prefix cache was emptied, as was seen otherwise: its process will count that too."""
        self._resets_seen += 1

    def resets_counted(self, count: float) -> bool:
        """How often its process says that its prefix cache was emptied; whether that is news."""
        before, self._resets = self._resets, count
        if before is None or count < before:
            self._resets_seen = 0  # of those that are counted from now on
            return False
        seen = min(self._resets_seen, int(count - before))
        self._resets_seen -= seen
        return count - before > seen

    def began_anew(self, now: float) -> None:
        """Its process is another: what failed or was silent was not this one."""
        self._resets_seen = 0
        self.breaker.succeeded()
        self.silence.heard(now)

    # Attempts

    def sent(self, now: float) -> None:
        """A request of ours goes out. It is either answered or ends."""
        self.breaker.sent(now)
        self.silence.sent(now)

    def answered(self, now: float, sent_s: float) -> None:
        """The first body byte of a good answer came, of a request sent at ``sent_s``. At most once a request."""
        self.silence.answered(sent_s)
        self.silence.heard(now)

    def heard(self, now: float) -> None:
        """Bytes of answers' bodies came. Heads do not count: vLLM sends them before it computes."""
        self.silence.heard(now)

    def attempt_ended(
        self,
        outcome: Outcome,
        retry_after_s: float | None,
        now: float,
        *,
        sent_s: float,
        answered: bool,
        asked_engine: bool = True,
    ) -> None:
        """Once for each request sent. ``answered``: whether that was told of it. ``asked_engine``: whether it was one
        that a server answers only while its engine works.
        """
        if not answered:
            outcome = self._settled(outcome, now, sent_s)
        if asked_engine or outcome.sign is not Sign.LIFE:
            self._judge(outcome, now, sent_s)
        else:
            self.breaker.undecided(sent_s)
        if outcome.backs_off:
            pause_s = _BACKOFF_S if retry_after_s is None else retry_after_s
            self._backoff_until_s = now + min(max(pause_s, 0.0), _LONGEST_BACKOFF_S)
        if self.draining:
            self._ended_while_draining(self)

    def _settled(self, outcome: Outcome, now: float, sent_s: float) -> Outcome:
        """One request waits no more. Only of one that was given up on is nothing known: any other end is an answer,
        though it be 4xx, or a failure, which the breaker counts.
        """
        if outcome not in _GIVEN_UP:
            self.silence.answered(sent_s)
            return outcome
        self.silence.left(sent_s, now)
        return Outcome.ABANDONED if self.silence.seconds(now) >= self._stall_s else outcome

    def _judge(self, outcome: Outcome, now: float, sent_s: float) -> None:
        sign, breaker = outcome.sign, self.breaker
        was_closed = breaker.is_closed
        if sign is Sign.LIFE:
            breaker.succeeded()
            self.silence.heard(now)
        elif sign is Sign.NOTHING:
            breaker.undecided(sent_s)
        elif sign is Sign.FAILURE:
            breaker.failed(now, sent_s)
        else:
            breaker.trip(now)
            self.stalls += 1
        if breaker.is_closed is not was_closed:
            word = "answers again" if breaker.is_closed else f"is left alone for a while: {outcome.label}"
            _log.warning("replica %s %s", self.id, word)


def faults_of(servers: Iterable[Server]) -> str:
    """Why none of them can be sent a request, for whoever may know of them."""
    faults = [f"{server.id}: {'draining' if server.draining else server.fault}" for server in servers]
    more = f" and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
    return ("; ".join(faults[:_TOLD]) + more) or "every one was tried"
