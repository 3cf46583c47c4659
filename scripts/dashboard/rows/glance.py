"""Glance: the numbers to look at first."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import added, added_in_range, max_of, min_of, or_zero

_VERIFIED = 'source=~"usage|counters"'
#: Answers that had begun well and broke off. 429 is no failure: who is pushed back comes again.
_BROKE_OFF = 'outcome=~"cut_off|chunk_timeout|engine_error|server_error|fault"'
_PREDICTED, _ACTUAL = 'side="predicted"', 'side="actual"'


def _verified_in_range(side: str) -> str:
    told = f"({added_in_range('cached_tokens_compared', side)} + {added_in_range('cached_tokens_counted', side)})"
    return f"{told} / {added_in_range('predictions_prompt_tokens', _VERIFIED)}"


def _failed() -> str:
    kinds = ('status="5xx"',), ('status!="5xx"', _BROKE_OFF)
    return " + ".join(or_zero(added("requests", *labels)) for labels in kinds)


ROW = Row(
    "Is routing working?",
    "**Good:** *actual* is near *predicted* or above, *coverage* is high, all replicas are healthy, nothing is found "
    "wrong and nothing fails. **Else** go on to the row about it; what to do is in `docs/operate.md`.",
    (
        Panel(
            "Prompt tokens from caches",
            "The share of prompt tokens that replicas had cached (actual) and were expected to have (predicted), over "
            "all of the time shown. Both are of what could be verified: coverage is the share of prompt tokens that "
            "this is. How high it can be depends on how much your prompts have in common.",
            {
                "actual": _verified_in_range(_ACTUAL),
                "predicted": _verified_in_range(_PREDICTED),
                "coverage": f"{added_in_range('predictions_prompt_tokens', _VERIFIED)}"
                f" / {added_in_range('predictions_prompt_tokens')}",
            },
            Form.NUMBERS,
            "percentunit",
            9,
            nothing="no requests",
        ),
        Panel(
            "Prefill avoided",
            "Replica time that cached prompt tokens spared, as predicted, over all of the time shown.",
            {"": added_in_range("prefill_seconds_avoided")},
            Form.NUMBERS,
            "s",
            3,
        ),
        Panel(
            "Replicas",
            "How many are known, and how many of those at least one gateway finds healthy.",
            {
                "healthy": f"sum({max_of('replica_up', by='replica')})",
                "known": f"count({max_of('replica_up', by='replica')})",
            },
            Form.NUMBERS,
            "none",
            3,
        ),
        Panel(
            "Found wrong",
            "Findings in force, listed under Replicas.",
            {"": f"count({max_of('findings', by='name, replica')}) or vector(0)"},
            Form.NUMBERS,
            "none",
            3,
            (("green", None), ("orange", 1)),
        ),
        Panel(
            "Failed",
            "Requests answered with 5xx or broken off, of all. To be pushed back with 429 is not to fail.",
            {"": f"({_failed()}) / {added('requests')}"},
            Form.NUMBERS,
            "percentunit",
            3,
            (("green", None), ("orange", 0.001), ("red", 0.01)),
            nothing="no requests",
        ),
        Panel(
            "Redis in time",
            "Whether it answers every gateway in time. Without it requests go on, by what each gateway knows itself.",
            {"": min_of("redis_up")},
            Form.NUMBERS,
            "bool_yes_no",
            3,
            (("red", None), ("green", 1)),
            nothing="not used",
        ),
    ),
    height=4,
)
