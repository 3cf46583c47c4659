"""An address that never answers: whoever connects there waits, as for a host that is no more."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_SYN_SENT = "02"  # include/net/tcp_states.h


@contextmanager
def black_hole(host: str, ports: Iterable[int]) -> Iterator[None]:
    """Inside the block nothing that connects to ``ports`` is answered: the backlog of each is full (Linux)."""
    with ExitStack() as stack:
        for port in ports:
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(0)
            stack.enter_context(socket.create_connection((host, port)))
        yield


def waits_for(host: str, port: int) -> bool:
    """Whether somebody's connection to that port is being made."""
    there = "".join(f"{byte:02X}" for byte in reversed(socket.inet_aton(host))) + f":{port:04X}"
    tables = [Path(f"/proc/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
    connections = [line.split() for table in tables for line in table]
    return any(fields[2].endswith(there) and fields[3] == _SYN_SENT for fields in connections)
