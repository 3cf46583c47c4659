"""Logs are JSON lines."""

from __future__ import annotations

import json
import logging
import sys

from gateway.observe.logs import JsonFormatter, configure_logging


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


def test_a_side_ports_server_does_not_tell_of_its_start() -> None:
    """What listens where is in a line of our own; what goes wrong there is told."""
    lines: list[str] = []
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure_logging("info", lines.append)
        logging.getLogger("uvicorn.error").info("Started server process")
        logging.getLogger("uvicorn.error").error("odd")
    finally:
        root.handlers[:] = before
        root.setLevel(level)

    assert [json.loads(line)["message"] for line in lines] == ["odd"]


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
