"""Forms of a body besides chat and completions: vLLM counts, caches and publishes the tokens that were known before."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.running_gateway import RunningGateway, running_gateway
from tests.vllm.real_replicas import BLOCK_SIZE, RealReplica, real_replicas

FORMS = Path(__file__).parents[1] / "data" / "forms"
ORACLE = Path(__file__).with_name("form_oracle.py")
LONG = "route the block to its cache " * 12
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Bern"}'}
RESPONSES: list[dict[str, Any]] = [
    {"input": LONG},
    {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": LONG}, {"type": "input_text", "text": "b"}]}
        ]
    },
    {
        "input": [
            {"role": "user", "content": LONG},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            CALL,
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]},
            {"role": "developer", "content": "Be brief."},
        ],
        "tools": [
            {"type": "function", "name": "weather", "description": "w", "parameters": SCHEMA, "strict": True},
            {"type": "web_search"},
            {"type": "custom", "name": "shell"},
        ],
        "tool_choice": "none",
        "reasoning": {"effort": "low"},
    },
    {
        "input": [
            {"role": "user", "content": LONG},
            {
                "type": "message",
                "role": "assistant",
                "status": "incomplete",
                "content": [{"type": "output_text", "text": "It is"}],
            },
        ]
    },
    {"input": LONG, "cache_salt": "salt"},
    {"input": LONG, "stream": True},
]
MESSAGES: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": LONG}]},
    {
        "messages": [
            {"role": "user", "content": LONG},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Zürich"}},
                ],
            },
            {"role": "system", "content": "A reminder in between."},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
        "tools": [{"name": "weather", "description": "w", "input_schema": SCHEMA}],
        "tool_choice": {"type": "none"},
        "thinking": {"type": "disabled"},
    },
    {"messages": [{"role": "user", "content": LONG}], "system": [{"type": "text", "text": "Be brief."}]},
    {"messages": [{"role": "user", "content": LONG}], "cache_salt": "salt"},
    {"messages": [{"role": "user", "content": LONG}], "stream": True},
]
EMBEDDINGS: list[dict[str, Any]] = [
    {"input": LONG},
    {"input": [7] * 70},
    {"input": ["short", LONG]},
    {"messages": [{"role": "user", "content": LONG}]},
    {"input": LONG, "cache_salt": "salt"},
]


@pytest.fixture(scope="module")
def gateway(replicas: list[RealReplica]) -> Iterator[RunningGateway]:
    """With empty caches: nothing is evicted while its blocks are counted. An idle engine says so with its next step."""
    step = {"model": "tiny", "prompt": "x", "max_tokens": 1}
    for replica in replicas:
        httpx.post(f"{replica.url}/reset_prefix_cache", trust_env=False).raise_for_status()
        httpx.post(f"{replica.url}/v1/completions", json=step, trust_env=False).raise_for_status()
    with running_gateway([replica.url for replica in replicas], read_prompts="always") as started:
        started.wait(lambda: all(each["events"]["state"] == "fresh" for each in started.replicas().values()))
        yield started


@pytest.fixture(scope="module")
def embedder(vllm_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway in front of one server that embeds with the same model."""
    arguments = [["--runner", "pooling", "--convert", "embed"]]
    folder = tmp_path_factory.mktemp("embed")
    with (
        real_replicas(vllm_environment, folder, count=1, arguments=arguments) as (replica,),
        running_gateway([replica.url]) as started,
    ):
        started.wait(lambda: all(each["events"]["state"] == "fresh" for each in started.replicas().values()))
        yield started


@pytest.mark.parametrize("body", RESPONSES, ids=range(len(RESPONSES)))
def test_responses(gateway: RunningGateway, body: dict[str, Any]) -> None:
    """A second one finds in the cache what was predicted, to the token."""
    unique = {**body, "model": "tiny", "instructions": f"{uuid.uuid4().hex} {LONG}", "max_output_tokens": 4}

    _ask_twice(gateway, "/v1/responses", unique)


@pytest.mark.parametrize("body", MESSAGES, ids=range(len(MESSAGES)))
def test_messages(gateway: RunningGateway, body: dict[str, Any]) -> None:
    """Likewise."""
    first = {"role": "user", "content": f"{uuid.uuid4().hex} {LONG}"}
    unique = {**body, "model": "tiny", "messages": [first, *body["messages"]], "max_tokens": 4}

    _ask_twice(gateway, "/v1/messages", unique)


def test_a_batch_is_routed_by_its_longest_chat(gateway: RunningGateway) -> None:
    """All of it, but for what the last block keeps, is found again."""
    chats = [[{"role": "user", "content": text}] for text in ("short", f"{uuid.uuid4().hex} {LONG}")]
    body = {"model": "tiny", "messages": chats, "max_tokens": 2}
    first = _ask(gateway, "/v1/chat/completions/batch", body)
    _await_blocks(gateway, first)
    second = _ask(gateway, "/v1/chat/completions/batch", body)

    assert second.matched == {"prompt": first.matched["prompt"], "l0": _cacheable(first.matched["prompt"])}


@pytest.mark.parametrize("body", EMBEDDINGS, ids=range(len(EMBEDDINGS)))
def test_embeddings(embedder: RunningGateway, body: dict[str, Any]) -> None:
    """They never tell what was cached; the events do, and the count of tokens."""
    asked = _ask(embedder, "/v1/embeddings", {"model": "tiny", **body})
    _await_blocks(embedder, asked)
    again = _ask(embedder, "/v1/embeddings", {"model": "tiny", **body})

    several = isinstance(body.get("input"), list) and isinstance(body["input"][0], str)
    assert asked.prompt_tokens == asked.matched["prompt"] or several
    assert again.matched["l0"] == _cacheable(asked.matched["prompt"])


def test_the_recorded_forms_are_still_what_vllm_makes(vllm_environment: Path) -> None:
    """Those that the tests of the prompt room rely on."""
    recorded = {name: json.loads((FORMS / f"{name}.json").read_text()) for name in ("responses", "messages")}
    bodies = {name: [case["body"] for case in cases] for name, cases in recorded.items()}
    done = subprocess.run(
        [str(vllm_environment / "bin/python"), str(ORACLE)],
        input=json.dumps(bodies).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )

    assert json.loads(done.stdout) == recorded


class _Asked:
    """What was predicted of a request, what vLLM counted, and the blocks that the gateway knew of before it."""

    def __init__(self, headers: httpx.Headers, usage: dict[str, Any], blocks: dict[str, int]) -> None:
        self.replica = headers["x-prefixway-replica"]
        pairs = [pair.split("=") for pair in headers["x-prefixway-matched"].split(",")]
        self.matched = {name: int(tokens) for name, tokens in pairs}
        self.blocks_before = blocks[self.replica]
        read, created = (usage.get(f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
        self.cached = usage.get("input_tokens_details", {}).get("cached_tokens") if read is None else read
        self.prompt_tokens = usage.get("prompt_tokens") or usage["input_tokens"] + (read or 0) + (created or 0)


def _ask_twice(gateway: RunningGateway, path: str, body: dict[str, Any]) -> None:
    first = _ask(gateway, path, body)
    _await_blocks(gateway, first)
    second = _ask(gateway, path, body)

    assert first.matched["prompt"] == first.prompt_tokens == second.prompt_tokens
    assert first.cached == first.matched["l0"]
    assert second.replica == first.replica
    assert second.cached == second.matched["l0"] == _cacheable(first.prompt_tokens) > 0


def _ask(gateway: RunningGateway, path: str, body: dict[str, Any]) -> _Asked:
    blocks = _blocks(gateway)
    answer = httpx.post(gateway.url + path, json=body, trust_env=False, timeout=60)
    assert answer.is_success, answer.text
    if not body.get("stream"):
        return _Asked(answer.headers, answer.json()["usage"], blocks)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    usages = [event.get("response", event).get("usage") for event in events]
    return _Asked(answer.headers, [usage for usage in usages if usage][-1], blocks)


def _blocks(gateway: RunningGateway) -> dict[str, int]:
    return {name: replica["owned_blocks"]["l0"] for name, replica in gateway.replicas().items()}


def _await_blocks(gateway: RunningGateway, asked: _Asked) -> None:
    """Until the events have told of the whole prompt."""
    new = (asked.matched["prompt"] - asked.matched["l0"]) // BLOCK_SIZE
    gateway.wait(lambda: _blocks(gateway)[asked.replica] >= asked.blocks_before + new)


def _cacheable(tokens: int) -> int:
    """Whole blocks but for the last token's: that one is always computed."""
    return (tokens - 1) // BLOCK_SIZE * BLOCK_SIZE
