"""Logs are JSON lines."""

from __future__ import annotations

import json
import logging
import sys

from gateway.observe.logs import JsonFormatter


def _line(always: dict[str, object] | None = None, **extra: object) -> dict[str, object]:
    record = logging.LogRecord("gateway.x", logging.WARNING, "f", 1, "replica %s\nis down", ("a",), None)
    record.__dict__.update(extra)
    text = JsonFormatter(always).format(record)
    assert "\n" not in text
    line: dict[str, object] = json.loads(text)
    return line


def test_a_record_is_one_line() -> None:
    """Newlines in messages are escaped; fields are merged."""
    line = _line(fields={"urls": {"api": "http://x"}})

    assert (line["level"], line["logger"], line["message"]) == ("warning", "gateway.x", "replica a\nis down")
    assert line["urls"] == {"api": "http://x"}
    assert str(line["time"]).endswith("+00:00")


def test_fields_of_every_line() -> None:
    """One of several processes says which it is."""
    assert _line({"worker": 2}, fields={"x": 1}).items() >= {"worker": 2, "x": 1}.items()


def test_a_traceback_stays_in_its_line() -> None:
    """Errors are readable by machines too."""
    try:
        raise ValueError("odd")
    except ValueError:
        line = _line(exc_info=sys.exc_info())

    assert "ValueError: odd" in str(line["traceback"])
