"""Choices: where requests go, and why."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import added, max_of

_OTHERWISE = 'agreed="no"'
_HEALTHY = f"count({max_of('replica_up', by='replica')} == 1)"


def _most_over_mean(counter: str) -> str:
    """Over all healthy replicas: one that gets nothing has no series, and counts in the mean."""
    by_replica = added(counter, by="replica")
    return f"max({by_replica}) / (sum({by_replica}) / {_HEALTHY})"


ROW = Row(
    "Choices",
    "**Good:** with prompts that have much in common most reasons are *prefix*, and no replica gets more than twice "
    "the mean. **Else:** mostly *cost* or *least_loaded*: nothing is found, see *Caches*. Much *spill*: too few "
    "replicas for what is asked of the best ones. One replica gets all: look at trust and health of the others.",
    (
        Panel(
            "Decisions by reason",
            "prefix: it holds the most of the prompt. session: the session's home. spill: another holds more, or is "
            "the home, and is too busy. cost, least_loaded: neither made a difference. only_candidate: there was no "
            "other.",
            {"{{reason}}": added("decisions", by="reason")},
            Form.STACK,
            "reqps",
        ),
        Panel(
            "Requests by replica",
            "Decisions for it, retries' last ones.",
            {"{{replica}}": added("decisions", by="replica")},
            unit="reqps",
        ),
        Panel(
            "Prompt tokens by replica",
            "Of requests that were answered and whose prompt was read.",
            {"{{replica}}": added("replica_predictions_prompt_tokens", by="replica")},
        ),
        Panel(
            "Imbalance: most over mean",
            "What the busiest replica got over the mean of all healthy ones, idle ones included. 1: all the same; the "
            "number of replicas: one got everything.",
            {
                "requests": _most_over_mean("decisions"),
                "prompt tokens": _most_over_mean("replica_predictions_prompt_tokens"),
            },
            steps=(("green", None), ("orange", 2)),
        ),
        Panel(
            "Strategies",
            "More than one: orders, or clients that may choose, or gateways that differ.",
            {"{{strategy}}": added("decisions", by="strategy")},
            Form.STACK,
            "reqps",
        ),
        Panel(
            "Gateways that differ",
            "Gateways on one Redis that disagree about a strategy, an order, the hash secret or the version; and "
            "orders in force. During an upgrade versions do; for long, nothing should.",
            {
                "{{what}}": max_of("members_divergent", by="what"),
                "orders: {{kind}}": max_of("orders", by="kind"),
            },
        ),
        Panel(
            "Shadows that would choose otherwise",
            "Of first choices, by strategy that is asked too (`PREFIXWAY_SHADOW`); empty without any.",
            {
                "{{shadow}}": f"{added('shadow_decisions', _OTHERWISE, by='shadow')}"
                f" / {added('shadow_decisions', by='shadow')}"
            },
            unit="percentunit",
            most=1,
        ),
        Panel(
            "Had a shadow been heeded: seconds",
            "Seconds before first tokens, a second: saved by some choices, lost by others. Predicted by our own cost "
            "model, with loads that the heeded strategy made; docs/routing.md.",
            {"{{shadow}}: {{effect}}": added("shadow_seconds", by="shadow, effect")},
        ),
        Panel(
            "Had a shadow been heeded: cached tokens",
            "A second, gained by some choices and lost by others, as far as the gateway knows what is held where.",
            {"{{shadow}}: {{effect}}": added("shadow_cached_tokens", by="shadow, effect")},
        ),
    ),
)
