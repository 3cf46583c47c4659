"""A network namespace for one test: only loopback, all of it, every port free. Needs Linux and root."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.deploy.container import require_namespaces

_CLONE_NEWNET = 0x40000000  # sched.h
_SIOCSIFFLAGS = 0x8914  # sockios.h
_IFF_UP = 1  # net/if.h


def run_in_own_network(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``work`` to its end in a thread of its own; its sockets, and the processes it starts, are in there.

    Skips the test where that cannot be done.
    """
    require_namespaces()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_enter_and_run, work).result()


def _enter_and_run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Namespaces belong to a thread, and go on to the threads and processes that it starts; they end with it."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    asyncio.run(work())
