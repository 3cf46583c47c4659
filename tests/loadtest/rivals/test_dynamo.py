"""Dynamo's cost and its product."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals.dynamo import Dynamo, DynamoLmetric
from tests.loadtest.rivals.hand_made import asked_tokens


def chosen(rival: Dynamo, *views: View) -> int:
    return rival.select(asked_tokens(), views).view.number


@pytest.mark.parametrize(("pending_tokens", "number"), [(590, 0), (610, 1)])
def test_overlap_is_worth_its_blocks(pending_tokens: int, number: int) -> None:
    """6 blocks on the GPU make up for 6 blocks of prefill that wait there."""
    assert chosen(Dynamo(), View(0, l0_tokens=600, pending_tokens=pending_tokens), View(1)) == number


@pytest.mark.parametrize(("pending_tokens", "number"), [(390, 0), (410, 1)])
def test_lower_tiers_are_worth_less(pending_tokens: int, number: int) -> None:
    """0.75 * 4 + 0.25 * 4 blocks: 4."""
    warm = View(0, l1_tokens=400, l2_tokens=400, pending_tokens=pending_tokens)

    assert chosen(Dynamo(), warm, View(1)) == number


def test_what_must_be_computed_is_less_by_the_weighted_overlap() -> None:
    """1000 - 200 - 0.75 * 400 - 0.25 * 200."""
    assert Dynamo().select(asked_tokens(), [View(0, l0_tokens=200, l1_tokens=400, l2_tokens=200)]).prefill_tokens == 450


@pytest.mark.parametrize(("overlap", "number"), [(900, 1), (1000, 0)])
def test_requests_in_flight_cost_their_blocks(overlap: int, number: int) -> None:
    """One of 10 blocks that decodes costs as much as 10 blocks of prefill do; elsewhere half a block waits."""
    rival = Dynamo()
    rival.select(asked_tokens(first_block=100), [View(0)])

    assert chosen(rival, View(0, l0_tokens=overlap, inflight=1), View(1, pending_tokens=50)) == number


def test_requests_that_ended_cost_nothing() -> None:
    """A small overlap is enough again."""
    rival = Dynamo()
    earlier = asked_tokens(first_block=100)
    rival.ended(earlier, rival.select(earlier, [View(0)]).view)

    assert chosen(rival, View(0, l0_tokens=100), View(1)) == 0


def test_blocks_that_requests_share_count_once() -> None:
    """Where the same prompt is in flight already, this one adds no blocks to those that decode."""
    rival = Dynamo()
    rival.select(asked_tokens(), [View(0)])
    rival.select(asked_tokens(first_block=100), [View(1)])

    assert chosen(rival, View(0, inflight=1), View(1, inflight=1)) == 0


@pytest.mark.parametrize(("decay", "number"), [(0.0, 0), (1.0, 1)])
def test_credit_decays_with_the_excess_of_prefill(decay: float, number: int) -> None:
    """5 blocks more than elsewhere, of a prompt of 10: 1/(1 + 0.5) of 6 blocks is 4, and 4 do not make up for 5."""
    rival = Dynamo(credit_decay=decay)

    assert chosen(rival, View(0, l0_tokens=600, pending_tokens=700), View(1, pending_tokens=200)) == number


def test_requests_can_be_given_a_weight() -> None:
    """Two requests of 4 blocks each are more than an overlap of 6."""
    views = View(0, l0_tokens=600, inflight=2), View(1)

    assert [chosen(Dynamo(active_request_weight=weight), *views) for weight in (0.0, 4.0)] == [0, 1]


def test_a_replica_that_left_is_forgotten() -> None:
    """Its number may come again, with nothing in flight."""
    rival = Dynamo()
    rival.select(asked_tokens(first_block=100), [View(0)])
    rival.left(0)

    assert chosen(rival, View(0, l0_tokens=100), View(1)) == 0


@pytest.mark.parametrize(("overlap", "number"), [(450, 1), (550, 0)])
def test_the_product_weighs_prefill_by_what_decodes(overlap: int, number: int) -> None:
    """(10 - 5) * (20 + 1) = 105 against 10 * (10 + 1) = 110 at an overlap of 5 blocks; at 4.5 it is 115.5."""
    rival = DynamoLmetric()
    rival.select(asked_tokens(first_block=100), [View(0)])

    assert chosen(rival, View(0, l0_tokens=overlap, inflight=1), View(1)) == number
