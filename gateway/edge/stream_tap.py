"""StreamTap: overhears a passing answer for what its end says: token counts, or that the engine failed.

It keeps only the tail of a stream (all of a plain answer, up to a bound) and looks at it once, when the
answer is complete. It never raises and never changes a byte; what it cannot read it does not report.
"""

from __future__ import annotations

import json
import re

from gateway.usage import Usage

TAIL_BYTES = 8_192  # vLLM's usage event and [DONE] together are under 600
WHOLE_BYTES = 1_048_576  # in a plain answer token ids may follow the usage
_MAX_OBJECT_CHARS = 4_096
_MAX_PLACES = 8  # to look at before giving up
_KEY = b'"usage"'
_AFTER_KEY = re.compile(r"\s*:\s*")
_ERROR_EVENT = re.compile(rb'^data: ?\{"error"', re.MULTILINE)
_ERROR_WITHIN_BYTES = 2_048
_decoder = json.JSONDecoder()


class StreamTap:
    """Fed the body as it passes; asked at the end. ``stream``: server-sent events."""

    __slots__ = ("_limit_bytes", "_pieces", "_size_bytes", "_stream")

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._limit_bytes = 4 * TAIL_BYTES if stream else WHOLE_BYTES
        self._pieces: list[bytes] = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size_bytes += len(data)
        if self._size_bytes > self._limit_bytes:
            self._pieces = [self._joined()[-TAIL_BYTES:]]
            self._size_bytes = TAIL_BYTES

    def usage(self) -> Usage | None:
        """The last ``usage`` object that reads as one."""
        tail = self._joined()
        end = len(tail)
        for _ in range(_MAX_PLACES):
            end = tail.rfind(_KEY, 0, end)
            if end < 0:
                return None
            # Inside a JSON string, such as the model's own words, the quotes would be escaped.
            if tail[end - 1 : end] != b"\\" and (usage := _usage_at(tail, end + len(_KEY))):
                return usage
        return None

    def failed(self) -> bool:
        """Whether a stream ended with an error event: vLLM sends one inside a 200 when its engine dies."""
        return self._stream and _ERROR_EVENT.search(self._joined()[-_ERROR_WITHIN_BYTES:]) is not None

    def mid_event(self) -> bool:
        """Whether a stream stands in the middle of an event."""
        tail = self._joined()
        return bool(tail) and not tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))

    def _joined(self) -> bytes:
        if len(self._pieces) != 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]


def _usage_at(tail: bytes, start: int) -> Usage | None:
    text = tail[start : start + _MAX_OBJECT_CHARS].decode("utf-8", "replace")
    separator = _AFTER_KEY.match(text)
    if separator is None:
        return None
    try:
        found, _ = _decoder.raw_decode(text, separator.end())
    except (ValueError, RecursionError):
        return None
    return _read(found)


def _read(found: object) -> Usage | None:
    if not isinstance(found, dict):
        return None
    prompt = _count(found.get("prompt_tokens"))
    if prompt is None:
        return None
    details = found.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(prompt, _count(found.get("completion_tokens")) or 0, cached)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
