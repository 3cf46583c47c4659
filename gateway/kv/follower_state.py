"""FollowerState: all that one follower knows of a replica, for another process to go on from.

vLLM has no snapshot, and replays only what its buffer still holds: whoever comes later can know the rest only from
somebody who was there. What is handed on is never simply believed: the receiver's replay must begin with the
very batch the state ends with, see :mod:`gateway.kv.sequence`.

Encoded: 8 bytes of XXH3 over the rest, then a msgpack map in which many numbers are packed. 25 bytes for a block whose
hash the publisher sends as a number, 53 for a digest of 32 bytes, and 12 for a block that is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec
from xxhash import xxh3_64_digest

from gateway.kv.applier import NOTHING_KNOWN, SpaceState
from gateway.kv.events import BlockHash
from gateway.kv.history import REMEMBERED, SequenceState
from gateway.kv.ownership import OwnershipState
from gateway.kv.packed_numbers import pack_numbers, unpack_numbers
from gateway.kv.resolver import ResolverState
from gateway.kv.tiers import Tier

_FORMAT = 1
_DIGEST_BYTES = 8
_NEGATIVE = 1 << 64  # as vLLM 0.10 sends half of its hashes; packed modulo this
_UNSIGNED, _SIGNED, _BYTES = False, True, 2  # kinds of publisher hashes; those of numbers: whether it is negative
_MOST_COPIES = (1 << 32) - 1


class FollowerState(NamedTuple):
    """A copy that nobody else changes: encode it in a thread.

    ``secret_id`` names the secret under which its hashes are our own: under another one they mean nothing.
    """

    namespace: str
    secret_id: str
    sequence: SequenceState
    spaces: Mapping[Tier, SpaceState]

    def encode(self) -> bytes:
        """For :meth:`decode`. About half a microsecond a block: for a thread where there may be many."""
        body = _ENCODER.encode(
            _Wire(
                format=_FORMAT,
                namespace=self.namespace,
                secret_id=self.secret_id,
                last=self.sequence.last,
                recent=pack_numbers(self.sequence.recent),
                since=-1 if self.sequence.since is None else self.sequence.since,
                spaces={tier: _packed(space) for tier, space in self.spaces.items()},
            )
        )
        return xxh3_64_digest(body) + body

    @staticmethod
    def decode(data: bytes) -> FollowerState:
        """Takes as long as :meth:`encode`. Raises ``ValueError`` for anything that is not a state of this format."""
        body = memoryview(data)[_DIGEST_BYTES:]
        if data[:_DIGEST_BYTES] != xxh3_64_digest(body):
            raise ValueError("not a follower's state, or not all of it")
        try:
            wire = _DECODER.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError("not a follower's state") from error
        if wire.format != _FORMAT:
            raise ValueError(f"a follower's state of format {wire.format}, not {_FORMAT}")
        sequence = SequenceState(wire.last, tuple(unpack_numbers(wire.recent)), None if wire.since < 0 else wire.since)
        spaces = {tier: _unpacked(packed) for tier, packed in wire.spaces.items()}
        _check(sequence, spaces)
        return FollowerState(wire.namespace, wire.secret_id, sequence, spaces)


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _PackedSpace(msgspec.Struct, frozen=True):
    """One tier. All but the last two lists have an entry for each block that has a name, in the resolver's order."""

    kinds: bytes  # of publisher hashes, a byte each
    numbers: bytes  # those that are numbers
    digests: bytes  # those that are bytes
    digest_sizes: bytes
    own: bytes
    parents: bytes  # 0: not known
    owned: bytes  # own hashes
    copies: bytes
    exact: bool
    group: int | None
    block_size: _Count
    most_owned: _Count


class _Wire(msgspec.Struct, frozen=True):
    format: int
    namespace: str = ""
    secret_id: str = ""
    last: int = -1
    recent: bytes = b""
    since: int = -1
    spaces: dict[Tier, _PackedSpace] = {}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Wire)


def _check(sequence: SequenceState, spaces: Mapping[Tier, SpaceState]) -> None:
    """A state that no replay could verify must not say anything."""
    remembered = len(sequence.recent)
    if not -1 <= sequence.last < _NEGATIVE or remembered > min(sequence.last + 1, REMEMBERED):
        raise ValueError("a follower's state with impossible numbers")
    if not remembered and (sequence.last >= 0 or any(space != NOTHING_KNOWN for space in spaces.values())):
        raise ValueError("a follower's state that nothing can verify")


def _packed(space: SpaceState) -> _PackedSpace:
    names, parents = space.resolver.own, space.resolver.parents
    kinds = bytes([_BYTES if isinstance(name, bytes) else name < 0 for name in names])
    digests = [name for name in names if isinstance(name, bytes)]
    return _PackedSpace(
        kinds=kinds,
        numbers=pack_numbers([name % _NEGATIVE for name in names if isinstance(name, int)]),
        digests=b"".join(digests),
        digest_sizes=pack_numbers(map(len, digests), "I"),
        own=pack_numbers(names.values()),
        parents=pack_numbers([parents.get(own, 0) for own in names.values()]),
        owned=pack_numbers(space.ownership.copies),
        copies=pack_numbers([min(count, _MOST_COPIES) for count in space.ownership.copies.values()], "I"),
        exact=space.ownership.exact,
        group=space.resolver.group,
        block_size=space.resolver.block_size,
        most_owned=space.resolver.most_owned,
    )


def _unpacked(packed: _PackedSpace) -> SpaceState:
    """By comprehensions: they let the event loop's thread in between, which ``dict(zip(...))`` does not."""
    own, parents = unpack_numbers(packed.own), unpack_numbers(packed.parents)
    owned, copies = unpack_numbers(packed.owned), unpack_numbers(packed.copies, "I")
    if not len(own) == len(parents) == len(packed.kinds) or len(owned) != len(copies) or 0 in copies:
        raise ValueError("a follower's state whose lists do not fit together")
    return SpaceState(
        ResolverState(
            {name: hash_ for name, hash_ in zip(_names(packed), own)},  # noqa: C416
            {hash_: parent for hash_, parent in zip(own, parents) if parent},
            packed.group,
            packed.block_size,
            min(packed.most_owned, len(own)),  # what was ever owned has a name, and this bounds the names
        ),
        OwnershipState({hash_: count for hash_, count in zip(owned, copies)}, packed.exact),  # noqa: C416
    )


def _names(packed: _PackedSpace) -> Iterator[BlockHash]:
    """The publisher's hashes in their order."""
    numbers, sizes = unpack_numbers(packed.numbers), unpack_numbers(packed.digest_sizes, "I")
    kinds = packed.kinds
    of_bytes = kinds.count(_BYTES)
    if of_bytes != len(sizes) or sum(sizes) != len(packed.digests):
        raise ValueError("a follower's state whose digests do not fit together")
    if kinds.count(_UNSIGNED) + kinds.count(_SIGNED) != len(numbers) or of_bytes + len(numbers) != len(kinds):
        raise ValueError("a follower's state whose names do not fit together")
    return (
        iter(numbers)
        if kinds.count(_UNSIGNED) == len(kinds)
        else _mixed_names(kinds, iter(numbers), packed.digests, sizes)
    )


def _mixed_names(
    kinds: bytes, numbers: Iterator[int], digests: bytes, digest_sizes: Iterable[int]
) -> Iterator[BlockHash]:
    sizes = iter(digest_sizes)
    start = 0
    for kind in kinds:
        if kind == _BYTES:
            size = next(sizes)
            yield digests[start : start + size]
            start += size
        else:
            yield next(numbers) - (_NEGATIVE if kind == _SIGNED else 0)
