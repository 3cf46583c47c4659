"""Real LMCache servers on the CPU: L1 in memory, L2 in a folder that they share. One for each replica."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.vllm.real_replicas import free_port

CHUNK = 64  # tokens
_LISTENS_S = 120.0
_ENDS_S = 10.0


class LMCacheServer(NamedTuple):
    """``port``: where its replica speaks to it."""

    port: int
    log: Path

    def replica_arguments(self) -> list[str]:
        """For a replica of its own. Only this way of transfer makes events that say what the server holds."""
        connector = {
            "kv_connector": "LMCacheMPConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "lmcache.mp.host": "tcp://127.0.0.1",
                "lmcache.mp.port": self.port,
                "lmcache.mp.mp_transfer_mode": "lmcache_driven",
            },
        }
        return ["--kv-transfer-config", json.dumps(connector)]


def lmcache_environ(environment: Path) -> Mapping[str, str]:
    """What a replica with the connector, and the server, need beside their own."""
    return {
        "PYTHONPATH": str(environment / "lmcache-site"),
        "PYTHONHASHSEED": "0",
        "LMCACHE_DISABLE_BANNER": "1",
        "LMCACHE_TRACK_USAGE": "false",
    }


@contextlib.contextmanager
def lmcache_servers(
    environment: Path, folder: Path, storage: Path, l1_gb: float, count: int = 2
) -> Iterator[list[LMCacheServer]]:
    """Start ``count`` of them, each with ``l1_gb`` of memory; stop them at the end. Their logs go to ``folder``."""
    processes: list[subprocess.Popen[bytes]] = []
    servers: list[LMCacheServer] = []
    try:
        for number in range(count):
            server = LMCacheServer(free_port(), folder / f"lmcache{number}.log")
            servers.append(server)
            processes.append(_start(environment, storage, server, number, l1_gb))
        for process, server in zip(processes, servers):
            _await_port(process, server)
        yield servers
    finally:
        for process in processes:
            _stop(process)


def _start(
    environment: Path, storage: Path, server: LMCacheServer, number: int, l1_gb: float
) -> subprocess.Popen[bytes]:
    command = [
        str(environment / "bin/python"), "-m", "lmcache.cli.main", "server", "--instance-id", f"lmcache{number}",
        "--host", "127.0.0.1", "--port", str(server.port), "--http-port", str(free_port()),
        "--prometheus-port", str(free_port()), "--chunk-size", str(CHUNK), "--l1-size-gb", str(l1_gb),
        "--no-l1-use-lazy", "--eviction-policy", "LRU", "--disable-metrics", "--hash-algorithm", "blake3",
        "--supported-transfer-mode", "auto",
        "--l2-adapter", json.dumps({"type": "fs", "base_path": str(storage)}),
    ]  # fmt: skip
    with server.log.open("wb") as out:
        return subprocess.Popen(
            command,
            env={**os.environ, **lmcache_environ(environment), "DO_NOT_TRACK": "1"},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _await_port(process: subprocess.Popen[bytes], server: LMCacheServer) -> None:
    deadline = time.monotonic() + _LISTENS_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", server.port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no LMCache server on {server.port}:\n{server.log.read_text(errors='replace')[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
