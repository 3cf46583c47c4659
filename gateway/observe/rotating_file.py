"""RotatingFile: whole lines at the end of a file that several processes may share, renamed when it is large."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_MODE = 0o600


class RotatingFile:
    """At ``most_bytes`` it is renamed to its name with ``.1`` at its end, in place of the one before.

    What :meth:`write` is given ends with a newline, and stands in the file in one piece or not at all: a lock keeps
    other processes away meanwhile, and what a full disk took only a part of is taken back. Opened when it is first
    needed, and after a fault anew, for its owner only. To be used by one thread.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._file: int | None = None

    def open(self) -> None:
        """Make it, if it is not there. Raises ``OSError``."""
        if self._file is None:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self._path, flags, _MODE)

    def write(self, text: str) -> None:
        """Raises ``OSError``."""
        data = text.encode()
        try:
            file, size = self._locked(len(data))
            _append(file, size, data)
            fcntl.flock(file, fcntl.LOCK_UN)
        except OSError:
            self.close()
            raise

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _locked(self, more: int) -> tuple[int, int]:
        """The file that the path names by now, locked, with its size, and room for ``more`` bytes."""
        while True:
            self.open()
            assert self._file is not None  # noqa: S101 - for mypy
            fcntl.flock(self._file, fcntl.LOCK_EX)
            status = os.fstat(self._file)
            if not self._is_current(status):
                self.close()
            elif status.st_size and status.st_size + more > self._most_bytes:
                self._path.replace(f"{self._path}.1")
                self.close()
            else:
                return self._file, status.st_size

    def _is_current(self, status: os.stat_result) -> bool:
        """Whether nobody has renamed or removed it."""
        try:
            return os.path.samestat(self._path.stat(), status)
        except FileNotFoundError:
            return False


def _append(file: int, size: int, data: bytes) -> None:
    if size and os.pread(file, 1, size - 1) not in (b"\n", b""):  # a process was killed as it wrote
        data = b"\n" + data
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.ftruncate(file, size)
        raise
