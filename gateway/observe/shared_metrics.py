"""SharedMetrics: Redis, the index in it, and what other gateways tell, at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.load.peer_load import LoadStats

#: Shown from the start: of a series that begins with its first look-up Prometheus sees no increase.
_NO_LOOKUPS = {"ok": 0, "timeout": 0, "error": 0, "skipped": 0}
_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.1, 1.0)


class LoadTeller(Protocol):
    """Who knows what other gateways told; see :class:`~gateway.shared.load.peer_load.PeerLoad`."""

    @property
    def stats(self) -> LoadStats: ...


class SharedMetrics(Collector):
    """A collector for prometheus_client. Register it once. ``load`` answers ``None`` where load is not shared."""

    def __init__(
        self, link: RedisLink, writer: RedisWriter, index: RedisIndex, load: Callable[[], LoadTeller | None]
    ) -> None:
        self._link = link
        self._writer = writer
        self._index = index
        self._load = load
        self._lookups = Histogram(
            "prefixway_redis_lookup_seconds", "Until Redis answered a look-up", buckets=_SECONDS, registry=None
        )

    def looked_up(self, seconds: float) -> None:
        """Redis answered a look-up, in time for its request or not."""
        self._lookups.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        yield _gauge("redis_up", "1: Redis answers in time", float(self._link.is_up))
        yield from self._lookups.collect()
        stats = self._link.stats
        lookups = _NO_LOOKUPS | stats.lookups
        yield _counter("redis_lookups", "Look-ups of requests by how they ended", "outcome", lookups)
        yield _plain("redis_breaker_openings", "Times Redis did not answer in time, or at all", stats.openings)
        yield _plain("redis_connections", "Connections made to Redis", stats.connections)
        yield _counter("redis_refused", "Commands that Redis refused, by its code", "code", stats.refused)
        yield from self._writing()
        entries = sum(len(registry.entries) for registry in self._index.registries.values())
        yield _gauge("shared_index_replicas", "Replicas that have an index in Redis", entries)
        foreign = sum(len(registry.foreign) for registry in self._index.registries.values())
        yield _gauge("shared_index_foreign", "Replicas whose index is under another hash secret", foreign)
        unreadable = sum(registry.unreadable for registry in self._index.registries.values())
        yield _gauge("shared_index_unreadable", "Replicas whose entry in Redis makes no sense here", unreadable)
        if (load := self._load()) is not None:
            yield from _shared_load(load.stats)

    def _writing(self) -> Iterable[Metric]:
        stats = self._writer.stats
        yield _gauge("shared_index_written", "Replicas whose index this process writes", len(self._writer.written))
        yield _plain("shared_index_blocks_written", "Blocks stored or removed in Redis", stats.blocks_written)
        yield _counter("shared_index_epochs", "Times a replica's index was written anew", "reason", stats.epochs)
        yield _plain("shared_index_locks_lost", "Writer locks that went to others", stats.locks_lost)
        yield _counter("shared_index_refused", "Writes that Redis refused, by its code", "code", stats.refused)


def _shared_load(stats: LoadStats) -> Iterable[Metric]:
    messages = {"sent": stats.sent, "unsent": stats.unsent, "received": stats.received, "missed": stats.missed}
    messages |= {"unreadable": stats.unreadable, "refused": stats.refused}
    yield _counter("load_messages", "Messages between gateways about their load", "outcome", messages)
    yield _gauge("load_peers", "Gateways that tell their load", stats.peers)
    yield _gauge("load_peer_inflight", "Their requests in flight", stats.peer_inflight)


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"prefixway_{name}", doc, value=value)


def _plain(name: str, doc: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"prefixway_{name}", doc, value=value)


def _counter(name: str, doc: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"prefixway_{name}", doc, labels=(label,))
    for of, value in values.items():
        family.add_metric((of,), value)
    return family
