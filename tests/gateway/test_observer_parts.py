"""Who is told of an exchange, by the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry

from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.observer_parts import ObserverParts
from gateway.router.exchange import Exchange
from gateway.settings import Settings
from tests.gateway.examples import SECRET, a_decision, a_pool
from tests.gateway.observe.examples import an_exchange

RESET = Exchange("control", "1", 0.0, status=200, decision=a_decision(replica_id="b"), control="/reset_prefix_cache")


@contextmanager
def observers(
    registry: CollectorRegistry | None = None, pool: ReplicaPool | None = None, **settings: str
) -> Iterator[ObserverParts]:
    environ = {f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()}
    parts = ObserverParts(
        Settings.from_env(environ),
        pool or a_pool(),
        registry or CollectorRegistry(),
        shared=False,
        secret=lambda: SECRET,
        wall_clock=lambda: 0.0,
    )
    try:
        yield parts
    finally:
        parts.close()


@pytest.mark.parametrize(("access_log", "lines"), [("true", 2), ("false", 0)])
def test_the_access_log_is_standard_output(access_log: str, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each, all of them out by the time that it is closed."""
    with observers(access_log=access_log) as parts:
        for _ in range(2):
            parts.observe(an_exchange())

    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["replica"] for line in written] == ["a"] * lines
    assert parts.lines_dropped == 0


def test_every_exchange_is_counted() -> None:
    registry = CollectorRegistry()
    with observers(registry, access_log="false") as parts:
        for _ in range(3):
            parts.observe(an_exchange())

    counted = [sample for family in registry.collect() for sample in family.samples]
    assert sum(sample.value for sample in counted if sample.name == "prefixway_requests_total") == 3


@pytest.mark.parametrize(("allowed", "told"), [("/reset_prefix_cache", ["b"]), ("", [])])
def test_resets_are_watched_where_they_are_allowed(allowed: str, told: list[str]) -> None:
    emptied: list[Replica] = []
    pool = a_pool()
    pool.listen_to_resets(emptied.append)
    with observers(pool=pool, access_log="false", allow_routes=allowed) as parts:
        parts.observe(RESET)

    assert [replica.id for replica in emptied] == told
