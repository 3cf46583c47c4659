"""A replica that answers every route of vLLM: it says what it was sent, and keeps responses as vLLM keeps them."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

from tests.fakes.scripted_fake import ScriptedFake
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    RecordedRequest,
    Script,
    Wire,
    answer,
    chunk,
)

_PAGES = {"/health": b"", "/v1/models": b'{"object": "list", "data": [{"id": "real", "max_model_len": 4096}]}'}


class AnyEngine(ScriptedFake):
    """``async with AnyEngine("a") as engine``. ``model`` is what its answers call it, and all that it serves.

    ``going_on``: unset it to hold a stream after its first event. ``cues``: what is played in the place of the next
    answers; engines may share them, so that whichever is asked plays.
    """

    def __init__(self, name: str, model: str = "real", cues: deque[Script] | None = None) -> None:
        super().__init__(self._answer)
        self.name = name
        self.cues: deque[Script] = deque() if cues is None else cues
        self.going_on = asyncio.Event()
        self.going_on.set()
        self._model = model
        self._stored: dict[str, str] = {}

    @property
    def requests(self) -> list[RecordedRequest]:
        """Those that came through the edge, which gives each an id; not the probes'."""
        return self.requests_after(0)

    def requests_after(self, number: int) -> list[RecordedRequest]:
        """The same, without the first so many of all that came."""
        return [request for request in self._server.requests[number:] if request.values("x-request-id")]

    @property
    def heard(self) -> int:
        """How many came, probes too."""
        return len(self._server.requests)

    async def _answer(self, wire: Wire) -> None:
        if self.cues and wire.request.values("x-request-id"):
            await self.cues.popleft()(wire)
            return
        method, target, _ = wire.request.line.decode().split(" ")
        path = target.partition("?")[0]
        if method == "GET" and path in _PAGES:
            await wire.send(answer(_PAGES[path].replace(b"real", self._model.encode())))
        elif path.startswith("/v1/responses") and not path.endswith("/render"):
            await self._respond(wire, method, path)
        elif _field(wire.request.body, "stream"):
            await self._stream(wire, [{"echo": target, "model": self._model}, {"model": self._model, "usage": None}])
        else:
            body = wire.request.body.decode("latin-1")
            said = {"by": self.name, "method": method, "target": target, "body": body, "model": self._model}
            await wire.send(answer(json.dumps(said).encode()))

    async def _respond(self, wire: Wire, method: str, path: str) -> None:
        asked = path.removesuffix("/cancel").removeprefix("/v1/responses").strip("/")
        asked = asked or _field(wire.request.body, "previous_response_id") or ""
        if asked and asked not in self._stored:
            error = {"message": "Response not found.", "type": "invalid_request_error", "code": 404}
            await wire.send(answer(json.dumps({"error": error}).encode(), status="404 Not Found"))
            return
        if path == "/v1/responses":
            asked = f"resp_{self.name}{len(self._stored)}"
            self._stored[asked] = "in_progress"
        elif path.endswith("/cancel"):
            self._stored[asked] = "cancelled"
        response = {"id": asked, "status": self._stored[asked], "model": self._model, "by": self.name}
        if _field(wire.request.body, "stream"):
            kinds = ("response.created", "response.completed")
            await self._stream(wire, [{"response": response, "type": kind} for kind in kinds])
        else:
            await wire.send(answer(json.dumps(response).encode()))

    async def _stream(self, wire: Wire, events: list[dict[str, Any]]) -> None:
        """Each event in two pieces."""
        await wire.send(SSE_HEAD)
        for event in events:
            data = b"data: %b\n\n" % json.dumps(event).encode()
            await wire.send(chunk(data[:-15]), chunk(data[-15:]))
            await self.going_on.wait()
        await wire.send(LAST_CHUNK)


def _field(body: bytes, name: str) -> Any:
    try:
        return json.loads(body).get(name)
    except ValueError:
        return None
