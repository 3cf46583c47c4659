"""A line a request: what a replay needs, and what the choice was made from."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.observe.decision_log import DecisionLog
from gateway.router.decision_record import DecisionRecord
from gateway.router.exchange import Exchange
from gateway.usage import Usage
from router_strategies import Candidate, Cost
from tests.gateway.examples import MODEL, a_decision
from tests.gateway.observe.examples import an_exchange, several_exchanges

BLOCKS = [2**64 - 1, 7]
RECORD = DecisionRecord(
    MODEL,
    300,
    BLOCKS,
    99,
    [
        Candidate("a", expected_tokens=128, prefill_s=0.12345678, promised_s=0.5, inflight=3),
        Candidate("b", kv_blocks_used=30, kv_blocks_capacity=120),
    ],
    [Cost((0.1234567, 1.0)), Cost((2.0,))],
    {"round_robin": "b"},
)


def _logged(*exchanges: Exchange) -> list[dict[str, Any]]:
    lines: list[str] = []
    log = DecisionLog(lines.append, lambda: 1_700_000_000.0, lambda: 0)
    for exchange in exchanges:
        log.observe(exchange)
    return [json.loads(line) for line in lines]


def _with(record: DecisionRecord, **changes: object) -> Exchange:
    return an_exchange(decision=a_decision(record=record), **changes)


def test_a_line_has_every_field() -> None:
    """Received 2 s before its end, which is now by the wall clock."""
    (line,) = _logged(_with(RECORD))

    assert line == {
        "timestamp": 1_699_999_998_000,
        "input_length": 300,
        "output_length": 7,
        "hash_ids": BLOCKS,
        "block_tokens": 128,
        "session": 99,
        "stream": True,
        "route": "chat",
        "model": MODEL,
        "strategy": "kv_aware",
        "reason": "prefix",
        "replica": "a",
        "outcome": "ok",
        "attempts": 1,
        "ttft_ms": 500.0,
        "total_ms": 2000.0,
        "cached_tokens": 640,
        "candidates": [
            {
                "replica": "a",
                "expected_tokens": 128,
                "prefill_s": 0.123457,
                "promised_s": 0.5,
                "inflight": 3,
                "kv_used": None,
                "cost": [0.123457, 1.0],
            },
            {
                "replica": "b",
                "expected_tokens": 0,
                "prefill_s": 0.0,
                "promised_s": 0.0,
                "inflight": 0,
                "kv_used": 0.25,
                "cost": [2.0],
            },
        ],
        "shadows": {"round_robin": "b"},
    }


def test_what_is_not_known_is_null() -> None:
    """No usage, no first byte, no session, no costs."""
    record = RECORD._replace(session=None, costs=(), shadows={})
    (line,) = _logged(_with(record, usage=None, first_byte_s=0.0, outcome="client_gone"))

    unknown = ("output_length", "session", "ttft_ms", "cached_tokens")
    assert [line[name] for name in unknown] == [None] * len(unknown)
    assert [candidate["cost"] for candidate in line["candidates"]] == [[], []]


def test_a_prompt_that_is_not_known_has_neither_length_nor_blocks() -> None:
    """Though the replica told how long it was: as a prompt that shares nothing it would be misread."""
    (line,) = _logged(_with(RECORD._replace(prompt_tokens=None, blocks=())))

    assert (line["input_length"], line["hash_ids"]) == (None, [])


def test_a_prompt_of_which_the_beginning_is_known_is_as_long_as_the_replica_says() -> None:
    record = RECORD._replace(prompt_tokens=None)
    told, untold = _logged(_with(record, usage=Usage(5000, 7, None)), _with(record, usage=None))

    assert (told["input_length"], told["hash_ids"]) == (5000, BLOCKS)
    assert (untold["input_length"], untold["hash_ids"]) == (None, [])


def test_only_what_was_chosen_and_recorded_has_a_line() -> None:
    """Refused, or bound to its replica: no choice."""
    assert _logged(*several_exchanges()) == []


def test_lines_are_counted() -> None:
    registry = CollectorRegistry()
    log = DecisionLog(lambda _: None, lambda: 0.0, lambda: 4)
    registry.register(log)
    for _ in range(3):
        log.observe(_with(RECORD))

    assert registry.get_sample_value("prefixway_decision_log_lines_total") == 3
    assert registry.get_sample_value("prefixway_decision_log_lines_lost_total") == 4
