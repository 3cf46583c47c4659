"""How a host that lost its power is noticed: it would never say that it is gone."""

from __future__ import annotations

import socket

_IDLE_S, _INTERVAL_S, _PROBES = 15, 5, 3
_NOTICED_AFTER_S = _IDLE_S + _INTERVAL_S * _PROBES


def notice_dead_hosts(raw: socket.socket | None, *, takes_all: bool = False) -> None:
    """Ask a silent peer for signs of life, and take the connection for broken after 30 s without one.

    A peer that owes the receipt of what it was sent is not asked: that is sent again, for a quarter of an hour. Of one
    that ``takes_all`` it is sent, and never rightly stops reading for so long, the connection is broken after 30 s then
    too. On Linux what is accepted from a listening socket asks as that would. A socket that is not TCP is left alone.
    """
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", _IDLE_S), ("TCP_KEEPINTVL", _INTERVAL_S), ("TCP_KEEPCNT", _PROBES)):
        if hasattr(socket, option):  # Linux
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if takes_all and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _NOTICED_AFTER_S * 1000)  # milliseconds
