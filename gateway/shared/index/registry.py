"""Registry: which replicas of a namespace have entries in Redis, and where, as one process knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState

_VERSION_FIELD = b"v"
_REPLICA_FIELD = b"r:"
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]  # whoever wrote it: prompts are hashed in blocks of so many
_STATES = {state.label: state for state in FeedState}


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a writer tells of a replica. Fields that a newer process adds are ignored."""

    secret_id: str
    state: str = FeedState.FRESH.label
    complete: bool = True
    block_sizes: dict[int, _Tokens] = {}  # by tier
    tiers: tuple[int, ...] = (0,)  # that were ever told of
    lag_s: float | None = None

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


class Entry:
    """One replica: the epoch its sets are in, and what to believe of them."""

    __slots__ = ("blind", "details", "epoch", "has_lapsed", "stats")

    def __init__(self, epoch: int, details: Details) -> None:
        self.epoch = epoch
        self.details = details
        self.has_lapsed = False  # its sets were not there: nobody writes them
        self.stats = _stats(details, _STATES.get(details.state, FeedState.SUSPECT))
        self.blind = _stats(details, FeedState.BLIND)  # the same while Redis does not answer

    def __repr__(self) -> str:
        return f"<Entry in epoch {self.epoch}, {self.details}>"

    def has(self, tier: Tier) -> bool:
        """Whether that tier was ever told of."""
        return int(tier) in self.details.tiers


class Registry:
    """A copy of one namespace's registry. Entries under another hash secret say nothing to us and are left out."""

    def __init__(self) -> None:
        self.version = b""
        self.entries: Mapping[str, Entry] = {}  # by replica id
        self.storing: Mapping[str, Entry] = {}  # those that ever told of L2
        self.foreign: Mapping[str, Entry] = {}  # those under another hash secret
        self.unreadable = 0
        self._read: dict[bytes, tuple[bytes, Entry | None]] = {}  # by field

    def __repr__(self) -> str:
        return f"<Registry of {len(self.entries)} replicas>"

    def read(self, fields: Sequence[bytes], secret_id: str) -> None:
        """Take over what Redis has: names and values in turn, as HGETALL answers them.

        What did not change keeps its entry: a large fleet's registry changes often, a replica at a time.
        """
        values = dict(zip(fields[::2], fields[1::2]))
        entries: dict[str, Entry] = {}
        foreign: dict[str, Entry] = {}
        self.unreadable = 0
        before, self._read = self._read, {}
        for field, value in values.items():
            if not field.startswith(_REPLICA_FIELD):
                continue
            replica_id = field.removeprefix(_REPLICA_FIELD).decode(errors="replace")
            known = before.get(field)
            if known is None or known[0] != value:
                known = value, _read_entry(value)
            self._read[field] = known
            _, entry = known
            if entry is None:
                self.unreadable += 1
            elif entry.details.secret_id != secret_id:
                foreign[replica_id] = entry
            else:
                entries[replica_id] = entry
        self.version = values.get(_VERSION_FIELD, b"")
        self.entries, self.foreign = entries, foreign
        self.storing = {replica_id: entry for replica_id, entry in entries.items() if entry.has(Tier.L2)}


def _read_entry(value: bytes) -> Entry | None:
    epoch, _, details = value.partition(b" ")
    try:
        return Entry(int(epoch), msgspec.msgpack.decode(details, type=Details))
    except (ValueError, msgspec.MsgspecError):
        return None


def _stats(details: Details, state: FeedState) -> FeedStats:
    sizes = {tier: details.block_sizes[tier] for tier in Tier if details.block_sizes.get(tier)}
    return FeedStats(
        state=state,
        block_sizes=sizes,
        l0_block_size=sizes.get(Tier.L0, 0),
        lag_s=details.lag_s,
        counts_removed=False,
    )
