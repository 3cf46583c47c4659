"""Requests: how they end, and who waits or is turned away."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import added, sum_of

ROW = Row(
    "Requests and errors",
    "**Good:** all *ok*, but for a few *client_gone* and *client_error*. **Else:** *unreachable*, *broken*, "
    "*server_error*: the replicas (docs/failures.md). *refused*: by code, at the right. Requests wait or are refused "
    "for want of a place: more replicas, or `PREFIXWAY_MAX_INFLIGHT`.",
    (
        Panel(
            "Requests by outcome",
            "Of the last attempt. docs/failures.md has every one of them.",
            {"{{outcome}}": added("requests", by="outcome")},
            Form.STACK,
            "reqps",
            12,
        ),
        Panel(
            "Answers by class",
            "What clients were answered; none: they had left before.",
            {"{{status}}": added("requests", by="status")},
            Form.STACK,
            "reqps",
            12,
        ),
        Panel(
            "Errors of the gateway's own, by code",
            "And what came and was no request that can be read. Empty: none.",
            {
                "{{code}}": f"{added('refused', by='code')} > 0",
                "unreadable: {{code}}": f"{added('unreadable_requests', by='code')} > 0",
            },
            Form.BARS,
            "reqps",
        ),
        Panel(
            "Attempts and retries",
            "Above requests: what was tried again. budget spent: answers that passed though another replica might "
            "have done better, since too much was tried again already.",
            {
                "attempts": added("attempts"),
                "retries": added("retries"),
                "budget spent": added("retries_refused"),
            },
            unit="reqps",
        ),
        Panel(
            "Admission",
            "Requests that have a place at replicas, and those that wait for one. How long is under *Time*.",
            {"in flight": sum_of("admission_inflight"), "waiting": sum_of("admission_waiting")},
            unit="none",
        ),
        Panel(
            "Prompt tokens in flight and waiting",
            "As admission counts them.",
            {"in flight": sum_of("admission_inflight_tokens"), "waiting": sum_of("admission_waiting_tokens")},
        ),
        Panel(
            "Turned away",
            "refused: 429, the queue was full. expired: 503, waited too long. left: the client did not wait.",
            {"{{outcome}}": added("admissions", 'outcome!="admitted"', by="outcome")},
            Form.BARS,
            "reqps",
        ),
        Panel(
            "Connections",
            "Of clients, and to replicas.",
            {
                "clients": sum_of("client_connections"),
                "replicas: {{state}}": sum_of("replica_connections", by="state"),
            },
            unit="none",
        ),
    ),
)
