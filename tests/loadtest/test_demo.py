"""The demo, with a proxy of a few lines for a gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest

from loadtest.__main__ import main
from loadtest.demo import DemoOptions, StrategyResult, run_demo, table
from loadtest.replica import ReplicaOptions
from loadtest.replica.http_server import ReceivedRequest, Responder
from loadtest.workload import Workload
from tests.fakes.waiting import eventually
from tests.loadtest.replica.running import NO_TIME, running
from tests.loadtest.small_proxy import small_proxy

SMALL = DemoOptions(
    replica=ReplicaOptions(model="demo", capacity_blocks=1000, speeds=NO_TIME),
    workload=Workload(dialogues=9, turns=4, system_words=40, turn_words=(60, 100), think_s=(0, 0.02)),
    strategies=("round_robin", "kv_aware"),
)


@asynccontextmanager
async def small_gateway(urls: Sequence[str], strategy: str) -> AsyncIterator[str]:
    """Keeps each conversation where it began, or moves it on at every turn."""

    async def relay(client: httpx.AsyncClient, request: ReceivedRequest, responder: Responder) -> None:
        messages = json.loads(request.body)["messages"]
        number = len(messages[1]["content"]) + (len(messages) // 2 if strategy == "round_robin" else 0)
        async with client.stream("POST", urls[number % len(urls)] + request.target, content=request.body) as answer:
            await responder.head(answer.status_code, [("content-type", answer.headers["content-type"])])
            async for data in answer.aiter_raw():
                await responder.write(data)
            await responder.end()

    async with small_proxy(relay) as url:
        yield url


async def test_compares_strategies_on_empty_caches() -> None:
    """One result and one line each, as the replicas counted; where prefixes are kept more is cached."""
    lines: list[str] = []
    results = await run_demo(small_gateway, out=lines.append, options=SMALL)

    moving, sticky = results
    assert [result.strategy for result in results] == ["round_robin", "kv_aware"]
    assert sum(moving.requests) == sum(sticky.requests) == 36
    assert moving.errors == sticky.errors == 0
    assert moving.prompt_tokens == sticky.prompt_tokens
    assert sticky.cached_share > 1.3 * moving.cached_share
    text = "\n".join(lines)
    assert "round_robin  " in text
    assert f"{sticky.cached_share:.1%}" in text
    assert "curl -i http://127.0.0.1:" in text


async def test_stays_up_until_it_is_cancelled() -> None:
    """With the last strategy's gateway, at the URL it printed."""
    lines: list[str] = []
    options = DemoOptions(
        replica=SMALL.replica, workload=Workload(dialogues=1, turns=1, think_s=(0, 0)), strategies=("kv_aware",)
    )
    demo = asyncio.get_running_loop().create_task(run_demo(small_gateway, out=lines.append, stay=True, options=options))
    await eventually(lambda: "Ctrl-C ends it." in lines)
    (url,) = {word for line in lines for word in line.split() if word.endswith("/v1")}
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{url}/chat/completions", json={"model": "demo", "messages": messages})
    demo.cancel()
    await asyncio.gather(demo, return_exceptions=True)

    assert answer.status_code == 200


def test_fewer_turns_make_a_shorter_demo() -> None:
    """Nothing else changes."""
    shorter = SMALL.with_turns(2)

    assert {len(dialogue.turns) for dialogue in shorter.workload.generate(["x"], 1)} == {2}
    assert shorter.with_turns(4) == SMALL


def test_the_table_lines_up() -> None:
    """Columns as wide as their widest cell."""
    rows = [StrategyResult("kv_aware", 200, 100, 0.1, 1.25, (3, 40), 0, 9.0)]

    head, rule, row = table(rows).splitlines()[1:4]

    assert row.split() == ["kv_aware", "50.0%", "100", "ms", "1250", "ms", "3", "/", "40", "0"]
    assert head.index("errors") == row.rindex("0")
    assert set(rule) == {"-", " "}


async def test_the_load_can_be_played_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """``python -m loadtest load URL`` prints what it got."""
    async with running() as (replica, _):
        await asyncio.to_thread(main, ["load", replica.url, "--dialogues", "2", "--turns", "2"])

    assert "4 answered, 0 not" in capsys.readouterr().out
