"""A gateway over simulated replicas, one of which breaks silently while people talk; and what is found of that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import httpx

from gateway.check_command import distinct
from gateway.check_run import check_run
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST, House, house
from tests.fakes.waiting import eventually

LORAS = ("ada", "bob")
_PEOPLE = 3
_PAUSE_S = 0.1
_MOST_ANSWERS = 4_000
_OPEN, _TURNS = 8, 5  # conversations that each of them goes back and forth between, and the most turns of one
_LEAVES = 0.25  # how often nobody comes back to one
_CHECKS = 3  # `prefixway check` leaves out what a busy replica cannot be asked: then it is made again
_NOTICED_S = 60.0  # ten where nobody else wants the machine

Place = tuple[str, str]  # a finding's name and replica


class Fleet:
    """``broken`` is the replica that something happens to, ``healthy`` the other one. Both serve two adapters."""

    def __init__(self, built: House) -> None:
        self.built = built
        self.healthy: SimulatedReplica = built.replicas["a"]
        self.broken: SimulatedReplica = built.replicas["b"]

    def findings(self) -> dict[Place, Mapping[str, object]]:
        """Those in force, as /status has them."""
        return {(str(each["name"]), str(each["replica"])): each for each in self.built.gateway.proof.findings()}

    def was_checked(self) -> bool:
        """Whether the gateway has looked at both, adapters last, as it does with those that join."""
        return all(
            any(
                b'"bob"' in request.body
                for request in replica.requests
                if request.header("x-request-id").startswith("prefixway-check")
            )
            for replica in (self.healthy, self.broken)
        )

    async def checked(self) -> list[Place]:
        """What ``prefixway check`` finds, which knows no more than the addresses."""
        replicas = ",".join(f"{id_}={replica.url}" for id_, replica in self.built.replicas.items())
        environ = {"PREFIXWAY_REPLICAS": replicas, "PREFIXWAY_PROBE_INTERVAL_S": "0.2"}
        async with check_run(Settings.from_env(environ)) as run:
            found = distinct(verdict.finding for verdict in await run.check(lambda _: None) if verdict.finding)
        return [(finding.name, finding.replica_id) for finding in found]

    async def status(self) -> list[dict[str, Any]]:
        """The page's own."""
        url = f"http://127.0.0.1:{self.built.gateway.admin.port}/status"
        found: list[dict[str, Any]] = (await self.built.client.get(url)).raise_for_status().json()["findings"]
        return found


@asynccontextmanager
async def fleet(*, capacity_blocks: int = 2048, **settings: str) -> AsyncIterator[Fleet]:
    """It is complete, and nothing is wrong with it."""
    options = ReplicaOptions(speeds=FAST, loras=LORAS, capacity_blocks=capacity_blocks)
    settings = {"background_checks": "true", "probe_interval_s": "0.5", **settings}
    async with house(("a", "b"), options, **settings) as built:
        yield Fleet(built)


class Vigil:
    """Whoever is told of anything, at any time, is remembered."""

    def __init__(self, there: Fleet) -> None:
        self.alarms: set[Place] = set()
        self._there = there

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[Vigil]:
        """Inside the block."""
        watching = asyncio.ensure_future(self._watch())
        try:
            yield self
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            self.alarms.update(self._there.findings())
            await asyncio.sleep(0.05)


class Talk:
    """People who talk to a fleet, each in several conversations: plain, with a salt, or with an adapter. Bounded."""

    def __init__(self, built: House, kinds: str = "plain", seed: int = 1) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._client = built.client
        self._words = built.replicas["a"].folder.words
        self._kinds = kinds.split()
        self._rng = Random(seed)
        self._over = False

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[Talk]:
        """Inside the block; at its end they finish what they ask."""
        async with asyncio.TaskGroup() as people:
            for person in range(_PEOPLE):
                people.create_task(self._person(Random(self._rng.random()), self._kinds[person % len(self._kinds)]))
            try:
                yield self
            finally:
                self._over = True

    async def more(self, answers: int) -> None:
        """Return when there are so many more."""
        wanted = self.answered + answers
        await eventually(lambda: self.answered >= wanted, timeout_s=60.0)

    async def _person(self, rng: Random, kind: str) -> None:
        """A turn of any of the conversations, and another one; those that were long enough are begun anew."""
        talks: list[list[dict[str, str]]] = [[] for _ in range(_OPEN)]
        while not self._over and self.answered < _MOST_ANSWERS:
            number = rng.randrange(_OPEN)
            talk = talks[number]
            if not talk:
                talk.append({"role": "system", "content": self._text(rng, 30)})
            talk.append({"role": "user", "content": self._text(rng, rng.randint(20, 60))})
            await self._turn(talk, _fields(kind, number))
            if len(talk) > 2 * _TURNS or rng.random() < _LEAVES:
                talk.clear()
            await asyncio.sleep(_PAUSE_S)

    async def _turn(self, messages: list[dict[str, str]], fields: Mapping[str, Any]) -> None:
        body = {"model": "simulated", "messages": messages, "max_tokens": 6, **fields}
        try:
            answer = await self._client.post("/v1/chat/completions", json=body)
        except httpx.HTTPError as error:
            self.failures.append(repr(error))
            return
        if answer.status_code != 200:
            self.failures.append(answer.text)
            return
        self.answered += 1
        messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]})

    def _text(self, rng: Random, words: int) -> str:
        return " ".join(rng.choices(self._words, k=words))


def _fields(kind: str, number: int) -> dict[str, Any]:
    if kind == "salted":
        return {"cache_salt": f"tenant-{number % 3}"}
    return {"model": kind} if kind in LORAS else {}


Break = Callable[[Fleet], Awaitable[None]]


def silently(**cues: Any) -> Break:
    """By the replica's own cues."""

    async def apply(there: Fleet) -> None:
        await there.broken.cue({"silent": cues})

    return apply


class Case(NamedTuple):
    """``happens`` midway to replica b; ``finding`` is its name, at ``where``."""

    finding: str
    happens: Break
    kinds: str = "plain"
    capacity_blocks: int = 2048
    where: str = "b"  # "": the gateway as a whole
    settings: Mapping[str, str] = {}
    is_checkable: bool = True  # False: only a gateway that runs can know
    heals: bool = False  # traffic mends what it did: it happens once more before `prefixway check`


class Outcome(NamedTuple):
    """``named``: the finding as /status told it, ``after_s`` seconds. ``others``: what else was told by then.
    ``checked``: what ``prefixway check`` finds by itself. ``failures``: of requests.
    """

    named: Mapping[str, Any] | None
    after_s: float
    others: list[Place]
    checked: list[Place]
    failures: list[str]
    is_checked: bool  # whether it had to be among these, and is

    @property
    def accuses_the_healthy(self) -> bool:
        return any(replica_id == "a" for _, replica_id in [*self.others, *self.checked])


async def played(case: Case) -> Outcome:
    """The whole case, from a healthy fleet to the finding."""
    async with fleet(capacity_blocks=case.capacity_blocks, **case.settings) as there:
        talk = Talk(there.built, case.kinds)
        async with talk.going_on():
            await talk.more(30)
            await eventually(there.was_checked, timeout_s=60.0)
            before = list(there.findings())
            began_s = asyncio.get_running_loop().time()
            await case.happens(there)
            place = case.finding, case.where
            with contextlib.suppress(AssertionError):
                await eventually(lambda: place in there.findings(), timeout_s=_NOTICED_S)
            after_s = asyncio.get_running_loop().time() - began_s
            told = {(each["name"], each["replica"]): each for each in await there.status()}
            checked: list[Place] = []
            for _ in range(_CHECKS):
                if case.heals:
                    await case.happens(there)
                checked = await there.checked()
                if place in checked or not case.is_checkable:
                    break
    named = told.pop(place, None)
    is_checked = place in checked or not case.is_checkable
    return Outcome(named, after_s, [*before, *told], checked, talk.failures, is_checked)
