"""Which sockets ask a silent peer for a sign of life."""

from __future__ import annotations

import socket
import sys

import pytest

from gateway.asgi_server import listen_socket
from gateway.edge.dead_hosts import notice_dead_hosts


def asks(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the times are the system's")
def test_what_is_accepted_asks_as_the_listening_socket_would() -> None:
    """Without a call for each connection."""
    with listen_socket("127.0.0.1", 0) as listening:
        notice_dead_hosts(listening)
        with socket.create_connection(listening.getsockname()) as client, listening.accept()[0] as accepted:
            assert (asks(client), asks(accepted)) == (False, True)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            assert [accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [15, 5, 3]


def test_a_socket_of_this_host_alone_is_left_as_it_is() -> None:
    """Its peer cannot lose its power by itself. A transport may have no socket at all."""
    notice_dead_hosts(None)
    one, other = socket.socketpair()
    with one, other:
        notice_dead_hosts(one)
        assert not asks(one)
