"""What a gateway predicts, watched without a break: conversations that go on, and how much of each turn it knew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from statistics import median
from typing import NamedTuple

import httpx

from tests.end_to_end.shared_house import MODEL

_CONVERSATIONS = 12
_TURNS = 12  # of each, before it begins anew: at any time there is one at each of its turns, so all sums are alike
_FIRST_WORDS, _TURN_WORDS = 160, 32
_LOW = 0.95


def matched(answer: httpx.Response) -> int:
    """What the gateway said the replica has, all tiers together."""
    parts = dict(part.split("=") for part in answer.headers["x-prefixway-matched"].split(","))
    return sum(int(tokens) for tier, tokens in parts.items() if tier != "prompt")


def cached(answer: httpx.Response) -> int:
    """What the replica says it had."""
    tokens: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


class Sample(NamedTuple):
    """One turn of all conversations: tokens that were predicted, and that replicas had. Seconds of the loop's clock."""

    began_s: float
    ended_s: float
    matched: int
    cached: int

    def is_low(self, level: float) -> bool:
        """Whether fewer than 95 % were predicted of what was had, or of what ``level`` was before."""
        return self.matched < _LOW * max(level, self.cached)


class PredictionWatch:
    """Every turn is the conversation so far and something new, so what was indexed a moment ago is what counts.

    ``every_s``: from one turn to the next, where answers take no longer.
    """

    def __init__(self, client: httpx.AsyncClient, words: Sequence[str]) -> None:
        self.every_s = 0.0
        self.samples: list[Sample] = []
        self.reasons: list[str] = []
        self.failures: list[str] = []
        self._client = client
        self._words = words
        self._stopped = False

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[PredictionWatch]:
        """Turn after turn inside the block."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run())
            try:
                yield self
            finally:
                self._stopped = True

    def is_warm(self) -> bool:
        """Whether every conversation began while it was watched, and has been watched for a while."""
        return len(self.samples) >= 2 * _TURNS

    def level(self) -> float:
        """Tokens predicted of a turn, lately."""
        return median(sample.matched for sample in self.samples[-_TURNS:])

    async def ask_again(self, client: httpx.AsyncClient) -> list[tuple[str, int, int]]:
        """The last turn of each conversation, one after another: replica, tokens predicted, tokens had."""
        turn = len(self.samples) - 1
        answers = [await self._ask(client, number, turn) for number in range(_CONVERSATIONS)]
        return [(answer.headers["x-prefixway-replica"], matched(answer), cached(answer)) for answer in answers]

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while not self._stopped:
            began_s = clock()
            asked = (self._ask(self._client, number, len(self.samples)) for number in range(_CONVERSATIONS))
            answers = await asyncio.gather(*asked, return_exceptions=True)
            self._note(began_s, clock(), answers)
            await asyncio.sleep(max(0.0, began_s + self.every_s - clock()))

    def _note(self, began_s: float, ended_s: float, answers: Sequence[httpx.Response | BaseException]) -> None:
        good = [answer for answer in answers if isinstance(answer, httpx.Response) and answer.status_code == 200]
        self.failures += [repr(answer) for answer in answers if answer not in good]
        self.reasons += [answer.headers["x-prefixway-reason"] for answer in good]
        self.samples.append(Sample(began_s, ended_s, sum(map(matched, good)), sum(map(cached, good))))

    async def _ask(self, client: httpx.AsyncClient, number: int, turn: int) -> httpx.Response:
        body = {"model": MODEL, "prompt": self._text(number, turn), "max_tokens": 1}
        return await client.post("/v1/completions", json=body)

    def _text(self, number: int, turn: int) -> str:
        life, age = divmod(turn + number, _TURNS)
        words = Random(f"{number} {life}").choices(self._words, k=_FIRST_WORDS + _TURNS * _TURN_WORDS)
        return " ".join(words[: _FIRST_WORDS + age * _TURN_WORDS])


def longest_dip_s(samples: Sequence[Sample], level: float) -> float:
    """How long predictions were low without a break, at least: from the end of the first low sample to the beginning
    of the last. So a sample that took long, on a machine that is busy, makes no dip longer than it was.
    """
    longest_s, since_s = 0.0, None
    for sample in samples:
        if not sample.is_low(level):
            since_s = None
        elif since_s is None:
            since_s = sample.ended_s
        else:
            longest_s = max(longest_s, sample.began_s - since_s)
    return longest_s
