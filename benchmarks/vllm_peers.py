"""How much of the same work real vLLM replicas serve from their caches, behind this gateway and behind vllm-router.

    python -m benchmarks.vllm_peers --vllm-env DIR --vllm-router PATH [--seeds 3] [--lanes 4] [--blocks 128] ...

DIR is what ``scripts/vllm/install.sh DIR`` makes, PATH the executable of a vllm-router 0.1.17. Two replicas of a tiny
model on the CPU, with caches so small that not all conversations fit, started as vllm-router's kv_aware wants them:
with --enable-scale-out, and events without a topic. In front of them, one after the other, each begun anew
on emptied caches, in another order for each seed:

    prefixway kv_aware          as it comes
    vllm-router kv_aware        told the replicas' event sources, their replay and the block size
    vllm-router cache_aware     its default

Conversations are chats, chats with tools, and completions; four beginnings are shared by all; --lanes clients ask at
a time, each with --open conversations under way. The engines are deterministic, so all get the same prompts but for
what batching changes in them. The figure is vLLM's own usage: cached_tokens of prompt_tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.relay.processes import free_port, prepare, running
from tests.vllm.following_gateway import following_gateway
from tests.vllm.mixed_work import answer_text, conversations, interleaved
from tests.vllm.real_replicas import BLOCK_SIZE, MODEL, RealReplica, real_replicas

_READY_S = 60.0
_REPLICA_ARGUMENTS = ("--enable-scale-out", "--enable-auto-tool-choice", "--tool-call-parser=hermes")
_UNSALTED = ((MODEL, None),)


class Work(NamedTuple):
    """``conversations``, ``turns`` of each, and ``open_at_once``: of a lane. ``assistant_words``: of what is shared."""

    lanes: int
    conversations: int
    turns: int
    open_at_once: int
    assistant_words: int


class Share(NamedTuple):
    """What one router got out of the caches."""

    cached_tokens: int
    prompt_tokens: int
    requests: int
    seconds: float

    @property
    def cached(self) -> float:
        return self.cached_tokens / self.prompt_tokens


#: Runs a router in front of replicas; gives its URL.
StartRouter = Callable[[Sequence[RealReplica]], AbstractContextManager[str]]


@contextmanager
def prefixway(replicas: Sequence[RealReplica]) -> Iterator[str]:
    with following_gateway(replicas, log_level="info", probe_interval_s="2", background_checks="false") as gateway:
        yield gateway.url


def vllm_router(path: str, policy: str) -> StartRouter:
    """``path``: its executable."""

    @contextmanager
    def start(replicas: Sequence[RealReplica]) -> Iterator[str]:
        port = free_port()
        command = [
            path, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port()),
            "--policy", policy, "--log-level", "error", "--worker-startup-check-interval", "1",
            "--worker-urls", *(replica.url for replica in replicas),
        ]  # fmt: skip
        if policy == "kv_aware":
            command += ["--kv-event-block-size", str(BLOCK_SIZE), "--kv-event-model", MODEL]
            for replica in replicas:
                command += ["--kv-event-source", f"{replica.url}={replica.events}"]
                command += ["--kv-event-replay-source", f"{replica.url}={replica.replay}"]
        with running(command, port):
            yield f"http://127.0.0.1:{port}"

    return start


async def play(url: str, work: Work, seed: int) -> Share:
    """All lanes at once, each on its own conversations."""
    counts: Counter[str] = Counter()
    began = time.monotonic()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as client:

        async def lane(number: int) -> None:
            begun = conversations(
                work.conversations, seed, _UNSALTED, number * work.conversations, work.assistant_words
            )
            for turn in interleaved(begun, work.turns, seed * 1000 + number, work.open_at_once):
                body = turn.body | {"stream": False}
                body.pop("stream_options", None)
                answer = (await client.post(turn.path, json=body)).raise_for_status().json()
                turn.conversation.answered(answer_text(answer))
                usage = answer["usage"]
                counts.update(
                    cached=usage["prompt_tokens_details"]["cached_tokens"], prompt=usage["prompt_tokens"], requests=1
                )

        await asyncio.gather(*map(lane, range(work.lanes)))
    return Share(counts["cached"], counts["prompt"], counts["requests"], time.monotonic() - began)


def empty(replicas: Sequence[RealReplica]) -> None:
    """Empty every cache. An idle engine says so only with its next step, so it is given one."""
    for replica in replicas:
        httpx.post(f"{replica.url}/reset_prefix_cache", trust_env=False).raise_for_status()
        _complete(replica.url).raise_for_status()


def await_answer(url: str) -> None:
    """Return once a router answers, to a prompt too short to be cached."""
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            if _complete(url).is_success:
                return
        except httpx.HTTPError:
            pass
        if time.monotonic() > deadline:
            raise SystemExit(f"{url} does not answer")
        time.sleep(0.1)


def _complete(url: str) -> httpx.Response:
    body = {"model": MODEL, "prompt": "x", "max_tokens": 1}
    return httpx.post(f"{url}/v1/completions", json=body, trust_env=False, timeout=10)


def compare(replicas: Sequence[RealReplica], routers: dict[str, StartRouter], work: Work, seeds: Sequence[int]) -> None:
    """Print each seed's shares, and at last the medians."""
    shares: dict[str, list[Share]] = {name: [] for name in routers}
    names = list(routers)
    for seed in seeds:
        for name in names:
            empty(replicas)
            with routers[name](replicas) as url:
                await_answer(url)
                share = asyncio.run(play(url, work, seed))
            shares[name].append(share)
            line = f"{share.cached:6.1%} of {share.prompt_tokens} tokens, {share.requests} requests"
            print(f"  seed {seed}  {name:26}{line}, {share.seconds:.0f} s", flush=True)
        names.append(names.pop(0))
    for name, of_seeds in shares.items():
        cached = [share.cached for share in of_seeds]
        print(f"{name:26}{statistics.median(cached):6.1%}  ({min(cached):.1%} .. {max(cached):.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-env", type=Path, required=True, metavar="DIR")
    parser.add_argument("--vllm-router", required=True, metavar="PATH")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=192, help="in each replica's cache")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--conversations", type=int, default=8, help="of each lane")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--open", type=int, default=3, help="conversations of a lane that are under way at a time")
    parser.add_argument("--assistant-words", type=int, default=150, help="of each system prompt: 4 tokens a word")
    options = parser.parse_args()
    prepare()
    work = Work(options.lanes, options.conversations, options.turns, options.open, options.assistant_words)
    routers: dict[str, StartRouter] = {
        "prefixway kv_aware": prefixway,
        "vllm-router kv_aware": vllm_router(options.vllm_router, "kv_aware"),
        "vllm-router cache_aware": vllm_router(options.vllm_router, "cache_aware"),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        real_replicas(
            options.vllm_env,
            Path(folder),
            blocks=options.blocks,
            max_model_len=min(4096, options.blocks * BLOCK_SIZE // 2),
            topic="",  # told its sources, vllm-router subscribes to no topic but this
            arguments=[_REPLICA_ARGUMENTS, _REPLICA_ARGUMENTS],
        ) as replicas,
    ):
        print(f"2 replicas of {options.blocks} blocks of {BLOCK_SIZE} tokens, {work}", flush=True)
        compare(replicas, routers, work, range(options.first_seed, options.first_seed + options.seeds))


if __name__ == "__main__":
    main()
