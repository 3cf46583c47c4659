"""What the edge needs of the router: a place to send a request to, and somebody to tell how it went.

Only shapes, so that the edge can be driven by any router that has them. ``gateway.router.router.Router`` is the one.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Decision
from gateway.usage import Usage


class Prepared(Protocol):
    """What is known of a request, whatever its replica."""

    @property
    def work_tokens(self) -> int:
        """Its prompt's tokens, counted or guessed."""
        ...

    @property
    def alias(self) -> str:
        """What the client calls the model, or called it when it made the response that it asks for."""
        ...


PreparedT = TypeVar("PreparedT", bound=Prepared)


class Attempt(Protocol):
    """One try at one replica, already booked. ``end`` is called whatever happens; its first call counts."""

    decision: Decision

    @property
    def server_id(self) -> str: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def pinned_rank(self) -> int | None: ...

    def first_byte(self) -> None: ...

    def responded(self, response_id: str) -> None:
        """The replica keeps a response under this id."""
        ...

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None: ...


class Routing(Protocol[PreparedT]):
    """Learns what is known of a request once, then chooses as often as it takes."""

    def prepare_now(self, request: InferenceRequest, *, strategy: str | None = None) -> PreparedT | None:
        """``None``: something has to be waited for, which :meth:`prepare` does."""
        ...

    async def prepare(self, request: InferenceRequest, *, strategy: str | None = None) -> PreparedT: ...

    def attempt(self, prepared: PreparedT, tried: frozenset[str]) -> Attempt: ...
