"""Proxies: those that are compared, each a process in front of the same replicas."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.relay.processes import free_port, running
from benchmarks.relay.prompts import Prompts
from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.running_gateway import RunningGateway, running_gateway

HAPROXY, EDGE, ROUND_ROBIN, KV_AWARE = "haproxy", "edge", "round_robin", "kv_aware"
VLLM_ROUND_ROBIN, VLLM_CACHE_AWARE = "vllm-router rr", "vllm-router cache"
_READY_S = 60.0

_HAPROXY_CONFIG = """
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
"""
# What it does for failures is switched off, so that only carrying is compared.
_VLLM_ROUTER = (
    "{path} --host 127.0.0.1 --port {{port}} --prometheus-port {{metrics_port}} --policy {policy} --log-level error"
    " --worker-startup-check-interval 1 --worker-startup-timeout-secs 30 --disable-retries --disable-circuit-breaker"
    " --worker-urls {{urls_sp}}"
)


class Proxy(NamedTuple):
    """``strategy``: of ours, what its receipt must say."""

    name: str
    port: int
    pid: int
    strategy: str = ""


def vllm_routers(path: str) -> dict[str, str]:
    """Two commands of a vllm-router 0.1.17 at ``path``, as peers."""
    policies = {VLLM_ROUND_ROBIN: "round_robin", VLLM_CACHE_AWARE: "cache_aware"}
    return {name: _VLLM_ROUTER.format(path=shlex.quote(path), policy=policy) for name, policy in policies.items()}


@contextmanager
def running_proxies(ports: Sequence[int], peers: dict[str, str], prompts: Prompts) -> Iterator[list[Proxy]]:
    """All of them, once each has answered: HAProxy if it is installed, ours, then ``peers``: a command each."""
    with ExitStack() as stack:
        proxies = [
            *([stack.enter_context(_haproxy(ports))] if shutil.which("haproxy") else []),
            stack.enter_context(_edge(ports[0])),
            *(stack.enter_context(_gateway(name, ports)) for name in (ROUND_ROBIN, KV_AWARE)),
            *(stack.enter_context(_peer(name, command, ports)) for name, command in peers.items()),
        ]
        for proxy in proxies:
            _await_answer(proxy, prompts)
        yield proxies


@contextmanager
def gateway_of(ports: Sequence[int], strategy: str) -> Iterator[RunningGateway]:
    """The whole gateway as a user runs it: access log, metrics, receipts, events."""
    urls = [f"{name}={url}" for name, url in zip("ab", _urls(ports))]
    tokenizer = str(DEFAULT_FOLDER)
    with running_gateway(
        urls, strategy=strategy, tokenizer=tokenizer, log_level="info", probe_interval_s="2"
    ) as gateway:
        yield gateway


def await_matches(url: str, prompts: Prompts) -> None:
    """Return when a gateway knows what its replicas hold."""
    deadline_s = time.monotonic() + _READY_S
    while "l0=0" in (receipt := _receipt(url, prompts).get("x-prefixway-matched", "l0=0")) or "l0=" not in receipt:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the gateway at {url} matches nothing: {receipt}")
        time.sleep(0.1)


def _await_answer(proxy: Proxy, prompts: Prompts) -> None:
    url = f"http://127.0.0.1:{proxy.port}"
    if proxy.strategy == KV_AWARE:
        await_matches(url, prompts)
    receipt = _receipt(url, prompts)
    if proxy.strategy and receipt.get("x-prefixway-strategy") != proxy.strategy:
        raise SystemExit(f"{proxy.name} answers without the receipt of its strategy: {dict(receipt)}")


def _receipt(url: str, prompts: Prompts) -> httpx.Headers:
    """The head of an answer with status 200, as soon as there is one."""
    deadline_s = time.monotonic() + _READY_S
    body = prompts.request(stream=False).partition(b"\r\n\r\n")[2]
    said = ""
    while time.monotonic() < deadline_s:
        try:
            headers = {"content-type": "application/json"}
            answer = httpx.post(
                f"{url}/v1/chat/completions", content=body, headers=headers, trust_env=False, timeout=10
            )
        except httpx.HTTPError as error:
            said = repr(error)
        else:
            if answer.status_code == 200:
                return answer.headers
            said = f"{answer.status_code} {answer.text[:500]}"
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer: {said}")


@contextmanager
def _haproxy(ports: Sequence[int]) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config = Path(folder) / "haproxy.cfg"
        servers = "".join(f"  server r{at} 127.0.0.1:{at}\n" for at in ports)
        config.write_text(_HAPROXY_CONFIG.format(port=port) + servers)
        with running(["haproxy", "-f", str(config), "-db"], port) as pid:
            yield Proxy(HAPROXY, port, pid)


@contextmanager
def _edge(replica_port: int) -> Iterator[Proxy]:
    port = free_port()
    with running([sys.executable, "-m", "benchmarks.bare_edge", str(port), str(replica_port)], port) as pid:
        yield Proxy(EDGE, port, pid)


@contextmanager
def _gateway(strategy: str, ports: Sequence[int]) -> Iterator[Proxy]:
    with gateway_of(ports, strategy) as gateway:
        yield Proxy(strategy, httpx.URL(gateway.url).port or 0, gateway.process.pid, strategy)


@contextmanager
def _peer(name: str, command: str, ports: Sequence[int]) -> Iterator[Proxy]:
    """``command`` may hold {port}, {metrics_port}, {urls} (joined by commas) and {urls_sp} (by spaces)."""
    port = free_port()
    values = {
        "{port}": str(port),
        "{metrics_port}": str(free_port()),
        "{urls}": ",".join(_urls(ports)),
        "{urls_sp}": " ".join(_urls(ports)),
    }
    for what, value in values.items():
        command = command.replace(what, value)
    with running(shlex.split(command), port) as pid:
        yield Proxy(name, port, pid)


def _urls(ports: Sequence[int]) -> list[str]:
    return [f"http://127.0.0.1:{port}" for port in ports]
