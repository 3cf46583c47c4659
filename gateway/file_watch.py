"""FileWatch: notices that files were replaced while we run, by whoever looks after them."""

from __future__ import annotations

from pathlib import Path

_Stamp = tuple[int, int, int]


class FileWatch:
    """Asks the file system now and then: that works wherever files come from, Kubernetes' swapped links included."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen = self._stamps()

    def changed(self) -> bool:
        """Whether any of them is another than at the last call; also if one came or went."""
        stamps = self._stamps()
        before, self._seen = self._seen, stamps
        return stamps != before

    def _stamps(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> _Stamp | None:
    """What changes when a file does; ``None``: there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
