"""How far predictions are from what replicas had: conversations under load, in caches that are too small for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import httpx

from loadtest.replica import ReplicaOptions, Speeds
from tests.end_to_end.house import House, house
from tests.end_to_end.prediction_watch import cached, matched

#: As an engine of a small model, fast enough for a test.
ENGINE = Speeds(prefill_tokens_per_s=120_000, step_s=0.002, chunk_tokens=2048)


@dataclass(frozen=True, slots=True)
class Crowding:
    """``people`` at a time take up conversations, some of them where another left off. Blocks are of 16 tokens."""

    people: int = 12
    conversations: int = 60
    turns: int = 5
    assistants: int = 4
    system_words: int = 120
    turn_words: tuple[int, int] = (40, 120)
    answer_tokens: int = 12
    capacity_blocks: int = 700
    oldest_first: bool = False  # take up what waited the longest, and so is evicted next; else any
    seed: int = 1


class Turn(NamedTuple):
    """Prompt tokens: all, those that the gateway said were held, those that the replica says were."""

    prompt: int
    predicted: int
    actual: int


@dataclass(slots=True)
class Measured:
    """``evicted``: blocks that the replicas removed meanwhile."""

    turns: list[Turn] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    evicted: int = 0

    def share(self, tokens: int) -> float:
        """Of all prompt tokens."""
        return tokens / max(1, sum(turn.prompt for turn in self.turns))

    @property
    def error(self) -> float:
        """Mean absolute error: tokens that were predicted and not there, or there and not predicted."""
        return self.over + self.under

    @property
    def over(self) -> float:
        return self.share(sum(max(0, turn.predicted - turn.actual) for turn in self.turns))

    @property
    def under(self) -> float:
        return self.share(sum(max(0, turn.actual - turn.predicted) for turn in self.turns))

    @property
    def hit(self) -> float:
        return self.share(sum(turn.actual for turn in self.turns))

    @property
    def exact(self) -> float:
        """Share of turns that were predicted to the token."""
        right = sum(turn.predicted == turn.actual for turn in self.turns)
        return right / max(1, len(self.turns))


async def measured(crowding: Crowding, strategy: str = "kv_aware") -> Measured:
    """One run over a gateway and three simulated replicas."""
    options = ReplicaOptions(speeds=ENGINE, capacity_blocks=crowding.capacity_blocks)
    async with house(options=options, strategy=strategy, read_prompts="always") as built:
        result = Measured()
        queue = _conversations(crowding, built.replicas["a"].folder.words)
        async with asyncio.TaskGroup() as people:
            for person in range(crowding.people):
                rng = Random(f"{crowding.seed} {person}")
                people.create_task(_take_up(built, queue, crowding, result, rng))
        result.evicted = sum(_evicted(built).values())
        return result


class _Talk(NamedTuple):
    """A conversation so far, and what its person will say."""

    messages: list[dict[str, str]]
    words: list[str]


def _conversations(crowding: Crowding, words: Sequence[str]) -> list[_Talk]:
    rng = Random(crowding.seed)
    systems = [" ".join(rng.choices(words, k=crowding.system_words)) for _ in range(crowding.assistants)]
    return [
        _Talk(
            [{"role": "system", "content": systems[number % len(systems)]}],
            [" ".join(rng.choices(words, k=rng.randint(*crowding.turn_words))) for _ in range(crowding.turns)],
        )
        for number in range(crowding.conversations)
    ]


async def _take_up(built: House, queue: list[_Talk], crowding: Crowding, result: Measured, rng: Random) -> None:
    """One turn of a conversation that waits, then of another one, until none is left."""
    while queue:
        talk = queue.pop(0 if crowding.oldest_first else rng.randrange(len(queue)))
        talk.messages.append({"role": "user", "content": talk.words.pop(0)})
        body = {"model": "simulated", "messages": talk.messages, "max_tokens": crowding.answer_tokens}
        answer = await built.client.post("/v1/chat/completions", json=body)
        if answer.status_code != 200:
            result.failures.append(answer.text)
            continue
        _note(answer, talk, result)
        if talk.words:
            queue.append(talk)


def _note(answer: httpx.Response, talk: _Talk, result: Measured) -> None:
    page = answer.json()
    talk.messages.append({"role": "assistant", "content": page["choices"][0]["message"]["content"]})
    result.turns.append(Turn(page["usage"]["prompt_tokens"], matched(answer), cached(answer)))


def _evicted(built: House) -> Counter[str]:
    return Counter({id_: replica.cache.evictions for id_, replica in built.replicas.items()})
