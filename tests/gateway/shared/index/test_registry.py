"""What a process knows of a registry."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.shared.index.registry import Details, Registry


def fields(**entries: bytes) -> list[bytes]:
    """A registry as Redis has it."""
    return [b"v", b"version", *(word for name, value in entries.items() for word in (b"r:" + name.encode(), value))]


def test_an_entry_tells_epoch_tiers_and_feed() -> None:
    """As a reader needs them; blind, with the same sizes, while Redis does not answer."""
    details = Details("s", state="suspect", block_sizes={0: 16, 1: 64}, tiers=(0, 1), lag_s=0.5)
    registry = Registry()

    registry.read(fields(a=b"12 " + details.encode()), "s")

    entry = registry.entries["a"]
    assert registry.version == b"version"
    assert (entry.epoch, entry.has(Tier.L1), entry.has(Tier.L2)) == (12, True, False)
    assert (entry.stats.state, entry.stats.l0_block_size, entry.stats.lag_s) == (FeedState.SUSPECT, 16, 0.5)
    assert not entry.stats.counts_removed
    assert (entry.blind.state, entry.blind.block_sizes) == (FeedState.BLIND, {Tier.L0: 16, Tier.L1: 64})


def test_hashes_under_another_secret_mean_nothing_here() -> None:
    """Their replicas are named, so that it can be told."""
    registry = Registry()

    registry.read(fields(a=b"1 " + Details("theirs").encode(), b=b"1 " + Details("ours").encode()), "ours")

    assert list(registry.entries) == ["b"]
    assert set(registry.foreign) == {"a"}


def test_what_a_newer_process_adds_is_left_alone() -> None:
    """Unknown fields, states and tiers are no error; an unknown state is believed half."""
    newer = msgspec.msgpack.encode(
        {"secret_id": "s", "state": "odd", "tiers": [0, 7], "block_sizes": {0: 16, 9: 1}, "x": []}
    )
    registry = Registry()

    registry.read([*fields(a=b"1 " + newer), b"new", b"field"], "s")

    assert registry.entries["a"].stats.state is FeedState.SUSPECT
    assert registry.entries["a"].stats.block_sizes == {Tier.L0: 16}


@pytest.mark.parametrize("sizes", [{0: 0}, {0: -16}, {0: 1 << 40}, {1: "16"}, {0: None}, [16]])
def test_a_size_that_no_block_has_is_garbage(sizes: object) -> None:
    """A prompt could not be hashed in it: the replica is as one that is not registered."""
    details = msgspec.msgpack.encode({"secret_id": "s", "block_sizes": sizes})
    registry = Registry()

    registry.read(fields(a=b"1 " + details), "s")

    assert (registry.entries, registry.unreadable) == ({}, 1)


@given(value=st.binary(max_size=60))
def test_garbage_is_skipped_and_counted(value: bytes) -> None:
    """Whoever wrote it."""
    registry = Registry()

    registry.read(fields(bad=b"x" + value, good=b"1 " + Details("s").encode()), "s")

    assert list(registry.entries) == ["good"]
    assert registry.unreadable == 1


def test_what_did_not_change_is_not_read_again() -> None:
    """A large fleet's registry changes often; what was noted of a replica stays until it does itself."""
    same, registry = b"1 " + Details("s").encode(), Registry()
    registry.read(fields(a=same, b=same), "s")
    entry = registry.entries["a"]

    registry.read(fields(a=same, b=b"2 " + Details("s").encode()), "s")

    assert registry.entries["a"] is entry
    assert registry.entries["b"].epoch == 2


def test_another_secret_is_compared_with_what_was_read_before() -> None:
    """Ours may change while the registry does not."""
    same, registry = fields(a=b"1 " + Details("old").encode(), b=b"x"), Registry()
    registry.read(same, "old")

    registry.read(same, "new")

    assert not registry.entries
    assert set(registry.foreign) == {"a"}
    assert registry.unreadable == 1
