"""Logs: one JSON object a line on standard error. Prompts, token ids and keys never come here."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """``logging`` records as JSON: time, level, logger, message, and what was given as ``extra={"fields": {...}}``.

    ``always``: fields of every line.
    """

    def __init__(self, always: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._always = always or {}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._always,
        }
        fields = record.__dict__.get("fields")
        if isinstance(fields, dict):
            line.update(fields)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class LineHandler(logging.Handler):
    """Hands each record, formatted, to ``write``."""

    def __init__(self, write: Callable[[str], None], always: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._write = write
        self.setFormatter(JsonFormatter(always))

    def emit(self, record: logging.LogRecord) -> None:
        self._write(self.format(record))


def configure_logging(level: str, write: Callable[[str], None], always: Mapping[str, object] | None = None) -> None:
    """Hand all logs of this process to ``write``, a line each. ``level``: debug, info, warning or error.

    ``always``: fields of every line.
    """
    handler = LineHandler(write, always)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "uvicorn.access", "uvicorn.error"):  # the last tells of each side port's start
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it quotes what is wrong with a client's form
