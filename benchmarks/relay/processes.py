"""Processes of a benchmark: started, waited for, weighed and ended by their id. Linux: reads /proc."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, cast

_STARTS_S = 60.0
_ENDS_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast("int", probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[int]:
    """The process id of a command that listens on a port, once it does. What it says is shown only if it fails."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            await_port(process, port, said.fileno())
            yield process.pid
        finally:
            _end(process)


class Replicas(NamedTuple):
    """Two mock replicas in one process."""

    ports: list[int]
    pid: int


@contextmanager
def replicas(*arguments: str) -> Iterator[Replicas]:
    """``arguments`` as :mod:`benchmarks.mock_replica` has them."""
    ports = [free_port(), free_port()]
    command = [sys.executable, "-m", "benchmarks.mock_replica", *map(str, ports), *arguments]
    with running(command, ports[-1]) as pid:
        yield Replicas(ports, pid)


def await_port(process: subprocess.Popen[bytes], port: int, said: int) -> None:
    """Return when somebody listens. ``said``: the file with what the process said."""
    deadline_s = time.monotonic() + _STARTS_S
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline_s:
            words = os.pread(said, 4000, max(0, os.fstat(said).st_size - 4000)).decode(errors="replace")
            raise SystemExit(f"{process.args!r} does not listen on {port}:\n{words}")
        time.sleep(0.05)


def tree(pid: int) -> list[int]:
    """A process and all that it started and they did."""
    pids = [pid]
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                pids += tree(int(child))
    return pids


def cpu_s(pid: int) -> float:
    """User and system time of a process and its children (proc(5): fields 14 and 15 of stat)."""
    ticks = 0
    for each in tree(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def resident_mb(pid: int) -> float:
    """What a process holds in memory (proc(5): the second field of statm), in 10^6 bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def prepare() -> None:
    """Let this process and its children open as many files as the system lets them, and end them on SIGTERM too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    pids = tree(process.pid)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_S)
    for pid in pids if process.poll() is None else pids[1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
