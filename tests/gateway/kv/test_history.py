"""What was applied: a batch is known again by its number and its bytes."""

from __future__ import annotations

from gateway.kv.history import AT_THE_BEGINNING, REMEMBERED, Frame, History


def batch(number: int, process: str = "a") -> Frame:
    return Frame(number, f"{process}{number}".encode())


def test_a_batch_is_told_from_another_under_its_number() -> None:
    """As far back as digests are remembered; before that nobody can tell."""
    history = History()
    for number in range(REMEMBERED + 3):
        history.add(batch(number))

    assert history.knows(batch(REMEMBERED)) is True
    assert history.knows(batch(REMEMBERED, "b")) is False
    assert history.knows(batch(3)) is True
    assert history.knows(batch(2)) is None


def test_a_break_forgets_what_came_before_and_begins_a_run() -> None:
    """The number applied last still stands."""
    history = History()
    history.add(batch(0))
    history.break_off()
    assert (history.last, history.since, history.knows(batch(0))) == (0, None, None)

    history.add(batch(7))
    assert (history.last, history.since, history.knows(batch(7))) == (7, 7, True)


def test_nothing_applied_is_empty_whatever_a_state_says_of_its_beginning() -> None:
    """What had published nothing may have done so since."""
    history = History(AT_THE_BEGINNING._replace(since=0))
    assert (history.is_empty, history.since) == (True, None)

    history.add(batch(0))
    assert not history.is_empty
    history.forget()
    assert history.export() == AT_THE_BEGINNING


def test_what_is_exported_is_gone_on_from() -> None:
    """With the same digests, and apart from then on."""
    history = History()
    history.add(batch(4))
    state = history.export()
    history.add(batch(5))

    other = History(state)
    assert (other.last, other.since, other.knows(batch(4))) == (4, 4, True)
    assert repr(other) == "<History 4 to 4>"
