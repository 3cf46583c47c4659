"""ClusterClient: the nodes of a cluster as one client.

A key lies in one of 16,384 slots, and each slot at one node. Which one is learned from any node, and corrected by every
MOVED. Formats: the cluster specification's CLUSTER SLOTS, MOVED, ASK.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from gateway.redis_url import Host
from gateway.shared.link.redis_client import PooledClient
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.script import Word

_MOST_REDIRECTIONS = 5
_MOST_SEEDS = 3  # of the nodes that were there last, beside the configured ones


class ClusterClient:
    """``hosts``: nodes to begin with; the cluster says which others there are. ``node``: makes a node's client."""

    def __init__(self, hosts: Sequence[Host], node: Callable[[Host], PooledClient], timeout_s: float) -> None:
        self._hosts = tuple(hosts)
        self._seeds = list(hosts)  # whom to ask for the map, in turn
        self._make_node = node
        self._timeout_s = timeout_s
        self._nodes: dict[Host, PooledClient] = {}
        self._slots: list[Host | None] = []  # by number; empty: not known
        self._learning = asyncio.Lock()

    async def execute(self, words: tuple[Word, ...]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._redirected(words, await self._host_of(words))
        except TimeoutError:
            self._forget()
            raise RedisUnavailable("no answer in time") from None

    async def pipeline(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        """Commands to one node keep their order. One that was redirected runs after the others."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._pipeline(commands)
        except RedisRefused as error:  # the map: none of them ran
            return [error] * len(commands)
        except TimeoutError:
            self._forget()
            raise RedisUnavailable("no answer in time") from None

    async def dedicated(self) -> AbstractConnection:
        """To any node: what is published at one is told to all."""
        slots = await self._map()
        return await self._node(random.choice([host for host in slots if host is not None])).dedicated()

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()

    async def _pipeline(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        at_host: defaultdict[Host, list[int]] = defaultdict(list)
        for at, words in enumerate(commands):
            at_host[await self._host_of(words)].append(at)
        parts = [self._part(host, [commands[at] for at in ats]) for host, ats in at_host.items()]
        answers = await asyncio.gather(*parts)
        replies: list[Any] = [None] * len(commands)
        for ats, part in zip(at_host.values(), answers):
            if isinstance(part, RedisUnavailable):
                raise part
            for at, reply in zip(ats, part):
                replies[at] = await self._settled(commands[at], reply)
        return replies

    async def _part(self, host: Host, commands: Sequence[tuple[Word, ...]]) -> list[Any] | RedisUnavailable:
        try:
            return await self._node(host).pipeline(commands)
        except RedisUnavailable as error:
            self._forget()
            return error  # raised when the other nodes have answered

    async def _settled(self, words: tuple[Word, ...], reply: Any) -> Any:
        """The reply, or that of the node to which it sends us."""
        if not _is_redirection(reply):
            return reply
        try:
            return await self._redirected(words, await self._host_of(words), reply)
        except RedisRefused as error:
            return error

    async def _redirected(self, words: tuple[Word, ...], host: Host, refusal: RedisRefused | None = None) -> Any:
        for _ in range(_MOST_REDIRECTIONS):
            try:
                if refusal is not None and refusal.code == "ASK":
                    return await self._ask(_target(refusal, host), words)
                if refusal is not None:
                    host = self._moved(refusal, host)
                return await self._node(host).execute(words)
            except RedisRefused as error:
                if not _is_redirection(error):
                    raise
                refusal = error
            except RedisUnavailable:
                self._forget()
                raise
        raise RedisUnavailable("the cluster's nodes disagree")

    async def _ask(self, host: Host, words: tuple[Word, ...]) -> Any:
        """A slot is on its way to another node: for this one command it is there."""
        _, reply = await self._node(host).pipeline([("ASKING",), words])
        if isinstance(reply, RedisRefused):
            raise reply
        return reply

    def _moved(self, refusal: RedisRefused, asked: Host) -> Host:
        host = _target(refusal, asked)
        if self._slots:
            self._slots[int(refusal.text.split()[0])] = host
        return host

    def _node(self, host: Host) -> PooledClient:
        node = self._nodes.get(host)
        if node is None:
            node = self._nodes[host] = self._make_node(host)
        return node

    # the map

    async def _host_of(self, words: tuple[Word, ...]) -> Host:
        host = (self._slots or await self._map())[key_slot(_key(words))]
        if host is None:
            raise RedisUnavailable("CLUSTERDOWN a slot is at no node")
        return host

    def _forget(self) -> None:
        """Ask for the map before the next command: a node may have been replaced."""
        self._slots = []

    async def _map(self) -> list[Host | None]:
        async with self._learning:
            for _ in range(len(self._seeds)):
                if self._slots:
                    break
                await self._learn(self._seeds[0])
            if not self._slots:
                raise RedisUnavailable("no node of the cluster answers")
            return self._slots

    async def _learn(self, seed: Host) -> None:
        try:
            async with asyncio.timeout(self._timeout_s / (len(self._seeds) + 1)):
                answer = await self._node(seed).execute(("CLUSTER", "SLOTS"))
        except (TimeoutError, RedisUnavailable):
            self._seeds.append(self._seeds.pop(0))
            return
        slots: list[Host | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        for first, last, (name, port, *_), *_replicas in answer:
            slots[first : last + 1] = [Host((name or b"").decode() or seed.name, port)] * (last + 1 - first)
        current = {host for host in slots if host is not None}
        if not current:
            raise RedisUnavailable("CLUSTERDOWN no slot is at any node")
        self._slots = slots
        self._seeds = [*random.sample(sorted(current), min(len(current), _MOST_SEEDS)), *self._hosts]
        for host in self._nodes.keys() - current - set(self._hosts):
            await self._nodes.pop(host).leave()


def _is_redirection(reply: object) -> bool:
    return isinstance(reply, RedisRefused) and reply.code in ("MOVED", "ASK")


def _target(refusal: RedisRefused, asked: Host) -> Host:
    """Of ``MOVED 3999 127.0.0.1:6381``; without a name, it is another port of the same."""
    name, _, port = refusal.text.split()[1].rpartition(":")
    return Host(name or asked.name, int(port))


def _key(words: tuple[Word, ...]) -> bytes:
    """What says where a command goes. Wrong for a few commands, whose first word is no key: those are redirected."""
    is_script = str(words[0]).upper() in ("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO")
    key = next(iter(words[3 if is_script else 1 :]), b"")
    return key if isinstance(key, bytes) else str(key).encode()
