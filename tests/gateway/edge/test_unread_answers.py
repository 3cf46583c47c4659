"""A client that stops reading its answers: it is given time, and then its place."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import pytest

from gateway.edge.client_request import ClientRequest
from gateway.edge.tls import TlsFiles
from tests.fakes.raw_client import RawClient, get
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, ScriptedServer, Wire, chunk
from tests.fakes.stand_in_handler import TLS, StandInHandler, serving
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import running_edge

PIECE, PIECES = b"x" * 200_000, 100  # together more than the system's buffers at both ends


class Pouring:
    """Sends as long as the client takes it: as a replica does."""

    def __init__(self, request: ClientRequest) -> None:
        self._answer = request.answer
        self._paused = False
        self._answer.start(200, [], has_length=False)
        self._answer.watch(self)
        self._pour()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._pour()

    def _pour(self) -> None:
        while not self._paused and self._answer.body_bytes < len(PIECE) * PIECES:
            self._answer.send(PIECE, last=False)


def begin(request: ClientRequest) -> None:
    Pouring(request)


def whole(request: ClientRequest) -> None:
    request.answer.respond(200, PIECE * PIECES)


def last(request: ClientRequest) -> None:
    request.answer.end_connection()
    whole(request)


def broken_off(request: ClientRequest) -> None:
    begin(request)
    request.answer.truncate()


def contexts(tls: bool) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """The server's and the client's."""
    if not tls:
        return None, None
    certificate = TLS / "certificate.pem"
    return TlsFiles(certificate, TLS / "key.pem").context, ssl.create_default_context(cafile=str(certificate))


@pytest.mark.parametrize(
    ("answers", "gone", "tls"),
    [(whole, 0, False), (last, 0, False), (broken_off, 0, False), (begin, 1, False), (begin, 1, True)],
)
async def test_who_takes_nothing_is_taken_to_have_left(
    answers: Callable[[ClientRequest], None], gone: int, tls: bool
) -> None:
    """In the middle of an answer, which hears of it, or with the rest of one in the buffer."""
    handler = StandInHandler(answers)
    ours, theirs = contexts(tls)
    async with (
        serving(handler, tls=ours, send_timeout_s=0.1) as server,
        RawClient(server.port, tls=theirs) as client,
    ):
        await client.send(get("/x"))
        await eventually(lambda: handler.served)
        await eventually(lambda: server.connections == 0)
        assert len(handler.gone) == gone


@pytest.mark.parametrize("more", [get("/x"), b"POST /x HTTP/1.1\r\n", b"x"])
async def test_what_it_sends_meanwhile_does_not_help(more: bytes) -> None:
    """It is what it takes that counts."""
    handler = StandInHandler(whole)
    async with serving(handler, send_timeout_s=0.1) as server, RawClient(server.port) as client:
        await client.send(get("/x"))
        await eventually(lambda: handler.served)

        def ended() -> bool:
            if not client.writer.is_closing():
                client.writer.write(more)
            return server.connections == 0

        await eventually(ended)


async def test_a_client_that_says_that_it_has_left_and_does_not_read_is_closed() -> None:
    """Half of a connection is no reason to keep the other."""
    handler = StandInHandler(begin)
    async with serving(handler, send_timeout_s=0.1) as server, RawClient(server.port) as client:
        await client.send(get("/x"))
        await eventually(lambda: handler.served)
        client.half_close()
        await eventually(lambda: server.connections == 0)


async def test_who_waits_for_an_answer_may_wait() -> None:
    """What has not been written cannot be taken."""
    handler = StandInHandler(lambda request: None if request.path == "/slow" else whole(request))
    async with (
        serving(handler, send_timeout_s=0.05) as server,
        RawClient(server.port) as patient,
        RawClient(server.port) as witness,
    ):
        await patient.send(get("/slow"))
        await eventually(lambda: handler.served)
        await witness.send(get("/x"))
        await eventually(lambda: server.connections == 1)  # so much time has passed
        handler.served[0].answer.respond(200, b"at last")
        assert (await patient.answer()).body == b"at last"


async def test_its_place_and_its_replica_are_free_again() -> None:
    """As if it had left: that is what the record says."""

    async def streams(wire: Wire) -> None:
        await wire.send(SSE_HEAD, *[chunk(PIECE)] * PIECES, LAST_CHUNK)

    async with (
        ScriptedServer(streams) as server,
        running_edge(server.origin, send_timeout_s=0.1) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{}")
        await eventually(lambda: edge.exchanges)
        assert (edge.exchanges[0].outcome, edge.exchanges[0].status) == ("client_gone", 200)
        assert (edge.admission.inflight, edge.upstream.busy) == (0, 0)
