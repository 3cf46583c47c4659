"""Admission beside a plain model of it: whatever comes, the books are right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.admission import Ticket
from gateway.errors import Overloaded
from tests.gateway.edge.admitting import TIMEOUT_S, Time, an_admission, enter


class House:
    """An admission and, beside it, what it ought to do, written as plainly as can be."""

    def __init__(self) -> None:
        self.time = Time()
        self.told: list[object] = []
        self.admission = an_admission(self.time, inflight=4, tokens=100, queue=5, queue_tokens=120)
        self.tickets: dict[int, Ticket] = {}
        self.running: dict[int, int] = {}
        self.waiting: list[tuple[int, int, int, float]] = []  # -priority, number, tokens, since
        self.expected: list[int] = []
        self.over: list[int] = []
        self.count = 0

    def fits(self, tokens: int) -> bool:
        return not self.running or (len(self.running) < 4 and sum(self.running.values()) + tokens <= 100)

    def enter(self, tokens: int, priority: int) -> None:
        number, self.count = self.count, self.count + 1
        queued = sum(turn[2] for turn in self.waiting)
        first = not self.waiting or -priority < min(self.waiting)[0]
        if not (first and self.fits(tokens)) and (len(self.waiting) == 5 or (self.waiting and queued + tokens > 120)):
            with pytest.raises(Overloaded):
                enter(self.admission, number, self.told, tokens, priority)
            return
        self.waiting.append((-priority, number, tokens, self.time.now))
        self.call_up()
        self.tickets[number] = enter(self.admission, number, self.told, tokens, priority)

    def release(self, number: int) -> None:
        self.running.pop(number, None)
        self.waiting = [turn for turn in self.waiting if turn[1] != number]
        self.call_up()
        self.tickets[number].release()

    def pass_by(self, seconds: float) -> None:
        end = self.time.now + seconds
        while due := [turn[3] + TIMEOUT_S for turn in self.waiting if turn[3] + TIMEOUT_S <= end]:
            self.over += [turn[1] for turn in self.waiting if turn[3] + TIMEOUT_S == min(due)]
            self.waiting = [turn for turn in self.waiting if turn[3] + TIMEOUT_S > min(due)]
            self.call_up()
        self.time.pass_by(seconds)

    def call_up(self) -> None:
        while self.waiting and self.fits(min(self.waiting)[2]):
            turn = min(self.waiting)
            self.waiting.remove(turn)
            self.running[turn[1]] = turn[2]
            self.expected.append(turn[1])

    def check(self) -> None:
        counts = self.admission.counts()
        admitted = [name for name in self.told if isinstance(name, int)]
        expired = [name[1] for name in self.told if isinstance(name, tuple)]
        assert admitted == self.expected
        assert sorted(expired) == sorted(self.over)
        assert counts["inflight"] == len(self.running) <= 4
        assert counts["inflight_tokens"] == sum(self.running.values())
        assert counts["inflight_tokens"] <= 100 or counts["inflight"] == 1
        assert counts["waiting"] == len(self.waiting) <= 5
        assert counts["waiting_tokens"] == sum(turn[2] for turn in self.waiting)
        assert counts["waiting_tokens"] <= 120 or counts["waiting"] == 1
        ended = counts["admitted"] + counts["refused"] + counts["expired"] + counts["left"]
        assert ended + counts["waiting"] == self.count
        assert len(self.time.timers) <= 1
        assert self.time.timers or not self.waiting


STEPS = st.one_of(
    st.tuples(st.just("enter"), st.integers(0, 130), st.integers(-1, 1)),
    st.tuples(st.just("release"), st.integers(0, 60), st.just(0)),
    st.tuples(st.just("pass_by"), st.integers(0, 40), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
@settings(max_examples=300)
def test_whatever_comes_the_books_are_right(steps: list[tuple[str, int, int]]) -> None:
    """Never above a limit but for the lone giant, in order, each told one thing, and in the end nothing is left."""
    house = House()
    for step, amount, priority in steps:
        if step == "enter":
            house.enter(amount, priority)
        elif step == "pass_by":
            house.pass_by(amount)
        elif house.tickets:
            house.release(list(house.tickets)[amount % len(house.tickets)])
        house.check()

    for number in list(house.tickets):
        house.release(number)
        house.check()
    house.pass_by(2 * TIMEOUT_S)
    assert not house.time.timers
    assert not house.running
    assert not house.waiting
