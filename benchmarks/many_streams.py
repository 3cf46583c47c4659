"""2,000 streams at once through one gateway process on one core: errors, stalls, CPU, memory; and readers that read
nothing.

    python -m benchmarks.many_streams [--streams 2000] [--seconds 8] [--unread 50]

Every stream is a request of its own under kv_aware, with everything on, and gets an event each 50 to 100 ms for about
so many seconds. Events tell when they were written, so each is timed on its way, and the longest silence within a
stream is put beside the longest at the replica. Timing counts from half a second after the last stream began to the
first one's end; errors always count. The same streams straight to a replica come first: what clients and replicas take
by themselves, on the cores that the gateway leaves them.

Then some ask for an answer without end and read none of it: how much of it the gateway keeps. Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import httpx
import uvloop

from benchmarks.relay.load import Driver, Load
from benchmarks.relay.processes import Replicas, cpu_s, prepare, replicas, resident_mb
from benchmarks.relay.prompts import Prompts
from benchmarks.relay.proxies import KV_AWARE, await_matches, gateway_of
from benchmarks.relay.stream_reader import StreamReader, Watch
from loadtest.closed_loop import percentile
from loadtest.replica.model_folder import ModelFolder

_GAP_MS = (50, 100)
_MEAN_GAP_S = sum(_GAP_MS) / 2000
_WARM_UP = Load("warm-up", "request", 32, 1, stream=False)
_TOGETHER, _PAUSE_S = 100, 0.05  # how streams begin
_BEGUN_S = 0.5  # after the last one's first event
_LATEST_S = 10.0
_GLANCE_S = 0.05
_SETTLED_S = 2.0
_MOST_UNREAD_MB = 20.0


class Wave(NamedTuple):
    """All streams, once: ``busy`` is a share of one core; ``full_mb`` while all ran, ``after_mb`` when all had left."""

    watch: Watch
    busy: float
    steady_s: float
    before_mb: float
    full_mb: float
    after_mb: float


class Unread(asyncio.Protocol):
    """Asks, and reads nothing."""

    def __init__(self, request: bytes) -> None:
        self._request = request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.pause_reading()
        self.transport.write(self._request)


async def stream(port: int, pid: int, prompts: Prompts, streams: int, chunks: int) -> Wave:
    """Run them all, from their beginning in about a second to the last one's end."""
    loop, watch = asyncio.get_running_loop(), Watch()
    before_mb = resident_mb(pid)
    for begun in range(streams):
        if begun % _TOGETHER == 0:
            await asyncio.sleep(_PAUSE_S)
        request = prompts.request(stream=True)
        await loop.create_connection(lambda request=request: StreamReader(request, chunks, watch), "127.0.0.1", port)  # type: ignore[misc]
    await _until(lambda: watch.begun + watch.ended >= streams, "not all streams began", watch)
    await asyncio.sleep(_BEGUN_S)
    watch.is_steady = not watch.ended
    began_s, used_s = time.monotonic(), cpu_s(pid)
    await _until(lambda: watch.ended > 0, "no stream ended", watch)
    steady_s, used_s = time.monotonic() - began_s, cpu_s(pid) - used_s
    full_mb = resident_mb(pid)
    await _until(lambda: watch.ended >= streams, "not all streams ended", watch)
    await asyncio.sleep(_SETTLED_S)
    return Wave(watch, used_s / steady_s, steady_s, before_mb, full_mb, resident_mb(pid))


async def leave_unread(port: int, pid: int, prompts: Prompts, readers: int) -> tuple[float, float]:
    """How many MB the process grew by, when what is sent has settled and a while later."""
    loop, before_mb = asyncio.get_running_loop(), resident_mb(pid)
    clients = []
    for _ in range(readers):
        request = prompts.request(stream=True, user=b"flood")
        _, client = await loop.create_connection(lambda request=request: Unread(request), "127.0.0.1", port)  # type: ignore[misc]
        clients.append(client)
    grown = []
    for _ in range(2):
        await asyncio.sleep(_SETTLED_S)
        grown.append(resident_mb(pid) - before_mb)
    for client in clients:
        client.transport.abort()
    await asyncio.sleep(_SETTLED_S)
    return grown[0], grown[1]


async def _until(done: Callable[[], bool], complaint: str, watch: Watch) -> None:
    """Wait while events come."""
    came, latest_s = 0, 0.0
    while not done():
        if watch.chunks > came or not latest_s:
            came, latest_s = watch.chunks, time.monotonic() + _LATEST_S
        if time.monotonic() > latest_s:
            raise SystemExit(f"{complaint}: {watch.begun} began, {watch.ended} ended, {watch.failures[:5]}")
        await asyncio.sleep(_GLANCE_S)


def report(name: str, streams: int, wave: Wave) -> None:
    watch = wave.watch
    print(f"{name}: {streams} streams, {watch.chunks} events, {len(watch.failures)} errors, target 0")
    for failure in watch.failures[:5]:
        print(f"  {failure}")
    if watch.delays_s:
        delays_ms = [1e3 * percentile(watch.delays_s, share) for share in (0.5, 0.99, 1.0)]
        gaps_ms = (1e3 * watch.longest_gap_s, 1e3 * watch.longest_written_gap_s)
        print(f"  all at once for {wave.steady_s:.1f} s: {len(watch.delays_s) / wave.steady_s:,.0f} events/s")
        print("  an event's way: p50 {:.1f} ms, p99 {:.1f} ms, longest {:.1f} ms".format(*delays_ms))
        print("  longest silence in a stream: {:.0f} ms; the replica's own: {:.0f} ms".format(*gaps_ms))
    print(f"  CPU: {wave.busy:.0%} of one core")


def report_memory(streams: int, wave: Wave) -> None:
    memory = f"{wave.before_mb:.0f} MB before, {wave.full_mb:.0f} with all, {wave.after_mb:.0f} after"
    print(f"  memory: {memory}: {1e3 * (wave.full_mb - wave.before_mb) / streams:.1f} KB a stream")


def report_unread(readers: int, grown_mb: tuple[float, float]) -> None:
    settled_mb, later_mb = grown_mb
    missed = "" if later_mb / readers < _MOST_UNREAD_MB else "   MISSED"
    said = f"{settled_mb:.1f} MB more, {later_mb:.1f} MB after {2 * _SETTLED_S:.0f} s"
    print(
        f"{readers} that read nothing: {said}: {later_mb / readers:.2f} MB each, target < {_MOST_UNREAD_MB:g}{missed}"
    )


async def measure(behind: Replicas, port: int, pid: int, prompts: Prompts, options: argparse.Namespace) -> None:
    async with Driver(port, _WARM_UP, prompts) as driver:
        await driver.run(1.0)
    chunks = _chunks(options.seconds)
    direct = await stream(behind.ports[0], behind.pid, prompts, options.streams, chunks)
    report("straight to a replica", options.streams, direct)
    wave = await stream(port, pid, prompts, options.streams, chunks)
    report("through the gateway", options.streams, wave)
    report_memory(options.streams, wave)
    for readers in (1, options.unread):
        report_unread(readers, await leave_unread(port, pid, prompts, readers))
    if wave.watch.failures:
        raise SystemExit("there were errors")


def keep_to(pid: int, cores: set[int]) -> None:
    """Let a process, all its threads, run on these cores only."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--unread", type=int, default=50)
    options = parser.parse_args()
    prepare()
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or {last})  # before the replicas inherit it
    prompts = Prompts.short(ModelFolder())
    stream_options = ("--chunks", str(_chunks(options.seconds)), "--gap-ms", *map(str, _GAP_MS))
    with replicas(*stream_options) as behind, gateway_of(behind.ports, KV_AWARE) as gateway:
        keep_to(gateway.process.pid, {last})
        await_matches(gateway.url, prompts)
        port = httpx.URL(gateway.url).port or 0
        uvloop.run(measure(behind, port, gateway.process.pid, prompts, options))


def _chunks(seconds: float) -> int:
    return round(seconds / _MEAN_GAP_S)


if __name__ == "__main__":
    main()
