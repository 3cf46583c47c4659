"""DecisionLog: one JSON line a request, with all that its replica was chosen by and no content.

`python -m loadtest replay` reads it back. docs/routing.md says what each field means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.router.decision import Decision
from gateway.router.decision_record import BLOCK_TOKENS, DecisionRecord
from gateway.router.exchange import Exchange
from router_strategies import Candidate, Cost


class _Candidate(msgspec.Struct, gc=False):
    replica: str
    expected_tokens: int
    prefill_s: float
    promised_s: float
    inflight: int
    kv_used: float | None
    cost: Sequence[float]


class _Line(msgspec.Struct, gc=False):
    """The fields in their order: first those that other readers of traces know."""

    timestamp: int
    input_length: int | None
    output_length: int | None
    hash_ids: Sequence[int]
    block_tokens: int
    session: int | None
    stream: bool
    route: str
    model: str
    strategy: str
    reason: str
    replica: str
    outcome: str
    attempts: int
    ttft_ms: float | None
    total_ms: float | None
    cached_tokens: int | None
    candidates: Sequence[_Candidate]
    shadows: Mapping[str, str]


class DecisionLog(Collector):
    """Hands each line to ``write``. ``wall_clock`` tells Unix seconds. ``lost``: lines that did not get out so far."""

    def __init__(self, write: Callable[[str], None], wall_clock: Callable[[], float], lost: Callable[[], int]) -> None:
        self._write = write
        self._wall_clock = wall_clock
        self._lost = lost
        self._encode = msgspec.json.Encoder().encode
        self._lines = 0

    def observe(self, exchange: Exchange) -> None:
        """Write the line of an exchange that ended, if a choice was recorded for it."""
        decision = exchange.decision
        if decision is not None and decision.record is not None:
            self._lines += 1
            self._write(self._encode(self._line(exchange, decision, decision.record)).decode())

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily("prefixway_decision_log_lines", "Requests for the decision log", value=self._lines)
        yield CounterMetricFamily(
            "prefixway_decision_log_lines_lost", "Of them, and of those before, not written", value=self._lost()
        )

    def _line(self, exchange: Exchange, decision: Decision, record: DecisionRecord) -> _Line:
        usage, received_s = exchange.usage, exchange.received_s
        prompt_tokens = record.prompt_tokens
        if prompt_tokens is None and record.blocks and usage is not None:  # only its beginning is ours to know
            prompt_tokens = usage.prompt_tokens
        return _Line(
            int((self._wall_clock() - (exchange.ended_s - received_s)) * 1e3),
            prompt_tokens,
            None if usage is None else usage.completion_tokens,
            record.blocks if prompt_tokens is not None else (),
            BLOCK_TOKENS,
            record.session,
            exchange.stream,
            exchange.route,
            record.model,
            decision.strategy,
            decision.reason,
            decision.replica_id,
            exchange.outcome,
            exchange.attempts,
            _ms(exchange.first_byte_s - received_s) if exchange.first_byte_s else None,
            _ms(exchange.ended_s - received_s) if exchange.ended_s else None,
            None if usage is None else usage.cached_tokens,
            _candidates(record.candidates, record.costs),
            record.shadows,
        )


def _candidates(candidates: Sequence[Candidate], costs: Sequence[Cost]) -> list[_Candidate]:
    compared: Sequence[Sequence[float]] = [[*map(_micro, cost.compared)] for cost in costs] or [()] * len(candidates)
    return [
        _Candidate(
            candidate.id,
            candidate.expected_tokens,
            _micro(candidate.prefill_s),
            _micro(candidate.promised_s),
            candidate.inflight,
            _micro(candidate.kv_blocks_used / candidate.kv_blocks_capacity) if candidate.kv_blocks_capacity else None,
            cost,
        )
        for candidate, cost in zip(candidates, compared, strict=True)
    ]


def _micro(number: float) -> float:
    return round(number, 6)


def _ms(seconds: float) -> float:
    return int(seconds * 1e5 + 0.5) / 100
