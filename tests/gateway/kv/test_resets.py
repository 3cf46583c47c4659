"""One reset, heard of twice, counts once; two count twice."""

from __future__ import annotations

from gateway.kv.resets import PAIRED_S, Resets


def test_an_event_after_a_notice_is_of_the_same_reset() -> None:
    """However late: an idle engine takes no step. What is noticed next is another one."""
    resets = Resets()

    assert resets.noticed(0.0)
    resets.told(5000.0)
    assert resets.noticed(5001.0)


def test_a_notice_soon_after_an_event_is_of_the_same_reset() -> None:
    """Once."""
    resets = Resets()
    resets.told(10.0)

    assert not resets.noticed(12.0)
    assert resets.noticed(12.0)


def test_an_event_that_nobody_noticed_hides_no_later_reset() -> None:
    """As where an engine was reset in a way that nothing counts; and a clock may be set back."""
    resets = Resets()
    resets.told(10.0)
    assert resets.noticed(10.1 + PAIRED_S)

    resets = Resets()
    resets.told(10.0)
    assert resets.noticed(9.0)


def test_several_notices_await_one_event() -> None:
    """Whoever noticed it."""
    resets = Resets()
    assert resets.noticed(0.0)
    assert resets.noticed(0.0)
    resets.told(1.0)
    resets.told(1.0)

    assert not resets.noticed(2.0)
