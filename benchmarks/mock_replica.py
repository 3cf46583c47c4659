"""A replica that costs as little as possible, so that what is measured is the gateway in front of it.

    python -m benchmarks.mock_replica PORT

A POST whose body says ``"stream": true`` is answered with ``CHUNKS`` server-sent events, one each
``GAP_S``, every one a write of its own; any other with one small completion.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import httptools
import uvloop

CHUNKS = 64
GAP_S = 0.002

_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
_CHUNK = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_COMPLETION = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}'
)
_PLAIN = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_COMPLETION) + _COMPLETION
)


class MockReplica(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if b'"stream":true' in body.replace(b" ", b""):
            self._transport.write(_STREAM_HEAD)
            self._loop.call_later(GAP_S, self._tick, CHUNKS - 1)
        else:
            self._transport.write(_PLAIN)

    def _tick(self, left: int) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(_CHUNK if left else _CHUNK + _END)
        if left:
            self._loop.call_later(GAP_S, self._tick, left - 1)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(MockReplica, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
