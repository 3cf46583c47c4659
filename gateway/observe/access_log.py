"""AccessLog: one JSON line a request, with the fields of its decision and no content."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET, UnsetType

from gateway.router.decision import Decision
from gateway.router.exchange import Exchange

_MOST_MODEL_CHARS = 128
_MILLISECONDS = [f".{ms:03d}+00:00" for ms in range(1000)]


class _Line(msgspec.Struct, gc=False):
    """The fields in their order; one that is ``UNSET`` is left out."""

    time: str
    request_id: str
    route: str
    model: str
    stream: bool
    status: int
    outcome: str
    attempts: int
    bytes_out: int
    ttft_ms: float | None
    total_ms: float | None
    gateway_ms: float | None
    queued_ms: float | UnsetType = UNSET
    client: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    replica: str | UnsetType = UNSET
    strategy: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    prompt_tokens: int | UnsetType | None = UNSET
    matched: str | UnsetType | None = UNSET
    expected_tokens: int | UnsetType = UNSET
    prefill_ms: float | UnsetType = UNSET
    candidates: int | UnsetType = UNSET
    usage_prompt_tokens: int | UnsetType = UNSET
    completion_tokens: int | UnsetType = UNSET
    cached_tokens: int | UnsetType | None = UNSET


class AccessLog:
    """Hands each line to ``write``. ``wall_clock`` tells Unix seconds."""

    def __init__(self, write: Callable[[str], None], wall_clock: Callable[[], float]) -> None:
        self._write = write
        self._wall_clock = wall_clock
        self._times = _TimeTexts()
        self._encode = msgspec.json.Encoder().encode

    def observe(self, exchange: Exchange) -> None:
        """Write the line of an exchange that ended."""
        self._write(self._encode(self._line(exchange)).decode())

    def _line(self, exchange: Exchange) -> _Line:
        received_s = exchange.received_s
        line = _Line(
            self._times.of(self._wall_clock()),
            exchange.request_id,
            exchange.route,
            _shown(exchange.model),
            exchange.stream,
            exchange.status,
            exchange.outcome,
            exchange.attempts,
            exchange.bytes_out,
            _ms_between(received_s, exchange.first_byte_s),
            _ms_between(received_s, exchange.ended_s),
            _ms_between(received_s, exchange.decided_s),
        )
        if exchange.queued_s:
            line.queued_ms = _ms(exchange.queued_s)
        if exchange.client:
            line.client = exchange.client
        if exchange.error:
            line.error = exchange.error
        if exchange.decision is not None:
            _add_decision(line, exchange.decision)
        if exchange.usage is not None:
            line.usage_prompt_tokens = exchange.usage.prompt_tokens
            line.completion_tokens = exchange.usage.completion_tokens
            line.cached_tokens = exchange.usage.cached_tokens
        return line


def _add_decision(line: _Line, decision: Decision) -> None:
    line.replica = decision.replica_id
    line.strategy = decision.strategy
    line.reason = decision.reasons
    line.prompt_tokens = decision.prompt_tokens or None
    line.matched = decision.matched or None
    line.expected_tokens = decision.expected_tokens
    line.prefill_ms = int(decision.prefill_s * 1e4 + 0.5) / 10
    line.candidates = decision.candidates


def _shown(model: str) -> str:
    """What a client wrote, bounded, and harmless for terminals and for readers that break lines at U+2028."""
    model = model[:_MOST_MODEL_CHARS]
    return (
        model if model.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in model)
    )


def _ms_between(start_s: float, end_s: float) -> float | None:
    return _ms(end_s - start_s) if start_s and end_s else None


def _ms(seconds: float) -> float:
    """With two decimals; ``round`` takes twice as long."""
    return int(seconds * 1e5 + 0.5) / 100


class _TimeTexts:
    """Moments as ISO 8601 with milliseconds: formatting one takes 1 us, so all but those are kept for a second."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def of(self, unix_s: float) -> str:
        second = int(unix_s)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")
        return self._text + _MILLISECONDS[int((unix_s - second) * 1e3)]
