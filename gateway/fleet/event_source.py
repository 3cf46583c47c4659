"""EventSource: where one replica publishes its KV events, as addresses one can connect to."""

from __future__ import annotations

import re
from typing import NamedTuple

_ENDPOINT = re.compile(r"tcp://(\{host\}|\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(\d{1,5})|ipc://[^{}]+")


class EventSource(NamedTuple):
    """ZeroMQ endpoints of one data-parallel rank. ``replay_endpoint`` is ``None`` where it keeps no buffer."""

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""


def checked_endpoint(text: str) -> str:
    """``text``, if it is an address of ours: tcp with host (or ``{host}``) and port, or ipc. Else ``ValueError``."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match[2] or 1) not in range(1, 65_536):
        raise ValueError(f"{text!r} is not a ZeroMQ endpoint like tcp://{{host}}:5557")
    return text


def connectable(endpoint: str, host: str) -> str:
    """A bind address as vLLM states it (``tcp://*:5557``, ``tcp://0.0.0.0:5557``) made one to connect to."""
    bare = f"[{host}]" if ":" in host and not host.startswith("[") else host
    for wildcard in ("//*:", "//0.0.0.0:", "//[::]:", "//:::"):
        if wildcard in endpoint:
            return endpoint.replace(wildcard, f"//{bare}:")
    return endpoint.replace("{host}", bare)
