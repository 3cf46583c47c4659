"""ClientRequest: what a client asked, as it came, and the answer it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from uvicorn._types import ASGIReceiveCallable, HTTPScope

from gateway.edge.answer import Answer
from gateway.edge.client_protocol import take_answer
from gateway.edge.headers import Header, header, request_id
from gateway.errors import BodyTooLarge


class ClientLeftError(Exception):
    """The client's connection ended before its body did."""


class ClientRequest(NamedTuple):
    """``target``: undecoded path and query, as they go on; ``id``: safe to echo and to log."""

    method: str
    path: str
    target: bytes
    headers: Sequence[Header]
    id: str
    answer: Answer
    receive: ASGIReceiveCallable

    @classmethod
    def of(cls, scope: HTTPScope, receive: ASGIReceiveCallable) -> ClientRequest:
        headers = cast("list[Header]", scope["headers"])
        path, query = scope["raw_path"], scope["query_string"]
        target = b"%b?%b" % (path, query) if query else path
        return cls(
            scope["method"],
            path.decode("ascii"),
            target,
            headers,
            request_id(headers),
            take_answer(scope),
            receive,
        )

    async def body(self, *, max_bytes: int) -> bytes:
        """All of the body, because it is parsed for routing and may be sent twice.

        Raises ``BodyTooLarge`` as early as it is known, or ``ClientLeftError``.
        """
        declared = header(self.headers, b"content-length")
        if declared and int(declared) > max_bytes:
            raise _too_large(max_bytes)
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientLeftError
            pieces.append(message["body"])
            size += len(pieces[-1])
            if size > max_bytes:
                raise _too_large(max_bytes)
            if not message["more_body"]:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request's body is larger than {max_bytes} bytes.")
