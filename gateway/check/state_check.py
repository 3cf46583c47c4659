"""What the probes know already: whether a replica answers, what it serves, what its metrics say. Asks nobody."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.check.knowledge import Knowledge
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.fleet.replica import Replica
from gateway.fleet.server import Server


def check_server(server: Server) -> Iterator[Verdict]:
    """One that has no replica yet can be judged too."""
    if server.asleep:
        yield wrong("reachable", server.id, "asleep", "as its metrics say")
        return
    if not server.healthy:
        yield wrong("reachable", server.id, "unreachable", server.fault)
        return
    yield fine("reachable", server.id)
    if not server.cards:
        yield wrong("model", server.id, "no_model", "/v1/models names none")
        return
    adapters = sum(card.parent is not None for card in server.cards)
    yield fine("model", server.id, f"{server.namespace}" + (f", {adapters} LoRA adapters" if adapters else ""))


def check_metrics(replica: Replica) -> Iterator[Verdict]:
    """Names known, and prefix caching on."""
    report = replica.report
    needed = {"running": report.running, "waiting": report.waiting, "prefix cache": report.prefix_queries}
    missing = [name for name, value in needed.items() if value is None]
    if replica.reported_s is None or missing:
        what = "no vllm: names on /metrics" if replica.reported_s is None else f"not told: {', '.join(missing)}"
        yield wrong("metrics", replica.id, "metrics_unknown", what)
    else:
        yield fine("metrics", replica.id)
    if report.prefix_caching is False:
        yield wrong("prefix_caching", replica.id, "prefix_caching_off", "its metrics say so")


def block_sizes(replica: Replica, knowledge: Knowledge) -> Verdict:
    """Whether events and metrics agree."""
    stats, told = knowledge.stats(replica), replica.report.block_size
    seen = stats.l0_block_size if stats is not None else 0
    if not seen or not told:
        return skipped("block_size", replica.id, "not told by both events and metrics yet")
    if seen != told:
        detail = f"{seen} tokens by its events, {told} by its metrics"
        return wrong("block_size", replica.id, "block_size_differs", detail)
    return fine("block_size", replica.id, f"{seen} tokens")
