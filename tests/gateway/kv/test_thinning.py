"""Whatever is given up, and whenever: what is left is a part of what is held, has no holes, and stays right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.events import EventBatch, decode
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from loadtest.replica.block_cache import BlockCache
from loadtest.replica.kv_events import EventDialect, encode_batch

KEY = ReplicaKey("model", "a")
SECRET = b"secret"
BLOCK = 4
_ROOT = chain_root(SECRET, "model", "", "", BLOCK)


def tokens_of(path: list[int]) -> list[int]:
    """A block for each step of a path in a tree of shared prefixes, and one token more."""
    return [100 * depth + 10 * step + i for depth, step in enumerate(path) for i in range(BLOCK)] + [7]


def chain_of(path: list[int]) -> list[int]:
    """Own hashes of its blocks."""
    return extend_chain(_ROOT, pack_tokens(tokens_of(path)), BLOCK)


class Followed:
    """One replica's cache, and what is known of it by its events."""

    def __init__(self, capacity: int = 16) -> None:
        self.cache = BlockCache(capacity, BLOCK)
        self.index = MemoryIndex()
        self.index.begin(KEY, {})
        self.applier = Applier(KEY, self.index, secret=SECRET, block_size_seen=lambda *_: None)

    def serve(self, path: list[int]) -> dict[str, int]:
        """One request, and its events; how many of them were not used."""
        self.cache.serve(tokens_of(path))
        payload = encode_batch(self.cache.take_events(), 1.0, 0, EventDialect.V0_32)
        return dict(self.applier.apply(decode(payload)))

    def held(self) -> set[int]:
        """The truth, by own hash."""
        prefixes = self.cache.resident_prefixes().values()
        return {extend_chain(_ROOT, prefix.tokens, BLOCK)[-1] for prefix in prefixes}

    def before(self, block: int) -> list[int]:
        """The blocks of its prompt before one that is held."""
        for prefix in self.cache.resident_prefixes().values():
            chain = extend_chain(_ROOT, prefix.tokens, BLOCK)
            if chain[-1] == block:
                return chain[:-1]
        raise AssertionError("not held")

    def known(self) -> set[int]:
        """What the index says of it."""
        known = {block for block in self.applier.owned().get(Tier.L0, ()) if self.index.holds(KEY, Tier.L0, block)}
        assert len(known) == self.index.owned(KEY, Tier.L0)
        return known

    def matched(self, path: list[int]) -> int:
        """In blocks."""
        return (self.index.match_now({BLOCK: chain_of(path)}, [KEY])[KEY].l0 or 0) // BLOCK

    def thin(self, keep: int, asked: tuple[int, ...] = ()) -> int:
        """All steps at once; how much was given up."""
        return all_of(self.applier.thin(Tier.L0, keep, asked))


def all_of(steps: Iterator[None]) -> int:
    """Take all steps; what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


_PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=5)
_ACTIONS = st.lists(
    _PATHS.map(lambda path: ("serve", path))
    | st.integers(0, 12).map(lambda keep: ("thin", [keep]))
    | st.just(("step", list[int]()))
    | st.just(("forget", list[int]())),
    max_size=40,
)


@given(_ACTIONS, st.integers(6, 30))
def test_what_is_left_is_a_part_without_holes(actions: list[tuple[str, list[int]]], capacity: int) -> None:
    """Through any work with evictions, a pass that goes on meanwhile, and passes broken off: no block that the cache
    does not hold, none without the one before it, and the index says the same."""
    followed = Followed(capacity)
    steps: Iterator[None] = iter(())
    for name, what in actions:
        if name == "serve":
            followed.serve(what)
        elif name == "thin":
            steps = followed.applier.thin(Tier.L0, what[0], list(followed.held())[:2], step=2)
        elif name == "forget":
            all_of(followed.applier.forget_spare(Tier.L0, all_unowned=True))
        next(steps, None)
        known = followed.known()
        assert known <= followed.held()
        assert all(before in known for block in known for before in followed.before(block))


def test_what_was_asked_for_is_kept_and_then_the_latest() -> None:
    """Of four prompts the first was asked for, with its descendants not; the last was stored last."""
    followed = Followed(100)
    for step in range(4):
        followed.serve([step, 1, 1])
    given_up = followed.thin(5, asked=(chain_of([0, 1])[-1],))

    assert given_up == 7
    assert [followed.matched([step, 1, 1]) for step in range(4)] == [2, 0, 0, 3]


def test_shared_beginnings_stay_as_long_as_anything_on_them() -> None:
    """The oldest block of all, with the latest on top of it."""
    followed = Followed(100)
    for step in range(6):
        followed.serve([0, step])
    followed.thin(3)

    assert [followed.matched([0, step]) for step in range(6)] == [1, 1, 1, 1, 2, 2]


def test_removals_of_what_was_given_up_do_no_harm() -> None:
    """The cache evicts them in the end; nobody trips over it."""
    followed = Followed(8)
    followed.serve([0, 0, 0])
    followed.serve([1, 1, 1])
    followed.thin(0)
    assert followed.known() == set()
    for step in range(2, 9):
        followed.serve([step, step, step])

    assert followed.known() == followed.held()


def test_what_comes_meanwhile_stays_with_all_before_it() -> None:
    """A block is stored on top of one that was about to go."""
    followed = Followed(100)
    for step in range(4):
        followed.serve([step, 0, 0])
    steps = followed.applier.thin(Tier.L0, 3, (), step=5)
    next(steps)
    next(steps)
    followed.serve([0, 0, 0, 5])
    all_of(steps)

    assert followed.matched([0, 0, 0, 5]) == 4
    assert followed.matched([1, 0, 0]) == 0


def test_a_loss_ends_a_pass_before_it_forgets_what_hashes_mean() -> None:
    """The cache holds them still, and says so with the next block that is stored on top of them."""
    followed = Followed(100)
    for step in range(6):
        followed.serve([0, 1, step])
    steps = followed.applier.thin(Tier.L0, 4, (), step=2)
    next(steps)
    followed.applier.lose()
    all_of(steps)

    assert followed.serve([0, 1, 2, 3]) == {}
    assert followed.matched([0, 1, 2, 3]) == 4


@pytest.mark.parametrize("all_unowned", [False, True])
def test_hashes_that_name_nothing_are_forgotten(all_unowned: bool) -> None:
    """Down to as many as were ever held at once, or to those that are."""
    followed = Followed(8)
    for step in range(20):
        followed.serve([step, step])
    followed.applier.lose()
    followed.serve([30, 30, 30])
    before = {size.tier: size for size in followed.applier.sizes()}[Tier.L0]
    forgotten = all_of(followed.applier.forget_spare(Tier.L0, all_unowned=all_unowned))
    after = {size.tier: size for size in followed.applier.sizes()}[Tier.L0]

    assert before.spare > 0
    assert after.spare == 0
    assert after.resolved == before.resolved - forgotten == (3 if all_unowned else before.resolved - before.spare)
    assert followed.matched([30, 30, 30]) == 3


def test_nothing_known_is_nothing_to_give_up() -> None:
    """No event has come yet."""
    followed = Followed()

    assert followed.thin(0) == 0
    assert followed.applier.apply(EventBatch(0.0, ())) == {}
