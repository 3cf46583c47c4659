"""EventSource: where one replica publishes its KV events, as addresses one can connect to."""

from __future__ import annotations

from typing import NamedTuple


class EventSource(NamedTuple):
    """ZeroMQ endpoints of one data-parallel rank. ``replay_endpoint`` is ``None`` where it keeps no buffer."""

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""


def connectable(endpoint: str, host: str) -> str:
    """A bind address as vLLM states it (``tcp://*:5557``, ``tcp://0.0.0.0:5557``) made one to connect to."""
    bare = f"[{host}]" if ":" in host and not host.startswith("[") else host
    for wildcard in ("//*:", "//0.0.0.0:", "//[::]:", "//:::"):
        if wildcard in endpoint:
            return endpoint.replace(wildcard, f"//{bare}:")
    return endpoint.replace("{host}", bare)
