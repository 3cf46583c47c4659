"""What is expected of prompts on their way, against a plain model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.routed import Routed, RoutedEntry

A, B = ReplicaKey("m", "a"), ReplicaKey("m", "b")
CHAIN = [1, 2, 3, 4]


def test_a_prompt_is_expected_while_in_flight_and_a_moment_after() -> None:
    """From dispatch until the grace after the end is over, at that replica alone."""
    routed = Routed()
    assert routed.match({16: CHAIN}, [A, B], now=0) == {}

    entry = routed.add(A, {16: CHAIN[:3]}, now=0)
    assert routed.match({16: CHAIN}, [A, B], now=100) == {A: 48}

    routed.end(entry, now=100, keep=False)
    assert routed.match({16: CHAIN}, [A, B], now=100.9) == {A: 48}
    assert routed.match({16: CHAIN}, [A, B], now=101) == {}


def test_requests_are_counted() -> None:
    """Two that share a prefix: the shared part stays until both are over, and the counts say so."""
    routed = Routed()
    first = routed.add(A, {16: [1, 2, 3]}, now=0)
    second = routed.add(A, {16: [1, 2, 9]}, now=0)
    assert (routed.in_flight(A), routed.in_flight(B)) == ({1: 2, 2: 2, 3: 1, 9: 1}, {})

    routed.end(first, now=0, keep=False)
    routed.end(first, now=0, keep=False)

    assert routed.in_flight(A) == {1: 1, 2: 1, 9: 1}
    assert routed.match({16: CHAIN}, [A], now=2) == {A: 32}
    routed.end(second, now=2, keep=False)
    assert routed.in_flight(A) == {}


def test_without_events_prompts_are_kept_up_to_the_capacity() -> None:
    """The least recently used prompt goes first, from its end; nothing is for ever."""
    routed = Routed(kept_s=100)
    routed.set_capacity(A, 5 * 16)
    for now, chain in enumerate([[1, 2, 3], [7, 8, 9]]):
        routed.end(routed.add(A, {16: chain}, now=now), now=now, keep=True)

    assert routed.match({16: [1, 2, 3]}, [A], now=2) == {A: 32}
    assert routed.match({16: [7, 8, 9]}, [A], now=2) == {A: 48}
    routed.set_capacity(A, 3 * 16)
    assert routed.match({16: [1, 2, 3]}, [A], now=2) == {}
    assert routed.match({16: [7, 8, 9]}, [A], now=101) == {}


def test_each_replica_has_its_own_block_size() -> None:
    """Given several chains the smallest blocks count; what is expected is asked in the same size."""
    routed = Routed()
    routed.add(A, {16: CHAIN, 64: [99]}, now=0)
    routed.add(B, {64: [99]}, now=0)

    assert routed.match({16: CHAIN[:2], 64: [99]}, [A, B], now=0) == {A: 32, B: 64}


def test_a_prompt_without_blocks_is_no_trouble() -> None:
    """Shorter than a block, or not known at all."""
    routed = Routed()
    nothing: list[dict[int, list[int]]] = [{16: []}, {}]
    for chains in nothing:
        routed.end(routed.add(A, chains, now=0), now=0, keep=True)

    assert routed.match({16: CHAIN}, [A], now=0) == {}


def test_a_dropped_replicas_entries_may_still_end() -> None:
    """What was in flight when a replica went neither fails nor comes back."""
    routed = Routed()
    entry = routed.add(A, {16: CHAIN}, now=0)
    routed.drop(A)
    routed.drop(A)
    routed.add(A, {16: [8]}, now=0)

    routed.end(entry, now=0, keep=True)

    assert routed.match({16: CHAIN}, [A], now=0) == {}
    assert len(routed.in_flight(A)) == 1


def test_what_goes_goes_in_steps() -> None:
    """A very long prompt is forgotten over several calls, its deepest blocks first, and in the end altogether."""
    routed, chain = Routed(grace_s=1.0), list(range(25_000))
    routed.end(routed.add(A, {16: chain}, now=0), now=0, keep=False)

    lengths = [routed.match({16: chain}, [A], now=2).get(A, 0) // 16 for _ in range(4)]

    assert lengths == [15_000, 5_000, 0, 0]


def _kept(routed: Routed, chain: list[int], now: float, *, answer_blocks: float = 0.0, size: int = 16) -> None:
    routed.end(routed.add(A, {size: chain}, now=now), now=now, keep=True, answer_blocks=answer_blocks)


def test_the_capacity_is_in_tokens_whatever_the_blocks() -> None:
    """Unknown it is the default; 64 tokens are two blocks of 32."""
    routed = Routed(default_capacity=64)
    _kept(routed, CHAIN, 0.0, size=32)

    assert routed.match({32: CHAIN}, [A], now=0) == {A: 64}
    routed.set_capacity(A, 96)
    _kept(routed, CHAIN, 0.0, size=32)
    assert routed.match({32: CHAIN}, [A], now=0) == {A: 96}


def test_what_is_in_flight_takes_its_place_at_once() -> None:
    """As in the engine: a long prompt displaces what was kept when it is sent, not when it has ended."""
    routed = Routed(default_capacity=6 * 16)
    _kept(routed, CHAIN, 0.0)
    entry = routed.add(A, {16: [6, 7, 8, 9]}, now=1)

    assert routed.match({16: CHAIN}, [A], now=1) == {A: 32}
    assert routed.match({16: [6, 7, 8, 9]}, [A], now=1) == {A: 64}
    routed.end(entry, now=1, keep=False)


def test_answers_take_place_too() -> None:
    """The engine keeps them: two prompts of four blocks do not fit beside two answers of three."""
    routed = Routed(default_capacity=12 * 16)
    _kept(routed, [1, 2, 3, 4], 0.0, answer_blocks=3.0)
    _kept(routed, [5, 6, 7, 8], 1.0, answer_blocks=3.0)
    assert routed.match({16: [1, 2, 3, 4]}, [A], now=1) == {A: 64}  # its answer went, being the oldest

    _kept(routed, [9], 2.0, answer_blocks=2.0)
    assert routed.match({16: [1, 2, 3, 4]}, [A], now=2) == {A: 32}
    assert routed.match({16: [5, 6, 7, 8]}, [A], now=2) == {A: 64}


def test_blocks_of_another_size_replace_what_was_kept() -> None:
    """The replica came back with others. A prompt that was in flight then is not kept either."""
    routed = Routed()
    _kept(routed, CHAIN, 0.0)
    entry = routed.add(A, {16: [7, 8]}, now=0)
    _kept(routed, [5], 0.0, size=32)
    routed.end(entry, now=0, keep=True)

    assert routed.match({16: CHAIN, 32: [5]}, [A], now=500) == {A: 32}
    assert routed.entries == 1


def test_a_short_time_without_events_leaves_nothing_behind() -> None:
    """What was kept meanwhile is forgotten with its answers once events tell again; what is in flight stays."""
    routed = Routed()
    _kept(routed, CHAIN, 0.0, answer_blocks=5.0)
    entry = routed.add(A, {16: [1, 9]}, now=0)
    routed.forget_kept(A)
    routed.forget_kept(B)

    assert routed.match({16: CHAIN}, [A], now=0) == {A: 16}
    routed.end(entry, now=0, keep=False)
    assert routed.match({16: CHAIN}, [A], now=1) == {}
    assert routed.entries == 0


def test_a_cache_that_was_emptied_has_only_what_is_on_its_way() -> None:
    """Neither what was kept nor what events should have confirmed by now."""
    routed = Routed()
    _kept(routed, [7], 0.0)
    routed.end(routed.add(A, {16: [8]}, now=0), now=0, keep=False)
    routed.add(A, {16: [9]}, now=0)
    routed.forget_past(A)
    routed.forget_past(B)

    assert [routed.match({16: [block]}, [A], now=0) for block in (7, 8, 9)] == [{}, {}, {A: 16}]


def test_the_oldest_of_all_is_forgotten_first() -> None:
    """Whichever replica has it; the deepest blocks before the others; never what is in flight."""
    routed = Routed()
    _kept(routed, CHAIN, 0.0)
    routed.end(routed.add(B, {16: CHAIN}, now=1), now=1, keep=True)
    routed.add(B, {16: CHAIN[:1]}, now=2)

    assert routed.forget_oldest(3) == 3
    assert routed.match({16: CHAIN}, [A, B], now=2) == {A: 16, B: 64}
    assert [routed.forget_oldest(100) for _ in range(3)] == [1, 4, 0]
    assert routed.match({16: CHAIN}, [A, B], now=2) == {B: 16}


_CHAIN = st.lists(st.integers(1, 2), max_size=5).map(
    lambda steps: [int("".join(map(str, steps[: n + 1]))) for n in range(len(steps))]
)
_STEP = st.tuples(
    st.sampled_from(["add", "add", "end", "wait"]), st.sampled_from([A, B]), _CHAIN, st.floats(0, 1), st.booleans()
)


@given(st.lists(_STEP, max_size=60))
@settings(max_examples=200)
def test_it_answers_as_the_model_does(steps: list[tuple[str, ReplicaKey, list[int], float, bool]]) -> None:
    """Random dispatches and ends: expected is what is in flight, and what ended not too long ago."""
    routed = Routed(grace_s=1.0, kept_s=4.0)
    now = 0.0
    in_flight: list[tuple[RoutedEntry, ReplicaKey, list[int]]] = []
    lingering: list[tuple[float, ReplicaKey, list[int]]] = []
    for name, key, chain, share, keep in steps:
        if name == "add":
            in_flight.append((routed.add(key, {16: chain}, now=now), key, chain))
        elif name == "wait":
            now += 2 * share
        elif in_flight:
            entry, ended, blocks = in_flight.pop(int(share * (len(in_flight) - 1)))
            routed.end(entry, now=now, keep=keep)
            lingering.append((now + (4.0 if keep else 1.0), ended, blocks))
        for replica in (A, B):
            mine = [blocks for _, at, blocks in in_flight if at == replica]
            expected = {block for blocks in mine for block in blocks}
            assert len(routed.in_flight(replica)) == len(expected)
            assert routed.in_flight(replica).get(1, 0) == sum(1 in blocks for blocks in mine)
            expected |= {block for until, at, blocks in lingering if at == replica and until > now for block in blocks}
            prefix = next((n for n, block in enumerate(chain) if block not in expected), len(chain))
            assert routed.match({16: chain}, [replica], now=now).get(replica, 0) == prefix * 16
