"""How a host that lost its power is noticed: it would never say that it is gone."""

from __future__ import annotations

import socket

_IDLE_S, _INTERVAL_S, _PROBES = 15, 5, 3


def notice_dead_hosts(raw: socket.socket | None) -> None:
    """Ask a silent peer for signs of life, and take the connection for broken after 30 s without one.

    On Linux what is accepted from a listening socket asks as that would. A socket that is not TCP is left alone.
    """
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", _IDLE_S), ("TCP_KEEPINTVL", _INTERVAL_S), ("TCP_KEEPCNT", _PROBES)):
        if hasattr(socket, option):  # Linux
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
