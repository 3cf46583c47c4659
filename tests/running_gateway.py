"""The real gateway as a process of its own, as users run it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx


class RunningGateway:
    """``url`` takes requests; "" where it serves none. ``log`` is the file with its standard error, ``access_log`` that
    with its output.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], url: str, metrics_url: str, admin_url: str, folder: Path
    ) -> None:
        self.process = process
        self.url = url
        self.metrics_url = metrics_url
        self.admin_url = admin_url
        self.log = folder / "log"
        self.access_log = folder / "access"

    def status(self) -> dict[str, Any]:
        """GET /status."""
        answer: dict[str, Any] = httpx.get(f"{self.admin_url}/status", trust_env=False).raise_for_status().json()
        return answer

    def replicas(self) -> dict[str, dict[str, Any]]:
        """GET /replicas, by id."""
        answer = httpx.get(f"{self.admin_url}/replicas", trust_env=False).raise_for_status().json()
        return {replica["id"]: replica for replica in answer}

    def metrics(self) -> str:
        """GET /metrics."""
        return httpx.get(f"{self.metrics_url}/metrics", trust_env=False).raise_for_status().text

    def is_ready(self) -> bool:
        """GET /readyz."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url or self.metrics_url}/readyz", trust_env=False).is_success
        return False

    def kill(self) -> None:
        """SIGKILL: no goodbye to anybody."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; return its exit status when it has ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def wait(self, done: Any, timeout_s: float = 60.0) -> None:
        """Return when ``done()`` holds; fail with the log if the gateway ends or time is over."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway ended with {self.process.returncode}:\n{self.log.read_text()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s; the log:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.02)


@contextlib.contextmanager
def running_gateway(
    replica_urls: Sequence[str], *, ready: bool = True, command: str = "serve", **settings: str
) -> Iterator[RunningGateway]:
    """Run ``prefixway serve``, or ``index``, on free ports; ``settings`` without their prefix, in lower case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {
            "listen": "127.0.0.1:0",
            "metrics_listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "replicas": ",".join(replica_urls),
            "probe_interval_s": "0.1",
            "linger_s": "0",
            "background_checks": "false",  # replicas are counted what they are asked
            "log_level": "debug",
        } | settings
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PREFIXWAY_")}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile all of the gateway anew
        environ |= {f"PREFIXWAY_{key.upper()}": value for key, value in given.items()}
        with (folder / "log").open("wb") as log, (folder / "access").open("wb") as access:
            process = subprocess.Popen(
                [sys.executable, "-m", "gateway", command], env=environ, stdout=access, stderr=log
            )
        try:
            yield _await_start(process, folder, ready)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_start(process: subprocess.Popen[bytes], folder: Path, ready: bool) -> RunningGateway:
    """Read from the log where it listens."""
    found: dict[str, str] = {}

    def listens() -> bool:
        for line in (folder / "log").read_text().splitlines():
            with contextlib.suppress(ValueError):
                fields = json.loads(line)
                if fields.get("message") == "listening":
                    found.update(fields["urls"])
        return bool(found)

    starting = RunningGateway(process, "", "", "", folder)
    starting.wait(listens)
    gateway = RunningGateway(process, found.get("api", ""), found["metrics"], found["admin"], folder)
    if ready:
        gateway.wait(gateway.is_ready)
    return gateway
