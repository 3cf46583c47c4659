"""Names in Redis: no two things share one, and a namespace lies in one slot, whatever people call things."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.link.keys import Keys

ODD = [
    "",
    " ",
    "{",
    "}",
    "{}",
    "{fleet}",
    "ns=",
    "a:b",
    "a#1",
    "a:5:l0",
    "x:writer",
    "x:handover",
    "é",
    "模型",
    "*",
    "%7B",
]
names = st.sampled_from(ODD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
replicas = st.builds(ReplicaKey, names, names, st.integers(0, 3))


def all_of(keys: Keys, key: ReplicaKey) -> list[str]:
    """Every key that is about one replica or its namespace."""
    sets = [keys.blocks(key, epoch, tier) for epoch in (1, 23) for tier in Tier]
    named = [keys.writer(key), keys.wanted(key), keys.handover(key)]
    return [keys.registry(key.namespace), keys.epochs(key.namespace), *named, *sets]


@given(one=replicas, two=replicas)
def test_no_two_things_share_a_name(one: ReplicaKey, two: ReplicaKey) -> None:
    """Replicas with odd ids, namespaces with odd names, and the two keys that a namespace's replicas have in common."""
    keys = Keys()
    ours, theirs = all_of(keys, one), all_of(keys, two)

    assert len(set(ours)) == len(ours)
    if (one.namespace, one.replica_id) == (two.namespace, two.replica_id):
        assert ours == theirs
    elif one.namespace == two.namespace:
        assert set(ours) & set(theirs) == {keys.registry(one.namespace), keys.epochs(one.namespace)}
    else:
        assert not set(ours) & set(theirs)


@given(key=replicas, prefix=names)
def test_a_namespace_lies_in_one_slot(key: ReplicaKey, prefix: str) -> None:
    """One script may touch all of it, whatever braces there are in a name; so may one touch what is the fleet's."""
    keys = Keys(prefix)

    assert len({key_slot(name.encode()) for name in all_of(keys, key)}) == 1
    fleet = [keys.fleet("members"), keys.fleet("records"), keys.fleet("orders"), keys.fleet("order=1")]
    assert len({key_slot(name.encode()) for name in fleet}) == 1
    assert all(name.isascii() and not re.search(r"\s", name) for name in all_of(keys, key))


def test_an_incarnation_is_no_part_of_a_name() -> None:
    """Each process counts them for itself; what tells them apart in Redis is the epoch."""
    keys, key = Keys(), ReplicaKey("m", "a", 1)

    assert all_of(keys, key) == all_of(keys, key._replace(incarnation=7))


def test_schemas_and_fleets_lie_side_by_side() -> None:
    """An older process never sees a newer one's index; members, orders, secret, load and handovers are for all."""
    key = ReplicaKey("m", "a")
    old, new, others = Keys("pw"), Keys("pw", 2), Keys("other")

    assert set(all_of(old, key)) & set(all_of(new, key)) == {old.wanted(key), old.handover(key)}
    assert old.fleet("secret") == new.fleet("secret")
    assert not {*all_of(old, key), old.fleet("x")} & {*all_of(others, key), others.fleet("x")}
    assert all(name.startswith("pw:") for keys in (old, new) for name in (*all_of(keys, key), keys.fleet("load")))
