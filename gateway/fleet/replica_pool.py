"""ReplicaPool: who is in the fleet, and who may be sent a request.

Synchronous state without I/O. Membership comes from discovery, health and models from the probes; whoever must
know of joins, restarts and departures is a listener.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.errors import NoReplica
from gateway.fleet.breaker import Breaker
from gateway.fleet.event_source import EventSource
from gateway.fleet.model_card import ModelCard
from gateway.fleet.model_names import ModelNames
from gateway.fleet.origin import Origin
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.server import Server, faults_of
from gateway.fleet.server_spec import ServerSpec


class PoolListener(Protocol):
    """Told synchronously, in order. A replica that changes its namespace or sources leaves and joins."""

    def joined(self, replica: Replica, source: EventSource | None) -> None: ...

    def left(self, replica: Replica) -> None: ...

    def process_changed(self, replica: Replica) -> None:
        """The server's process started anew since it was last probed."""
        ...


CacheEmptied = Callable[[Replica], None]


class Members(NamedTuple):
    """The replicas of one namespace, whatever their health, and their keys in the same order."""

    replicas: Sequence[Replica]
    keys: Sequence[ReplicaKey]


class ReplicaPool:
    """All servers and replicas of this process."""

    def __init__(self, *, breaker: Callable[[], Breaker] = Breaker, stall_s: float = 60.0) -> None:
        self._new_breaker = breaker
        self._stall_s = stall_s
        self._servers: dict[str, Server] = {}
        self._by_origin: dict[Origin, list[Server]] = {}
        self.names = ModelNames(self._servers.values())
        self._listeners: list[PoolListener] = []
        self._reset_listeners: list[CacheEmptied] = []
        # Made when asked for, forgotten when anything about them changes:
        self._members: dict[str, Members] = {}  # by namespace
        self._serving: dict[str, Sequence[Server]] = {}  # by model
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
        return sum([len(server.replicas) for server in self._servers.values() if server.healthy])

    @property
    def was_ready(self) -> bool:
        """Whether any replica has been healthy since start."""
        return any(server.was_healthy for server in self.servers)

    def listen(self, listener: PoolListener) -> None:
        self._listeners.append(listener)

    def listen_to_resets(self, listener: CacheEmptied) -> None:
        """Tell ``listener`` of each replica whose prefix cache was emptied while its process went on."""
        self._reset_listeners.append(listener)

    def server(self, server_id: str) -> Server | None:
        return self._servers.get(server_id)

    def replica(self, key: ReplicaKey) -> Replica | None:
        """The replica of ``key``, whatever its incarnation by now."""
        server = self._servers.get(key.server_id)
        replicas = server.replicas if server else ()
        return next((replica for replica in replicas if replica.key.rank == key.rank), None)

    # Membership

    def reconcile(self, specs: Iterable[ServerSpec], held_back: Collection[str] = ()) -> None:
        """Make the fleet exactly ``specs``. A server whose spec did not change keeps all its state.

        ``held_back``: the ids of those that are there and not ready for requests, by who found them.
        """
        wanted = {spec.id: spec for spec in specs}
        for server in list(self.servers):
            if wanted.get(server.id) != server.spec:
                self._remove(server)
        for spec in wanted.values():
            if spec.id not in self._servers:
                self._add(spec)
            self._servers[spec.id].held_back = spec.id in held_back
        self._models_changed()

    def set_drained(self, server_ids: Collection[str]) -> None:
        """Exactly these servers take no new requests, whether they are here, come later or come back.

        What runs there goes on. When it has ended, listeners are told that its replicas left; undrained, they join.
        """
        self._drained = frozenset(server_ids)
        for server in self.servers:
            server.draining = server.id in self._drained
            self.settle_drain(server)

    def settle_drain(self, server: Server) -> None:
        """Let a draining server's replicas leave if nothing runs there any more, by whichever gateway.

        Called at every end here, and at every probe for those of others. Once they left they stay away until it is
        undrained, even if one more request has to go there.
        """
        if not server.draining and server.drained:
            server.drained = False
            for replica in server.replicas:
                self._join(replica, server.event_sources.get(replica.key.rank))
        elif server.draining and not server.drained and not server.inflight:
            server.drained = True
            for replica in server.replicas:
                self._leave(replica)

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
        self._models_changed()
        keep = {replica.key.rank: replica for replica in server.replicas if self._still(replica, ranks)}
        for replica in server.replicas:
            if replica.key.rank not in keep:
                self._leave(replica)
        server.replicas = [keep.get(rank) or Replica(server, server.key(rank)) for rank in ranks]
        self._members.clear()
        for replica in server.replicas:
            self._join(replica, sources.get(replica.key.rank))

    def heard(self, origin: Origin, now: float) -> None:
        """Bytes of answers' bodies came from ``origin`` since this was last said."""
        for server in self._by_origin.get(origin, ()):
            server.heard(now)

    def process_started(self, server: Server, start_s: float, now: float) -> None:
        """A probe read when ``server``'s process started (Unix seconds). ``now``: of the monotonic clock."""
        before, server.process_start_s = server.process_start_s, start_s
        if before is None or before == start_s:
            return
        self.process_replaced(server, now)

    def process_replaced(self, server: Server, now: float) -> None:
        """A probe saw that ``server``'s process is another one, though not when it started."""
        server.began_anew(now)
        for replica in server.replicas:
            for listener in self._listeners:
                listener.process_changed(replica)

    def slept(self, server: Server, asleep: bool) -> None:
        """A probe read whether ``server``'s engine is asleep. Falling asleep and waking, its caches are empty."""
        if asleep is not server.asleep:
            server.slept(asleep)
            self._emptied(server)

    def cache_reset(self, server: Server) -> None:
        """Somebody emptied ``server``'s prefix caches, as was seen here."""
        server.reset_seen()
        self._emptied(server)

    def resets_counted(self, server: Server, count: float) -> None:
        """A probe read how often ``server``'s prefix caches were emptied since its process started, by anybody."""
        if server.resets_counted(count):
            self._emptied(server)

    def _emptied(self, server: Server) -> None:
        for replica in server.replicas:
            for listener in self._reset_listeners:
                listener(replica)

    def restart(self, key: ReplicaKey) -> ReplicaKey:
        """The engine behind ``key`` was replaced: its new key. A key that is already old changes nothing."""
        replica = self.replica(key)
        if replica is None:
            return key
        self._members.clear()
        return replica.restart() if replica.key == key else replica.key

    def _still(self, replica: Replica, ranks: Sequence[int]) -> bool:
        return replica.key.rank in ranks and replica.key.namespace == (replica.server.namespace or "")

    def _join(self, replica: Replica, source: EventSource | None) -> None:
        if replica.server.drained:
            return
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

    def _models_changed(self) -> None:
        self.names.index()
        self._serving.clear()

    def _add(self, spec: ServerSpec) -> None:
        breaker = self._new_breaker()
        server = Server(spec, breaker, stall_s=self._stall_s, ended_while_draining=self.settle_drain)
        self._servers[spec.id] = server
        self._by_origin.setdefault(spec.origin, []).append(server)
        server.draining = server.id in self._drained
        self.settle_drain(server)

    def _remove(self, server: Server) -> None:
        for replica in server.replicas:
            self._leave(replica)
        del self._servers[server.id]
        here = self._by_origin[server.spec.origin]
        here.remove(server)
        if not here:  # pods come with ever new addresses
            del self._by_origin[server.spec.origin]
        self._members.clear()

    # Choice

    def members(self, namespace: str) -> Members:
        """The replicas whose caches hold ``namespace``."""
        members = self._members.get(namespace)
        if members is None:
            replicas = [replica for replica in self.replicas if replica.key.namespace == namespace]
            members = self._members[namespace] = Members(replicas, [replica.key for replica in replicas])
        return members

    def routable(self, model: str, tried: Collection[str], now: float) -> list[Replica]:
        """The replicas that may be sent a request for ``model``, without the server ids in ``tried``.

        Ready servers; if there is none, the least bad of the healthy ones, which beats refusing: those that push back,
        else those held back, else those that are stalled, else those whose breaker is open. Raises ``NoReplica`` with
        the reason if every one is down, drained or tried: a server that fails its probes is not tried, even if it can
        be connected to.
        """
        serving = self._serving.get(model)
        if serving is None:
            serving = [server for server in self.servers if server.serves(model)]
            if self.names.knows(model):  # names of clients are not kept
                self._serving[model] = serving
        if tried:
            serving = [server for server in serving if server.id not in tried]
        ready = [server for server in serving if server.is_ready(now) and server.replicas]
        if not ready:
            healthy = [server for server in serving if server.healthy and not server.draining and server.replicas]
            if not healthy:
                raise NoReplica("No replica is healthy.", faults_of(serving))
            ready = _least_bad(healthy, now)
        return [replica for server in ready for replica in server.replicas]

    def replica_ids(self, server_ids: Collection[str]) -> frozenset[str]:
        """The replicas of these servers, by id."""
        servers = (self._servers[id_] for id_ in server_ids if id_ in self._servers)
        return frozenset(replica.id for server in servers for replica in server.replicas)


def _least_bad(servers: Sequence[Server], now: float) -> list[Server]:
    troubles = [server.trouble(now) for server in servers]
    least = min(troubles)
    return [server for server, trouble in zip(servers, troubles) if trouble == least]
