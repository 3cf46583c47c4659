"""Changes of a set that wait to be written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.shared.index.pending_changes import Batch, PendingChanges

_BLOCKS = st.sets(st.integers(0, 5))
_STEPS = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "clear", "write", "fail", "fail halfway"]), _BLOCKS, _BLOCKS),
    max_size=30,
)


def written(held: set[int], batch: Batch) -> set[int]:
    """What a set holds after a batch."""
    return ((set() if batch.cleared else held) | batch.stored) - batch.removed


@given(steps=_STEPS)
def test_whatever_fails_in_between_the_last_word_counts(steps: list[tuple[str, set[int], set[int]]]) -> None:
    """A batch may be written, lost, or written and thought lost; in the end the set is what it must be."""
    pending, held, there = PendingChanges(), set[int](), set[int]()
    for name, stored, removed in [*steps, ("write", set(), set())]:
        match name:
            case "apply":
                pending.apply(stored, removed)
                held = (held | stored) - removed
            case "clear":
                pending.clear()
                held = set()
            case "write":
                there = written(there, pending.take())
            case _:
                batch = pending.take()
                if name == "fail halfway":
                    there = written(there, batch)
                pending.apply(stored, removed)
                held = (held | stored) - removed
                pending.put_back(batch)
    assert there == held
    assert not pending


def test_it_grows_with_the_blocks_and_not_with_the_events() -> None:
    """One block stored and removed for ever is one entry."""
    pending = PendingChanges()
    for _ in range(1000):
        pending.apply([1, 2], ())
        pending.apply((), [1])

    assert len(pending) == 2
    assert pending.take() == Batch(False, {2}, {1})
