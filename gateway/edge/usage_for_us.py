"""UsageForUs: makes a replica end a stream with its token counts where the client did not ask for them, unseen.

Where the setting says so. The request gets ``stream_options.include_usage``, its other bytes stay. In the answer it
changes two things, which are undone (vLLM 0.32, ``entrypoints/openai/{chat_completion,completion}/serving.py``): an
event without choices carries the usage, and the event that finishes the answer leaves ``system_fingerprint`` to it.
Clients that asked themselves are left alone, and so are requests whose usage would tell nothing, such as those for
several choices.
"""

from __future__ import annotations

import json
import re

from gateway.edge.json_span import span_of
from gateway.edge.relay import Rewrite
from gateway.prompt.inference_request import InferenceRequest
from gateway.prompt.json_body import read_flag

_ROUTES = frozenset({"chat", "completions"})
_OPTIONS = b'"stream_options"'
_ADDED = b'"stream_options":{"include_usage":true},'
_BEGIN = re.compile(rb"[ \t\n\r]*\{")
_EVENT_END = b"\n\n"
_MOST_HELD_BYTES = 1 << 20  # of one event
# As keys: inside a JSON string, such as the model's own words, the quotes would be escaped.
_FINISH = b'"finish_reason":"'
_USAGE = re.compile(rb'"choices":\[\],"usage":\{')
_FINGERPRINT = re.compile(rb'"system_fingerprint":"(?:[^"\\]|\\.)*"')
_CHOICES_END = b"]}\n\n"


def asking_for_usage(request: InferenceRequest, body: bytes) -> bytes | None:
    """The body that asks for it; ``None``: this one is to be sent as it is."""
    if request.route not in _ROUTES or not request.stream or request.incomparable != "no_usage":
        return None
    if request.is_outline or json.detect_encoding(body) != "utf-8":
        return None
    if _OPTIONS in body:
        text = body.decode("utf-8", "surrogatepass")
        start, end = span_of(text, "stream_options")
        if end:
            return _with_options(text, start, end)
    begin = _BEGIN.match(body)
    return None if begin is None else b"%b%b%b" % (body[: begin.end()], _ADDED, body[begin.end() :])


def _with_options(text: str, start: int, end: int) -> bytes | None:
    """The options that stand there get one more, or another value for it."""
    options = json.loads(text[start:end])
    if options is not None and not isinstance(options, dict):
        return None  # what the engine will refuse
    options = options or {}
    if read_flag(options.get("continuous_usage_stats"), default=False):
        return None  # every event would get a usage
    changed = json.dumps({**options, "include_usage": True}, separators=(",", ":"))
    return f"{text[:start]}{changed}{text[end:]}".encode("utf-8", "surrogatepass")


class HiddenUsage:
    """Takes the usage out of one passing stream of events, however it is cut into pieces.

    The event that finishes the answer waits for the next one, which comes at once.
    """

    __slots__ = ("_finish", "_is_over", "_rest")

    def __init__(self) -> None:
        self._rest = b""  # the beginning of an event
        self._finish = b""  # the event that finishes the answer
        self._is_over = False

    def feed(self, data: bytes, last: bool) -> bytes:
        """What can go on by now; all of it if these are the ``last`` bytes."""
        if self._is_over:
            return data
        if self._rest:
            data = self._rest + data
            self._rest = b""
        elif not self._finish and _is_plain(data) and not last:
            return data
        passed = b"".join(self._events(data))
        if last or len(self._rest) > _MOST_HELD_BYTES:
            self._is_over = True
            passed += self._finish + self._rest
            self._finish = self._rest = b""
        return passed

    def _events(self, data: bytes) -> list[bytes]:
        """What may pass of ``data``; the rest is kept."""
        passed: list[bytes] = []
        at = 0
        while (end := data.find(_EVENT_END, at)) >= 0:
            end += len(_EVENT_END)
            self._event(data[at:end], passed)
            at = end
            if self._is_over:
                passed.append(data[at:])
                return passed
        self._rest = data[at:]
        return passed

    def _event(self, event: bytes, passed: list[bytes]) -> None:
        if _USAGE.search(event):
            passed.append(_with_fingerprint(self._finish, event))
            self._finish = b""
            self._is_over = True
            return
        if self._finish:
            passed.append(self._finish)
            self._finish = b""
        if _FINISH in event:
            self._finish = event
        else:
            passed.append(event)


class InTurn:
    """Two changes of one answer."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Rewrite, second: Rewrite) -> None:
        self._first = first
        self._second = second

    def feed(self, data: bytes, last: bool) -> bytes:
        """See :class:`~gateway.edge.relay.Rewrite`."""
        return self._second.feed(self._first.feed(data, last), last)


def _is_plain(data: bytes) -> bool:
    """Whether these are whole events, and neither of the two."""
    return data.endswith(_EVENT_END) and _FINISH not in data and b'"choices":[]' not in data


def _with_fingerprint(finish: bytes, usage: bytes) -> bytes:
    """The event that finishes an answer as it is where no usage follows. ``b""``: there was none."""
    fingerprint = _FINGERPRINT.search(usage)
    if fingerprint is None or not finish.endswith(_CHOICES_END):
        return finish
    return b"%b,%b}%b" % (finish[: 1 - len(_CHOICES_END)], fingerprint[0], _EVENT_END)
