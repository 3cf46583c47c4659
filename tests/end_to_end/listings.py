"""Where gateways find replicas that come and go: a fake cluster's API, or a fake name server."""

from __future__ import annotations

from typing import Protocol

from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.name_server import NameServer

NAME = "vllm.models.svc"


class Listing(Protocol):
    """Where gateways find replicas. A replica is called by its address."""

    def add(self, address: str, port: int) -> None:
        """It runs, and is not ready yet."""
        ...

    def ready(self, address: str) -> None: ...

    def terminate(self, address: str) -> None:
        """It is told to stop, and still runs."""
        ...

    def delete(self, address: str) -> None:
        """It ended."""
        ...

    def server_id(self, address: str) -> str:
        """What gateways call it. Asked before it is deleted."""
        ...


class InKubernetes:
    """Pods."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def add(self, address: str, port: int) -> None:
        self._api.add(_pod(address), None, port=port, ready=False)
        self._api.pod(_pod(address))["status"] |= {"phase": "Running", "podIP": address}

    def ready(self, address: str) -> None:
        self._api.set_ready(_pod(address), True)

    def terminate(self, address: str) -> None:
        self._api.terminate(_pod(address))

    def delete(self, address: str) -> None:
        self._api.delete(_pod(address))

    def server_id(self, address: str) -> str:
        return self._api.server_id(_pod(address))


class InDns:
    """A headless Service: the name has the addresses of the pods that are ready and not told to stop."""

    def __init__(self, names: NameServer) -> None:
        self._names = names
        self._ports: dict[str, int] = {}
        self._ready: list[str] = []

    def add(self, address: str, port: int) -> None:
        self._ports[address] = port

    def ready(self, address: str) -> None:
        self._ready.append(address)
        self._names.put(NAME, "A", *self._ready)

    def terminate(self, address: str) -> None:
        self._ready.remove(address)
        self._names.put(NAME, "A", *self._ready)

    def delete(self, address: str) -> None: ...

    def server_id(self, address: str) -> str:
        return f"{address}:{self._ports[address]}"


def _pod(address: str) -> str:
    return f"vllm-{address.rpartition('.')[2]}"
