"""Replicas that cost as little as possible, so that what is measured is the gateway in front of them.

    python -m benchmarks.mock_replica PORT [PORT ...] [--prompts short] [--chunks 64] [--gap-ms 2 2] [--turnover 1]

One replica a port. A POST whose body says ``"stream":true`` is answered with so many server-sent events, one after each
gap (drawn between the two), every one a write of its own that tells when it was written; one of user ``flood`` with as
many bytes as the reader takes, up to ``FLOOD_BYTES``; any other with one small completion.

Each holds the beginnings of the prompts of :mod:`benchmarks.relay.prompts` and says so by KV events on ZeroMQ. With
each answer it stores some blocks and evicts as many, told once a step, as an engine would.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import deque
from itertools import takewhile
from typing import NamedTuple, cast

import httptools
import uvloop

from benchmarks.relay.prompts import MODEL, Prompts
from loadtest.replica.engine_rank import EngineRank
from loadtest.replica.kv_events import BlockRemoved, BlockStored, KVEvent
from loadtest.replica.metrics_text import metrics_text
from loadtest.replica.model_folder import ModelFolder
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.publisher import wall_clock

CHUNKS = 64
FLOOD_BYTES = 256_000_000
STAMP = b'"created":'  # in every event, before the microseconds of a clock that processes share, in 16 digits

_STEP_S = 0.01
_KEPT_BLOCKS = 2000  # of those that answers stored
_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":%016d,"model":"simulated",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
_CHUNK = b"%x\r\n%b\r\n" % (len(_EVENT % 0), _EVENT)
_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_COMPLETION = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"simulated","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,'
    b'"completion_tokens":1,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}'
)
_FLOOD_CHUNK = b"%x\r\ndata: %b\n\n\r\n" % (65_536, b"x" * (65_536 - 8))


class Timing(NamedTuple):
    """How streams go: events, and the seconds between two of them."""

    chunks: int
    least_gap_s: float
    most_gap_s: float

    def gap_s(self) -> float:
        return random.uniform(self.least_gap_s, self.most_gap_s)


class Engine:
    """One replica's cache: what it holds, what changes in it, and what it tells of both."""

    def __init__(self, folder: ModelFolder, prompts: Prompts, turnover: int) -> None:
        self._options = ReplicaOptions(capacity_blocks=20_000, buffer_steps=2_000)
        self._rank = EngineRank(self._options, 0, f"kv@{MODEL}")
        self._start_time_s = wall_clock()
        self._turnover = turnover
        self._answers = 0
        self._kept: deque[int] = deque()
        self._parent = 0
        self._held = [_held_tokens(folder, beginning.decode()) for beginning in prompts.beginnings]
        self.cached_tokens = len(self._held[0]) // self._options.block_size * self._options.block_size
        self.prompt_tokens = len(_tokens(folder, prompts.text().decode()))

    async def start(self) -> None:
        """Fill the cache, and publish from now on."""
        await self._rank.start()
        for tokens in self._held:
            self._rank.cache.serve(tokens)
            events = self._rank.cache.take_events()
            self._rank.publisher.publish(events)
            stored = next(event for event in events if isinstance(event, BlockStored))
            self._parent = cast("int", stored.block_hashes[-1])

    def answered(self) -> None:
        """Another answer: its blocks go into the next step."""
        if not self._answers and self._turnover:
            asyncio.get_running_loop().call_later(_STEP_S, self._step)
        self._answers += 1

    def page(self, path: bytes) -> bytes | None:
        """What a GET is answered; ``None``: there is no such page."""
        match path:
            case b"/health":
                return b""
            case b"/metrics":
                return metrics_text(self._options, [self._rank], self._start_time_s).encode()
            case b"/kv_event_sources":
                publisher = self._rank.publisher
                source = {"endpoint": publisher.endpoint, "replay_endpoint": publisher.replay_endpoint}
                return json.dumps({"0": {**source, "topic": publisher.topic}}).encode()
            case b"/v1/models":
                card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "root": MODEL, "parent": None}
                return json.dumps({"object": "list", "data": [{**card, "max_model_len": 131_072}]}).encode()
        return None

    def _step(self) -> None:
        events: list[KVEvent] = []
        for _ in range(self._answers * self._turnover):
            if len(self._kept) >= _KEPT_BLOCKS:
                events.append(BlockRemoved((self._kept.popleft(),)))
            self._kept.append(random.getrandbits(64))
            tokens = tuple(random.choices(range(1000), k=self._options.block_size))
            stored = (self._kept[-1],)
            events.append(BlockStored(stored, self._parent, tokens, self._options.block_size, extra_keys=(None,)))
        self._answers = 0
        self._rank.publisher.publish(events)


class MockReplica(asyncio.Protocol):
    """One connection."""

    def __init__(self, engine: Engine, timing: Timing, completion: bytes) -> None:
        self._engine = engine
        self._timing = timing
        self._completion = completion
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._body = b""
        self._path = b""
        self._flood = 0  # bytes that are still to come
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, data: bytes) -> None:
        self._body = self._body + data if self._body else data

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if self._parser.get_method() == b"GET":
            page = self._engine.page(self._path)
            self._transport.write(_plain(b"404 Not Found", b"{}") if page is None else _plain(b"200 OK", page))
            return
        self._engine.answered()
        if b'"stream":true' not in body:
            self._transport.write(self._completion)
            return
        self._transport.write(_STREAM_HEAD)
        if b'"user":"flood"' in body:
            self._flood = FLOOD_BYTES
            self._pour()
        else:
            self._loop.call_later(self._timing.gap_s(), self._tick, self._timing.chunks - 1)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pour()

    def _tick(self, left: int) -> None:
        if self._transport.is_closing():
            return
        chunk = _CHUNK % (time.monotonic_ns() // 1000)
        self._transport.write(chunk if left else chunk + _END)
        if left:
            self._loop.call_later(self._timing.gap_s(), self._tick, left - 1)

    def _pour(self) -> None:
        while self._flood > 0 and not self._paused and not self._transport.is_closing():
            self._flood -= len(_FLOOD_CHUNK)
            self._transport.write(_FLOOD_CHUNK if self._flood > 0 else _FLOOD_CHUNK + _END)


def _tokens(folder: ModelFolder, text: str) -> list[int]:
    return folder.encode(folder.render_chat([{"role": "user", "content": text}]))


def _held_tokens(folder: ModelFolder, beginning: str) -> list[int]:
    """What all prompts with a beginning have in common."""
    one, other = (_tokens(folder, f"{beginning} {ending}") for ending in ("class", "value"))
    return [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other))]


def _plain(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def _completion(engine: Engine) -> bytes:
    tokens, cached = engine.prompt_tokens, engine.cached_tokens
    return _plain(b"200 OK", _COMPLETION % (tokens, tokens + 1, cached))


async def main(options: argparse.Namespace) -> None:
    folder = ModelFolder()
    prompts = Prompts.long(folder) if options.prompts == "long" else Prompts.short(folder)
    timing = Timing(options.chunks, *(gap_ms / 1000 for gap_ms in options.gap_ms))
    loop = asyncio.get_running_loop()
    for port in options.ports:
        engine = Engine(folder, prompts, options.turnover)
        await engine.start()
        completion = _completion(engine)
        await loop.create_server(
            lambda engine=engine, completion=completion: MockReplica(engine, timing, completion),  # type: ignore[misc]
            "127.0.0.1",
            port,
            backlog=4096,
        )
    await loop.create_future()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ports", type=int, nargs="+", metavar="PORT")
    parser.add_argument("--prompts", choices=("short", "long"), default="short")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--gap-ms", type=float, nargs=2, default=(2.0, 2.0))
    parser.add_argument("--turnover", type=int, default=1, metavar="BLOCKS")
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(main(_options()))
