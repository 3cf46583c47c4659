"""Names of hosts as a process sees them, whose addresses a test changes: libnss_wrapper in front of the C library's."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests.debian_programs import program


class HostNames:
    """A hosts file of its own for processes that are started with :attr:`environment`; others do not see it.

    Skips the test where the library is not.
    """

    def __init__(self, folder: Path) -> None:
        self._library = program(f"usr/lib/{sysconfig.get_config_var('MULTIARCH')}/libnss_wrapper.so")
        self._file = folder / "hosts"
        self._addresses: dict[str, str] = {}
        self._written = 0
        self._write()

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self._library), "NSS_WRAPPER_HOSTS": str(self._file)}

    def put(self, name: str, address: str) -> None:
        """From now on ``name`` has this IPv4 address and no other."""
        self._addresses[name] = address
        self._write()

    def _write(self) -> None:
        """At once, and with a time that differs in its seconds: by that the library sees that it changed."""
        self._written += 1
        new = self._file.with_suffix(".new")
        # ZeroMQ asks for IPv6 addresses and such that stand for IPv4 (AI_V4MAPPED), which the library does not make.
        lines = [f"{address} {name}\n::ffff:{address} {name}\n" for name, address in self._addresses.items()]
        new.write_text("".join(lines))
        os.utime(new, (self._written, self._written))
        new.replace(self._file)
