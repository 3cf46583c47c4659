"""What one relayed request, and one relayed chunk, costs in CPU time: the whole gateway under two strategies, its edge
alone, and HAProxy where that is installed.

    python -m benchmarks.relay_cost [--rounds 5] [--seconds 3]

Every proxy gets the same load in turn, round by round. What counts is the user and system time of its
process, so the figures hold on a busy machine better than throughput does. Compare ratios within one run
only. Linux (reads /proc).

    post    us per plain request, 32 connections
    stream  us per chunk, 64 connections, 64 chunks an answer, one each 2 ms
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import httptools
import httpx
import uvloop

from benchmarks.mock_replica import CHUNKS
from loadtest.replica.model_folder import DEFAULT_FOLDER

_HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option http-no-delay
frontend in
  bind 127.0.0.1:{port}
  default_backend out
backend out
  http-reuse always
  server replica 127.0.0.1:{replica_port}
"""


class Load(NamedTuple):
    """``per``: what one answer counts for."""

    name: str
    unit: str
    connections: int
    per: int
    stream: bool

    def request(self) -> bytes:
        words = b"hello world " * 20
        body = b'{"model":"m","stream":%b,"messages":[{"role":"user","content":"%b"}]}' % (
            b"true" if self.stream else b"false",
            words,
        )
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n"
        return head + b"content-length: %d\r\n\r\n" % len(body) + body


LOADS = (Load("post", "request", 32, 1, stream=False), Load("stream", "chunk", 64, CHUNKS, stream=True))


class Client(asyncio.Protocol):
    """Asks again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() != 200:
            raise SystemExit(f"answered {self._parser.get_status_code()}")
        self.answers += 1
        self.transport.write(self._request)


async def drive(port: int, load: Load, seconds: float) -> int:
    """Keep ``load`` on a port for so long; how many answers came."""
    loop = asyncio.get_running_loop()
    request = load.request()
    opening = [loop.create_connection(lambda: Client(request), "127.0.0.1", port) for _ in range(load.connections)]
    clients = [client for _, client in await asyncio.gather(*opening)]
    await asyncio.sleep(seconds)
    for client in clients:
        client.transport.abort()
    await asyncio.sleep(0.1)
    return sum(client.answers for client in clients)


def cpu_s(pid: int) -> float:
    """User and system time of a process (proc(5): fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast("int", probe.getsockname()[1])


@contextmanager
def running(*command: str, port: int, settings: Mapping[str, str] | None = None) -> Iterator[int]:
    """The process of a command that listens on a port, once it does."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **(settings or {})})
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {process.returncode}")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def measure(pid: int, port: int, load: Load, seconds: float) -> float:
    """Microseconds of CPU per unit."""
    before = cpu_s(pid)
    answers = uvloop.run(drive(port, load, seconds))
    return 1e6 * (cpu_s(pid) - before) / max(1, answers * load.per)


def settings_of(strategy: str, port: int, replica_port: int) -> dict[str, str]:
    """The whole gateway as a user runs it, access log and metrics included."""
    return {
        "PREFIXWAY_LISTEN": f"127.0.0.1:{port}",
        "PREFIXWAY_METRICS_LISTEN": "127.0.0.1:0",
        "PREFIXWAY_ADMIN_LISTEN": "127.0.0.1:0",
        "PREFIXWAY_REPLICAS": f"a=http://127.0.0.1:{replica_port},b=http://127.0.0.1:{replica_port}",
        "PREFIXWAY_STRATEGY": strategy,
        "PREFIXWAY_TOKENIZER": str(DEFAULT_FOLDER),
        "PREFIXWAY_LOG_LEVEL": "error",
    }


def until_answered(port: int, load: Load) -> None:
    """Return when a request is answered with 200: the gateway has met its replicas."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    body = load.request().partition(b"\r\n\r\n")[2]
    while httpx.post(url, content=body, trust_env=False, timeout=10).status_code != 200:
        time.sleep(0.1)


def report(load: Load, figures: dict[str, list[float]]) -> None:
    first = next(iter(figures))
    base = statistics.median(figures[first])
    for name, values in figures.items():
        median = statistics.median(values)
        spread = f"({min(values):.1f} .. {max(values):.1f})"
        print(f"{load.name:8}{name:12}{median:7.1f} us per {load.unit}  this/{first} {median / base:5.2f}  {spread}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        replica_port = free_port()
        stack.enter_context(
            running(sys.executable, "-m", "benchmarks.mock_replica", str(replica_port), port=replica_port)
        )
        proxies = {"edge": free_port()}
        command: tuple[str, ...] = (
            sys.executable,
            "-m",
            "benchmarks.bare_edge",
            str(proxies["edge"]),
            str(replica_port),
        )
        pids = {"edge": stack.enter_context(running(*command, port=proxies["edge"]))}
        for strategy in ("round_robin", "kv_aware"):
            port = proxies[strategy] = free_port()
            settings = settings_of(strategy, port, replica_port)
            command = (sys.executable, "-m", "gateway", "serve")
            pids[strategy] = stack.enter_context(running(*command, port=port, settings=settings))
            until_answered(port, LOADS[0])
        if shutil.which("haproxy"):
            port = proxies["haproxy"] = free_port()
            config = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "haproxy.cfg"
            config.write_text(_HAPROXY.format(port=port, replica_port=replica_port))
            pids["haproxy"] = stack.enter_context(running("haproxy", "-f", str(config), "-db", port=port))
        for load in LOADS:
            figures: dict[str, list[float]] = {name: [] for name in proxies}
            for _ in range(options.rounds):
                for name, port in proxies.items():
                    figures[name].append(measure(pids[name], port, load, options.seconds))
            report(load, figures)


if __name__ == "__main__":
    main()
