"""StreamTap: overhears a passing answer for what its end says: token counts, or that the engine failed.

Of a stream it keeps only the last pieces (of a plain answer all, up to a bound) and looks at them once, when the
answer is complete. It never raises and never changes a byte; what it cannot read it does not report.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

import msgspec

from gateway.fleet.outcome import Outcome, outcome_of
from gateway.usage import Usage

TAIL_BYTES = 8_192  # vLLM's usage event and [DONE] together are under 600
WHOLE_BYTES = 1_048_576  # in a plain answer token ids may follow the usage
_TAIL_PIECES = 16  # mostly a piece is an event, and the last events are what counts
_MAX_PLACES = 8  # to look at before giving up
_KEY = b'"usage"'
_OBJECT = re.compile(rb"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})")  # and objects in it, but none in those
_ERROR_EVENT = re.compile(rb'^data: ?\{"error"|^event: ?error\r?$|^data: ?\{"type": ?"error"', re.MULTILINE)
_CODE = re.compile(rb'"code": ?([45]\d\d)\b')  # of an error event: the status that its answer would have had
_ENGINE_ERROR = re.compile(rb'"finish_reason": ?"error"')
_ERROR_WITHIN_BYTES = 2_048
_NAMES = (
    ("prompt_tokens", "completion_tokens"),  # chat and completions
    ("input_tokens", "output_tokens"),  # responses and messages
)
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class StreamTap:
    """Hears the body as it passes; asked at the end. ``stream``: server-sent events."""

    __slots__ = ("_pieces", "_size_bytes", "_stream")

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._size_bytes = 0
        self._pieces: deque[bytes] = deque(maxlen=_TAIL_PIECES if stream else None)

    @property
    def ear(self) -> Callable[[bytes], None]:
        """What to call with each piece of the body. Of a stream it only keeps the piece: little costs less a chunk."""
        return self._keep if self._stream else self._gather

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

    @property
    def fault(self) -> Outcome | None:
        """What went wrong in an answer that began well: a stream that ends with an error event, as vLLM's does when its
        engine dies or cannot do what was asked, or an engine that ended a choice because of a fault of its own.
        """
        tail = self._joined()[-TAIL_BYTES:]
        if b'"error"' not in tail:
            return None
        if self._stream and (event := _ERROR_EVENT.search(tail[-_ERROR_WITHIN_BYTES:])):
            code = _CODE.search(event.string, event.start())
            return Outcome.SERVER_ERROR if code is None else outcome_of(int(code[1]))
        return Outcome.ENGINE_ERROR if _ENGINE_ERROR.search(tail) else None

    def mid_event(self) -> bool:
        """Whether a stream stands in the middle of an event."""
        tail = self._joined()
        return bool(tail) and not tail.endswith(_EVENT_ENDS)

    def _keep(self, data: bytes) -> None:
        # A client that reads slowly makes pieces large: whole, some of them would be megabytes of each of its streams.
        self._pieces.append(data if len(data) <= TAIL_BYTES else data[-TAIL_BYTES:])

    def _gather(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size_bytes += len(data)
        if self._size_bytes > WHOLE_BYTES:
            tail = self._joined()[-TAIL_BYTES:]
            self._pieces.clear()
            self._pieces.append(tail)
            self._size_bytes = len(tail)

    def _joined(self) -> bytes:
        pieces = self._pieces
        if len(pieces) != 1:
            whole = b"".join(pieces)
            pieces.clear()
            pieces.append(whole)
        return pieces[0]


def _usage_at(tail: bytes, start: int) -> Usage | None:
    value = _OBJECT.match(tail, start)
    if value is None:
        return None
    try:
        return _decode(value[1]).usage()
    except msgspec.MsgspecError:
        return _read(value[1])


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    """A usage object as vLLM writes it: of chat and completions, or of responses and messages."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None  # of messages: Anthropic's input_tokens are those besides
    cache_creation_input_tokens: int | None = None

    def usage(self) -> Usage | None:
        if self.prompt_tokens is not None:
            return _usage(self.prompt_tokens, self.completion_tokens, self.prompt_tokens_details)
        if self.input_tokens is not None and self.cache_read_input_tokens is not None:
            cached = _Details(self.cache_read_input_tokens)
            besides = self.cache_read_input_tokens + (self.cache_creation_input_tokens or 0)
            return _usage(self.input_tokens + besides, self.output_tokens, cached)
        if self.input_tokens is not None:
            return _usage(self.input_tokens, self.output_tokens, self.input_tokens_details)
        return None


_decode = msgspec.json.Decoder(_Counts).decode


def _usage(prompt: int, completion: int | None, details: _Details | None) -> Usage | None:
    cached = None if details is None else _count(details.cached_tokens)
    return Usage(prompt, _count(completion) or 0, cached) if prompt >= 0 else None


def _read(text: bytes) -> Usage | None:
    """Whatever makes sense of an object in which something is not as it should be."""
    try:
        found = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError:
        return None
    for prompt_name, completion_name in _NAMES:
        prompt = _count(found.get(prompt_name))
        if prompt is not None:
            details = found.get(f"{prompt_name}_details")
            cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
            return Usage(prompt, _count(found.get(completion_name)) or 0, cached)
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
