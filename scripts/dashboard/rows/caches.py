"""Caches: what is found there, beside what was predicted."""

from __future__ import annotations

from scripts.dashboard.panels import Form, Panel, Row
from scripts.dashboard.queries import added

_VERIFIED = 'source=~"usage|counters"'
_TOLD = 'source="usage"'
_PREDICTED, _ACTUAL = 'side="predicted"', 'side="actual"'


def _verified(side: str) -> str:
    """The share of prompt tokens, of those whose prediction usage or the replicas' counters verified."""
    told = f"({added('cached_tokens_compared', side)} + {added('cached_tokens_counted', side)})"
    return f"{told} / {added('predictions_prompt_tokens', _VERIFIED)}"


ROW = Row(
    "Caches",
    "**Good:** *actual* lies on *predicted*, coverage is above 90 %, and what is over- or under-predicted stays below "
    "a few percent. **Else:** predicted above actual: `prefixway check`, then the findings. Both low: see *Choices*, "
    "and whether prompts have anything in common. Coverage low: let streams tell usage (`PREFIXWAY_ASK_USAGE`).",
    (
        Panel(
            "Cached share of prompt tokens",
            "Predicted and actual are of the requests whose prediction was verified: read them with the coverage "
            "beside. Predicted of all is of every request whose prompt was read.",
            {
                "actual": _verified(_ACTUAL),
                "predicted": _verified(_PREDICTED),
                "predicted, of all": f"{added('cached_tokens_predicted')} / {added('prompt_tokens')}",
            },
            unit="percentunit",
            most=1,
        ),
        Panel(
            "Cached share by replica",
            "Of the prompt tokens that its answers' usage told of. Far below the others: its cache is small, or full "
            "of what nobody asks again.",
            {
                "{{replica}}": f"{added('replica_cached_tokens_compared', _ACTUAL, by='replica')}"
                f" / {added('replica_predictions_prompt_tokens', _TOLD, by='replica')}"
            },
            unit="percentunit",
            most=1,
        ),
        Panel(
            "Coverage: prompt tokens by how they were verified",
            "usage: by the answers' own cached_tokens; counters: by the replicas' metrics between two probes; "
            "unverified: not at all.",
            {
                "{{source}}": f"{added('predictions_prompt_tokens', by='source')}"
                f" / ignoring(source) group_left() {added('predictions_prompt_tokens')}"
            },
            Form.STACK,
            "percentunit",
            most=1,
        ),
        Panel(
            "Predicted and not there",
            "Of verified prompt tokens, by replica. What it evicted after the choice is not its fault, and left out. "
            "Lasting: its events do not tell the truth, and trust falls.",
            {
                "{{replica}}": f"clamp_min({added('cached_tokens_over_predicted', by='replica')}"
                f" - {added('cached_tokens_evicted', by='replica')}, 0)"
                f" / {added('replica_predictions_prompt_tokens', _VERIFIED, by='replica')}"
            },
            unit="percentunit",
            steps=(("green", None), ("orange", 0.05), ("red", 0.2)),
        ),
        Panel(
            "There and not predicted",
            "Of verified prompt tokens, by where the engine found them. No lie: blocks of requests that still ran, or "
            "what LMCache keeps in host memory (external_kv_transfer).",
            {
                "{{source}}": f"{added('cached_tokens_under_predicted', by='source')}"
                f" / ignoring(source) group_left() {added('predictions_prompt_tokens', _VERIFIED)}"
            },
            unit="percentunit",
        ),
        Panel(
            "Prompts that events did not tell of",
            "Of new prompts, by replica. Lasting: a wrong template or salt, lost events, or a cache that is off.",
            {
                "{{replica}}": f"{added('prompts_unconfirmed', by='replica')} / "
                f"({added('prompts_unconfirmed', by='replica')} + {added('prompts_confirmed', by='replica')})"
            },
            unit="percentunit",
            steps=(("green", None), ("orange", 0.1)),
        ),
        Panel(
            "Predictions not verified, by why not",
            "in_flight: blocks were just on their way there. no_usage, no_details: the answer does not tell. "
            "no_events: the replica's events are not followed.",
            {"{{reason}}": added("predictions_unverified", by="reason")},
            Form.BARS,
            "reqps",
        ),
        Panel(
            "Prompts not read, by why not",
            "Those are routed by load alone. The README says what each word means, and what mends it.",
            {"{{reason}}": f"sum by (reason) ({added('prompts_unknown', by='reason')}) > 0"},
            Form.BARS,
            "reqps",
        ),
        Panel(
            "Prompts counted otherwise",
            "Prompts of which the replica counts other tokens than the gateway: tokenizer or template differ.",
            {"{{replica}}": added("prompts_miscounted", by="replica")},
            Form.BARS,
            "reqps",
        ),
        Panel(
            "Shared storage by estimate (PREFIXWAY_L2)",
            "Tokens a second that requests were sent to load from L2 without being told of; of those whose usage told, "
            "what was expected and what was found. All 0 where the estimate is off. Found far below: shorten the TTL.",
            {
                "estimated": added("l2_estimated_tokens"),
                "expected, told": added("l2_estimated_tokens_compared", 'side="estimated"'),
                "found": added("l2_estimated_tokens_compared", _ACTUAL),
            },
        ),
    ),
)
