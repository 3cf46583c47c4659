"""A replica that keeps answering badly, in every way that a wire knows, by chance; it dies and comes back."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Self

from tests.fakes.scripted_fake import ScriptedFake
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    Script,
    Wire,
    answer,
    chunk,
    plays,
    plays_and_closes,
    plays_and_resets,
)

HELD = b"please hold"  # in a request: nothing comes, until the client leaves
LONG = b"please be long"  # in a request: more than all buffers take

_EVENT = chunk(b'data: {"choices": [{"delta": {"content": "hello"}}], "model": "real"}\n\n')
_PLAIN = answer(
    b'{"choices": [{"message": {"content": "hello"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}'
)
_BUSY = answer(b'{"error": {"message": "busy"}}', status="429 Too Many Requests", headers=b"retry-after: 0\r\n")
_AWAY = answer(b"", status="503 Service Unavailable", headers=b"retry-after: 0\r\n")
_PIECE = chunk(b"data: " + b"x" * 65_000 + b"\n\n")

#: How an answer goes, and how often among a hundred.
_MOODS: dict[Script, int] = {
    plays(SSE_HEAD, _EVENT, _EVENT, _EVENT, chunk(b"data: [DONE]\n\n"), LAST_CHUNK): 35,
    plays(_PLAIN): 35,
    plays_and_closes(_PLAIN): 4,  # though it did not say so
    plays(_BUSY): 4,
    plays(_AWAY): 3,
    plays(answer(b"{}", status="400 Bad Request")): 3,
    plays(answer(b"{}", status="500 Internal Server Error")): 2,
    plays_and_resets(): 2,
    plays_and_closes(): 2,
    plays_and_closes(SSE_HEAD): 1,
    plays_and_resets(SSE_HEAD, _EVENT, _EVENT): 2,
    plays_and_closes(SSE_HEAD, _EVENT, b"5\r\nda"): 2,
    plays_and_closes(_PLAIN[:-9]): 2,
    plays_and_closes(b"garbage\r\n\r\n"): 1,
    plays(SSE_HEAD, b"zz\r\n"): 1,
    plays(_PLAIN + b"and more"): 1,
}


class MoodyReplica(ScriptedFake):
    """``async with MoodyReplica(seed) as replica``. Probes are answered well while it lives."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._answer)
        self._rng = Random(seed)
        self.alive = False

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.alive = True
        return self

    def kill(self) -> None:
        """Connections are reset, and new ones refused."""
        if self.alive:
            self.alive = False
            super().kill()

    async def revive(self) -> None:
        """Listen again."""
        if not self.alive:
            self.alive = True
            await self._server.listen()

    def forget(self) -> None:
        """What came so far, so that a test may count what lives."""
        self._server.requests.clear()
        self._server.wires.clear()

    async def _answer(self, wire: Wire) -> None:
        path = wire.request.line.split()[1]
        if path == b"/v1/models":
            await wire.send(answer(b'{"data": [{"id": "real", "max_model_len": 4096}]}'))
        elif wire.request.line.startswith(b"GET"):
            await wire.send(answer(b"", status="200 OK" if path == b"/health" else "404 Not Found"))
        elif HELD in wire.request.body:
            await wire.until_gone()
        elif LONG in wire.request.body:
            await wire.send(SSE_HEAD, *[_PIECE] * 40, LAST_CHUNK)
        else:
            (mood,) = self._rng.choices(list(_MOODS), list(_MOODS.values()))
            await mood(wire)
            await asyncio.sleep(0)
