"""The access log: a line a request, with the decision's fields and no content."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from gateway.observe.access_log import AccessLog
from tests.gateway.observe.examples import an_exchange


def _line(**changes: object) -> dict[str, Any]:
    lines: list[str] = []
    AccessLog(lines.append, lambda: datetime(2026, 1, 2, tzinfo=UTC)).observe(an_exchange(**changes))
    (text,) = lines
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


def test_a_request_in_full() -> None:
    """Times in milliseconds from the request's arrival."""
    line = _line()

    assert line["time"] == "2026-01-02T00:00:00.000+00:00"
    assert (line["ttft_ms"], line["total_ms"], line["gateway_ms"]) == (500.0, 2000.0, 2.0)
    assert (line["replica"], line["matched"], line["reason"]) == ("a", "prompt=1925,l0=640", "prefix")
    assert (line["prompt_tokens"], line["usage_prompt_tokens"]) == (1925, 1925)
    assert (line["cached_tokens"], line["completion_tokens"]) == (640, 7)


def test_what_never_came_is_null() -> None:
    """Refused before a decision: no times, no replica, the error's class."""
    line = _line(first_byte_s=0.0, decided_s=0.0, decision=None, usage=None, error="BadRequest", status=400)

    assert (line["ttft_ms"], line["gateway_ms"], line["error"]) == (None, None, "BadRequest")
    assert "replica" not in line


def test_a_client_cannot_break_or_bloat_a_line() -> None:
    """Newlines in a model's name are escaped, its length is bounded."""
    line = _line(model="x\n" * 5000)

    assert len(line["model"]) == 128
