"""``prefixway check`` against real engines: every check says ok, and what is wrong with a replica is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import httpx

from tests.vllm.real_replicas import RealReplica


def _check(replicas: str, **settings: str) -> tuple[int, dict[str, Any]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PREFIXWAY_")}
    environ |= {"PREFIXWAY_REPLICAS": replicas, "PREFIXWAY_ADMIN_LISTEN": "127.0.0.1:9", **settings}
    command = [sys.executable, "-m", "gateway", "check", "--json"]
    done = subprocess.run(command, check=False, env=environ, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout)


def test_every_check_says_ok(replicas: Sequence[RealReplica]) -> None:
    """Twice: the second time there is something that the replicas should hold."""
    named = ",".join(f"r{number}={replica.url}" for number, replica in enumerate(replicas))
    for _ in range(2):
        status, page = _check(named)

        assert page["findings"] == []
        assert status == 0
    told = {(row["replica"], row["check"]): row["verdict"] for row in page["verdicts"]}
    checks = ("reachable", "model", "tokenizer", "template", "metrics", "holding", "usage", "reuse", "events")
    for check in (*checks, "salt", "block_size", "replay"):
        assert told["r0", check] == "ok", check


def test_events_of_another_replica_are_named(replicas: Sequence[RealReplica]) -> None:
    """The second replica is said to publish where the first does."""
    sources = json.loads(_get(f"{replicas[0].url}/kv_event_sources"))["0"]
    events, replay = (sources[name].replace("*", "127.0.0.1") for name in ("endpoint", "replay_endpoint"))
    named = f"r0={replicas[0].url},r1={replicas[1].url}?events={events}&replay={replay}"

    status, page = _check(named)

    assert status == 1
    assert ("events_of_another", "r1") in {(row["name"], row["replica"]) for row in page["findings"]}


def _get(url: str) -> str:
    return httpx.get(url, trust_env=False).raise_for_status().text
