"""ScriptedFake: a server of one answerer, there inside its block; what fakes of engines and of others rest on."""

from __future__ import annotations

import ssl
from typing import Self

from tests.fakes.scripted_server import Script, ScriptedServer


class ScriptedFake:
    """``answer``: every request."""

    def __init__(self, answer: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self._server = ScriptedServer(answer, tls=tls)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def url(self) -> str:
        return self._server.origin.url

    def kill(self) -> None:
        """Nothing listens there any more, and what was open is reset."""
        self._server.kill()
