"""Timing: what requests wait for, and what caches spare."""

from __future__ import annotations

from scripts.dashboard.panels import Panel, Row
from scripts.dashboard.queries import added, mean_of, quantile

_ACTUAL = 'side="actual"'


ROW = Row(
    "Time",
    "**Good:** the time to the first token is well below that of a whole prefill, and the gateway adds a few "
    "milliseconds. **Else:** p99 alone is high: *Replicas* (who has waiting requests?) and *Choices* (imbalance). The "
    "gateway adds much: encoding (a tokenizer that is remote or slow), matching (Redis), or the queue.",
    (
        Panel(
            "Time to first token",
            "From the request's last byte to the answer's first, by strategy; as long as the buckets are fine.",
            {
                f"{{{{strategy}}}} p{share * 100:.0f}": quantile(share, "ttft_seconds", 'strategy!=""', by="strategy")
                for share in (0.5, 0.95, 0.99)
            },
            unit="s",
            width=12,
        ),
        Panel(
            "Added by the gateway",
            "From the request's last byte until it is sent on: reading, deciding, waiting for a place.",
            {f"p{share * 100:.0f}": quantile(share, "gateway_seconds") for share in (0.5, 0.95, 0.99)},
            unit="s",
            width=12,
            steps=(("green", None), ("orange", 0.05)),
        ),
        Panel(
            "Stages of a decision, p95",
            "Encoding: template and tokenizer. Hashing: of blocks. Matching: the look-up, in Redis or in memory.",
            {stage: quantile(0.95, f"decision_{stage}_seconds") for stage in ("encode", "hash", "match")},
            unit="s",
        ),
        Panel(
            "Prefill seconds avoided, a second",
            "1: the caches spare the work of one replica that does nothing but prefill. As predicted.",
            {"avoided": added("prefill_seconds_avoided")},
        ),
        Panel(
            "Prompt tokens avoided, a second",
            "What replicas did not have to compute: as predicted of all requests, and as verified.",
            {
                "predicted": added("cached_tokens_predicted"),
                "verified": f"{added('cached_tokens_compared', _ACTUAL)} + {added('cached_tokens_counted', _ACTUAL)}",
            },
        ),
        Panel(
            "Whole answers",
            "From the request's last byte to the answer's last.",
            {f"p{share * 100:.0f}": quantile(share, "request_seconds") for share in (0.5, 0.95, 0.99)},
            unit="s",
        ),
        Panel(
            "Prefill speed, learned over expected",
            "What prefill really took over what was predicted. Far from 1 for long: costs are off by as much.",
            {"learned": mean_of("prefill_calibration")},
        ),
        Panel(
            "Wait for a place, p95",
            "Of the requests that had to wait.",
            {"p95": quantile(0.95, "queue_seconds")},
            unit="s",
        ),
        Panel(
            "Learned: tokens a second",
            "Of a replica of speed 1: computed, without attention; loaded from host memory and from shared storage. "
            "What is never seen stays what it was held for.",
            {
                "computed": mean_of("prefill_tokens_per_second"),
                "host memory": mean_of("l1_tokens_per_second"),
                "shared storage": mean_of("l2_tokens_per_second"),
            },
        ),
        Panel(
            "Learned: seconds",
            "What a prefill takes beside its tokens: the engine's step, and each sequence that decodes meanwhile.",
            {"step": mean_of("prefill_step_seconds"), "a sequence": mean_of("decoding_seconds")},
            unit="s",
        ),
        Panel(
            "Learned: context that doubles",
            "Tokens before one, at which attention makes it take twice as long.",
            {"tokens": mean_of("prefill_doubling_tokens")},
        ),
    ),
)
