"""What a follower knows, as bytes and back; and bytes that are nothing of the kind."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_digest

from gateway.kv.applier import SpaceState
from gateway.kv.events import BlockHash
from gateway.kv.follower_state import FollowerState
from gateway.kv.history import AT_THE_BEGINNING, REMEMBERED, SequenceState
from gateway.kv.ownership import OwnershipState
from gateway.kv.resolver import ResolverState
from gateway.kv.tiers import Tier

_OWN = st.integers(0, 2**64 - 1)
_NAMES = st.integers(-(2**63), 2**64 - 1) | st.binary(min_size=32, max_size=32) | st.binary(max_size=3)


@st.composite
def _resolvers(draw: st.DrawFn) -> ResolverState:
    own = draw(st.dictionaries(_NAMES, _OWN, max_size=20))
    known = [hash_ for hash_ in own.values() if draw(st.booleans())]
    parents = {hash_: draw(st.integers(1, 2**64 - 1)) for hash_ in known}
    group = draw(st.none() | st.integers(0, 3))
    return ResolverState(own, parents, group, draw(st.integers(0, 256)), draw(st.integers(0, len(own))))


_SPACES = st.builds(
    SpaceState,
    _resolvers(),
    st.builds(OwnershipState, st.dictionaries(_OWN, st.integers(1, 2**32 - 1), max_size=20), st.booleans()),
)
_STATES = st.builds(
    FollowerState,
    st.text(max_size=8),
    st.text(max_size=8),
    st.builds(
        lambda recent, before, since: SequenceState(before + len(recent), tuple(recent), since),
        st.lists(_OWN, min_size=1, max_size=40),
        st.integers(-1, 2**40),
        st.none() | st.integers(0, 1 << 40),
    ),
    st.dictionaries(st.sampled_from(Tier), _SPACES),
)


def in_order(state: FollowerState) -> list[list[object]]:
    """The entries of all dictionaries whose order says what goes first."""
    return [
        list(entries.items())
        for space in state.spaces.values()
        for entries in (space.resolver.own, space.ownership.copies)
    ]


def sealed(body: bytes) -> bytes:
    """With the digest that belongs to it."""
    return xxh3_64_digest(body) + body


def a_state(names: int = 3) -> FollowerState:
    """A small one."""
    own: dict[BlockHash, int] = {100 + number: 200 + number for number in range(names)}
    space = SpaceState(
        ResolverState(own, {200: 1, 201: 200}, 0, 16, names), OwnershipState({200: 1, 201: 2}, exact=True)
    )
    return FollowerState("model", "secret-id", SequenceState(7, (5, 6), since=0), {Tier.L0: space})


def changed(**fields: Any) -> bytes:
    """A small state's bytes with other fields, those of its one tier among them."""
    wire = msgspec.msgpack.decode(a_state().encode()[8:])
    space = wire["spaces"][0]
    for name, value in fields.items():
        (space if name in space else wire)[name] = value
    return sealed(msgspec.msgpack.encode(wire))


@given(_STATES)
def test_a_state_comes_back_as_it_was(state: FollowerState) -> None:
    """Numbers, negative ones and digests as hashes, in one order; unknown parents, excluded blocks, every tier."""
    back = FollowerState.decode(state.encode())

    assert back == state
    assert in_order(back) == in_order(state)


def test_a_state_of_nothing_comes_back() -> None:
    """An engine that has published nothing."""
    state = FollowerState("model", "", AT_THE_BEGINNING._replace(since=0), {tier: SpaceState() for tier in Tier})

    assert FollowerState.decode(state.encode()) == state


@pytest.mark.parametrize(("digests", "most"), [(False, 32), (True, 60)])
def test_a_state_is_small(digests: bool, most: int) -> None:
    """Bytes for each block that has a name, when half of them are held."""
    rng = random.Random(1)
    own = [rng.getrandbits(64) for _ in range(4000)]
    names = [rng.randbytes(32) if digests else rng.getrandbits(64) for _ in own]
    space = SpaceState(
        ResolverState(dict(zip(names, own)), dict(pairwise(own)), 0, 16, 2000),
        OwnershipState(dict.fromkeys(own[:2000], 1), exact=True),
    )
    state = FollowerState("model", "id", SequenceState(7, (1,)), {Tier.L0: space})

    assert len(state.encode()) < most * len(own)


def test_more_copies_than_fit_are_fewer() -> None:
    """Never more than there are."""
    state = a_state()
    many = state.spaces[Tier.L0]._replace(ownership=OwnershipState({200: 2**40}, exact=True))

    back = FollowerState.decode(state._replace(spaces={Tier.L0: many}).encode())

    assert back.spaces[Tier.L0].ownership.copies == {200: 2**32 - 1}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        sealed(b""),
        sealed(b"\xc1"),
        sealed(msgspec.msgpack.encode([1, 2])),
        sealed(msgspec.msgpack.encode({})),
        sealed(b"\x91" * 100_000),
        a_state().encode()[:-1],
        a_state().encode() + b"\0",
        changed(format=2),
        changed(last=-1),
        changed(last=-2),
        changed(last=0),
        changed(recent=b""),
        changed(recent=bytes(7)),
        changed(last=5000, recent=bytes(8 * (REMEMBERED + 1))),
        changed(spaces={3: {}}),
        changed(kinds=bytes(4)),
        changed(kinds=b"\x02\0\0"),
        changed(kinds=b"\x03\0\0"),
        changed(numbers=bytes(8)),
        changed(digests=b"x"),
        changed(digest_sizes=bytes(4)),
        changed(digest_sizes=b"\xff" * 4),
        changed(own=bytes(32)),
        changed(parents=b""),
        changed(owned=bytes(8)),
        changed(copies=bytes(8)),
        changed(block_size="16"),
        changed(block_size=-1),
        changed(most_owned=-1),
    ],
)
def test_what_is_no_state_is_refused(data: bytes) -> None:
    """Truncated, of another format, with lists that do not fit together, or with nothing to verify it by."""
    with pytest.raises(ValueError, match=r"."):
        FollowerState.decode(data)


def test_a_bound_that_cannot_be_is_no_bound() -> None:
    """A resolver that goes on from it must not grow for ever."""
    state = FollowerState.decode(changed(most_owned=2**62))

    assert state.spaces[Tier.L0].resolver.most_owned == 3


def test_fields_of_a_later_version_are_ignored() -> None:
    """As long as the format is the same."""
    wire = msgspec.msgpack.decode(a_state().encode()[8:])

    assert FollowerState.decode(sealed(msgspec.msgpack.encode({**wire, "new": [1]}))) == a_state()


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=300)
def test_random_bytes_raise_one_error_only(data: bytes, with_digest: bool) -> None:
    """Whether or not their digest is right."""
    with pytest.raises(ValueError, match=r"."):
        FollowerState.decode(sealed(data) if with_digest else data)


@given(_STATES, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8), st.booleans())
@settings(max_examples=500)
@example(a_state(), [(0, 0xDF), (1, 0xFF)], True)
def test_mutated_bytes_are_a_state_or_an_error(
    state: FollowerState, mutations: list[tuple[int, int]], with_digest: bool
) -> None:
    """Changed anywhere: unnoticed only with a new digest, and then still a state that can be encoded."""
    body = bytearray(state.encode()[8:])
    for where, value in mutations:
        body[where % len(body)] = value
    data = sealed(bytes(body)) if with_digest else state.encode()[:8] + bytes(body)

    try:
        decoded = FollowerState.decode(data)
    except ValueError:
        return
    assert FollowerState.decode(decoded.encode()) == decoded
    assert with_digest or decoded == state
