"""A machine for containers that are processes of this test: where they find names, what they see, and that they end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.deploy.container import contained
from tests.deploy.dockerfile import ROOT
from tests.fakes.name_server import NameServer

_NAME_SERVER = "127.0.0.53"


class Started(NamedTuple):
    """``output``: the file of what it prints."""

    process: subprocess.Popen[bytes]
    output: Path


class LocalHost:
    """``async with LocalHost(folder) as host``, in a network of its own; ``folder``: for what it writes."""

    def __init__(self, folder: Path) -> None:
        self.names = NameServer(_NAME_SERVER, 53)
        self._folder = folder
        self._resolv_conf = folder / "resolv.conf"
        self._started: list[Started] = []

    async def __aenter__(self) -> Self:
        self._folder.chmod(0o755)  # containers read there as other users
        self._resolv_conf.write_text(f"nameserver {_NAME_SERVER}\noptions ndots:0\n")
        await self.names.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process, _output in self._started:
            process.kill()
            await asyncio.to_thread(process.wait)
        await self.names.__aexit__()

    def contained(
        self, command: Sequence[str], environ: Mapping[str, str], user: int
    ) -> tuple[list[str], dict[str, str]]:
        """A command and its environment as in a container that has this project, this Python and the names."""
        return contained(
            command,
            {"PATH": f"{sys.prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin", **environ},
            kept=[Path(sys.prefix), Path(sys.base_prefix), ROOT, self._folder],
            files={"/etc/resolv.conf": self._resolv_conf},
            user=user,
        )

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str], user: int) -> Started:
        """A container; ``name``: of the file of its output."""
        argv, given = self.contained(command, environ, user)
        output = self._folder / name
        with output.open("wb") as out:
            started = Started(subprocess.Popen(argv, env=given, stdout=out, stderr=out), output)
        self._started.append(started)
        return started
