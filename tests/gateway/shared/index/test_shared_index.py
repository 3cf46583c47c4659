"""What a process knows by itself, and of the other replicas what Redis says."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import IndexUnavailable
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.kv.trust import FeedState
from gateway.redis_url import RedisTarget
from gateway.shared.index.shared_index import SharedIndex
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.shared.index.redis_pair import RedisPair
from tests.gateway.shared.link.links import PATIENT_S, echo, until_asked, until_given_up

OWN, OTHER, PARTLY, SILENT = (ReplicaKey("m", id_) for id_ in ("own", "other", "partly", "silent"))
BLOCKS = list(range(10))
CHAINS = {16: BLOCKS}
FOLLOWED = FeedStats(state=FeedState.FRESH, block_sizes={Tier.L0: 16}, l0_block_size=16, since=0)
PART = FeedStats(state=FeedState.FRESH, block_sizes={Tier.L0: 16}, l0_block_size=16, since=400)


class Process:
    """It follows ``own``, and a part of ``partly``'s events; another one writes ``other`` and ``partly``.

    ``silent`` publishes events, and nobody has heard of them yet.
    """

    def __init__(self, link: RedisLink) -> None:
        self.link = link
        self.pair = RedisPair(link)
        self.pair.block_sizes[0] = 32
        self.memory = MemoryIndex()
        self.followed = {OWN: FOLLOWED, PARTLY: PART}
        self.index = SharedIndex(
            self.memory,
            self.pair.reader,
            followed=self.followed.get,
            is_own=lambda key: key == OWN,
            has_events=lambda key: key.server_id != "no events",
            is_up=lambda: link.is_up,
        )

    async def fill(self) -> None:
        """What is here, and what is in Redis: of ``own`` as well, as told before it changed."""
        self.memory.begin(OWN, {Tier.L0: BLOCKS})
        self.memory.begin(PARTLY, {Tier.L0: BLOCKS[:2]})
        for key, held in ((OWN, BLOCKS[:1]), (OTHER, BLOCKS[:7]), (PARTLY, BLOCKS[:8])):
            self.pair.begin(key, {Tier.L0: held})
        await self.pair.match(CHAINS, [OWN])

    async def tokens(self, *keys: ReplicaKey) -> dict[str, int | None]:
        return {key.server_id: held.l0 for key, held in (await self.index.match(CHAINS, keys)).items()}


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def process(proxy: TcpProxy) -> AsyncIterator[Process]:
    target = RedisTarget.parse(f"redis://127.0.0.1:{proxy.port}")
    link = RedisLink(target, clock=time.monotonic, budget_s=PATIENT_S, timeout_s=PATIENT_S)
    process = Process(link)
    await process.fill()
    yield process
    await link.close()


async def test_own_knowledge_first_and_of_the_others_what_redis_says(
    process: Process, redis_server: RedisServer
) -> None:
    """Also of a replica of which another process knows more; where all is known here nobody is asked."""
    redis_server.client().config_resetstat()

    assert await process.tokens(OWN) == {"own": 160}
    assert "evalsha" not in redis_server.command_counts()
    assert await process.tokens(OWN, OTHER, PARTLY) == {"own": 160, "other": 112, "partly": 128}
    assert redis_server.command_counts()["evalsha"] == 1


async def test_it_says_whether_redis_has_to_be_asked(process: Process) -> None:
    """Only of replicas whose events are not all followed here."""
    assert process.index.knows([OWN])
    assert not process.index.knows([OWN, PARTLY])
    assert process.index.match_now(CHAINS, [OWN])[OWN].l0 == 160


async def test_a_fleet_without_replicas(process: Process) -> None:
    """Holds nothing."""
    assert await process.tokens() == {}


async def test_what_nobody_knows_is_absent(process: Process) -> None:
    """It is not a replica that holds nothing."""
    assert await process.tokens(OWN, SILENT) == {"own": 160}


async def test_an_own_replica_that_memory_does_not_know_yet_is_asked_for(process: Process) -> None:
    """As in the moment in which its engine became a new one."""
    process.memory.drop(OWN)

    assert await process.tokens(OWN, OTHER) == {"own": 16, "other": 112}


async def test_without_redis_what_is_known_here_has_to_do(process: Process, proxy: TcpProxy) -> None:
    """It is told that it is not all; the part that is known of a replica others know better counts then."""
    await proxy.refuse()
    await until_given_up(process.link, echo())

    with pytest.raises(IndexUnavailable) as caught:
        await process.tokens(OWN, OTHER, PARTLY, SILENT)

    assert caught.value.known == {OWN: TierTokens(160, None, None), PARTLY: TierTokens(32, None, None)}
    assert await process.tokens(OWN) == {"own": 160}


async def test_a_refusal_is_no_answer_either(process: Process, redis_server: RedisServer) -> None:
    """Something else lies in a set's place."""
    entry = process.pair.reader.entry(OTHER)
    assert entry is not None
    redis_server.client().set(process.pair.keys.blocks(OTHER, entry.epoch, Tier.L0), "no set")

    with pytest.raises(IndexUnavailable) as caught:
        await process.tokens(OWN, OTHER)

    assert list(caught.value.known) == [OWN]


async def test_a_feed_is_what_it_is_here_or_what_its_writer_tells(process: Process) -> None:
    """Of a replica that sends no events nothing; of one that nobody heard of yet, that it is blind."""
    stats = process.index.stats

    assert stats(OWN) is FOLLOWED
    assert [(stats(key) or FeedStats()).state for key in (OTHER, PARTLY)] == [FeedState.FRESH] * 2
    assert stats(PARTLY) is not PART
    unheard = stats(SILENT)
    assert unheard is not None
    assert (unheard.state, unheard.block_sizes) == (FeedState.BLIND, {})
    assert stats(ReplicaKey("m", "no events")) is None


async def test_without_redis_the_others_are_blind_and_keep_their_block_sizes(
    process: Process, proxy: TcpProxy, redis_server: RedisServer
) -> None:
    """So prompts are hashed as before, and what was sent there is remembered; what is known here stays what it is."""
    await proxy.refuse()
    await until_given_up(process.link, echo())

    blind = process.index.stats(OTHER)
    assert blind is not None
    assert (blind.state, blind.block_sizes, blind.l0_block_size) == (FeedState.BLIND, {Tier.L0: 32}, 32)
    assert process.index.stats(OWN) is FOLLOWED

    await proxy.heal()
    await until_asked(process.link, echo())
    assert (process.index.stats(OTHER) or FeedStats()).state is FeedState.FRESH


async def test_a_part_of_a_history_counts_while_nobody_tells_more(process: Process) -> None:
    """It is followed here, and not registered."""
    lonely = ReplicaKey("m", "lonely")
    process.followed[lonely] = PART

    assert process.index.stats(lonely) is PART


async def test_whose_writer_died_is_blind(process: Process, redis_server: RedisServer) -> None:
    """Its sets lapsed; the first look-up notices, and a new epoch mends it."""
    entry = process.pair.reader.entry(OTHER)
    assert entry is not None
    redis_server.client().delete(process.pair.keys.blocks(OTHER, entry.epoch, Tier.L0))
    assert await process.tokens(OTHER) == {}
    assert (process.index.stats(OTHER) or FOLLOWED).state is FeedState.BLIND

    process.pair.writer.renew_now()
    await process.pair.writer.round()
    await process.pair.settle()
    assert await process.tokens(OTHER) == {"other": 112}
    assert (process.index.stats(OTHER) or FeedStats()).state is FeedState.FRESH
