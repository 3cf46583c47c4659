"""An admission whose time is moved by hand, and requests that remember what they were told."""

from __future__ import annotations

from collections.abc import Callable

from gateway.edge.admission import Admission, Ticket
from gateway.errors import GatewayError

TIMEOUT_S = 30.0


class Time:
    """A clock and its timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.timers.append((self.now + delay_s, callback))

    def pass_by(self, seconds: float) -> None:
        """Every timer rings at its time."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= end]:
            timer = min(due, key=lambda timer: timer[0])
            self.timers.remove(timer)
            self.now = max(self.now, timer[0])
            timer[1]()
        self.now = end


class Request:
    """Remembers what it was told."""

    def __init__(self, name: object = "", told: list[object] | None = None) -> None:
        self.name = name
        self.told = [] if told is None else told
        self.error: GatewayError | None = None

    def admitted(self, ticket: Ticket) -> None:
        self.told.append(self.name)

    def expired(self, error: GatewayError) -> None:
        self.error = error
        self.told.append(("expired", self.name))


def an_admission(
    time: Time,
    *,
    inflight: int | None = None,
    tokens: int | None = None,
    queue: int = 1000,
    queue_tokens: int | None = None,
) -> Admission:
    return Admission(
        max_inflight=inflight,
        max_inflight_tokens=tokens,
        max_queue=queue,
        max_queue_tokens=queue_tokens,
        queue_timeout_s=TIMEOUT_S,
        clock=time,
        call_later=time.call_later,
    )


def enter(admission: Admission, name: object, told: list[object], tokens: int = 1, priority: int = 0) -> Ticket:
    request = Request(name, told)
    return admission.enter(tokens, priority, request.admitted, request.expired)
