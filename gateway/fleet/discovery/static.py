"""Static discovery: the replicas that the settings name, and a file of them that is read again when it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from gateway.file_watch import FileWatch
from gateway.fleet.server_spec import ServerSpec, parse_servers, unique

_log = logging.getLogger(__name__)


def read_replicas_file(path: Path) -> tuple[ServerSpec, ...]:
    """Read a YAML list of replicas, or a mapping with the list under ``replicas``.

    An entry is a string as in PREFIXWAY_REPLICAS, or a mapping with ``url`` and, if wanted, ``id``, ``speed``,
    ``events`` and ``replay``. Raises ``ValueError`` that names the file and the entry.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    if isinstance(content, dict):
        content = content.get("replicas")
    if not isinstance(content, list):
        raise ValueError(f"{path}: must be a list of replicas, or a mapping with a list under 'replicas'")
    specs = []
    for number, entry in enumerate(content, 1):
        try:
            specs.append(_entry(entry))
        except ValueError as error:
            raise ValueError(f"{path}: replica {number}: {error}") from error
    return unique(tuple(specs))


def _entry(entry: object) -> ServerSpec:
    if isinstance(entry, str):
        return ServerSpec.parse(entry)
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        raise ValueError("must be a URL, or a mapping with 'url'")
    options = {str(key): str(value) for key, value in entry.items() if key not in ("url", "id")}
    return ServerSpec.build(entry["url"], str(entry.get("id", "")), options)


class StaticDiscovery:
    """The replicas of the setting, and of the file as it is now. A file gone bad changes nothing and says so."""

    def __init__(
        self,
        setting: str,
        file: Path | None,
        found: Callable[[Sequence[ServerSpec]], None],
        *,
        interval_s: float = 1.0,
    ) -> None:
        """Raises ``ValueError`` if the setting or the file is wrong at the start."""
        self._fixed = parse_servers(setting)
        self._file = file
        self._found = found
        self._interval_s = interval_s
        self._watch = FileWatch(*([file] if file else []))
        self.answered = asyncio.Event()
        self.answered.set()  # as it is made
        self.fault = ""
        self._announce()

    async def run(self) -> None:
        """Watch the file until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            self.poll()

    def poll(self) -> None:
        """Read the file again if it changed."""
        if not self._watch.changed():
            return
        try:
            self._announce()
        except ValueError as error:
            _log.error("keeping the replicas as they were: %s", error)

    def _announce(self) -> None:
        listed = read_replicas_file(self._file) if self._file else ()
        self._found(unique((*self._fixed, *listed)))
