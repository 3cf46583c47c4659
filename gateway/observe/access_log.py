"""AccessLog: one JSON line a request, with the fields of its decision and no content."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from gateway.router.exchange import Exchange

_MOST_MODEL_CHARS = 128


class AccessLog:
    """Hands each line to ``write``."""

    def __init__(self, write: Callable[[str], None], wall_clock: Callable[[], datetime]) -> None:
        self._write = write
        self._wall_clock = wall_clock
        self._encode = msgspec.json.Encoder().encode

    def observe(self, exchange: Exchange) -> None:
        """Write the line of an exchange that ended."""
        self._write(self._encode(self._line(exchange)).decode())

    def _line(self, exchange: Exchange) -> dict[str, object]:
        line: dict[str, object] = {
            "time": self._wall_clock().isoformat(timespec="milliseconds"),
            "request_id": exchange.request_id,
            "route": exchange.route,
            "model": exchange.model[:_MOST_MODEL_CHARS],
            "stream": exchange.stream,
            "status": exchange.status,
            "outcome": exchange.outcome,
            "attempts": exchange.attempts,
            "bytes_out": exchange.bytes_out,
            "ttft_ms": _ms(exchange.received_s, exchange.first_byte_s),
            "total_ms": _ms(exchange.received_s, exchange.ended_s),
            "gateway_ms": _ms(exchange.received_s, exchange.decided_s),
        }
        if exchange.error:
            line["error"] = exchange.error
        if exchange.decision is not None:
            line |= exchange.decision.log_fields()
        if exchange.usage is not None:
            line["usage_prompt_tokens"] = exchange.usage.prompt_tokens
            line["completion_tokens"] = exchange.usage.completion_tokens
            line["cached_tokens"] = exchange.usage.cached_tokens
        return line


def _ms(start_s: float, end_s: float) -> float | None:
    return round((end_s - start_s) * 1e3, 2) if start_s and end_s else None
