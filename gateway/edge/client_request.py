"""ClientRequest: what a client asked, as it came, and the answer it waits for. RequestHandler: who answers it."""

from __future__ import annotations

from typing import Protocol

from gateway.edge.answer import Answer
from gateway.edge.auth import Client
from gateway.edge.fields import Header
from gateway.edge.routes import Route
from gateway.errors import BodyTooLarge, GatewayError


class ClientRequest:
    """One request. Its head is in when it is made; ``body`` is empty until all of it is, and then ``complete``.

    ``id``, ``client`` and ``route`` are the handler's to say, and a limit of its own (:meth:`limit_body`).
    """

    __slots__ = (
        "answer",
        "body",
        "client",
        "complete",
        "declared_bytes",
        "fields",
        "headers",
        "id",
        "max_body_bytes",
        "method",
        "path",
        "route",
        "target",
    )

    def __init__(
        self, method: str, target: bytes, headers: list[Header], fields: dict[bytes, bytes], answer: Answer
    ) -> None:
        """``target``: path and query as the client wrote them; ``fields``: each header's first value by its lower-case
        name.
        """
        self.method = method
        self.target = target
        self.path = target.partition(b"?")[0].decode("latin-1")  # undecoded otherwise
        self.headers = headers  # in order, as they came
        self.fields = fields
        self.answer = answer
        length = fields.get(b"content-length")
        self.declared_bytes = None if length is None else int(length)  # None: no body, or chunks
        self.body = b""
        self.complete = False
        self.max_body_bytes: int | None = None  # None: as every request's
        self.id = ""
        self.client: Client | None = None
        self.route: Route | None = None

    @property
    def expects_continue(self) -> bool:
        """Whether the client holds the body back until it is told to go on (RFC 9110 section 10.1.1)."""
        return self.header(b"expect").lower() == b"100-continue" and not self.answer.old

    def limit_body(self, max_bytes: int) -> None:
        """Let its body be no larger. Raises ``BodyTooLarge`` if it is known to be."""
        self.max_body_bytes = max_bytes
        if max(len(self.body), self.declared_bytes or 0) > max_bytes:
            raise body_too_large(max_bytes)

    def header(self, name: bytes) -> bytes:
        """The first value of ``name`` (lower case); empty if it is absent."""
        return self.fields.get(name, b"")


def body_too_large(limit: int) -> BodyTooLarge:
    """What a body of more than ``limit`` bytes is refused with."""
    return BodyTooLarge(f"The request's body is larger than {limit} bytes.")


class RequestHandler(Protocol):
    """Who answers the requests of all connections. Of those of one connection there is one at a time."""

    @property
    def max_body_bytes(self) -> int: ...

    def begin(self, request: ClientRequest) -> None:
        """The head is in; the body may follow. Raises ``GatewayError`` to refuse it unread."""

    def serve(self, request: ClientRequest) -> None:
        """The whole request is in. Answers now or later through ``request.answer``, and raises nothing."""

    def refuse(self, request: ClientRequest, error: GatewayError) -> None:
        """Answer with an error of ours. The request has begun, or :meth:`begin` refused it; it may be incomplete."""

    def unreadable(self, error: GatewayError, /) -> None:
        """Bytes that are no request were refused; there is no more to do than to count it."""

    def stop(self) -> None:
        """Break off everything that is under way, and say so where that is possible."""
