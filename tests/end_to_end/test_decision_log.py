"""Shadows and the decision log of ``prefixway serve``, and the log read back as a trace to replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import httpx

from gateway.router.decision_record import BLOCK_TOKENS
from loadtest.replay import decision_trace
from loadtest.replay.load_level import bound
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.running_gateway import RunningGateway, running_gateway

ANSWER_TOKENS = 3
SESSION = "session-of-anna"
TEXT = "the unmistakable prompt "
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
SHADOWS = ("round_robin", "prefix_aware")


def _prompts() -> list[list[int]]:
    """Three documents; questions about each, of many lengths, some after an answer to an earlier one."""
    rng = Random(7)
    documents = [[rng.randrange(100, 200) for _ in range(length)] for length in (300, 700, 1024)]
    prompts: list[list[int]] = []
    for number in range(24):
        begun = rng.choice(prompts) if number % 4 == 3 else documents[number % 3]
        prompts.append([*begun, *(rng.randrange(100, 200) for _ in range(rng.randrange(1, 400)))])
    return prompts


def _implied(prompts: Sequence[Sequence[int]]) -> Trace:
    """The same as a trace: blocks numbered as they come, equal ones alike."""
    numbers: dict[tuple[int, ...], int] = {}
    sessions = []
    for at, prompt in enumerate(prompts):
        ends = range(BLOCK_TOKENS, len(prompt) + 1, BLOCK_TOKENS)
        blocks = [numbers.setdefault(tuple(prompt[:end]), len(numbers)) for end in ends]
        sessions.append(Session(str(at), float(at), (Turn(len(prompt), ANSWER_TOKENS, blocks),)))
    return Trace("implied", BLOCK_TOKENS, sessions)


def _turns(trace: Trace) -> list[tuple[int, int, list[int]]]:
    """Lengths and blocks of each request, blocks numbered as they come."""
    numbers: dict[int, int] = {}
    turns = [session.turns[0] for session in trace.sessions]
    return [(t.prompt_tokens, t.output_tokens, [numbers.setdefault(b, len(numbers)) for b in t.blocks]) for t in turns]


def _ask(gateway: RunningGateway, prompts: Sequence[object]) -> list[int]:
    """One after the other, then a chat in words and one that nobody can read; cached tokens by usage."""
    cached = []
    headers = {"x-session-id": SESSION}
    contents = (TEXT * 40, [IMAGE, {"type": "text", "text": TEXT}])
    bodies: list[dict[str, object]] = [{"prompt": prompt} for prompt in prompts]
    bodies += [{"messages": [{"role": "user", "content": content}]} for content in contents]
    with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False) as client:
        for body in bodies:
            route = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
            body |= {"model": "simulated", "max_tokens": ANSWER_TOKENS}
            usage = client.post(route, json=body).raise_for_status().json()["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    return cached


def _run(urls: Mapping[str, str], path: Path) -> tuple[list[int], dict[str, Any], str, list[Path]]:
    """Ask, and stop it; what it told, and the files with all that it wrote."""
    replicas = [f"{id_}={url}" for id_, url in urls.items()]
    with running_gateway(
        replicas, shadow=",".join(SHADOWS), decision_log=str(path), receipt="all", hash_secret="s"
    ) as gateway:
        gateway.wait(lambda: "simulated" in gateway.status()["models"])
        gateway.wait(lambda: all(replica["healthy"] for replica in gateway.replicas().values()))
        cached = _ask(gateway, _prompts())
        status, metrics = gateway.status(), gateway.metrics()
        assert gateway.stop() == 0
        written = [path, *(path.with_name(file.name) for file in (gateway.log, gateway.access_log))]
        for file, copy in zip((gateway.log, gateway.access_log), written[1:], strict=True):
            copy.write_bytes(file.read_bytes())
    return cached, status, metrics, written


async def test_the_log_is_the_workload_without_its_words(tmp_path: Path) -> None:
    """Read back it has the same lengths and shares the same beginnings, so that no more and no less can be found."""
    path, prompts = tmp_path / "decisions.jsonl", _prompts()
    async with AsyncExitStack() as stack:
        replicas = {id_: SimulatedReplica(ReplicaOptions(speeds=FAST)) for id_ in "ab"}
        urls = {id_: (await stack.enter_async_context(replica)).url for id_, replica in replicas.items()}
        cached, status, metrics, written = await asyncio.to_thread(_run, urls, path)

    trace = decision_trace.read(path)
    asked = trace.first(len(prompts))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    seen = {row["shadow"]: row["decisions"] for row in status["shadows"]}

    assert _turns(asked) == _turns(_implied(prompts))
    assert bound(asked) == bound(_implied(prompts)) > 0.5
    assert trace.requests == len(prompts) + 1  # the chat in words; the other one's prompt is not known
    assert [line["cached_tokens"] for line in lines] == cached
    assert sum(cached) > 0
    assert {len(line["candidates"]) for line in lines} == {2}
    assert {tuple(line["shadows"]) for line in lines} == {SHADOWS}
    assert len({line["session"] for line in lines}) == 1
    assert seen == dict.fromkeys(SHADOWS, len(prompts) + 2)
    assert f"prefixway_decision_log_lines_total {float(len(lines))}" in metrics
    assert 'prefixway_shadow_decisions_total{agreed="no",shadow="round_robin",strategy="kv_aware"}' in metrics
    for file in written:
        text = file.read_text()
        assert not [word for word in (SESSION, TEXT.strip(), "unmistakable") if word in text]
