"""Events: what replicas tell, what is known by it, and how replicas are found."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import added, max_of, seen, sum_of

ROW = Row(
    "Events and index",
    "**Good:** every replica that gets requests sends batches, they arrive within a second, and there are no gaps. "
    "**Else:** no batches: `--kv-events-config`, the network, `prefixway check`. Gaps: give replicas a "
    "`replay_endpoint`. The index at its limit: raise `PREFIXWAY_INDEX_MEMORY_MB`.",
    (
        Panel(
            "Batches of events",
            "A second, as one gateway that follows it applies them.",
            {"{{replica}}": seen("kv_event_batches", by="replica")},
        ),
        Panel(
            "Lag of events",
            "Age of the last batch on arrival; of a replica that is idle, of the last that it sent. Clocks that "
            "differ show here too.",
            {"{{replica}}": max_of("kv_event_lag_seconds", by="replica")},
            unit="s",
            steps=(("green", None), ("orange", 1)),
        ),
        Panel(
            "Gaps and replays",
            "Gaps in the sequence of batches, and replays that were asked for: one at every start, else one a gap.",
            {
                "{{replica}} gaps": seen("kv_event_gaps", by="replica"),
                "{{replica}} replays": seen("kv_event_replays", by="replica"),
            },
            Form.BARS,
        ),
        Panel(
            "Events not used, by reason",
            "Some are none of ours, such as those of other attention groups; many all of a sudden are a change.",
            {"{{reason}}": f"sum by (reason) ({seen('kv_events_dropped', by='replica, reason')}) > 0"},
            Form.BARS,
        ),
        Panel(
            "Memory of the index",
            "All that each gateway knows of caches, estimated, beside what it may be.",
            {
                "{{instance}}": sum_of("index_bytes", by="instance"),
                "limit of {{instance}}": sum_of("index_bytes_limit", by="instance"),
            },
            unit="bytes",
        ),
        Panel(
            "Blocks in the index",
            "Pairs of block and replica, of the gateway that knows most; and what was given up for want of memory.",
            {
                "blocks": max_of("index_block_owners"),
                "given up a second: {{kind}}": added("index_given_up", by="kind"),
            },
        ),
        Panel(
            "Age of discovery's last answer",
            "How long ago DNS or Kubernetes last told the replicas: while it grows, those from before are kept. Not "
            "there where replicas are listed in a setting.",
            {"{{instance}}": max_of("discovery_age_seconds", by="instance")},
            unit="s",
            width=12,
            steps=(("green", None), ("orange", 30)),
        ),
        Panel(
            "Discovery that failed",
            "Look-ups a second; and entries of the list that are wrong, so left out or used in part: /status has them.",
            {
                "{{instance}} failed": added("discovery_failures", by="instance"),
                "wrong entries": max_of("discovery_entry_faults"),
            },
            Form.BARS,
            width=12,
        ),
    ),
)
