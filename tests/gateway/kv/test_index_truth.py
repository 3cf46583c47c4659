"""The index against the truth: a simulated replica's own cache, through real ZeroMQ sockets.

Whatever a replica does and whatever is lost on the way, once things are quiet the index holds no block that the
replica does not, and the very same ones where replay covers what was lost. The one exception: a block whose
store from the root was repeated may be missing after a removal, since such a store may be an announcement only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed import FeedTiming
from gateway.kv.follower_state import FollowerState
from gateway.kv.indexer import Indexer
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, matchable_blocks, pack_tokens
from loadtest.replica.block_cache import BlockCache, CacheScope
from loadtest.replica.kv_events import BlockStored, EventDialect, KVEvent
from loadtest.replica.publisher import EventPublisher
from tests.fakes.background import running
from tests.fakes.waiting import eventually

SECRET = b"secret"
BLOCK = 4
CAPACITY = 12
SHORT = 4  # batches, in a buffer that reaches back to almost nothing
_WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a failure takes seconds to be sure of
QUICK = FeedTiming(replay_timeout_s=2.0, retry_s=0.02, quiet_s=0.05, blind_after_s=0.2)


class Prompt(NamedTuple):
    """A path in a tree of shared prefixes, some tokens more than whole blocks, and what separates caches."""

    path: tuple[int, ...]
    rest: int
    generated: int
    scope: CacheScope

    @property
    def tokens(self) -> list[int]:
        """A block for each step of the path, and ``rest`` tokens."""
        whole = [100 * depth + 10 * step + i for depth, step in enumerate(self.path) for i in range(BLOCK)]
        return whole + [7] * self.rest


_SCOPES = st.sampled_from(
    [CacheScope()] * 4 + [CacheScope(cache_salt="s"), CacheScope(lora="ad", lora_id=1), CacheScope("s", "ad", 1)]
)
_PROMPTS = st.builds(
    Prompt,
    st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple),
    st.sampled_from([0, 0, 1, 2]),  # with nothing left over the last block is computed again: a copy
    st.sampled_from([0, 0, 1, 6]),
    _SCOPES,
)
_SERVE = st.tuples(st.just("serve"), _PROMPTS)
_TROUBLE = st.sampled_from(["reset", "drop", "settle", "settle"]).map(lambda name: (name, None))
_ACTIONS = st.lists(
    _SERVE | _SERVE | _SERVE | st.tuples(st.just("reannounce"), _PROMPTS) | _TROUBLE, min_size=15, max_size=80
)


class Reader:
    """One gateway: an indexer that follows the replica, and its index."""

    def __init__(self) -> None:
        self.index = MemoryIndex()
        self.key = ReplicaKey("model", "a")
        self.covered = True  # every batch of the engine process reached it, can be replayed or was handed on
        self.indexer = Indexer(
            self.index,
            secret=SECRET,
            restarted=self.restarted,
            caught_up=lambda _: None,
            wall_clock=lambda: 0.0,
            timing=QUICK,
        )

    def restarted(self, key: ReplicaKey) -> ReplicaKey:
        """The pool's part."""
        assert key == self.key
        self.key = key._replace(incarnation=key.incarnation + 1)
        return self.key

    def export(self) -> FollowerState:
        """What it knows, as another gateway gets it."""
        state = self.indexer.export(self.key)
        assert state is not None
        return FollowerState.decode(state.encode())


class World:
    """One simulated replica, and who follows it: one gateway first, another one later."""

    def __init__(self, publisher: EventPublisher) -> None:
        self.publisher = publisher
        self.cache = BlockCache(CAPACITY, BLOCK)
        self.rooted: Counter[int] = Counter()  # stores from the root, by own hash
        self.first = Reader()
        self.readers = [self.first]
        self.states: list[FollowerState] = []  # that were exported

    def publish(self) -> None:
        """What the cache did since the last time goes out as one batch."""
        events = self.cache.take_events()
        self.rooted.update(own for event in events for own in rooted_blocks(event))
        self.publisher.publish(events)

    def serve(self, prompt: Prompt, *, reannounce: bool = False) -> None:
        """One request, step by step as an engine does."""
        table = self.cache.admit(prompt.tokens, prompt.scope, reannounce=reannounce)
        if table is None or not self.cache.extend(table, len(prompt.tokens)):
            raise AssertionError("the pool is too small for the test's prompts")
        self.publish()
        for token in range(prompt.generated):
            table.tokens.append(900 + token)
            self.cache.extend(table, len(table.tokens) - 1)
            self.publish()
        self.cache.release(table)

    async def restart(self) -> None:
        """A new engine process: empty, and numbering from 0."""
        await self.publisher.restart()
        self.cache = BlockCache(CAPACITY, BLOCK)
        self.rooted.clear()
        for reader in self.readers:
            reader.covered = self.publisher.buffer_steps > SHORT

    def lose_the_past(self) -> None:
        """What did not arrive until now, or does not soon, never will."""
        self.publisher.forget_buffer()
        for reader in self.readers:
            reader.covered = False

    def hand_over(self, state: FollowerState, reader: Reader) -> None:
        """A reader goes on from a state, as complete as that is and what the buffer reaches back to."""
        since = self.publisher.next_sequence - state.sequence.last
        reader.covered = self.first.covered and since <= self.publisher.buffer_steps
        reader.indexer.resume(reader.key, state)

    def truth(self) -> dict[int, int]:
        """Copies of each resident block, by our own hash."""
        return {
            own_chain(prefix.tokens, prefix.lora, prefix.cache_salt)[-1]: prefix.copies
            for prefix in self.cache.resident_prefixes().values()
        }

    def difference(self) -> str:
        """What is wrong with the indexes; empty: nothing."""
        return next(filter(None, map(self.difference_of, self.readers)), "")

    def difference_of(self, reader: Reader) -> str:
        """What is wrong with one index."""
        index, key = reader.index, reader.key
        stats = reader.indexer.stats[key]
        # A process that can replay nothing is taken for a new one that has published nothing.
        expected = {self.publisher.next_sequence - 1} | ({-1} if not reader.covered else set())
        if stats.last_sequence not in expected or stats.state is not FeedState.FRESH:
            return f"not there yet: {stats}"
        truth = self.truth()
        held = {own for own in truth if index.holds(key, Tier.L0, own)}
        if len(held) != index.owned(key, Tier.L0) or {*reader.indexer.owned(key).get(Tier.L0, ())} != held:
            return f"ghosts: {index.owned(key, Tier.L0)} owned, {len(held)} of them resident"
        missing = truth.keys() - held
        if reader.covered and any(self.rooted[own] < 2 for own in missing):
            return f"{len(missing)} of {len(truth)} missing although replay covers"
        return ""

    async def settle(self) -> None:
        """Wait until the index is right; fail with what is wrong."""
        try:
            await eventually(lambda: not self.difference(), timeout_s=10)
        except AssertionError:
            pytest.fail(self.difference())

    def check_match(self, prompt: Prompt) -> None:
        """The match is never longer than what the cache would serve; as long where nothing is missing."""
        chain = own_chain(pack_tokens(prompt.tokens), prompt.scope.lora, prompt.scope.cache_salt)
        chain = chain[: matchable_blocks(len(prompt.tokens), BLOCK)]
        truth = self.truth()
        resident = next((n for n, own in enumerate(chain) if own not in truth), len(chain)) * BLOCK
        for reader in self.readers:
            matched = reader.index.match_now({BLOCK: chain}, [reader.key])[reader.key].usable
            assert matched <= resident
            if len(truth) == reader.index.owned(reader.key, Tier.L0):
                assert matched == resident

    def matched(self, prompt: Prompt) -> int | None:
        """Tokens of a prompt that the first reader finds in L0."""
        chain = own_chain(pack_tokens(prompt.tokens), prompt.scope.lora, prompt.scope.cache_salt)
        return self.first.index.match_now({BLOCK: chain}, [self.first.key])[self.first.key].l0

    @asynccontextmanager
    async def following(self, reader: Reader) -> AsyncIterator[None]:
        """Let a reader follow the replica."""
        reader.indexer.follow(reader.key, EventSource(self.publisher.endpoint, self.publisher.replay_endpoint))
        async with running(reader.indexer.run()):
            yield


def own_chain(tokens: bytes, lora: str, salt: str) -> list[int]:
    """Our own hashes of a prefix."""
    return extend_chain(chain_root(SECRET, "model", lora, salt, BLOCK), tokens, BLOCK)


def rooted_blocks(event: KVEvent) -> Sequence[int]:
    """Own hashes of the blocks of a store from the root."""
    if not isinstance(event, BlockStored) or event.parent_block_hash is not None:
        return ()
    salt = next((key for key in event.extra_keys[0] or () if key != event.lora_name), "")
    return own_chain(pack_tokens(event.token_ids), event.lora_name or "", salt)


@asynccontextmanager
async def world(dialect: EventDialect = EventDialect.V0_32, *, buffer_steps: int = 10_000) -> AsyncIterator[World]:
    """Everything started, and the first reader's feed connected."""
    async with EventPublisher(dialect=dialect, buffer_steps=buffer_steps) as publisher:
        made = World(publisher)
        async with made.following(made.first):
            await made.settle()
            yield made


async def play(made: World, actions: Sequence[tuple[str, Prompt | None]]) -> None:
    """Do it all, then see that the index is right."""
    for name, prompt in actions:
        match name:
            case "serve" | "reannounce" if prompt is not None:
                made.serve(prompt, reannounce=name == "reannounce")
            case "reset":
                made.cache.reset()
            case "drop":
                made.publisher.drop_frames(2)
            case "forget":
                made.lose_the_past()
            case "restart":
                await made.restart()
            case "export":
                made.states.append(made.first.export())
            case "resume":
                made.hand_over(made.states[-1], made.readers[-1])
                made.readers[-1].covered = False
            case _:
                made.publish()  # a reset is published with the next step, and held back until then
                await made.settle()
    made.publish()
    await made.settle()
    for _, prompt in actions:
        if prompt is not None:
            made.check_match(prompt)


@given(actions=_ACTIONS, dialect=st.sampled_from([EventDialect.V0_18, EventDialect.V0_25, EventDialect.V0_32]))
@settings(max_examples=60, phases=_WITHOUT_SHRINKING)
def test_the_index_equals_the_cache_where_replay_covers(
    actions: list[tuple[str, Prompt | None]], dialect: EventDialect
) -> None:
    """Stores, removals, copies, announcements, clears and lost frames, in old and new forms of events."""

    async def run() -> None:
        async with world(dialect) as made:
            await play(made, actions)
            assert made.first.indexer.stats[made.first.key].complete

    asyncio.run(run())


@given(
    actions=_ACTIONS,
    trouble=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(["restart", "forget", "forget"])), min_size=1, max_size=3
    ),
)
@settings(max_examples=40, phases=_WITHOUT_SHRINKING)
def test_never_a_ghost_and_converging_when_replay_cannot_cover(
    actions: list[tuple[str, Prompt | None]], trouble: list[tuple[float, str]]
) -> None:
    """Restarts and losses for good: a subset, and all of it again once the cache was filled anew."""
    for where, name in trouble:
        actions.insert(int(where * len(actions)), (name, None))

    async def run() -> None:
        async with world() as made:
            await play(made, actions)
            for fresh in range(CAPACITY // 2):
                made.serve(Prompt((10 + fresh, 0, 0, 0), 1, 0, CacheScope()))
            made.first.covered = True
            made.rooted.clear()
            await made.settle()

    asyncio.run(run())


def _whole(actions: list[tuple[str, Prompt | None]]) -> list[tuple[str, Prompt | None]]:
    """Without what a short buffer cannot mend."""
    return [action for action in actions if action[0] != "drop"]


@given(
    before=st.lists(_SERVE, min_size=8, max_size=40).flatmap(lambda served: _ACTIONS.map(lambda more: served + more)),
    meanwhile=st.lists(_SERVE, max_size=3),
    after=_ACTIONS,
)
@settings(max_examples=40, phases=_WITHOUT_SHRINKING)
def test_a_newcomer_that_goes_on_from_anothers_state_equals_the_cache(
    before: list[tuple[str, Prompt | None]],
    meanwhile: list[tuple[str, Prompt | None]],
    after: list[tuple[str, Prompt | None]],
) -> None:
    """More was published than the buffer holds. As long as it reaches back to the state, nothing is missing; else the
    newcomer holds a part, and never a ghost."""

    async def run() -> None:
        async with world(buffer_steps=SHORT) as made:
            await play(made, _whole(before))
            newcomer = Reader()
            async with made.following(newcomer):
                made.readers.append(newcomer)
                newcomer.covered = False
                await play(made, _whole(meanwhile))
                state = made.first.export()
                for _, prompt in meanwhile:
                    if prompt is not None:
                        made.serve(prompt)
                made.hand_over(state, newcomer)
                await made.settle()
                await play(made, _whole(after))

                stats = newcomer.indexer.stats[newcomer.key]
                assert stats.complete or not newcomer.covered
                assert not newcomer.covered or stats.lost.total() == 0

    asyncio.run(run())


@given(
    actions=_ACTIONS,
    trouble=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(["restart", "forget", "export", "resume", "resume"])),
        min_size=3,
        max_size=8,
    ),
)
@settings(max_examples=40, phases=_WITHOUT_SHRINKING)
def test_a_state_handed_on_in_any_trouble_never_brings_ghosts(
    actions: list[tuple[str, Prompt | None]], trouble: list[tuple[float, str]]
) -> None:
    """Of another process, from long ago or twice: what cannot be verified is not believed once things are quiet."""
    for where, name in trouble:
        actions.insert(int(where * len(actions)), (name, None))

    async def run() -> None:
        async with world(buffer_steps=SHORT) as made:
            newcomer = Reader()
            async with made.following(newcomer):
                made.readers.append(newcomer)
                made.first.covered = newcomer.covered = False
                await made.settle()
                made.states.append(made.first.export())
                await play(made, actions)

    asyncio.run(run())


async def test_after_a_loss_a_new_block_brings_back_the_prefix_it_stands_on() -> None:
    """Nobody announces a hot prefix again, yet the next request on top of it restores all of it."""
    async with world() as made:
        made.serve(Prompt((0, 0, 0, 0), 1, 0, CacheScope()))
        await made.settle()
        made.publisher.drop_frames(1)
        made.serve(Prompt((1, 1), 1, 0, CacheScope()))
        made.lose_the_past()
        made.serve(Prompt((1, 0), 1, 0, CacheScope()))
        await made.settle()
        assert made.first.indexer.stats[made.first.key].lost == {"unreplayable": 1}
        hot = Prompt((0, 0, 0, 0, 1), 1, 0, CacheScope())
        before = made.matched(hot)

        made.serve(hot)
        await made.settle()

        assert (before, made.matched(hot)) == (0, 5 * BLOCK)
