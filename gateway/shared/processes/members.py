"""Members: which processes there are, and what each told of itself.

Every beat writes this process's record and reads those of the others. Who is silent for ``dead_after_s`` by Redis's
clock is gone.

After an outage of Redis, or a flush, the first process to beat would find itself alone. So whoever learns that its own
record was lost, or took too long, believes for a moment more in those whom it knew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Script, ScriptCall
from gateway.shared.processes.member_record import MemberRecord, digest, replica_number

DEAD_AFTER_S = 3.0
_BACK_WITHIN_S = 1.0  # two beats: how long the others may take to come back after an outage
_KEYS_S = 60
_BEAT = Script.load("members")


class _Heard(NamedTuple):
    digest: str
    record: MemberRecord | None  # None: unreadable


class Members:
    """A :class:`~gateway.shared.processes.heartbeat.HeartbeatPart`."""

    def __init__(
        self,
        keys: Keys,
        record: Callable[[], MemberRecord],
        *,
        clock: Callable[[], float],
        dead_after_s: float = DEAD_AFTER_S,
    ) -> None:
        """``record``: this process's own, as it is now. ``clock``: seconds, monotonic."""
        self._keys = (keys.fleet("members"), keys.fleet("records"))
        self._record = record
        self._clock = clock
        self._dead_after_s = dead_after_s
        self._heard: dict[str, _Heard] = {}
        self._answered_s = float("-inf")
        self._lenient_until_s = float("-inf")
        self._listeners: list[Callable[[], None]] = []
        self.others: Mapping[str, MemberRecord] = {}
        self.unreadable = 0  # records that could not be read, each counted once
        self.mine = record()

    def __repr__(self) -> str:
        return f"<Members {len(self.others) + 1} known={self.known}>"

    @property
    def known(self) -> bool:
        """Whether the others were heard of lately. If not, :attr:`others` is as it was then."""
        return self._clock() - self._answered_s < self._dead_after_s

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back whenever somebody came, left or told something else."""
        self._listeners.append(callback)

    def refresh(self) -> None:
        """Take our own record anew: :attr:`mine` is otherwise as old as the last beat."""
        self.mine = self._record()

    # who knows a replica

    def rivals(self, key: ReplicaKey) -> int:
        """The most ``knowledge`` that another process has of a replica that can take its writing over; -1: none can.

        It writes keys of the same schema, and stays.
        """
        number = replica_number(key)
        return max((record.replicas.get(number, -1) for record in self._equals()), default=-1)

    def best_known(self, key: ReplicaKey) -> int:
        """The most ``knowledge`` that any other process has, whatever it is; -1: none."""
        number = replica_number(key)
        return max((record.replicas.get(number, -1) for record in self.others.values()), default=-1)

    def can_follow(self, key: ReplicaKey) -> list[str]:
        """The processes that can, this one included."""
        number = replica_number(key)
        able = [record.process_id for record in self._equals() if number in record.replicas]
        return [self.mine.process_id, *able] if number in self.mine.replicas and not self.mine.leaving else able

    def followers(self, key: ReplicaKey, count: int = 2) -> list[str]:
        """Which of them should: the ``count`` first by rendezvous hashing.

        Every process finds the same ones. One that does not know of all others yet follows too much, never too little.
        """
        return sorted(self.can_follow(key), key=lambda id_: _rank(id_, key), reverse=True)[:count]

    def first_gateway(self, key: ReplicaKey) -> str:
        """Which of the gateways, whether it follows events or not, does what only one is to do for a replica."""
        gateways = [r.process_id for r in (self.mine, *self.others.values()) if r.kind == "gateway" and not r.leaving]
        return max(gateways, key=lambda id_: _rank(id_, key), default=self.mine.process_id)

    def _equals(self) -> Iterator[MemberRecord]:
        """The others that can stand in for this process."""
        return (record for record in self.others.values() if record.schema == self.mine.schema and not record.leaving)

    # beats

    def command(self) -> ScriptCall:
        self.refresh()
        data = self.mine.encode()
        known = [word for id_, heard in self._heard.items() for word in (id_, heard.digest)]
        dead_after_ms = round(self._dead_after_s * 1000)
        return ScriptCall(_BEAT, self._keys, (self.mine.process_id, digest(data), data, dead_after_ms, _KEYS_S, *known))

    def answered(self, answer: Sequence[Any]) -> None:
        now = self._clock()
        own_age_ms, *rows = answer
        heard = {id_: row for id_, row in map(self._hear, rows[::3], rows[1::3], rows[2::3]) if row is not None}
        if self._heard and not 0 <= own_age_ms <= self._dead_after_s * 1000:
            self._lenient_until_s = now + _BACK_WITHIN_S
        if now < self._lenient_until_s:
            heard = self._heard | heard
        self._answered_s = now
        if heard != self._heard:
            self._heard = heard
            self.others = {id_: row.record for id_, row in heard.items() if row.record is not None}
            for callback in self._listeners:
                callback()

    def missed(self) -> None:
        """They stay as they were: :attr:`known` tells."""

    async def leave(self, link: RedisLink) -> None:
        """Tell the others that this process ends, after its last beat. Without Redis they notice by themselves."""
        with suppress(RedisError):
            await link.run_all([("HDEL", key, self.mine.process_id) for key in self._keys])

    def _hear(self, id_: bytes, name: bytes, data: bytes) -> tuple[str, _Heard | None]:
        """What is now known of one process. ``data`` is empty where it did not change."""
        process_id, known = id_.decode(errors="replace"), name.decode(errors="replace")
        if not data:
            return process_id, self._heard.get(process_id)
        try:
            return process_id, _Heard(known, MemberRecord.decode(data))
        except ValueError:
            self.unreadable += 1
            return process_id, _Heard(known, None)


def _rank(process_id: str, key: ReplicaKey) -> int:
    """Of rendezvous hashing."""
    return xxh3_64_intdigest(f"{process_id}/{key.namespace}/{key.replica_id}".encode())
