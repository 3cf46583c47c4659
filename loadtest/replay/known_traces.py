"""KnownTraces: which traces a folder's runs were made on, so that a file that changed does not pass for the old one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from loadtest.replay import generator

_GENERATED = "generated"


class KnownTraces:
    """A JSON file with a digest for each name. Raises ``OSError`` where it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, sources: Mapping[str, str], measured: Collection[str]) -> None:
        """``sources``: by name, what the traces now come from, a file or a generated trace's name; ``measured``: the
        names of those that have runs. Raises ``ValueError`` where these were of another trace.
        """
        known = self._read()
        for name, source in sources.items():
            digest = _digest(source)
            if name in measured and known.get(name, digest) != digest:
                folder = self._path.parent
                raise ValueError(f"{folder} has runs of another trace named {name}: rename {source} or the folder")
            known[name] = digest
        new = self._path.with_name(self._path.name + ".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(known)) + b"\n")
        new.replace(self._path)

    def _read(self) -> dict[str, str]:
        if not self._path.exists():
            return {}
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{self._path}: {error}") from error


def _digest(source: str) -> str:
    """Of the file and, as of a decision log that was rotated, the one before it."""
    if source in generator.KINDS:
        return _GENERATED
    path = Path(source)
    digest = hashlib.sha256()
    for part in (path, path.with_name(path.name + ".1")):
        if part.is_file():
            with part.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
