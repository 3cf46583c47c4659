"""``prefixway check`` as users run it: a table, the mends, and the exit status."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from gateway.check.finding import found
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.check_command import as_json, as_text, coverage_by, distinct, exit_status, run_check, told_by
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica import Fault, ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import house
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.scripted_server import ScriptedServer, answer, plays
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST


async def _run(*arguments: str, **settings: str) -> tuple[int, str, str]:
    """Exit status, standard output, standard error, of a process."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PREFIXWAY_")}
    command = (sys.executable, "-m", "gateway", "check", *arguments)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environ | _named(settings), stdout=pipe, stderr=pipe)
    out, error = await process.communicate()
    return process.returncode or 0, out.decode(), error.decode()


def _named(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"PREFIXWAY_{name.upper()}": value for name, value in {"admin_listen": "127.0.0.1:1", **settings}.items()}


def _checked(*, admin: str = "", config_only: bool = False, as_json: bool = False, **settings: str) -> tuple[str, int]:
    """What such a process would print, and its exit status. It has an event loop of its own."""
    arguments = argparse.Namespace(admin=admin, config_only=config_only, json=as_json)
    return run_check(arguments, Settings.from_env(_named(settings)))


async def test_a_healthy_fleet_exits_with_0_and_a_table() -> None:
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as a:
        status, out, error = await _run(replicas=f"a={a.url}")

    assert status == 0
    assert out.endswith("All is well.\n")
    rows = [line.split()[:3] for line in out.splitlines()]
    assert ["a", "events", "ok"] in rows
    assert ["a", "coverage", "skipped"] in rows
    assert error == "checking 1 replicas\n"


async def test_what_a_running_gateway_found_and_could_verify_is_listed_too() -> None:
    async with house(("a",), ReplicaOptions(speeds=FAST)) as home:
        body = {"model": "simulated", "prompt": [*range(300, 400)], "max_tokens": 1}
        for _ in range(2):
            (await home.client.post("/v1/completions", json=body)).raise_for_status()
            await eventually(lambda: home.gateway.fellowship.memory.block_owners() == 100 // 16)
        home.replicas["a"].silent.caches = False
        await eventually(home.gateway.proof.findings)
        home.replicas["a"].silent.caches = True
        home.replicas["a"].silent.tells_cached_tokens = False
        admin, url = f"http://127.0.0.1:{home.gateway.admin.port}", home.replicas["a"].url
        out, status = await asyncio.to_thread(_checked, admin=admin, as_json=True, replicas=f"a={url}")

    page: dict[str, Any] = json.loads(out)
    assert status == page["status"] == 1
    assert {row["name"] for row in page["findings"]} == {"details_off", "prefix_caching_off"}
    assert all(row["mend"] and row["severity"] == "wrong" for row in page["findings"])
    coverage = next(row for row in page["verdicts"] if row["check"] == "coverage")
    assert (coverage["replica"], coverage["verdict"]) == ("a", "ok")
    assert "100.0 % by usage" in coverage["detail"]


def test_what_does_not_answer_is_degraded() -> None:
    out, status = _checked(admin="http://127.0.0.1:1")

    assert status == 2
    assert "the gateway: unreachable" in out
    assert out.count("seen: http://127.0.0.1:1: [Errno") == 1


async def test_a_replica_that_generates_nothing_is_not_well() -> None:
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as a:
        a.faults.always = Fault(status=500)
        out, status = await asyncio.to_thread(_checked, replicas=f"a={a.url}")

    assert status == 2
    assert "a: unreachable" in out
    assert "/v1/completions answered 500" in out


def test_without_anything_to_check_nothing_is_well() -> None:
    with pytest.raises(SettingsError, match="PREFIXWAY_REPLICAS"):
        _checked()
    out, status = _checked(config_only=True)
    assert status == 0
    assert "All is well." not in out


async def test_where_nobody_is_found_nothing_is_well() -> None:
    """The setting that finds them is named. The configuration alone asks nobody."""
    async with KubernetesApi(token=None) as api:
        ask = partial(_checked, discovery="kubernetes:default/app=vllm", kubernetes_api=api.url)
        out, status = await asyncio.to_thread(ask, config_only=True)
        asked = len(api.requests)
        with pytest.raises(SettingsError, match="PREFIXWAY_DISCOVERY=kubernetes:default/app=vllm finds no replica"):
            await asyncio.to_thread(ask)

    assert (status, asked) == (0, 0)
    assert "looked up when it runs" in out


@pytest.mark.parametrize("check", ["events", "tokenizer", "reuse"])
def test_what_was_skipped_is_not_said_to_be_proved(check: str) -> None:
    assert as_text([fine("model", "a"), skipped(check, "a", "why")], []).endswith("what was skipped is not proved.")
    assert as_text([skipped("tokenizer", "", "why"), skipped("holding", "a", "why")], []).endswith("All is well.")


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"findings": None},
        {"findings": [{"name": "unreachable"}]},
        {"replicas": [{}]},
        {"replicas": [{"id": "a", "truth": {"coverage": 3, "requests": {}}}]},
        {"replicas": [{"id": "a", "truth": {"requests": None}}]},
    ],
)
async def test_a_status_page_of_another_kind_is_told(page: dict[str, Any]) -> None:
    body = json.dumps({"version": "9", **page} if page else {}).encode()
    async with ScriptedServer(plays(answer(body))) as server:
        out, status = await asyncio.to_thread(_checked, admin=server.origin.url)

    assert status == 2
    assert "is not as this version's" in out


async def test_an_interrupt_ends_it_without_a_traceback() -> None:
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as a:
        a.faults.always = Fault(stall_before_head=True)
        environ = {**os.environ, **_named({"replicas": f"a={a.url}"})}
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "gateway", "check")
        heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what runs in the background may ignore it
        process = await asyncio.create_subprocess_exec(
            *command, env=environ, stdout=pipe, stderr=pipe, preexec_fn=heeds
        )
        await eventually(lambda: a.faults.stalled)
        process.send_signal(signal.SIGINT)
        _, error = await process.communicate()

    assert process.returncode == 130
    assert b"Traceback" not in error


@pytest.mark.parametrize(("tokenizer", "status"), [("auto", 0), ("/nowhere", 1)])
def test_the_configuration_alone_asks_no_replica(tokenizer: str, status: int) -> None:
    out, done = _checked(config_only=True, replicas="a=http://127.0.0.1:1", tokenizer=tokenizer)

    assert done == status
    assert "unreachable" not in out


async def test_what_would_stop_a_start_exits_with_1() -> None:
    done, _, error = await _run("--config-only", odd="1")

    assert done == 1
    assert "PREFIXWAY_ODD" in error


def test_of_what_was_not_verified_no_accuracy_is_told() -> None:
    page = {
        "replicas": [
            {"id": "new"},
            {"id": "mute", "truth": {"requests": {"usage": 0, "unverified": 7}}},
            {
                "id": "counted",
                "truth": {
                    "requests": {"counters": 4},
                    "coverage": {"usage": 0.0, "counters": 0.5},
                    "accuracy": {"error": None},
                },
            },
        ]
    }

    assert [(verdict.replica_id, verdict.word, verdict.detail) for verdict in coverage_by(page)] == [
        ("new", "skipped", "nothing was predicted of it yet"),
        ("mute", "skipped", "none of 7 predictions was verified"),
        ("counted", "ok", "of its prompt tokens 0.0 % by usage and 50.0 % by counters verified"),
    ]


def test_what_is_wrong_counts_before_what_is_degraded() -> None:
    wrong_one, degraded = found("events_off", "a", ""), found("unreachable", "b", "")

    assert exit_status([]) == 0
    assert exit_status([degraded]) == 2
    assert exit_status([degraded, wrong_one]) == 1


def test_the_table_is_aligned_and_each_finding_is_told_once() -> None:
    verdicts = [
        fine("reachable", "a", "detail"),
        skipped("replay", "long-name", "why"),
        wrong("salt", "a", "salt_dropped", "first"),
        wrong("gateway", "a", "salt_dropped", "second"),
    ]
    findings = distinct(verdict.finding for verdict in verdicts if verdict.finding is not None)
    lines = as_text(verdicts, findings).splitlines()

    assert [finding.detail for finding in findings] == ["first"]
    assert lines[0].index("CHECK") == lines[1].index("reachable") == lines[2].index("replay")
    assert lines[5:] == [
        "",
        f"a: salt_dropped: {'its events leave out the cache salt, so that salted prompts get no credit'}",
        "    seen: first",
        f"    mend: {findings[0].mend}",
    ]
    assert json.loads(as_json(verdicts, findings))["verdicts"][1]["verdict"] == "skipped"


def test_what_another_version_of_the_gateway_found_is_read_as_far_as_it_is_known() -> None:
    known = {"name": "events_late", "replica": "a", "severity": "degraded", "detail": "3 s", "mend": "", "since_s": 1}
    page = {"findings": [known, {"name": "brand_new", "replica": "a"}, "odd"]}

    assert told_by(page) == [Verdict("gateway", "a", "3 s", found("events_late", "a", "3 s"))]
    assert told_by({}) == []
