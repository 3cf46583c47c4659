"""Outcome: how one attempt at one server ended, and what follows from that. One table: the members of :class:`Outcome`.

docs/failures.md shows it. Once a byte of an answer's body has gone to the client, nothing is tried again: such endings
have rows of their own.
"""

from __future__ import annotations

from enum import Enum
from typing import Self


class Sign(Enum):
    """What an ending says of the server's health. Values are the words of the documentation."""

    LIFE = "closes the breaker"
    NOTHING = "nothing"
    FAILURE = "a failure"
    STALL = "opens the breaker at once"


class Again(Enum):
    """What is tried after an ending. Values are the words of the documentation."""

    NO = "no"
    ONCE = "one other server, within the budget"
    EACH = "the other servers, at most 3, outside the budget"
    RESENT = "the same server, on a new connection: the same attempt goes on"


class Outcome(Enum):
    """A member is its label in metrics and logs, when it is said, its sign, what is tried again, and whether the
    server is left alone for a moment (Retry-After, else a second).
    """

    label: str
    when: str
    sign: Sign
    again: Again
    backs_off: bool

    def __new__(cls, label: str, when: str, sign: Sign, again: Again, backs_off: bool = False) -> Self:
        # Attributes and not a dictionary: a member's hash is slow, and every attempt asks.
        member = object.__new__(cls)
        member._value_ = member.label = label
        member.when = when
        member.sign = sign
        member.again = again
        member.backs_off = backs_off
        return member

    OK = "ok", "a complete answer below 400", Sign.LIFE, Again.NO
    CLIENT_ERROR = "client_error", "4xx other than 429: it would be wrong elsewhere too", Sign.NOTHING, Again.NO
    BUSY = "busy", "429: it pushes back", Sign.NOTHING, Again.ONCE, True
    UNAVAILABLE = "unavailable", "503", Sign.FAILURE, Again.ONCE, True
    SERVER_ERROR = (
        "server_error",
        "any other 5xx, or a stream that ends with the engine's error event",
        Sign.FAILURE,
        Again.ONCE,
    )
    ENGINE_ERROR = (
        "engine_error",
        'a 200 with `"finish_reason": "error"`, which passes unchanged',
        Sign.FAILURE,
        Again.NO,
    )
    UNREACHABLE = "unreachable", "the connection was refused, or not made in time", Sign.FAILURE, Again.EACH
    STALE = (
        "stale",
        "a kept connection was closed before it gave a byte of the answer: the server closed it while idle",
        Sign.NOTHING,
        Again.RESENT,
    )
    BROKEN = (
        "broken",
        "reset, ended or not HTTP, before the first byte of the answer's body",
        Sign.FAILURE,
        Again.EACH,
    )
    CUT_OFF = "cut_off", "the same, after that byte", Sign.FAILURE, Again.NO
    FIRST_BYTE_TIMEOUT = (
        "first_byte_timeout",
        "no byte of the body in time: elsewhere it would prefill anew",
        Sign.FAILURE,
        Again.NO,
    )
    CHUNK_TIMEOUT = "chunk_timeout", "silence within the body", Sign.FAILURE, Again.NO
    CLIENT_GONE = "client_gone", "the client left", Sign.NOTHING, Again.NO
    ABANDONED = "abandoned", "the client left, or its time was up, and the server was stalled", Sign.STALL, Again.NO


def outcome_of(status: int) -> Outcome:
    """What a complete answer's status says."""
    if status < 400:
        return Outcome.OK
    if status == 429:
        return Outcome.BUSY
    if status < 500:
        return Outcome.CLIENT_ERROR
    return Outcome.UNAVAILABLE if status == 503 else Outcome.SERVER_ERROR
