"""``prefixway serve`` as users run it: a process, its log, its ports, its signals."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.running_gateway import running_gateway

SECRETS: Any = {"api_keys": "client-key-1,client-key-2", "replica_api_key": "replica-key", "hash_secret": "hash-key"}


def _lines(path: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_request_seen_from_all_sides() -> None:
    """The receipt, the access log, /metrics, /status and /replicas tell the same story, without prompt or secret."""
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as replica:
        await asyncio.to_thread(_seen_from_all_sides, replica.url)


def _seen_from_all_sides(url: str) -> None:
    prompt = "the unmistakable prompt " * 40
    with running_gateway([f"one={url}"], receipt="all", strategi="x", **SECRETS) as gateway:
        gateway.wait(lambda: "simulated" in gateway.status()["models"])
        headers = {"authorization": "Bearer client-key-2", "x-request-id": "mine-1"}
        body = {"model": "simulated", "prompt": prompt, "max_tokens": 3}
        for _ in range(2):
            answer = httpx.post(f"{gateway.url}/v1/completions", json=body, headers=headers, trust_env=False)
            gateway.wait(lambda: gateway.replicas()["one"]["owned_blocks"]["l0"] > 0)
        denied = httpx.post(f"{gateway.url}/v1/completions", json=body, trust_env=False)
        metrics, status, replicas = gateway.metrics(), gateway.status(), gateway.replicas()
        health = httpx.get(f"{gateway.metrics_url}/readyz", trust_env=False)
        gateway.wait(lambda: gateway.access_log.read_text().count('"mine-1"') == 2)
        line = [line for line in _lines(gateway.access_log) if line["request_id"] == "mine-1"][-1]
        log = gateway.log.read_text()

    assert answer.headers["x-request-id"] == "mine-1"
    assert denied.status_code == 401
    assert health.status_code == 200
    cached = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0
    assert line["replica"] == answer.headers["x-prefixway-replica"] == "one"
    assert line["matched"] == answer.headers["x-prefixway-matched"]
    assert (line["status"], line["outcome"], line["cached_tokens"]) == (200, "ok", cached)
    assert f'prefixway_cached_tokens_compared_total{{side="predicted"}} {float(cached)}' in metrics
    assert f'prefixway_cached_tokens_compared_total{{side="actual"}} {float(cached)}' in metrics
    assert "prefixway_settings_unknown 1.0" in metrics
    assert 'prefixway_replica_up{replica="one"} 1.0' in metrics
    assert status["strategy"] == "kv_aware"
    assert status["models"] == {"simulated": "LocalEncoder"}
    assert replicas["one"]["events"]["state"] == "fresh"
    assert not [text for text in (*SECRETS.values(), "client-key-1", "unmistakable") if text in f"{log}{line}{status}"]


async def test_the_start_tells_its_settings_and_where_it_listens() -> None:
    """One line with every effective setting, secrets masked; one a wrong name; one with the URLs."""

    def run() -> tuple[list[dict[str, Any]], str]:
        with running_gateway([], ready=False, strategi="kv_aware", **SECRETS) as gateway:
            return _lines(gateway.log), gateway.log.read_text()

    lines, text = await asyncio.to_thread(run)
    settings = next(line["settings"] for line in lines if line["message"] == "settings")

    assert settings["PREFIXWAY_STRATEGY"] == "kv_aware"
    assert settings["PREFIXWAY_API_KEYS"] == "***,***"
    assert any("did you mean PREFIXWAY_STRATEGY?" in line["message"] for line in lines)
    assert not [value for value in SECRETS.values() if value in text]


async def test_a_replica_that_stays_down_does_not_flood_the_log() -> None:
    """300 requests and many probes against replicas that are gone: a few lines, not hundreds."""

    def run() -> list[dict[str, Any]]:
        with running_gateway(
            ["http://127.0.0.1:9", "http://127.0.0.1:19"], ready=False, probe_interval_s="0.02", log_level="info"
        ) as gateway:
            gateway.wait(lambda: all(not r["healthy"] for r in gateway.replicas().values()))
            with httpx.Client(base_url=gateway.url, trust_env=False) as client:
                for _ in range(300):
                    assert client.post("/v1/completions", json={"prompt": "x"}).status_code == 503
            return _lines(gateway.log)

    assert len(await asyncio.to_thread(run)) < 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_status_0(number: signal.Signals) -> None:
    """Idle, with clients connected: it exits by itself and says nothing odd."""

    def run() -> tuple[int, str]:
        with running_gateway([], ready=False) as gateway, httpx.Client(trust_env=False) as client:
            client.get(f"{gateway.url}/livez")
            gateway.process.send_signal(number)
            status = gateway.process.wait(timeout=60)
            return status, gateway.log.read_text()

    status, log = await asyncio.to_thread(run)

    assert status == 0
    assert "Traceback" not in log


async def test_who_interrupts_it_does_not_wait_for_load_balancers() -> None:
    """Ctrl-C is a person's."""

    def run() -> int:
        with running_gateway([], ready=False, linger_s="600") as gateway:
            gateway.process.send_signal(signal.SIGINT)
            return gateway.process.wait(timeout=60)

    assert await asyncio.to_thread(run) == 0


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"PREFIXWAY_STRATEGY": "fastest"}, "no strategy is named 'fastest'"),
        ({"PREFIXWAY_REPLICAS": "http://"}, "PREFIXWAY_REPLICAS: 'http://': a replica's URL needs a host"),
        ({"PREFIXWAY_REPLICAS_FILE": "/nowhere.yaml"}, "PREFIXWAY_REPLICAS_FILE: /nowhere.yaml: cannot be read"),
        ({"PREFIXWAY_LISTEN": "203.0.113.1:1"}, "cannot listen on 203.0.113.1:1"),
        ({"PREFIXWAY_STRICT_ENV": "1", "PREFIXWAY_X": ""}, "PREFIXWAY_X is no setting"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_sentence(settings: dict[str, str], fault: str) -> None:
    """Exit status 1, the setting, what is wrong; no traceback."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PREFIXWAY_")}
    ended = subprocess.run(
        [sys.executable, "-m", "gateway", "serve"],
        env={**environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 1
    assert fault in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_low_limit_of_open_files_is_raised() -> None:
    """As far as the system allows: each request under way takes two."""

    def run() -> tuple[int, int]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        try:
            with running_gateway([], ready=False) as gateway:
                limits = Path(f"/proc/{gateway.process.pid}/limits").read_text()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        return int(line.split()[3]), int(line.split()[4])

    soft, hard = await asyncio.to_thread(run)

    assert soft == hard
