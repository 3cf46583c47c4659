"""The proof on real engines: same tokens, the right replica, and vLLM's own count of cached tokens as predicted."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from tests.running_gateway import RunningGateway, running_gateway
from tests.vllm.real_replicas import BLOCK_SIZE, RealReplica

DIALOGUES, TURNS = 13, 6  # odd: else two replicas in rotation would keep each dialogue by accident
WORDS = "route block cache token prefix replica gateway engine memory first last answer question model".split()


def _text(seed: int, words: int) -> str:
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) + str(chosen.randrange(100)) for _ in range(words))


def _matched(answer: httpx.Response) -> dict[str, int]:
    return {
        name: int(tokens) for name, tokens in (p.split("=") for p in answer.headers["x-prefixway-matched"].split(","))
    }


def _reset(replicas: Sequence[RealReplica]) -> None:
    """Empty every prefix cache. An idle engine says so only with its next step."""
    for replica in replicas:
        httpx.post(f"{replica.url}/reset_prefix_cache", trust_env=False).raise_for_status()
        body = {"model": "tiny", "prompt": "x", "max_tokens": 1}
        httpx.post(f"{replica.url}/v1/completions", json=body, trust_env=False).raise_for_status()


class Truth:
    """Which full blocks each replica has stored, computed from the token ids that vLLM itself reports."""

    def __init__(self) -> None:
        self._blocks: defaultdict[str, set[tuple[int, ...]]] = defaultdict(set)

    def served(self, replica: str, prompt: Sequence[int], output: Sequence[int]) -> None:
        tokens = [*prompt, *output[:-1]]  # the last token was sampled, never computed
        for end in range(BLOCK_SIZE, len(tokens) + 1, BLOCK_SIZE):
            self._blocks[replica].add(tuple(tokens[:end]))

    def count(self, replica: str) -> int:
        return len(self._blocks[replica])


def _dialogues(gateway: RunningGateway, truth: Truth) -> Iterator[tuple[str, httpx.Response]]:
    """Dialogues of six turns, interleaved; yields (the replica that served the turn before, the answer).

    Each turn is sent once the gateway has seen the blocks of all turns before it.
    """
    histories = [
        [{"role": "system", "content": _text(0, 40)}, {"role": "user", "content": _text(number + 1, 30)}]
        for number in range(DIALOGUES)
    ]
    served: list[str] = [""] * DIALOGUES
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=60) as client:
        for turn in range(TURNS):
            for number, messages in enumerate(histories):
                body = {
                    "model": "tiny",
                    "messages": messages,
                    "max_tokens": 12,
                    "return_token_ids": True,
                    "seed": 1,
                }
                answer = client.post("/v1/chat/completions", json=body).raise_for_status()
                yield served[number], answer
                choice = answer.json()["choices"][0]
                replica = answer.headers["x-prefixway-replica"]
                truth.served(replica, answer.json()["prompt_token_ids"], choice["token_ids"])
                served[number] = replica
                messages.append({"role": "assistant", "content": choice["message"]["content"] or ""})
                messages.append({"role": "user", "content": _text(1000 * turn + number, 12)})
                gateway.wait(lambda name=replica: gateway.replicas()[name]["owned_blocks"]["l0"] >= truth.count(name))


def _cached_share(answers: Sequence[httpx.Response]) -> float:
    usage: list[dict[str, Any]] = [answer.json()["usage"] for answer in answers]
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usage)
    return float(cached / sum(u["prompt_tokens"] for u in usage))


@pytest.mark.parametrize("prompt", ["plain text", "Grüße 世界 👋🏽", "<|im_start|>user\nhi<|im_end|>", [5, 6, 7, 8]])
def test_completions_count_as_vllms(replicas: list[RealReplica], prompt: object) -> None:
    """A completion's prompt has as many tokens for the gateway as for the engine."""
    with running_gateway([replicas[0].url]) as gateway:
        gateway.wait(lambda: "tiny" in gateway.status()["models"])
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 1}
        answer = httpx.post(f"{gateway.url}/v1/completions", json=body, trust_env=False).raise_for_status()

    assert _matched(answer)["prompt"] == answer.json()["usage"]["prompt_tokens"]


def test_follow_ups_go_to_their_holder_and_vllm_counts_what_was_predicted(
    replicas: list[RealReplica],
) -> None:
    """78 turns: every prediction equals vLLM's cached_tokens, and kv_aware's cached share beats round_robin's."""
    shares = {}
    for strategy in ("round_robin", "kv_aware"):
        _reset(replicas)
        with running_gateway(
            [replica.url for replica in replicas], strategy=strategy, read_prompts="always"
        ) as gateway:
            gateway.wait(lambda: "tiny" in gateway.status()["models"])
            gateway.wait(lambda: all(r["events"]["state"] == "fresh" for r in gateway.replicas().values()))
            answers: list[httpx.Response] = []
            for before, answer in _dialogues(gateway, Truth()):
                cached = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
                matched = _matched(answer)
                assert matched["l0"] == cached, (strategy, len(answers), dict(answer.headers))
                assert matched["prompt"] == answer.json()["usage"]["prompt_tokens"]
                if strategy == "kv_aware" and before:
                    assert answer.headers["x-prefixway-replica"] == before
                answers.append(answer)
            assert len(answers) == DIALOGUES * TURNS
            shares[strategy] = _cached_share(answers)
    print(f"share of prompt tokens served from cache: {shares}")

    assert shares["kv_aware"] > 1.15 * shares["round_robin"]
