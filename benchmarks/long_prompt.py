"""What the gateway adds to a request with an 8,000-token prompt, 7,500 tokens of which its replicas hold.

    python -m benchmarks.long_prompt [--requests 300]

One request after the other, each with words of its own at the end, in turn straight to a replica and through the whole
gateway under kv_aware, which tokenizes and hashes the prompt, matches it and chooses. The replica answers at once, so
the difference of the two is the gateway's part, carrying 48 KB twice included; ``gateway_ms`` is what its access log
says of the time from the request's last byte to the choice. Linux.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from collections.abc import Sequence

import httpx

from benchmarks.relay.processes import prepare, replicas
from benchmarks.relay.prompts import Prompts
from benchmarks.relay.proxies import KV_AWARE, await_matches, gateway_of
from loadtest.closed_loop import percentile
from loadtest.replica.model_folder import ModelFolder
from tests.running_gateway import RunningGateway

_WARM_UP = 30
_MOST_ADDED_MS = 2.0


class Asker:
    """One kept connection; the least of an HTTP client, so that little but the answer is waited for."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = b""

    def ask(self, request: bytes) -> float:
        """Milliseconds from its first byte to the last one of its answer, which is short. Fails unless it is 200."""
        began_s = time.perf_counter()
        self._socket.sendall(request)
        self.head, body = self._read_head()
        length = int(self.head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += self._receive()
        ms = (time.perf_counter() - began_s) * 1e3
        if b" 200 " not in self.head.partition(b"\r\n")[0]:
            raise SystemExit(f"answered {self.head!r}")
        return ms

    def close(self) -> None:
        self._socket.close()

    def _read_head(self) -> tuple[bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        return head, body

    def _receive(self) -> bytes:
        if not (data := self._socket.recv(65_536)):
            raise SystemExit("a connection was closed")
        return data


def alternate(replica: Asker, gateway: Asker, prompts: Prompts, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each, in turn. Fails if the gateway once matched nothing."""
    direct, through = [], []
    for _ in range(times):
        direct.append(replica.ask(prompts.request(stream=False)))
        through.append(gateway.ask(prompts.request(stream=False)))
        if b",l0=" not in gateway.head or b",l0=0" in gateway.head:
            raise SystemExit(f"an answer was not matched: {gateway.head!r}")
    return direct, through


def logged_ms(gateway: RunningGateway, times: int) -> list[float]:
    """``gateway_ms`` of the last lines, once all of them are written: those before are of the warm-up."""
    lines: list[str] = []

    def complete() -> bool:
        lines[:] = gateway.access_log.read_text().splitlines()
        return len(lines) >= times + _WARM_UP

    gateway.wait(complete)
    return [json.loads(line)["gateway_ms"] for line in lines[-times:]]


def report(direct: Sequence[float], through: Sequence[float], logged: Sequence[float]) -> None:
    rows = {"straight to the replica": direct, "through the gateway": through, "gateway_ms of its log": logged}
    p50s = {name: percentile(values, 0.5) for name, values in rows.items()}
    for name, values in rows.items():
        print(f"{name:26}p50 {p50s[name]:6.2f} ms   p99 {percentile(values, 0.99):6.2f} ms")
    added_ms, added_p99_ms = (percentile(through, share) - percentile(direct, share) for share in (0.5, 0.99))
    missed = "" if added_ms < _MOST_ADDED_MS else "   MISSED"
    print(
        f"{'added':26}p50 {added_ms:6.2f} ms   p99 {added_p99_ms:6.2f} ms   target p50 < {_MOST_ADDED_MS:g} ms{missed}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    options = parser.parse_args()
    prepare()
    prompts = Prompts.long(ModelFolder())
    with replicas("--prompts", "long") as behind, gateway_of(behind.ports, KV_AWARE) as gateway:
        await_matches(gateway.url, prompts)
        replica, through = Asker(behind.ports[0]), Asker(httpx.URL(gateway.url).port or 0)
        alternate(replica, through, prompts, _WARM_UP)
        times = alternate(replica, through, prompts, options.requests)
        matched = through.head.lower().partition(b"x-prefixway-matched: ")[2].partition(b"\r\n")[0].decode()
        print(f"{options.requests} requests each; the last one's x-prefixway-matched: {matched}")
        report(*times, logged_ms(gateway, options.requests))
        for asker in (replica, through):
            asker.close()


if __name__ == "__main__":
    main()
