"""KeyFile: the file of API keys, read again when it changes, so that a key is given and taken without a restart."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from gateway.client_keys import read_client_keys
from gateway.edge.auth import ApiKeys
from gateway.file_watch import FileWatch

_log = logging.getLogger(__name__)


class KeyFile:
    """Puts the file's keys in force. A file gone bad changes nothing and says so; an empty one means: nobody."""

    def __init__(self, path: Path, keys: ApiKeys, *, interval_s: float = 2.0) -> None:
        """Reads it. Raises ``ValueError`` if it is wrong at the start: there is nothing to keep yet."""
        self._path = path
        self._keys = keys
        self._interval_s = interval_s
        self._watch = FileWatch(path)
        self.fault = ""  # what is wrong with the file now, while the keys before are in force
        self._read()

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
            self._read()
        except ValueError as error:
            self.fault = str(error)
            _log.error("keeping the API keys as they were: %s", error)

    def _read(self) -> None:
        keys = read_client_keys(self._path)
        self._keys.replace(keys)
        self.fault = ""
        if keys:
            _log.info("API keys in force: %s", ", ".join(self._keys.names))
        else:
            _log.error("%s has no keys: every request is refused until it has one", self._path)
