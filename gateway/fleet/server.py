"""Server: one vLLM HTTP server, its health and its replicas."""

from __future__ import annotations

from gateway.fleet.breaker import Breaker
from gateway.fleet.event_source import EventSource
from gateway.fleet.model_card import ModelCard, base_card
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.server_spec import ServerSpec

_UNHEALTHY_AFTER = 3  # probes missed in a row: one slow answer of a busy server is no outage
_BACKOFF_S = 1.0
_LONGEST_BACKOFF_S = 30.0


class Server:
    """Healthy by its probes, allowed by its breaker, ready when it also is neither draining nor backing off."""

    def __init__(self, spec: ServerSpec, breaker: Breaker) -> None:
        self.spec = spec
        self.id = spec.id
        self.breaker = breaker
        self.cards: tuple[ModelCard, ...] = ()
        self.replicas: list[Replica] = []
        self.event_sources: dict[int, EventSource] = {}
        self.process_start_s: float | None = None
        self.draining = False
        self.healthy = False
        self.was_healthy = False
        self.fault = "not probed yet"
        self._missed = 0
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

    def is_ready(self, now: float) -> bool:
        return self.healthy and not self.draining and now >= self._backoff_until_s and self.breaker.allows(now)

    def probe_answered(self) -> None:
        self.healthy = self.was_healthy = True
        self.fault = ""
        self._missed = 0

    def probe_missed(self, fault: str) -> None:
        """``fault`` says what happened, for people."""
        self._missed += 1
        self.fault = fault
        if self._missed >= _UNHEALTHY_AFTER or not self.was_healthy:
            self.healthy = False

    def attempt_ended(
        self, outcome: Outcome, retry_after_s: float | None, now: float, sent_s: float | None = None
    ) -> None:
        """Tell breaker and back-off how an attempt here ended that was sent at ``sent_s``."""
        if outcome.is_failure:
            self.breaker.failed(now, sent_s)
        elif outcome is Outcome.OK or outcome is Outcome.CLIENT_ERROR:
            self.breaker.succeeded()
        else:
            self.breaker.undecided()
        if outcome is Outcome.BUSY or outcome is Outcome.UNAVAILABLE:
            pause_s = _BACKOFF_S if retry_after_s is None else retry_after_s
            self._backoff_until_s = now + min(max(pause_s, 0.0), _LONGEST_BACKOFF_S)
