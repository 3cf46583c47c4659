"""Indexer: follows the event streams of the replicas it is told of, and writes what they hold into an index.

Owns the followers and their tasks. Does not know where replicas come from; the pool says who is to be followed,
and is asked for the new key when a stream shows that an engine process is a new one.

Several processes may follow the same replica. What one of them knows can be exported, and resumed by another that came
too late to know it from the stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Container, Mapping
from functools import partial

import zmq

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.feed import DEFAULT_TIMING, FeedTiming
from gateway.kv.feed_stats import FeedStats
from gateway.kv.follower import Follower
from gateway.kv.follower_state import FollowerState
from gateway.kv.history import SequenceState
from gateway.kv.index import IndexWriter
from gateway.kv.tiers import Tier
from gateway.supervisor import keep_running

_LOGGER = logging.getLogger(__name__)
#: Before a feed that failed is started anew.
_RETRY_S = 5.0

NewIncarnation = Callable[[ReplicaKey], ReplicaKey]
StateChanged = Callable[[ReplicaKey], None]


class Indexer:
    """``restarted`` answers with the key of the engine process that took a key's place; ``caught_up`` hears of each
    replica whose events begin to tell all there is.

    ``salted``: first blocks of prompts that were sent with a cache salt, as without it; see :class:`SaltedPrompts`.
    ``secret_id`` tells ``secret`` from others without showing it. ``wall_clock``: seconds since the epoch, for the lag
    of events alone.
    """

    def __init__(
        self,
        index: IndexWriter,
        *,
        secret: bytes,
        secret_id: str = "",
        restarted: NewIncarnation,
        caught_up: Callable[[ReplicaKey], None],
        wall_clock: Callable[[], float],
        timing: FeedTiming = DEFAULT_TIMING,
        salted: Container[int] = frozenset(),
    ) -> None:
        self.wall_clock = wall_clock
        self._index = index
        self._secret = secret
        self._secret_id = secret_id
        self._restarted = restarted
        self._caught_up = caught_up
        self._timing = timing
        self._salted = salted
        self._listeners: list[StateChanged] = []
        self._followers: dict[ReplicaKey, Follower] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None

    def __repr__(self) -> str:
        return f"<Indexer following {len(self._followers)} replicas>"

    def listen(self, state_changed: StateChanged) -> None:
        """Call ``state_changed`` with the key of each followed replica whose feed's state, completeness or block sizes
        changed, or whose key is new: at once, but when all that its stats tell is applied."""
        self._listeners.append(state_changed)

    # Who is followed

    @property
    def stats(self) -> Mapping[ReplicaKey, FeedStats]:
        """By the current key of each followed replica."""
        return {key: follower.stats for key, follower in self._followers.items()}

    def stats_of(self, key: ReplicaKey) -> FeedStats | None:
        """Of one replica; ``None``: it is not followed."""
        follower = self._followers.get(key)
        return None if follower is None else follower.stats

    def is_followed(self, key: ReplicaKey) -> bool:
        return key in self._followers

    def follow(self, key: ReplicaKey, source: EventSource) -> None:
        """Follow a replica's events, now or as soon as :meth:`run` does. Following it already: no change."""
        known = self._followers.get(key)
        if known is not None and known.source == source:
            return
        self.unfollow(key)
        follower = self._followers[key] = Follower(key, source, self)
        self._start(follower)

    def unfollow(self, key: ReplicaKey) -> None:
        """Stop following a replica and forget what it holds. Unknown: no change."""
        follower = self._followers.pop(key, None)
        if follower is None:
            return
        if follower.task is not None:
            follower.task.cancel()
        self._index.drop(key)

    def applier(self, key: ReplicaKey) -> Applier | None:
        """What a replica's events are applied by at present; ``None``: it is not followed."""
        follower = self._followers.get(key)
        return None if follower is None else follower.applier

    def appliers(self) -> list[tuple[ReplicaKey, Applier]]:
        """Those of all followed replicas."""
        return [(key, follower.applier) for key, follower in self._followers.items()]

    def restarted_hint(self, key: ReplicaKey) -> None:
        """Somebody saw that a replica's engine process is a new one; its stream is asked."""
        follower = self._followers.get(key)
        if follower is not None:
            follower.hint_restart()

    def reset_seen(self, key: ReplicaKey) -> None:
        """Somebody saw that a replica's GPU cache was emptied, which its events tell only with its next step."""
        follower = self._followers.get(key)
        if follower is not None:
            follower.reset_seen()

    def use_secret(self, secret: bytes, secret_id: str = "") -> None:
        """Hash with another secret from now on: what was hashed with the one before is forgotten."""
        changed = secret != self._secret
        self._secret, self._secret_id = secret, secret_id
        if changed:
            self.restart_all()

    def restart_all(self) -> None:
        """All followers forget what they know, and begin at the beginning."""
        for follower in list(self._followers.values()):
            follower.begin(None)
            self._start(follower)

    # What is known of one replica

    def owned(self, key: ReplicaKey) -> Mapping[Tier, Collection[int]]:
        """Own hashes of what a replica holds just now, as a copy: the snapshot to begin an index with.

        Tiers that it never told of are left out, all of them where it is not followed.
        """
        follower = self._followers.get(key)
        return {} if follower is None else follower.owned()

    def announced(self, key: ReplicaKey, tier: Tier, block: int) -> bool | None:
        """Whether a replica's events ever told of a block, by own hash, held still or not; ``None``: not followed."""
        follower = self._followers.get(key)
        return None if follower is None else follower.announced(tier, block)

    def owned_blocks(self, key: ReplicaKey, tier: Tier) -> int:
        """How many blocks of a tier a replica's events say that it holds; 0: it is not followed."""
        follower = self._followers.get(key)
        return 0 if follower is None else follower.owned_blocks(tier)

    def position(self, key: ReplicaKey) -> SequenceState | None:
        """Which batches of a replica were applied, by number and digest; ``None``: it is not followed."""
        follower = self._followers.get(key)
        return None if follower is None else follower.position()

    def disprove(self, key: ReplicaKey, reason: str) -> None:
        """Somebody saw that what events said is held is not: nothing is, until events say so again. ``reason``: for
        the count of what was lost.
        """
        follower = self._followers.get(key)
        if follower is not None:
            follower.lost(reason)

    def export(self, key: ReplicaKey) -> FollowerState | None:
        """All that is known of a replica, as a copy; ``None``: it is not followed."""
        follower = self._followers.get(key)
        return None if follower is None else follower.export(self._secret_id)

    def resume(self, key: ReplicaKey, state: FollowerState) -> None:
        """Forget what is known of a replica, and go on from what another process knew. Not followed: no change.

        Nothing of it is trusted before the replica's replay has shown the state's last batch; where it does not, or no
        longer reaches back to it, what the state says is held goes the way of all that is lost.

        Raises ``ValueError`` for a state of another namespace or under another secret, and for a replica that replays
        nothing: no state could be verified, and what is known would be lost for it.
        """
        if (state.namespace, state.secret_id) != (key.namespace, self._secret_id):
            raise ValueError("a follower's state of another model, or under another hash secret")
        follower = self._followers.get(key)
        if follower is None:
            return
        if follower.source.replay_endpoint is None:
            raise ValueError("a follower's state cannot be verified without a replay port")
        _LOGGER.info("going on from what another process knows of %s", key.replica_id)
        follower.begin(state)
        self._start(follower)

    async def run(self) -> None:
        """Run all feeds until cancelled."""
        self._context = zmq.Context()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for follower in self._followers.values():
                    self._start(follower)
                await asyncio.get_running_loop().create_future()  # for ever
        finally:
            self._tasks = None
            self._context.destroy(linger=0)
            self._context = None

    # FollowerOwner

    def begin(self, follower: Follower, state: FollowerState | None) -> Applier:
        """See :class:`~gateway.kv.follower.FollowerOwner`."""
        applier = Applier(
            follower.key,
            self._index,
            secret=self._secret,
            block_size_seen=follower.saw_block_size,
            state=state.spaces if state else None,
            salted=self._salted,
        )
        self._index.begin(follower.key, applier.owned() if state else {})
        return applier

    def replace(self, follower: Follower) -> Applier:
        """See :class:`~gateway.kv.follower.FollowerOwner`."""
        old = follower.key
        follower.key = self._restarted(old)
        applier = self.begin(follower, None)
        if follower.key != old:
            self._index.drop(old)
            self._followers[follower.key] = self._followers.pop(old)
        return applier

    def caught_up(self, follower: Follower) -> None:
        """See :class:`~gateway.kv.follower.FollowerOwner`."""
        self._caught_up(follower.key)

    def state_changed(self, follower: Follower) -> None:
        """See :class:`~gateway.kv.follower.FollowerOwner`."""
        if self._followers.get(follower.key) is follower:
            for listener in self._listeners:
                listener(follower.key)

    def _start(self, follower: Follower) -> None:
        """Run a follower's feed, in place of one that runs, from where it stands."""
        if follower.task is not None:
            follower.task.cancel()
        if self._tasks is not None and self._context is not None:
            run = partial(follower.run, self._context, self._timing)
            name = f"the feed of {follower.key.replica_id}"
            follower.task = self._tasks.create_task(keep_running(run, name, pause_s=_RETRY_S))
