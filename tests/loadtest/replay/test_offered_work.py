"""Offered work: what each request costs, and when it comes."""

from __future__ import annotations

import pytest

from loadtest.replay.offered_work import in_order, offered
from loadtest.replay.shared_lru import SharedLru
from loadtest.replay.trace import Session, Turn
from loadtest.replica.scheduler import Speeds

#: A token of prefill takes 1 ms; a step of decoding 10 ms, of which 1 ms is the sequence's own.
SPEEDS = Speeds(
    prefill_tokens_per_s=1000.0, attention_tokens=1e12, step_s=0.009, sequence_s=0.001, context_token_s=1e-6
)
TURNS = (Turn(1000, 100, range(10)), Turn(1500, 0, range(15), think_s=5.0))


def test_a_request_costs_its_uncached_prefill_and_its_share_of_decoding() -> None:
    """100 steps of 1 ms and 1,050 tokens of context on average; the second turn finds ten blocks."""
    first, second = offered([Session("a", 0.0, TURNS)], SharedLru(None), 100, SPEEDS, load=0.0)
    assert first.work_s == pytest.approx(1.0 + 0.1 + 0.105)
    assert second.work_s == pytest.approx(0.5)


def test_a_turn_comes_when_the_answer_has_ended_and_somebody_has_thought() -> None:
    """1 s of prefill, 100 steps of 11.05 ms; twice as long on engines that others use half."""
    first, second = offered([Session("a", 7.0, TURNS)], SharedLru(None), 100, SPEEDS, load=0.0)
    assert first.after_s == 0.0
    assert second.after_s == pytest.approx(1.0 + 1.105 + 5.0)
    _, slow = offered([Session("a", 7.0, TURNS)], SharedLru(None), 100, SPEEDS, load=0.5)
    assert slow.after_s == pytest.approx(2 * 2.105 + 5.0)


def test_turns_of_sessions_are_told_in_order_of_time() -> None:
    """As if answers took none."""
    early, late = Session("a", 0.0, TURNS), Session("b", 2.0, TURNS)
    assert [number for number, _ in in_order([early, late])] == [0, 1, 0, 1]
    portions = offered([early, late], SharedLru(None), 100, SPEEDS, load=0.0)
    assert [portion.session for portion in portions] == [0, 1, 0, 1]
    assert portions[1].work_s < portions[0].work_s
