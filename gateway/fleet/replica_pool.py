"""ReplicaPool: who is in the fleet, and who may be sent a request.

Synchronous state without I/O. Membership comes from discovery, health and models from the probes; whoever must
know of joins, restarts and departures is a listener.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.errors import BadRequest, ModelNotFound, NoReplica
from gateway.fleet.breaker import Breaker
from gateway.fleet.event_source import EventSource
from gateway.fleet.model_card import ModelCard
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.server import Server
from gateway.fleet.server_spec import ServerSpec


class PoolListener(Protocol):
    """Told synchronously, in order. A replica that changes its namespace or sources leaves and joins."""

    def joined(self, replica: Replica, source: EventSource | None) -> None: ...

    def left(self, replica: Replica) -> None: ...

    def process_changed(self, replica: Replica) -> None:
        """The server's process started anew since it was last probed."""
        ...


class ServedModel(NamedTuple):
    """What a model's name in a request stands for."""

    name: str
    namespace: str
    lora: str  # "": the base model itself


class ReplicaPool:
    """All servers and replicas of this process."""

    def __init__(self, *, breaker: Callable[[], Breaker] = Breaker) -> None:
        self._new_breaker = breaker
        self._servers: dict[str, Server] = {}
        self._listeners: list[PoolListener] = []
        self._models: dict[str, ServedModel] = {}
        self._joined: dict[Replica, EventSource | None] = {}
        self._drained: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<ReplicaPool {list(self._servers.values())!r}>"

    @property
    def servers(self) -> Collection[Server]:
        return self._servers.values()

    @property
    def replicas(self) -> Iterator[Replica]:
        return (replica for server in self._servers.values() for replica in server.replicas)

    @property
    def healthy_replicas(self) -> int:
        """How many replicas answer their probes, whatever they serve."""
        return sum(len(server.replicas) for server in self.servers if server.healthy)

    @property
    def was_ready(self) -> bool:
        """Whether any replica has been healthy since start."""
        return any(server.was_healthy for server in self.servers)

    def listen(self, listener: PoolListener) -> None:
        self._listeners.append(listener)

    def server(self, server_id: str) -> Server | None:
        return self._servers.get(server_id)

    def replica(self, key: ReplicaKey) -> Replica | None:
        """The replica of ``key``, whatever its incarnation by now."""
        server = self._servers.get(key.server_id)
        replicas = server.replicas if server else ()
        return next((replica for replica in replicas if replica.key.rank == key.rank), None)

    # Membership

    def reconcile(self, specs: Iterable[ServerSpec]) -> None:
        """Make the fleet exactly ``specs``. A server whose spec did not change keeps all its state."""
        wanted = {spec.id: spec for spec in specs}
        for server in list(self.servers):
            if wanted.get(server.id) != server.spec:
                self._remove(server)
        for spec in wanted.values():
            if spec.id not in self._servers:
                server = self._servers[spec.id] = Server(spec, self._new_breaker())
                server.draining = server.id in self._drained
        self._index_models()

    def set_drained(self, server_ids: Collection[str]) -> None:
        """Exactly these servers take no new requests, whether they are here, come later or come back."""
        self._drained = frozenset(server_ids)
        for server in self.servers:
            server.draining = server.id in self._drained

    def identify(
        self,
        server: Server,
        cards: Sequence[ModelCard],
        sources: Mapping[int, EventSource],
        ranks: Sequence[int] = (0,),
    ) -> None:
        """The probes learned ``server``'s models, its data-parallel ranks and where these publish events."""
        server.cards = tuple(cards)
        server.event_sources = dict(sources)
        self._index_models()
        keep = {replica.key.rank: replica for replica in server.replicas if self._still(replica, ranks)}
        for replica in server.replicas:
            if replica.key.rank not in keep:
                self._leave(replica)
        server.replicas = [keep.get(rank) or Replica(server, server.key(rank)) for rank in ranks]
        for replica in server.replicas:
            self._join(replica, sources.get(replica.key.rank))

    def process_started(self, server: Server, start_s: float) -> None:
        """A probe read when ``server``'s process started (Unix seconds)."""
        before, server.process_start_s = server.process_start_s, start_s
        if before is None or before == start_s:
            return
        server.breaker.succeeded()  # what failed was another process
        for replica in server.replicas:
            for listener in self._listeners:
                listener.process_changed(replica)

    def restart(self, key: ReplicaKey) -> ReplicaKey:
        """The engine behind ``key`` was replaced: its new key. A key that is already old changes nothing."""
        replica = self.replica(key)
        if replica is None:
            return key
        return replica.restart() if replica.key == key else replica.key

    def _still(self, replica: Replica, ranks: Sequence[int]) -> bool:
        return replica.key.rank in ranks and replica.key.namespace == (replica.server.namespace or "")

    def _join(self, replica: Replica, source: EventSource | None) -> None:
        if replica in self._joined:
            if self._joined[replica] == source:
                return
            self._leave(replica)
        self._joined[replica] = source
        for listener in self._listeners:
            listener.joined(replica, source)

    def _leave(self, replica: Replica) -> None:
        if replica in self._joined:
            del self._joined[replica]
            for listener in self._listeners:
                listener.left(replica)

    def _index_models(self) -> None:
        """One look-up a request. Where servers disagree on what a name means, the first configured one is right."""
        self._models = {
            card.id: ServedModel(card.id, server.namespace or "", card.id if card.parent else "")
            for server in reversed(self._servers.values())
            for card in server.cards
        }

    def _remove(self, server: Server) -> None:
        for replica in server.replicas:
            self._leave(replica)
        del self._servers[server.id]

    # Choice

    def resolve(self, model: str) -> ServedModel:
        """What ``model`` ("" where the request names none) stands for.

        Raises ``NoReplica`` for an empty fleet, ``ModelNotFound``, or ``BadRequest`` where a name is needed.
        """
        if not self._servers:
            raise NoReplica("No replica is configured or discovered.")
        if not model:
            return self._only_model()
        if (served := self._models.get(model)) is not None:
            return served
        if all(server.cards for server in self.servers):
            raise ModelNotFound(model)
        if not any(server.was_healthy for server in self.servers if not server.cards):
            raise NoReplica(f"No replica has answered yet: {self._faults(self.servers)}")
        return ServedModel(model, "", "")

    def routable(self, model: str, tried: Collection[str], now: float) -> list[Replica]:
        """The replicas that may be sent a request for ``model``, without the server ids in ``tried``.

        Ready servers; if there is none, healthy ones whose breaker is open or that push back: trying the least bad
        beats refusing. Raises ``NoReplica`` with the reason if every one is down, drained or tried.
        """
        serving = [server for server in self.servers if server.id not in tried and server.serves(model)]
        healthy = [server for server in serving if server.healthy and not server.draining and server.replicas]
        ready = [server for server in healthy if server.is_ready(now)]
        if not healthy:
            raise NoReplica(f"No healthy replica: {self._faults(serving)}")
        return [replica for server in ready or healthy for replica in server.replicas]

    def replica_ids(self, server_ids: Collection[str]) -> frozenset[str]:
        """The replicas of these servers, by id."""
        servers = (self._servers[id_] for id_ in server_ids if id_ in self._servers)
        return frozenset(replica.id for server in servers for replica in server.replicas)

    def models(self) -> list[ModelCard]:
        """The union of what healthy servers serve, by id, in the order they were configured."""
        union: dict[str, ModelCard] = {}
        for server in self.servers:
            for card in server.cards if server.healthy else ():
                union.setdefault(card.id, card)
        return list(union.values())

    def knows_model(self, model: str) -> bool:
        return model in self._models

    def _only_model(self) -> ServedModel:
        namespaces = sorted({server.namespace for server in self.servers if server.namespace})
        if len(namespaces) > 1:
            raise BadRequest(
                f"The request names no model; this gateway serves {', '.join(namespaces)}.",
                param="model",
                code="model_required",
            )
        if not namespaces and not any(server.was_healthy for server in self.servers):
            raise NoReplica(f"No replica has answered yet: {self._faults(self.servers)}")
        only = namespaces[0] if namespaces else ""
        return ServedModel(only, only, "")

    def _faults(self, servers: Iterable[Server]) -> str:
        faults = [f"{server.id}: {'draining' if server.draining else server.fault}" for server in servers]
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        return ("; ".join(faults[:3]) + more) or "every one was tried"
