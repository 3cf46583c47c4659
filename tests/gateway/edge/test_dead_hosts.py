"""Which sockets ask a silent peer for a sign of life."""

from __future__ import annotations

import socket
import sys

import pytest

from gateway.asgi_server import listen_socket
from gateway.edge.dead_hosts import notice_dead_hosts


def asks(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))


def waits_s(connection: socket.socket) -> float:
    """For the receipt of what was sent; 0: as the system does."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) / 1000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the times are the system's")
def test_what_is_accepted_asks_as_the_listening_socket_would() -> None:
    """Without a call for each connection."""
    with listen_socket("127.0.0.1", 0) as listening:
        notice_dead_hosts(listening)
        with socket.create_connection(listening.getsockname()) as client, listening.accept()[0] as accepted:
            assert (asks(client), asks(accepted)) == (False, True)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            assert [accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [15, 5, 3]
            assert waits_s(accepted) == 0  # a client may pause


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such option")
def test_who_takes_all_that_it_is_sent_owes_its_receipt() -> None:
    """A request that a dead host was just sent is given up in the same time."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as one:
        notice_dead_hosts(one, takes_all=True)
        assert (asks(one), waits_s(one)) == (True, 30)


def test_a_socket_of_this_host_alone_is_left_as_it_is() -> None:
    """Its peer cannot lose its power by itself. A transport may have no socket at all."""
    notice_dead_hosts(None)
    one, other = socket.socketpair()
    with one, other:
        notice_dead_hosts(one)
        assert not asks(one)
