"""Sockets are bound early, and a port that is taken is named."""

from __future__ import annotations

import socket

import pytest

from gateway.asgi_server import listen_socket


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
