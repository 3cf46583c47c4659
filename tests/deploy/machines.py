"""Machines as a page for operators has them: units that a `systemctl` starts and stops, a shell, and people who ask.

All are processes of this one, on loopback. The `systemctl` is a stand-in: it asks the :class:`Machines` over HTTP.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import httpx

_WAITS_S = 60.0
_SYSTEMCTL = '#!/bin/sh\nexec curl -sf -X POST "$MACHINES/$MACHINE/$1/$2"\n'


class Unit:
    """A service: ``systemctl start`` runs ``command``, in the environment of the test and of ``env_file``."""

    def __init__(self, command: Sequence[str], folder: Path, env_file: Path | None = None) -> None:
        self._command = command
        self._folder = folder
        self._env_file = env_file
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def start(self) -> bool:
        own = {} if self._env_file is None else read_env(self._env_file)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, env=clean_env() | own, stdout=log, stderr=log)
        return True

    def stop(self) -> bool:
        """SIGTERM; whether it ended in order."""
        if (process := self._process) is None:
            return True
        self._process = None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout=_WAITS_S) in (0, -signal.SIGTERM)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False

    def restart(self) -> bool:
        return self.stop() and self.start()

    def kill(self) -> None:
        """Nobody looks at how it ends."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Machines:
    """``with Machines(folder) as machines``. By name each has a folder, units and the variables of its shell."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._units: dict[tuple[str, str], Unit] = {}
        self._shells: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        bin_ = self._folder / "bin"
        bin_.mkdir()
        (bin_ / "systemctl").write_text(_SYSTEMCTL)
        (bin_ / "systemctl").chmod(0o755)
        self._path = f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._desk = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._desk.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._desk.shutdown()
        self._desk.server_close()
        for unit in self._units.values():
            unit.kill()

    def folder(self, machine: str) -> Path:
        folder = self._folder / machine
        folder.mkdir(exist_ok=True)
        return folder

    def add(self, machine: str, unit: str, command: Sequence[str], env_file: Path | None = None) -> Unit:
        """A unit that does not run yet."""
        added = self._units[machine, unit] = Unit(command, self.folder(machine), env_file)
        return added

    def give(self, machine: str, **variables: str) -> None:
        """What its shell knows, beside the settings in ``ENV_FILE``, as they are then."""
        self._shells[machine] = variables

    def enter(self, machine: str, command: str) -> subprocess.CompletedProcess[str]:
        """In a shell of that machine."""
        variables = self._shells.get(machine, {})
        settings = read_env(Path(variables["ENV_FILE"])) if "ENV_FILE" in variables else {}
        own = {"MACHINE": machine, "MACHINES": f"http://127.0.0.1:{self._desk.server_port}", "PATH": self._path}
        return subprocess.run(
            ["bash", "-c", command],
            env=clean_env() | settings | variables | own,
            cwd=self.folder(machine),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_WAITS_S,
            check=False,
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        units = self._units

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                _, machine, verb, name = self.path.split("/")
                unit = units.get((machine, name))
                verbs = {} if unit is None else {"start": unit.start, "stop": unit.stop, "restart": unit.restart}
                self.send_response(200 if verb in verbs and verbs[verb]() else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_request(self, code: object = "", size: object = "") -> None:
                """Nobody reads it."""

        return Handler


class People:
    """Who ask in turn whichever gateway is ready, as through a load balancer, and keep what went wrong."""

    def __init__(self, gateways: Sequence[str], key: str, body: Mapping[str, object]) -> None:
        self._gateways = gateways
        self._key = key
        self._body = body
        self._over = threading.Event()
        self.answered = 0
        self.failures: list[str] = []

    @contextmanager
    def asking(self) -> Iterator[Self]:
        thread = threading.Thread(target=self._ask_on)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _ask_on(self) -> None:
        gateways = itertools.cycle(self._gateways)
        with httpx.Client(trust_env=False, timeout=30, headers={"authorization": f"Bearer {self._key}"}) as client:
            while not self._over.wait(0.1):
                gateway = next(gateways)
                try:
                    if not client.get(f"{gateway}/readyz", headers={"connection": "close"}).is_success:
                        continue
                except httpx.TransportError:
                    continue  # it is not there
                self._ask(client, gateway)

    def _ask(self, client: httpx.Client, gateway: str) -> None:
        body = {**self._body, "prompt": f"{self._body['prompt']} {self.answered}"}
        try:
            answer = client.post(f"{gateway}/v1/completions", json=body)
        except httpx.TransportError as error:
            self.failures.append(repr(error))
            return
        self.answered += 1
        if answer.status_code != 200:
            self.failures.append(f"{answer.status_code} {answer.text}")


def clean_env() -> dict[str, str]:
    """Of the test, without settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PREFIXWAY_")}


def read_env(file: Path) -> dict[str, str]:
    """As systemd reads an EnvironmentFile."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if line)


def wait_for(is_so: Callable[[], object], what: str) -> None:
    """Return when ``is_so()`` holds."""
    deadline = time.monotonic() + _WAITS_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {_WAITS_S} s: {what}"
        time.sleep(0.2)
