"""What a query over several gateways must keep to, so that it neither doubles nor hides: read from its syntax tree.

What each gateway counts of its own adds up. What all of them see of the same thing does not: of that one value is
taken, by ``max``, ``min`` or ``avg``. Which gauges are of which kind, ``gateway/workers/gauge_rules.py`` says, since
what holds for several workers holds for several gateways.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser

from gateway.workers.gauge_rules import GAUGES

#: Counters of what replicas told, each time in every gateway that follows their events.
_SEEN_BY_MANY = ("prefixway_kv_event", "prefixway_replica_restarts")
_ONE_VALUE = frozenset({"max", "min", "avg"})
_FUNCTIONS_OF_COUNTERS = frozenset({"rate", "increase"})


class Use(NamedTuple):
    """A metric in a query. ``labels``: that it is filtered by; ``aggregation``: the innermost around it, and its
    labels ``by``; ``function``: what its range goes through.
    """

    metric: str
    labels: frozenset[str]
    aggregation: str
    function: str
    by: frozenset[str]


def uses(query: str) -> list[Use]:
    """Every metric that a query reads. Raises ``ValueError`` for one that is not PromQL."""
    return list(_uses(promql_parser.parse(query), "", "", frozenset()))


def faults(use: Use, kind: str) -> Iterator[str]:
    """What is wrong with a use of a metric of that ``kind``: counter, gauge or histogram."""
    is_range = use.function in _FUNCTIONS_OF_COUNTERS
    if is_range != (kind != "gauge"):
        yield f"a {kind} within {use.function or 'no function'}"
    if kind == "histogram" and "le" not in use.by:
        yield "buckets are put together without le"
    wanted = _ONE_VALUE if _is_seen_by_many(use.metric, kind) else {"sum"}
    if use.aggregation not in wanted:
        yield f"{use.aggregation or 'nothing'} puts several gateways' together, and not {' or '.join(sorted(wanted))}"


def _is_seen_by_many(metric: str, kind: str) -> bool:
    if kind == "gauge":
        return GAUGES[metric] is not sum
    return metric.startswith(_SEEN_BY_MANY)


def _uses(node: Any, aggregation: str, function: str, by: frozenset[str]) -> Iterator[Use]:
    match node:
        case promql_parser.VectorSelector():
            matchers = frozenset(matcher.name for matcher in node.matchers.matchers)
            yield Use(node.name or "", matchers, aggregation, function, by)
        case promql_parser.MatrixSelector():
            yield from _uses(node.vector_selector, aggregation, function, by)
        case promql_parser.AggregateExpr():
            labels = frozenset(node.modifier.labels) if node.modifier is not None else frozenset[str]()
            yield from _uses(node.expr, str(node.op), function, labels)
        case promql_parser.Call():
            for argument in node.args:
                yield from _uses(argument, aggregation, node.func.name, by)
        case promql_parser.BinaryExpr():
            yield from _uses(node.lhs, aggregation, function, by)
            yield from _uses(node.rhs, aggregation, function, by)
        case promql_parser.ParenExpr() | promql_parser.UnaryExpr():
            yield from _uses(node.expr, aggregation, function, by)
        case _:
            assert isinstance(node, promql_parser.NumberLiteral | promql_parser.StringLiteral), node
