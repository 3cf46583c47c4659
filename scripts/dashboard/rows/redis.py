"""Redis, and what gateways tell each other through it."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import added, max_of, min_of, quantile, sum_of

ROW = Row(
    "Redis and other gateways",
    "**Good:** it answers every gateway in time, and look-ups end *ok*. **Else:** requests go on, by what each gateway "
    "knows itself, so hits fall a little and nothing fails. *timeout*: look at Redis' latency and its slow log. "
    "*error*: its address, its rights, its memory.",
    (
        Panel(
            "Answers in time",
            "0: the breaker is open, and no request asks it until it answers again.",
            {"{{instance}}": min_of("redis_up", by="instance")},
            most=1,
            width=6,
        ),
        Panel(
            "Look-ups by how they ended",
            "None where every gateway follows all events itself, as two gateways do. skipped: not asked, since the "
            "breaker was open or too many were under way.",
            {"{{outcome}}": added("redis_lookups", by="outcome")},
            Form.STACK,
            "reqps",
            width=6,
        ),
        Panel(
            "Latency of look-ups",
            "Until it answered, whether in time or not. A request waits PREFIXWAY_INDEX_BUDGET_MS at most.",
            {f"p{share * 100:.0f}": quantile(share, "redis_lookup_seconds") for share in (0.5, 0.99)},
            unit="s",
            steps=(("green", None), ("orange", 0.005)),
            width=6,
        ),
        Panel(
            "Breaker and refusals",
            "Times that it did not answer in time, or at all; and commands that it refused, by its code.",
            {
                "breaker opened": added("redis_breaker_openings"),
                "refused: {{code}}": added("redis_refused", by="code"),
            },
            Form.BARS,
            width=6,
        ),
        Panel(
            "Index in Redis",
            "Replicas that have one, and those that some process writes: the same number. Foreign: under another hash "
            "secret, so that it is not credited.",
            {
                "there": max_of("shared_index_replicas"),
                "written": sum_of("shared_index_written"),
                "foreign": max_of("shared_index_foreign"),
                "unreadable": max_of("shared_index_unreadable"),
            },
            unit="none",
            width=6,
        ),
        Panel(
            "Written to the index",
            "Blocks a second; and times that a replica's index was written anew, by why.",
            {
                "blocks": added("shared_index_blocks_written"),
                "anew: {{reason}}": added("shared_index_epochs", by="reason"),
            },
            width=6,
        ),
        Panel(
            "Processes on this Redis",
            "As the one knows that knows most.",
            {"{{kind}}": max_of("members", by="kind")},
            unit="none",
            width=6,
        ),
        Panel(
            "Messages about load that were lost",
            "missed: sent by others and not come. unsent: could not be told to others. A few cost nothing.",
            {"{{outcome}}": added("load_messages", 'outcome!~"sent|received"', by="outcome")},
            Form.BARS,
            width=6,
        ),
    ),
)
