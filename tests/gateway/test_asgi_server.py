"""Sockets are bound early, and a port that is taken is named."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.asgi_server import listen_socket, listen_sockets, port_of


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_any_free_port(host: str, family: int) -> None:
    """Port 0 is chosen by the system, in both families."""
    with listen_socket(host, 0) as bound:
        assert bound.family == family
        assert bound.getsockname()[1] > 0


def test_a_taken_port_says_which() -> None:
    """The error names address and port."""
    with listen_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            listen_socket("127.0.0.1", port)


def test_three_ports_or_none() -> None:
    """If one is taken the others are given back."""
    with listen_socket("127.0.0.1", 0) as taken:
        free = [listen_socket("127.0.0.1", 0) for _ in range(2)]
        ports = [port_of(listening) for listening in free]
        for listening in free:
            listening.close()
        with pytest.raises(OSError, match="Address already in use"):
            listen_sockets(("127.0.0.1", ports[0]), ("127.0.0.1", ports[1]), taken.getsockname())
        sockets = listen_sockets(*(("127.0.0.1", port) for port in (*ports, 0)))

    assert [port_of(listening) for listening in sockets][:2] == ports
    for listening in sockets:
        listening.close()


def test_a_socket_in_the_file_system_has_no_port(tmp_path: Path) -> None:
    """It has a name."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        assert port_of(listening) == 0
