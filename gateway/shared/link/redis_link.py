"""RedisLink: what this process asks of Redis, and what it may cost.

Requests ``ask``: they wait at most a budget of milliseconds, and not at all while the breaker is open. Everything else
``run``\\ s with a time-out, and shows by the way whether Redis is there. Both raise :class:`RedisUnavailable` and
:class:`RedisRefused`, nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.redis_url import RedisTarget
from gateway.shared.link.fault_log import FaultLog
from gateway.shared.link.link_breaker import LinkBreaker
from gateway.shared.link.redis_clients import client_for
from gateway.shared.link.redis_errors import RedisError, RedisRefused, RedisUnavailable
from gateway.shared.link.script import Command, ScriptCall, words, words_with_text
from gateway.shared.link.subscription import messages

_log = logging.getLogger(__name__)

_MOST_LOOKUPS = 64  # under way at once; more means that Redis does not keep up
_PROBE_EVERY_S = 0.25
_LOOP_TURNS = 3  # within which an answer that has arrived reaches the lookup's task
_NO_USE = ("NOAUTH", "WRONGPASS", "NOPERM", "MOVED")  # however quickly it says so


def _ignore(_seconds: float) -> None: ...


@dataclass(slots=True)
class LinkStats:
    """``lookups`` by outcome: ok, timeout, error, skipped (not sent: breaker open, or too many under way).

    ``refused``: commands, lookups among them, by Redis's error code.
    """

    lookups: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    connections: int = 0  # made, in all
    openings: int = 0  # of the breaker


class RedisLink:
    """Connects when it is first used. An unreachable Redis shows in calls, never in the constructor."""

    def __init__(
        self,
        target: RedisTarget,
        *,
        clock: Callable[[], float],
        budget_s: float = 0.005,
        timeout_s: float = 1.0,
        observe_lookup_s: Callable[[float], None] = _ignore,
    ) -> None:
        """``clock``: seconds, monotonic. ``observe_lookup_s`` is told how long each lookup took that was answered.

        Raises ``SettingsError`` for TLS files that cannot be read.
        """
        self.stats = LinkStats()
        self._client = client_for(target, timeout_s, self._connected)
        self._clock = clock
        self._budget_s = budget_s
        self._timeout_s = timeout_s
        self._observe_lookup_s = observe_lookup_s
        self._breaker = LinkBreaker()
        self._lookups: set[asyncio.Task[Any]] = set()
        self._next_probe_s = float("-inf")
        self._late: Sequence[ScriptCall] = ()  # the last lookup that was
        self._faults = FaultLog(
            _log,
            f"redis {target.shown}: requests go on without it",
            f"redis {target.shown}: requests ask it again",
            clock=clock,
        )
        self._closed = False

    @property
    def is_up(self) -> bool:
        """Whether Redis answered when it was last asked, and soon enough for requests."""
        return self._breaker.is_closed

    async def ask(self, call: ScriptCall) -> Any:
        """A lookup for a request: its answer within the budget, or :class:`RedisUnavailable`."""
        (answer,) = await self.ask_all((call,))
        return answer

    async def ask_all(self, calls: Sequence[ScriptCall], *, spent_s: float = 0.0) -> list[Any]:
        """The same of several, sent at once: all answers within the budget. They count as one lookup.

        ``spent_s``: what the same request has waited for already.
        """
        outcome = "skipped"
        try:
            self._check_may_ask(calls)
            outcome = "error"
            answers: list[Any] = await self._within_budget(self._start(calls), spent_s)
            outcome = "ok"
            return answers
        except _OverBudget:
            outcome, self._late = "timeout", calls
            raise
        finally:
            self.stats.lookups[outcome] += 1

    async def run(self, command: Command) -> Any:
        """A command in the background; its reply is as Redis sends it."""
        (reply,) = await self._watched([command])
        if isinstance(reply, RedisRefused):
            raise reply
        return reply

    async def run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Commands sent at once, not as a transaction. Their replies in order, a :class:`RedisRefused` for a refusal.

        A script that Redis does not know yet runs after the other commands.
        """
        return await self._watched(commands)

    async def publish(self, channel: str, payload: bytes) -> None:
        """Tell all who are subscribed now."""
        await self.run(("PUBLISH", channel, payload))

    def subscribe(self, channel: str) -> AsyncGenerator[bytes, None]:
        """What is published from now on. Raises :class:`RedisUnavailable` when the connection is lost."""
        return messages(self._client, channel, self._timeout_s)

    async def close(self) -> None:
        """End what is under way. Nothing can be asked any more."""
        self._closed = True
        for task in self._lookups:
            task.cancel()
        if self._lookups:
            await asyncio.wait(self._lookups)
        await self._client.close()

    # lookups

    def _check_may_ask(self, calls: Sequence[ScriptCall]) -> None:
        if self._closed:
            raise RedisUnavailable("the link is closed")
        if not self._breaker.is_closed:
            self._probe(calls)
            raise RedisUnavailable("not asked: it did not answer in time before")
        if len(self._lookups) >= _MOST_LOOKUPS:
            raise RedisUnavailable("not asked: too many lookups are under way")

    def _probe(self, calls: Sequence[ScriptCall]) -> None:
        """Send a lookup that nobody awaits, now and then: by it shows best whether requests may ask again."""
        now = self._clock()
        if now >= self._next_probe_s and not self._lookups:
            self._next_probe_s = now + _PROBE_EVERY_S
            self._start(calls)

    def _start(self, calls: Sequence[ScriptCall]) -> asyncio.Task[list[Any]]:
        task = asyncio.get_running_loop().create_task(self._lookup(calls))
        self._lookups.add(task)
        task.add_done_callback(self._lookup_ended)
        return task

    def _lookup_ended(self, task: asyncio.Task[Any]) -> None:
        self._lookups.discard(task)
        if not task.cancelled():
            task.exception()  # seen: the request that asked may be long gone

    async def _within_budget(self, task: asyncio.Task[Any], spent_s: float) -> Any:
        """The lookup is not cancelled when its time is over.

        That would cost its connection, and where a new one takes longer than the budget there would never be one.
        """
        began_s = self._clock()
        await asyncio.wait((task,), timeout=max(0.0, self._budget_s - spent_s))
        for _ in range(_LOOP_TURNS):
            if task.cancelled():
                raise RedisUnavailable("the link is closed")
            if task.done():
                return task.result()
            await asyncio.sleep(0)
        is_fair = spent_s < self._budget_s / 2 and self._clock() - began_s < 2 * self._budget_s
        if is_fair:  # else this request, or this process, was late itself: no news of Redis
            self._note(self._breaker.late, "lookups take too long")
        raise _OverBudget("no answer within the budget")

    async def _lookup(self, calls: Sequence[ScriptCall]) -> list[Any]:
        began_s = self._clock()
        try:
            answers = await self._execute_lookup(calls)
        except RedisError as error:
            self._count_refused([error])
            self._learn(error)
            raise
        took_s = self._clock() - began_s
        self._observe_lookup_s(took_s)
        self._learn(answers, in_time=took_s <= self._budget_s)
        return answers

    async def _execute_lookup(self, calls: Sequence[ScriptCall]) -> list[Any]:
        if len(calls) == 1:
            return [await self._execute(calls[0])]
        answers = await self._execute_all(calls)
        for answer in answers:
            if isinstance(answer, RedisRefused):
                raise answer
        return answers

    async def _execute(self, call: ScriptCall) -> Any:
        try:
            return await self._client.execute(words(call))
        except RedisRefused as error:
            if error.code != "NOSCRIPT":
                raise
        return await self._client.execute(words_with_text(call))

    # in the background

    async def _watched(self, commands: Sequence[Command]) -> list[Any]:
        if self._closed:
            raise RedisUnavailable("the link is closed")
        try:
            replies = await self._execute_all(commands)
        except RedisUnavailable as error:
            self._learn(error)
            raise
        self._count_refused(replies)
        self._learn(replies[0] if replies else None)
        if self._late and not self._breaker.is_closed:  # where nobody asks, nobody else would find out
            self._probe(self._late)
        return replies

    async def _execute_all(self, commands: Sequence[Command]) -> list[Any]:
        replies = await self._client.pipeline([words(command) for command in commands])
        again = {
            at: words_with_text(command)
            for at, (command, reply) in enumerate(zip(commands, replies))
            if isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT" and isinstance(command, ScriptCall)
        }
        if again:
            for at, reply in zip(again, await self._client.pipeline(list(again.values()))):
                replies[at] = reply
        return replies

    def _count_refused(self, replies: Sequence[object]) -> None:
        self.stats.refused.update(reply.code for reply in replies if isinstance(reply, RedisRefused))

    # the breaker

    def _learn(self, reply: object, *, in_time: bool = False) -> None:
        """What a reply, or the error in its place, says of Redis. A refusal is an answer, but where it is of no use."""
        if isinstance(reply, RedisUnavailable) or (isinstance(reply, RedisRefused) and reply.code in _NO_USE):
            self._note(self._breaker.unanswered, reply)
        else:
            self._note(self._breaker.in_time if in_time else self._breaker.answered)

    def _note(self, note: Callable[[], None], why: object = "") -> None:
        was_closed = self._breaker.is_closed
        note()
        if self._breaker.is_closed:
            self._faults.works()
            return
        self.stats.openings += was_closed
        self._faults.failed(why or "answers, but not in time")

    def _connected(self) -> None:
        self.stats.connections += 1


class _OverBudget(RedisUnavailable):
    pass
