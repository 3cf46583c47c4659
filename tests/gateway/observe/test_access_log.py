"""The access log: a line a request, with the decision's fields and no content."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.observe.access_log import AccessLog
from gateway.usage import Usage
from tests.gateway.examples import a_decision
from tests.gateway.observe.examples import an_exchange, several_exchanges

LINES = Path(__file__).parents[2] / "data" / "access_log.txt"
NOW_S = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC).timestamp()


def _text(**changes: object) -> str:
    lines: list[str] = []
    AccessLog(lines.append, lambda: NOW_S).observe(an_exchange(**changes))
    (text,) = lines
    return text


def _line(**changes: object) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(_text(**changes))
    return line


def test_lines_stay_as_their_readers_know_them() -> None:
    """Fields, their order and their values, to the letter."""
    lines: list[str] = []
    log = AccessLog(lines.append, lambda: NOW_S)
    for exchange in several_exchanges():
        log.observe(exchange)

    assert lines == LINES.read_text().splitlines()


def test_a_request_in_full() -> None:
    """Times in milliseconds from the request's arrival."""
    line = _line()

    assert line["time"] == "2026-01-02T03:04:05.678+00:00"
    assert (line["ttft_ms"], line["total_ms"], line["gateway_ms"]) == (500.0, 2000.0, 2.0)
    assert (line["replica"], line["matched"], line["reason"]) == ("a", "prompt=1925,l0=640", "prefix")
    assert (line["prompt_tokens"], line["usage_prompt_tokens"]) == (1925, 1925)
    assert (line["cached_tokens"], line["completion_tokens"]) == (640, 7)


def test_what_never_came_is_null() -> None:
    """Refused before a decision: no times, no replica, the error's class."""
    line = _line(first_byte_s=0.0, decided_s=0.0, decision=None, usage=None, error="BadRequest", status=400)

    assert (line["ttft_ms"], line["gateway_ms"], line["error"]) == (None, None, "BadRequest")
    assert "replica" not in line


def test_the_key_and_the_wait_are_told_where_there_are_any() -> None:
    """The key's name, and milliseconds."""
    line = _line(client="team-a", queued_s=0.0125)

    assert (line["client"], line["queued_ms"]) == ("team-a", 12.5)
    assert not {"client", "queued_ms"} & _line().keys()


def test_a_client_cannot_break_or_bloat_a_line() -> None:
    """What a terminal or a reader of lines could act on is replaced in a model's name, and its length is bounded."""
    text = _text(model="ü\x1b[31m\r\n\x00\x7f\x9b\u2028" * 5000)

    assert text.isprintable()
    assert len(json.loads(text)["model"]) == 128
    assert json.loads(text)["model"].startswith("ü\ufffd[31m\ufffd")


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_any_name_makes_one_line(model: str) -> None:
    """Whatever characters a name has, the line is JSON without a line break; what can be read, reads back."""
    text = _text(model=model)
    told = json.loads(text)["model"]

    assert len(text.splitlines()) == 1
    assert told == "".join(c if c.isprintable() else "\ufffd" for c in model[:128])


@given(st.lists(st.integers(0, 4_000_000_000_000), max_size=5))
def test_moments_are_told_to_the_millisecond(moments_ms: list[int]) -> None:
    """As ``datetime`` does, also when the clock jumps."""
    moments = [ms / 1000 + 0.0002 for at in moments_ms for ms in (at, at + 1, at)]  # no clock stands on a millisecond
    clock = iter(moments)
    lines: list[str] = []
    log = AccessLog(lines.append, lambda: next(clock))
    for _ in moments:
        log.observe(an_exchange())

    expected = [datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds") for moment in moments]
    assert [json.loads(line)["time"] for line in lines] == expected


def test_a_time_is_not_kept_too_long() -> None:
    """One log through a second's end, and back."""
    moments = iter([1.9995, 2.0005, 2.5, 1.25])
    times: list[str] = []
    log = AccessLog(lambda text: times.append(json.loads(text)["time"][-12:-6]), lambda: next(moments))
    for _ in range(4):
        log.observe(an_exchange())

    assert times == ["01.999", "02.000", "02.500", "01.250"]


def test_figures_are_rounded() -> None:
    """Two decimals, of milliseconds that floating point does not hold exactly."""
    line = _line(first_byte_s=10.0012345678, decided_s=10.0000499, usage=Usage(1, 2, None))

    assert (line["ttft_ms"], line["gateway_ms"], line["cached_tokens"]) == (1.23, 0.05, None)
    assert _line(decision=a_decision(prefill_s=0.123456))["prefill_ms"] == 123.5
