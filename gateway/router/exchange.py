"""Exchange: the record of one client request, from its first byte in to its last byte out.

The proxy fills it and hands it once, at the end, to whoever observes. It holds no prompt text and no token ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.usage import Usage

if TYPE_CHECKING:
    from gateway.router.decision import Decision


@dataclass(slots=True)
class Exchange:
    """Times are seconds of the same monotonic clock; 0.0 where that moment never came."""

    route: str  # chat, completions, ...: from a fixed set
    request_id: str
    received_s: float  # head and body are in
    prepared_s: float = 0.0  # tokenized, hashed, matched
    decided_s: float = 0.0  # the first attempt's replica was chosen: until then the gateway kept the client waiting
    first_byte_s: float = 0.0  # first body byte from the replica
    ended_s: float = 0.0
    model: str = ""  # as the client wrote it: bound it before it becomes a label
    stream: bool = False
    status: int = 0  # what the client was answered; 0: nothing
    # of the last attempt: an Outcome's value; of none: refused, shutdown, fault
    outcome: str = ""
    error: str = ""  # the class of the gateway's own error, if it answered
    error_code: str = ""  # that error's code, from a fixed set
    client: str = ""  # the name of the client's API key
    queued_s: float = 0.0  # seconds that it waited for a place among those under way
    attempts: int = 0
    bytes_out: int = 0
    usage: Usage | None = None
    decision: Decision | None = None  # of the last attempt
    control: str = ""  # the path, of a route that steers an engine
