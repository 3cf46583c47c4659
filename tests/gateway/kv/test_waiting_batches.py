"""What waits for a replay, and which of it may be another process's."""

from __future__ import annotations

from gateway.kv.history import Frame
from gateway.kv.waiting_batches import WaitingBatches


def waiting(*numbers: int, most: int = 100) -> WaitingBatches:
    batches = WaitingBatches(most)
    for number in numbers:
        batches.add(Frame(number, b""))
    return batches


def left(batches: WaitingBatches) -> list[int]:
    return [frame.sequence for frame in batches.take_all()]


def test_what_came_before_the_replay_goes_alone() -> None:
    """What came after it stays, in order."""
    batches = waiting(3, 4)
    batches.replay_asked()
    batches.add(Frame(5, b""))

    assert batches.any_before_replay_after(3)
    assert not batches.any_before_replay_after(4)
    batches.drop_before_replay()
    assert (batches.first.sequence, left(batches), len(batches)) == (5, [5], 0)


def test_what_came_before_the_connection_was_known_goes_alone() -> None:
    """Also where the replay was asked for again since."""
    batches = waiting(3)
    batches.connection_known()
    batches.add(Frame(4, b""))
    batches.replay_asked()
    batches.drop_unsure()

    assert left(batches) == [4]


def test_what_is_dropped_for_room_is_counted_no_more() -> None:
    """Else what came later would go in its place."""
    batches = waiting(1, 2, most=2)
    batches.connection_known()
    batches.replay_asked()
    batches.add(Frame(3, b""))
    batches.add(Frame(4, b""))
    batches.drop_unsure()
    batches.drop_before_replay()

    assert left(batches) == [3, 4]
