"""What can go wrong with Redis: it cannot be used now, or it refuses. redis-py's errors are told apart here only.

RedisError
├── RedisUnavailable   no answer in time, no connection, or a server that cannot answer now
└── RedisRefused       it answered: no
"""

from __future__ import annotations

import re

from redis import exceptions

#: What a server says that is there and needs a moment.
_WAIT = frozenset({"LOADING", "BUSY", "TRYAGAIN"})
#: What a server says when another one has, or will have, its place.
_ELSEWHERE = frozenset({"READONLY", "MASTERDOWN", "CLUSTERDOWN"})

#: redis-py takes the code off the text of the errors it knows.
_CODES: dict[type[Exception], str] = {
    exceptions.AskError: "ASK",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ClusterCrossSlotError: "CROSSSLOT",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.MovedError: "MOVED",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.TryAgainError: "TRYAGAIN",
}

_CODE = re.compile(r"[A-Z][A-Z0-9]+")
_SCRIPT_CODE = re.compile(r": -?([A-Z][A-Z0-9]+) ")  # before Redis 7 a script's error is wrapped into an ERR
_LONGEST_TEXT = 200

#: What to do, where Redis does not say it.
_ADVICE = {"MOVED": " (this is a node of a cluster: its URL must begin with redis+cluster:// or rediss+cluster://)"}

#: Everything that redis-py and the network raise.
FAILURES = (exceptions.RedisError, OSError, TimeoutError)


class RedisError(Exception):
    """Base. Its text says what happened, without passwords, keys and values."""


class RedisUnavailable(RedisError):
    """Redis cannot be asked now; later it can. ``elsewhere``: a new connection may reach another server."""

    def __init__(self, text: str, *, elsewhere: bool = True) -> None:
        super().__init__(text)
        self.elsewhere = elsewhere


class RedisRefused(RedisError):
    """Redis answered with an error. ``code`` is its first word: OOM, NOAUTH, WRONGPASS, NOPERM, MOVED, ERR, ..."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code} {text}".strip() + _ADVICE.get(code, ""))
        self.code = code
        self.text = text


def translated(error: Exception) -> RedisError:
    """Our error for one of :data:`FAILURES`."""
    text = str(error) or type(error).__name__
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return RedisRefused("NOAUTH" if "required" in text else "WRONGPASS", text)
    if isinstance(error, exceptions.ResponseError | exceptions.BusyLoadingError):
        return _of_answer(*_code_and_text(error))
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return RedisUnavailable("no answer in time")
    return RedisUnavailable(text[:_LONGEST_TEXT])


def _of_answer(code: str, text: str) -> RedisError:
    if code in _WAIT | _ELSEWHERE:
        return RedisUnavailable(f"{code} {text}", elsewhere=code in _ELSEWHERE)
    return RedisRefused(code, text)


def _code_and_text(error: Exception) -> tuple[str, str]:
    text = str(error).split(", with args", 1)[0]  # an unknown command is quoted with its arguments
    code = _CODES.get(type(error), "")
    if not code:
        first, _, rest = text.partition(" ")
        code, text = (first, rest) if _CODE.fullmatch(first) else ("ERR", text)
    if within := _SCRIPT_CODE.search(text):
        code, text = within[1], text[within.end() :]
    return code, text[:_LONGEST_TEXT].strip()
