"""Replicas: their state and load, and what is found wrong with them."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import max_of, mean_of, min_of, rate, sum_of

_SHARE_OF_GATEWAYS = (("red", None), ("orange", 0.01), ("green", 1))
_OFF_IS_GOOD = (("green", None), ("orange", 0.01))
_TRUST = (("red", None), ("orange", 0.3), ("green", 0.9))


ROW = Row(
    "Replicas",
    "**Good:** every gateway finds each healthy, trust is 1, queues are short. **Else:** trust 0: its events do not "
    "arrive; trust between: late, gaps, or predictions that were wrong; `/status` has the reason. Waiting grows on one "
    "only: look at *Choices*. What is found wrong has its mend in `docs/findings.md`.",
    (
        Panel(
            "Replicas now",
            "Healthy: the share of gateways that find it so. Held back, draining, breaker, stalled: the share for "
            "which it gets no new requests because of that. Trust: how far its events are believed, by the one that "
            "believes least. In flight: from all gateways. Waiting, running, KV usage: as it reports.",
            {
                "Healthy": mean_of("replica_up", by="replica"),
                "Held back": mean_of("replica_held_back", by="replica"),
                "Draining": mean_of("replica_draining", by="replica"),
                "Breaker open": mean_of("replica_breaker_open", by="replica"),
                "Stalled": mean_of("replica_stalled", by="replica"),
                "Trust": min_of("replica_trust", by="replica"),
                "In flight": sum_of("replica_inflight", by="replica"),
                "Decoding": sum_of("replica_decoding", by="replica"),
                "Waiting": max_of("replica_waiting", by="replica"),
                "Running": max_of("replica_running", by="replica"),
                "KV usage": max_of("replica_kv_usage", by="replica"),
                "Promised prefill": max_of("replica_promised_seconds", by="replica"),
                "Blocks in GPU": max_of("replica_l0_blocks", by="replica"),
            },
            Form.TABLE,
            "none",
            16,
            columns={
                "Healthy": ("percentunit", _SHARE_OF_GATEWAYS),
                "Held back": ("percentunit", _OFF_IS_GOOD),
                "Draining": ("percentunit", _OFF_IS_GOOD),
                "Breaker open": ("percentunit", _OFF_IS_GOOD),
                "Stalled": ("percentunit", _OFF_IS_GOOD),
                "Trust": ("none", _TRUST),
                "KV usage": ("percentunit", (("green", None), ("orange", 0.9))),
                "Promised prefill": ("s", ()),
            },
        ),
        Panel(
            "Found wrong",
            "Findings in force, each at a replica, or at the gateways where none is named. Empty: nothing.",
            {"Gateways say": max_of("findings", by="name, replica")},
            Form.TABLE,
            "none",
        ),
        Panel(
            "Trust",
            "1: its events are current and were right. 0.5: catching up, late or with gaps. 0: blind. Of all gateways "
            "the one that believes least.",
            {"{{replica}}": min_of("replica_trust", by="replica")},
            steps=_TRUST,
            most=1,
        ),
        Panel(
            "Requests in flight",
            "From all gateways that are scraped.",
            {"{{replica}}": sum_of("replica_inflight", by="replica")},
        ),
        Panel("Waiting", "As it reports.", {"{{replica}}": max_of("replica_waiting", by="replica")}),
        Panel(
            "KV usage",
            "As it reports. Near 1 for long: it evicts what it will need; more replicas, or longer-lived caches (L1).",
            {"{{replica}}": max_of("replica_kv_usage", by="replica")},
            unit="percentunit",
            most=1,
        ),
        Panel(
            "Replicas known and healthy",
            "Those that are known come from discovery. How long ago it last answered is under *Events and index*.",
            {
                "known": f"count({max_of('replica_up', by='replica')})",
                "healthy": f"sum({max_of('replica_up', by='replica')})",
            },
            unit="none",
        ),
        Panel(
            "Restarts",
            "Engine processes that were replaced, as events showed: what it held is gone.",
            {"{{replica}}": f"max by (replica) ({rate('replica_restarts')}) > 0"},
            Form.BARS,
        ),
    ),
)
