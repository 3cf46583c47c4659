"""Clients of every kind, by chance: patient and slow ones, and those that leave at every possible point."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from tests.fakes.moody_replica import HELD, LONG
from tests.fakes.raw_client import RawAnswer, RawClient, post

_PEOPLE = 64
_EXPECTED = {200, 400, 429, 500, 502, 503}  # whatever a replica says, and what is ours to say of it


class Crowd:
    """``came``: requests that were begun; ``done``: the ids of those that were answered in full.

    ``between`` is awaited after each visit.
    """

    def __init__(self, port: int, seed: int, requests: int, between: Callable[[], Awaitable[None]]) -> None:
        self._port = port
        self._rng = Random(seed)
        self._name = f"s{seed}"
        self._left = requests
        self._between = between
        self.came = 0
        self.done: list[str] = []
        self.seen: Counter[str] = Counter()  # how visits went, and what was answered

    async def come_and_go(self) -> None:
        """Return when there were so many requests and everybody has left."""
        async with asyncio.TaskGroup() as people:
            for _ in range(_PEOPLE):
                people.create_task(self._person())

    async def _person(self) -> None:
        while self.came < self._left:
            (visit,) = self._rng.choices(list(_VISITS), list(_VISITS.values()))
            self.seen[visit.__name__.strip("_")] += 1
            try:
                async with RawClient(self._port) as client:
                    await visit(self, client)
            except ConnectionError:
                self.seen["broken"] += 1
            await self._between()

    def _request(self, *, stream: bool | None = None, mark: bytes = b"", last: bool = False) -> tuple[str, bytes]:
        """Its id, and its bytes."""
        self.came += 1
        id_ = f"{self._name}-{self.came}"
        rng = self._rng
        prompt = f"{rng.random()} " * rng.choice((1, 20, 20, 1000)) + mark.decode()
        streamed = rng.random() < 0.5 if stream is None else stream
        body = {"model": "real", "messages": [{"role": "user", "content": prompt}], "stream": streamed}
        lines = b"x-request-id: %b\r\n%b" % (id_.encode(), b"connection: close\r\n" if last else b"")
        return id_, post(json.dumps(body).encode(), path="/v1/chat/completions", headers=lines)

    async def _turns(self, most: int) -> None:
        """Some turns of the event loop pass, so that whatever comes next meets any state."""
        for _ in range(self._rng.randrange(most)):
            await asyncio.sleep(0)

    def _leave(self, client: RawClient) -> None:
        self._rng.choice((RawClient.close, RawClient.reset))(client)

    def _check(self, id_: str, answered: RawAnswer) -> None:
        self.seen[str(answered.status)] += 1
        if not answered.status:
            return  # the connection was closed: the answer before was broken off
        assert answered.status in _EXPECTED, answered
        assert answered.value("x-request-id") == id_.encode()
        if answered.complete:
            self.done.append(id_)
            if answered.status != 200 and answered.body:
                json.loads(answered.body)

    # Visits

    async def _patient(self, client: RawClient) -> None:
        for _ in range(self._rng.randrange(1, 5)):
            id_, request = self._request()
            answered = await client.ask(request)
            self._check(id_, answered)
            if not answered.complete or client.reader.at_eof():
                return

    async def _in_pieces(self, client: RawClient) -> None:
        id_, request = self._request()
        cut = self._rng.randrange(1, len(request))
        await client.send(request[:cut])
        await self._turns(5)
        self._check(id_, await client.ask(request[cut:]))

    async def _leaves_while_it_sends(self, client: RawClient) -> None:
        _, request = self._request()
        await client.send(request[: self._rng.randrange(len(request))])
        await self._turns(5)
        self._leave(client)

    async def _leaves_soon(self, client: RawClient) -> None:
        await client.send(self._request()[1])
        await self._turns(40)
        self._leave(client)

    async def _says_no_more(self, client: RawClient) -> None:
        await client.send(self._request()[1])
        client.half_close()
        await client.read_to_end()

    async def _leaves_while_it_is_held(self, client: RawClient) -> None:
        await client.send(self._request(mark=HELD)[1])
        await self._turns(100)
        self._leave(client)

    async def _leaves_within_an_answer(self, client: RawClient) -> None:
        await client.send(self._request(stream=True)[1])
        await asyncio.wait_for(client.reader.read(self._rng.randrange(1, 400)), 20)
        self._leave(client)

    async def _pipelines(self, client: RawClient) -> None:
        requests = [self._request(last=number == 3) for number in range(4)]
        await client.send(b"".join(request for _, request in requests))
        if self._rng.random() < 0.5:
            assert (await client.read_to_end()).count(b"HTTP/1.1 ") <= 4
        else:
            await self._turns(40)
            self._leave(client)

    async def _reads_slowly(self, client: RawClient) -> None:
        id_, request = self._request(mark=LONG)
        await client.send(request)
        await self._turns(200)
        if self._rng.random() < 0.5:
            self._check(id_, await client.answer())
        else:
            self._leave(client)

    async def _talks_nonsense(self, client: RawClient) -> None:
        assert (
            await client.ask(self._rng.choice((b"GET\r\n\r\n", b"\x16\x03\x01", b"POST / HTTP/1.1\r\n\r\n")))
        ).status == 400


_VISITS: dict[Callable[[Crowd, RawClient], Awaitable[None]], int] = {
    Crowd._patient: 40,
    Crowd._in_pieces: 10,
    Crowd._leaves_while_it_sends: 10,
    Crowd._leaves_soon: 20,
    Crowd._says_no_more: 5,
    Crowd._leaves_while_it_is_held: 15,
    Crowd._leaves_within_an_answer: 15,
    Crowd._pipelines: 8,
    Crowd._reads_slowly: 2,
    Crowd._talks_nonsense: 3,
}
