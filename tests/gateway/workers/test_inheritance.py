"""What a worker inherits survives its command line."""

from __future__ import annotations

import socket

import pytest

from gateway.workers.inheritance import Inheritance


def test_there_and_back() -> None:
    """As an argument, and read again."""
    given = Inheritance(slot=2, public=5, metrics=6, admin=7, channel=8)

    assert Inheritance.parse(str(given)) == given


@pytest.mark.parametrize("text", ["", "1:2", "1:2:3:4:x"])
def test_anything_else_is_refused(text: str) -> None:
    """Nobody else is meant to write it."""
    with pytest.raises(ValueError, match=r"must be|invalid literal"):
        Inheritance.parse(text)


def test_the_descriptors_become_sockets() -> None:
    """Their own: closing them closes what was inherited."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one, other = socket.socketpair()
        given = Inheritance(1, *(sock.detach() for sock in (listening.dup(), listening.dup(), listening.dup(), one)))
        sockets, channel = given.listen_sockets(), given.channel_end()

        assert {sock.getsockname() for sock in sockets} == {listening.getsockname()}
        channel.close()
        assert other.recv(1) == b""
        other.close()
        for sock in sockets:
            sock.close()
