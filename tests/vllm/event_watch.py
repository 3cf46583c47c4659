"""EventWatch: a subscription of our own beside the gateway's, to know when the gateway has all that was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import zmq

from tests.running_gateway import RunningGateway
from tests.vllm.real_replicas import RealReplica


class EventWatch:
    """``with EventWatch(replicas) as watch``: knows of each replica the number of the last batch it published."""

    def __init__(self, replicas: Sequence[RealReplica]) -> None:
        self._replicas = replicas
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        self._last: dict[str, int] = {}

    def __enter__(self) -> Self:
        for replica in self._replicas:
            self.follow(replica)
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def follow(self, replica: RealReplica) -> None:
        """Its engine began now."""
        socket = self._sockets[replica.id] = self._context.socket(zmq.SUB)
        socket.subscribe(b"")
        socket.connect(replica.events)

    def forget(self, replica: RealReplica) -> None:
        """Its engine is gone."""
        self._sockets.pop(replica.id).close(linger=0)
        self._last.pop(replica.id, None)

    def settle(self, gateway: RunningGateway) -> None:
        """Wait until the gateway has applied all that was published before now."""
        gateway.wait(lambda: self.is_settled(gateway.replicas()))

    def is_settled(self, known: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether ``known``, the gateway's page of replicas, has all that was published."""
        for name, socket in self._sockets.items():
            while socket.poll(0):
                self._last[name] = int.from_bytes(socket.recv_multipart()[-2], "big")
        return all(known[name]["events"].get("last_sequence", -1) >= last for name, last in self._last.items())
