"""The pods of deploy/k8s as local processes, in a network of their own: each container with its command, environment,
user and probes, and a file system of which only what is mounted can be written.

A fake API lists the replicas, which are simulated ones at the ports that the StatefulSet gives vLLM; a name server
knows the Services. Where two pods of one cluster would share this machine's addresses, the test says what is changed.
"""

from __future__ import annotations

import asyncio
import base64
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Self

import httpx
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.deploy.cluster import Cluster, container, pod, ports
from tests.deploy.dockerfile import ROOT, stages
from tests.deploy.kustomize import Manifest
from tests.deploy.local_host import LocalHost
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.redis_servers import BINARIES
from tests.fakes.waiting import eventually

_IMAGE = stages((ROOT / "Dockerfile").read_text())[-1]
_VALKEY = "127.0.1.1"
_NAMESPACE = "prefixway"


class LocalContainer(NamedTuple):
    """``output``: the file of what it prints. ``metrics_port``: where its probes ask."""

    spec: Manifest
    workload: Manifest
    process: subprocess.Popen[bytes]
    output: Path
    metrics_port: int

    async def probe(self, name: str) -> bool:
        """As the kubelet asks: any status from 200 to 399 within the time is a yes."""
        probe = self.spec[name]
        async with httpx.AsyncClient(trust_env=False, timeout=probe["timeoutSeconds"]) as client:
            try:
                answer = await client.get(f"http://127.0.0.1:{self.metrics_port}{probe['httpGet']['path']}")
            except httpx.HTTPError:
                return False
        return 200 <= answer.status_code < 400

    async def until(self, name: str, *, says: bool = True) -> None:
        """A probe says yes, or no. Fails with the log if the process ends, or takes longer than its startup may."""
        allowed = self.spec.get("startupProbe", {"periodSeconds": 2, "failureThreshold": 15})
        deadline = time.monotonic() + allowed["periodSeconds"] * allowed["failureThreshold"]
        while await self.probe(name) is not says:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name} does not say {says}; the log:\n{self.output.read_text()[-4000:]}")
            await asyncio.sleep(0.02)

    async def terminate(self) -> int:
        """SIGTERM, and as long as its pod grants; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        grace_s = pod(self.workload)["spec"]["terminationGracePeriodSeconds"]
        return await asyncio.to_thread(self.process.wait, grace_s)


class LocalPods:
    """``async with LocalPods(cluster, folder) as pods``, inside a network of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.api = KubernetesApi(tls=True)
        self._folder = folder
        self._stack = AsyncExitStack()
        self._host = LocalHost(folder)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.api)
        await self._stack.enter_async_context(self._host)
        self.api.write_account(self._folder / "account", namespace=_NAMESPACE)
        self._host.names.put("valkey.", "A", _VALKEY)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def valkey(self) -> LocalContainer:
        """At its own address; it says no to who has no password."""
        workload = self.cluster.get("Deployment", "valkey")
        spec = container(workload, "valkey")
        environ = self.cluster.environ(spec, {})
        program, *arguments = self.cluster.arguments(spec, environ)
        assert program == "valkey-server"
        here = ["--bind", _VALKEY, "--dir", "/tmp"]
        return self._run(workload, spec, [BINARIES["valkey-9"](), *arguments, *here], environ)

    @asynccontextmanager
    async def replica(self, name: str, address: str) -> AsyncIterator[SimulatedReplica]:
        """Ready from the start; deleted at the end."""
        workload = self.cluster.get("StatefulSet", "vllm")
        meta, port = pod(workload)["metadata"], ports(workload)
        options = ReplicaOptions(
            model=meta["annotations"]["prefixway.io/model"],
            host=address,
            port=port["http"],
            events_endpoint=f"tcp://{address}:{port['kv-events']}",
            replay_endpoint=f"tcp://{address}:{port['kv-replay']}",
        )
        async with SimulatedReplica(options) as replica:
            self.api.add(
                name,
                address,
                port=port["http"],
                namespace=_NAMESPACE,
                labels=meta["labels"],
                annotations=meta["annotations"],
            )
            yield replica
            self.api.delete(name, _NAMESPACE)

    def gateway(self, **changed: str) -> LocalContainer:
        """``changed``: settings, without their prefix."""
        workload = self.cluster.get("Deployment", "prefixway")
        return self._ours(workload, "gateway", {}, changed)

    def indexer(self, replica: str, **changed: str) -> LocalContainer:
        """Beside a replica, which is at 127.0.0.1 for it."""
        uid = self.api.pod(replica, _NAMESPACE)["metadata"]["uid"]
        workload = self.cluster.get("StatefulSet", "vllm")
        return self._ours(workload, "indexer", {"metadata.name": replica, "metadata.uid": uid}, changed)

    def _ours(
        self, workload: Manifest, name: str, fields: Mapping[str, str], changed: Mapping[str, str]
    ) -> LocalContainer:
        spec = container(workload, name)
        host, _, port = self.api.url.removeprefix("https://").partition(":")
        environ = _IMAGE.pairs("ENV") | self.cluster.environ(spec, fields)
        environ |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        environ |= {"PREFIXWAY_KUBERNETES_ACCOUNT": str(self._folder / "account"), "PREFIXWAY_STRICT_ENV": "true"}
        environ |= {f"PREFIXWAY_{key.upper()}": value for key, value in changed.items()}
        command = [*_IMAGE.one("ENTRYPOINT").words, *self.cluster.arguments(spec, environ)]
        return self._run(workload, spec, command, environ)

    def _run(
        self, workload: Manifest, spec: Manifest, command: list[str], environ: Mapping[str, str]
    ) -> LocalContainer:
        context = pod(workload)["spec"]["securityContext"] | spec["securityContext"]
        started = self._host.start(f"{spec['name']}-output", command, environ, context["runAsUser"])
        listen = environ.get("PREFIXWAY_METRICS_LISTEN", "")
        declared = {port["name"]: port["containerPort"] for port in spec["ports"]}
        return LocalContainer(spec, workload, *started, int(listen.rpartition(":")[2] or declared.get("metrics", 0)))

    async def until_answers(self, valkey: LocalContainer) -> None:
        """It takes the password that the Secret has."""
        data = self.cluster.get("Secret", "prefixway")["data"]["redis-password"]
        client = valkey_client(base64.b64decode(data).decode())

        def answers() -> bool:
            assert valkey.process.poll() is None, valkey.output.read_text()
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

        await eventually(answers)
        client.close()


def valkey_client(password: str | None = None) -> redis.Redis:
    """Of the Valkey there; it tries once."""
    return redis.Redis(_VALKEY, 6379, password=password, socket_timeout=5, retry=Retry(NoBackoff(), 0))
