"""The services of compose.yaml as local processes: each with its command, environment, health check and stop signal.

In place of a container is what tests/deploy/container.py makes; in place of the engine's network an address of
127.0.0.0/8 for each container, and a name server that tells them. Where a service listens on every address it is made
to listen on its own; a mounted file is read where it lies. Otherwise nothing is changed.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from gateway.settings import Settings
from tests.debian_programs import program
from tests.deploy.compose_file import ComposeFile, Service, seconds
from tests.deploy.dockerfile import ROOT, stages
from tests.deploy.local_host import LocalHost
from tests.fakes.redis_servers import BINARIES

_IMAGE = stages((ROOT / "Dockerfile").read_text())[-1]
_ENTRYPOINT, _COMMAND = _IMAGE.one("ENTRYPOINT").words, _IMAGE.one("CMD").words
_DEFAULTS = Settings()
#: The environment of our image. Where nothing says where to listen, it is said, to be made the container's own address.
_OURS = _IMAGE.pairs("ENV") | {
    "PREFIXWAY_LISTEN": str(_DEFAULTS.listen),
    "PREFIXWAY_METRICS_LISTEN": str(_DEFAULTS.metrics_listen),
}
_USER = _IMAGE.one("USER").text.partition(":")[0]
_NOBODY = "65534"
_PATIENCE_S = 60.0


class Container(NamedTuple):
    """A process that stands for one. ``output``: the file of what it prints."""

    service: Service
    address: str
    process: subprocess.Popen[bytes]
    output: Path


class LocalCompose:
    """``async with LocalCompose(file, folder, secrets) as compose``, in a network of its own.

    ``folder``: for what it writes. ``secrets``: the files of the secrets, by name.
    """

    def __init__(self, file: ComposeFile, folder: Path, secrets: Mapping[str, Path]) -> None:
        self.containers: list[Container] = []
        self._file = file
        self._secrets = secrets
        self._host = LocalHost(folder)

    async def __aenter__(self) -> Self:
        await self._host.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._host.__aexit__()

    def of(self, service: str) -> list[Container]:
        """The containers of a service, the oldest first."""
        return [container for container in self.containers if container.service.name == service]

    async def up(self, *services: str) -> None:
        """As many of each as the file says, in this order; each waits for those it depends on."""
        for name in services:
            for needed in self._file.services[name].waits_for("service_healthy"):
                await self.until_healthy(needed)
            self.scale(name, self._file.services[name].replicas)

    def scale(self, service: str, count: int) -> None:
        """Start as many more as are missing."""
        while len(self.of(service)) < count:
            self.containers.append(self._start(self._file.services[service]))
        self._host.names.put(f"{service}.", "A", *(container.address for container in self.of(service)))

    async def until_healthy(self, service: str) -> None:
        """As each one's own health check says."""
        for container in self.of(service):
            deadline = time.monotonic() + _PATIENCE_S
            while (said := await asyncio.to_thread(self._check, container)) != "":
                ended = container.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise AssertionError(f"{service} is not healthy: {said}\n{container.output.read_text()[-4000:]}")

    async def stop(self, container: Container) -> int:
        """The stop signal, and as long as the file allows; its exit status. Fails where it takes longer."""
        container.process.send_signal(signal.SIGTERM)
        self.containers.remove(container)
        left_s = seconds(container.service.fields["stop_grace_period"])
        return await asyncio.to_thread(container.process.wait, left_s)

    def _start(self, service: Service) -> Container:
        number = len(self.containers) + 1
        address = f"127.0.1.{number}"
        started = self._host.start(f"{service.name}-{number}", *self._run(service, address, self._command(service)))
        return Container(service, address, *started)

    def _check(self, container: Container) -> str:
        """ "": it is healthy; else what was said."""
        health_check = [self._program(word) for word in container.service.health_check]
        if container.service.name == "valkey":  # the file has it ask itself, at 127.0.0.1
            health_check[1:1] = ["-h", container.address]
        command, environ = self._host.contained(*self._run(container.service, container.address, health_check))
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return "" if ran.returncode == 0 else ran.stdout + ran.stderr or f"exit status {ran.returncode}"

    def _command(self, service: Service) -> list[str]:
        if service.is_ours:
            return service.command if "entrypoint" in service.fields else [*_ENTRYPOINT, *_COMMAND]
        if service.name == "valkey":
            return [*map(self._program, service.command), "--bind", "0.0.0.0", "--dir", "/tmp"]
        return [self._program(service.name), *service.command]

    def _program(self, word: str) -> str:
        """What an image that is not ours would have, by another name."""
        if word == "valkey-server":
            return BINARIES["valkey-9"]()
        if word == "valkey-cli":
            return str(Path(BINARIES["redis-6.2"]()).with_name("redis-cli"))
        return str(program("usr/bin/prometheus")) if word == "prometheus" else word

    def _run(self, service: Service, address: str, command: Sequence[str]) -> tuple[list[str], dict[str, str], int]:
        """A command, its environment and its user, in place of a container at ``address``."""
        environ = {**(_OURS if service.is_ours else {}), **service.environment}
        user = service.fields.get("user") or (_USER if service.is_ours else _NOBODY)
        return (
            [self._here(word, service, address) for word in command],
            {name: self._here(value, service, address) for name, value in environ.items()},
            int(user),
        )

    def _here(self, word: str, service: Service, address: str) -> str:
        """``word`` of a command or of the environment, for a process that shares this machine with others."""
        for mount in service.mounts:
            there = str(mount.path) if mount.is_of_the_host else f"/tmp/{mount.source}"
            word = re.sub(rf"(?<![\w./-]){re.escape(mount.target)}\b", there, word)
        for name in service.fields.get("secrets", []):
            word = word.replace(f"/run/secrets/{name}", str(self._secrets[name]))
        for every in ("0.0.0.0", "tcp://*", "127.0.0.1"):
            word = word.replace(every, f"tcp://{address}" if every.startswith("tcp") else address)
        return word
