"""Real vLLM servers on the CPU: a tiny model with random weights, deterministic, with a real prefix cache."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.vllm.tiny_model import make_model

MODEL = "tiny"  # as it is served
BLOCK_SIZE = 32  # the CPU backend takes multiples of 32 only
BLOCKS = 512
TOPIC = "kv-events"
_HEALTHY_S = 600.0
_ENDS_S = 15.0
_PORTS = (15_000, 30_000)  # below those of net.ipv4.ip_local_port_range
_LAST_WORDS = 8000  # characters of a log: vLLM tells the cause first, then how it spread
_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TOKENIZERS_PARALLELISM": "false",
}


@dataclass(slots=True)
class RealReplica:
    """A server: where it answers, publishes its events and replays them, and how it was started."""

    url: str
    events: str
    replay: str
    log: Path
    command: Sequence[str] = field(repr=False, default=())
    environ: Mapping[str, str] = field(repr=False, default_factory=dict)
    process: subprocess.Popen[bytes] | None = field(repr=False, default=None)

    @property
    def id(self) -> str:
        """What the gateway calls it."""
        return self.url.removeprefix("http://")

    def start(self) -> None:
        """Start it, and come back at once. Its log goes on in the same file."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                env=os.environ | self.environ,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_health(self, timeout_s: float = _HEALTHY_S) -> None:
        """Return when it answers /health. Raises ``RuntimeError`` with its log if it ends or does not in time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                raise RuntimeError(f"vLLM ended with {self.process.returncode}:\n{self._last_words()}")
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=2):
                return
            time.sleep(0.1)
        raise RuntimeError(f"vLLM is not healthy after {timeout_s} s:\n{self._last_words()}")

    def stop(self) -> None:
        """TERM takes the engine along; what is left of its own process group after a while is killed."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=_ENDS_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """KILL, to the server and its engine: no goodbye to anybody. It can be started again, on the same ports."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-_LAST_WORDS:]


@contextlib.contextmanager
def real_replicas(
    environment: Path,
    folder: Path,
    count: int = 2,
    *,
    blocks: int = BLOCKS,
    max_model_len: int = 4096,
    topic: str = TOPIC,
    arguments: Sequence[Sequence[str]] = (),
    environ: Mapping[str, str] | None = None,
) -> Iterator[list[RealReplica]]:
    """Start ``count`` servers of one model and wait until they are healthy; stop them at the end.

    ``blocks``: in each one's cache. ``topic``: of its events. ``arguments``: more of them, for each server.
    ``environ``: more of that, for all.
    """
    model = make_model(folder / MODEL)
    replicas: list[RealReplica] = []
    try:
        for number in range(count):
            more = [f"--num-gpu-blocks-override={blocks}", f"--max-model-len={max_model_len}"]
            more += arguments[number] if arguments else ()
            replica = _replica(environment, model, folder / f"replica{number}.log", topic, more, environ or {})
            replicas.append(replica)
            replica.start()
        for replica in replicas:
            replica.await_health()
        yield replicas
    finally:
        for replica in replicas:
            replica.stop()


def free_port() -> int:
    """A port nobody listens on at this moment, and none that the system gives to connections: a server takes long to
    come to its ports, and one of these might be gone by then.
    """
    for _ in range(100):
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no free port in {_PORTS}")


def _replica(
    environment: Path, model: Path, log: Path, topic: str, arguments: Sequence[str], environ: Mapping[str, str]
) -> RealReplica:
    http, events, replay = free_port(), free_port(), free_port()
    events_config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{events}",
        "replay_endpoint": f"tcp://*:{replay}",
        "topic": topic,
    }
    command = [
        str(environment / "bin/python"), "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(model), "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(http),
        "--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager", "--distributed-executor-backend", "uni",
        "--max-num-seqs", "8", "--block-size", str(BLOCK_SIZE), "--enable-prefix-caching",
        "--enable-prompt-tokens-details", "--kv-events-config", json.dumps(events_config), *arguments,
    ]  # fmt: skip
    return RealReplica(
        f"http://127.0.0.1:{http}",
        f"tcp://127.0.0.1:{events}",
        f"tcp://127.0.0.1:{replay}",
        log,
        command,
        {**_SETTINGS, **environ},
    )
