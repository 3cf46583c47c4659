"""Every proxied route, how a good request for each looks, and who asks for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.edge.routes import INFERENCE
from tests.end_to_end.at_rest import at_rest
from tests.end_to_end.street import Street, street
from tests.fakes.raw_client import RawAnswer, RawClient, post
from tests.fakes.scripted_server import RecordedRequest, Script

PATHS = [path for paths in INFERENCE.values() for path in paths.split()]
UPLOADS = INFERENCE["audio"].split()
KEY = b"authorization: Bearer sk-right\r\n"


def a_body(path: str, model: str = "real", *, stream: bool = False) -> tuple[bytes, bytes]:
    """Content type and bytes."""
    if path in UPLOADS:
        parts = [b'name="model"\r\n\r\n' + model.encode(), b'name="file"; filename="a.wav"\r\n\r\n\x00\xff--\r\n']
        body = b"".join(b"--cut\r\ncontent-disposition: form-data; %b\r\n" % part for part in parts)
        return b"multipart/form-data; boundary=cut", body + b"--cut--\r\n"
    asked = {"model": model, "messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x"}
    return b"application/json", json.dumps(asked | {"stream": stream}).encode()


class Asker:
    """Who asks one route of a gateway. ``heard``: what the replicas were sent since it was made."""

    def __init__(self, built: Street, path: str) -> None:
        self.built = built
        self.path = path
        self._heard_before = {name: engine.heard for name, engine in built.engines.items()}

    def request(
        self, *, model: str = "real", stream: bool = False, headers: bytes = b"", key: bytes = KEY, target: str = ""
    ) -> bytes:
        content_type, body = a_body(self.path, model, stream=stream)
        lines = b"content-type: %b\r\n%b%b" % (content_type, key, headers)
        return post(body, path=target or self.path, headers=lines)

    async def ask(self, request: bytes = b"", *cues: Script) -> RawAnswer:
        """The answer. ``cues``: what replicas play for it, the others' turns come after."""
        self.built.cues.extend(cues)
        async with self.client() as client:
            return await client.ask(request or self.request())

    def client(self) -> RawClient:
        return RawClient(self.built.gateways[0].edge.port)

    @property
    def heard(self) -> list[RecordedRequest]:
        engines = self.built.engines.items()
        return [each for name, engine in engines for each in engine.requests_after(self._heard_before[name])]


@asynccontextmanager
async def matrix(strategy: str, **settings: str) -> AsyncIterator[Street]:
    """A gateway that wants the key, knows an alias and may retry as often as it likes; at the end it is at rest."""
    given = {"api_keys": "tester=sk-right", "receipt": "all", "model_aliases": "nick=real", "retry_budget": "1"}
    async with street(strategy=strategy, **given | settings) as built:
        yield built
        assert not built.cues
        await at_rest(built.gateways[0])
