"""Watch: symptoms become findings once they last, stay a while, and raise suspicions."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from gateway.check.finding_book import FindingBook
from gateway.check.symptoms import Symptom
from gateway.check.watch import Watch
from gateway.kv.evidence import Evidence
from tests.gateway.check.proving import proving


class _Scene:
    def __init__(self) -> None:
        self.now = 100.0
        self.evidence = Evidence()
        self.more: list[Symptom] = []
        self.suspected: list[tuple[str, ...]] = []
        self.tokenizers: dict[str, str] = {}
        self.book = FindingBook(lambda: self.now)
        self.watch: Watch

    def names(self) -> list[str]:
        self.watch.look()
        return [standing.finding.name for standing in self.book.standing()]


@asynccontextmanager
async def _scene() -> AsyncIterator[_Scene]:
    async with proving() as proven:
        scene = _Scene()
        scene.watch = Watch(
            replace(proven.knowledge, clock=lambda: scene.now),
            scene.book,
            evidence=lambda _: scene.evidence,
            tokenizers=lambda: scene.tokenizers,
            more=lambda: scene.more,
            suspect=lambda replica, symptoms: scene.suspected.append((replica.id, *symptoms)),
        )
        yield scene


async def test_where_all_is_well_nothing_is_found_and_nobody_suspected() -> None:
    async with _scene() as scene:
        for _ in range(60):
            assert scene.names() == []
            scene.now += 1
        assert scene.suspected == []


async def test_a_symptom_must_last_and_its_finding_stays_a_while() -> None:
    async with _scene() as scene:
        scene.tokenizers = {"m": "RemoteEncoder"}
        assert scene.names() == []
        scene.now += 9
        assert scene.names() == []
        scene.now += 2
        assert scene.names() == ["tokenizer_remote"]
        scene.tokenizers = {}
        scene.now += 9
        assert scene.names() == ["tokenizer_remote"]
        scene.now += 2
        assert scene.names() == []


async def test_one_that_goes_and_comes_back_begins_anew() -> None:
    async with _scene() as scene:
        for kind in ("RemoteEncoder", "LocalEncoder") * 10:
            scene.tokenizers = {"m": kind}
            assert scene.names() == []
            scene.now += 6


async def test_what_requests_showed_raises_suspicion_before_it_is_a_finding() -> None:
    async with _scene() as scene:
        scene.evidence = Evidence(requests=9, unconfirmed=5, unconfirmed_kinds=Counter(plain=5))
        assert scene.names() == []
        assert scene.suspected == [("a", "unconfirmed")]
        scene.now += 8
        assert scene.names() == ["unconfirmed"]


async def test_what_is_seen_elsewhere_is_told_too_and_of_departed_replicas_nothing() -> None:
    async with _scene() as scene:
        scene.more = [Symptom("index_lost", "", "gone", 0.0), Symptom("index_lost", "departed", "gone", 0.0)]

        assert scene.names() == ["index_lost"]
