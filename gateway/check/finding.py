"""Finding: something that breaks prefix routing, named: at which replica, how far it is seen, and what mends it.

The vocabulary is closed: a name is a metric's label, a row of docs/findings.md, and what somebody searches for. Each
kind and its mend stand here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """What is to be done about it; the value is the exit status of ``prefixway check``."""

    WRONG = 1  # somebody has to set something else
    DEGRADED = 2  # it works worse than it should; it may pass


class Finding(NamedTuple):
    """``detail``: figures and names for people; never prompt text, token ids or hashes."""

    name: str
    replica_id: str  # "": the gateway as a whole
    severity: Severity
    detail: str
    mend: str


class Kind(NamedTuple):
    """All that findings of one name have in common."""

    severity: Severity
    meaning: str
    mend: str


_WRONG, _DEGRADED = Severity.WRONG, Severity.DEGRADED

#: Every kind by its name, in the order of the chain from a request to a hit.
KINDS: Mapping[str, Kind] = {
    "discovery_stale": Kind(
        _DEGRADED,
        "replicas cannot be looked up: those that were found stay, and nobody notices who comes",
        "See what failed: the name servers, or the Kubernetes API and the right to list pods (docs/deploy.md).",
    ),
    "unreachable": Kind(
        _DEGRADED,
        "it does not answer as it should",
        "Start it, or correct its URL, the network or the key: PREFIXWAY_REPLICA_API_KEY; of a gateway, "
        "PREFIXWAY_ADMIN_TOKEN.",
    ),
    "no_model": Kind(
        _DEGRADED,
        "/v1/models names no model",
        "Wait until it has loaded one; with --api-key set PREFIXWAY_REPLICA_API_KEY.",
    ),
    "asleep": Kind(_DEGRADED, "its engine sleeps: it holds nothing", "Wake it (POST /wake_up), or drain it."),
    "tokenizer_absent": Kind(
        _WRONG,
        "the model's tokenizer or chat template was not found",
        "Set PREFIXWAY_TOKENIZER to the model's folder.",
    ),
    "tokenizer_remote": Kind(
        _WRONG,
        "replicas tokenize every prompt, which is slow",
        "Set PREFIXWAY_TOKENIZER to the model's folder, or install the extra `hub` so that it is downloaded.",
    ),
    "tokenizer_differs": Kind(
        _WRONG,
        "it makes other tokens of a text than the gateway",
        "Point PREFIXWAY_TOKENIZER at the tokenizer (and revision) that the replica was started with.",
    ),
    "template_differs": Kind(
        _WRONG,
        "it renders chats with another template than the gateway",
        "Give gateway and replica the same chat template: vLLM's --chat-template, or the file in PREFIXWAY_TOKENIZER.",
    ),
    "metrics_unknown": Kind(
        _DEGRADED,
        "/metrics lacks names that the gateway reads",
        "Start vLLM without --disable-log-stats, and let the gateway reach /metrics.",
    ),
    "prefix_caching_off": Kind(
        _WRONG, "it keeps no prompt's blocks for the next one", "Start vLLM with --enable-prefix-caching."
    ),
    "details_off": Kind(
        _WRONG,
        "usage does not tell the cached tokens, so that predictions cannot be verified",
        "Start vLLM with --enable-prompt-tokens-details.",
    ),
    "block_size_differs": Kind(
        _DEGRADED,
        "its events and its metrics tell of blocks of different sizes",
        "Look whether the events are this replica's; with context parallelism events are right, and this is harmless.",
    ),
    "events_off": Kind(
        _WRONG,
        "it publishes no KV events: only what was sent there is known",
        "Start vLLM with --kv-events-config (see the README), before 0.32 with PREFIXWAY_KV_EVENTS as well; "
        "PREFIXWAY_KV_EVENTS=off if that is wanted.",
    ),
    "events_silent": Kind(
        _WRONG,
        "it should publish KV events, and none arrive",
        "Let the gateway reach the port of its events; look at --kv-events-config and PREFIXWAY_KV_EVENTS.",
    ),
    "events_of_another": Kind(
        _WRONG,
        "the events that are followed for it are another replica's",
        "Correct the address of its events: each replica and each rank needs a port of its own.",
    ),
    "events_late": Kind(
        _DEGRADED,
        "its events arrive seconds after what they tell of",
        "Look for an overloaded host or network; where events are stamped late, synchronise the clocks.",
    ),
    "salt_dropped": Kind(
        _WRONG,
        "its events leave out the cache salt, so that salted prompts get no credit",
        "Use a vLLM whose events have extra_keys (0.17 or later).",
    ),
    "lora_differs": Kind(
        _WRONG,
        "its events name another LoRA adapter than requests do",
        "Load adapters under the names that clients use, the same on every replica; vLLM 0.13 or later.",
    ),
    "replay_absent": Kind(
        _DEGRADED,
        "it replays no events: what was missed stays unknown",
        'Add "replay_endpoint" to --kv-events-config, and let the gateway reach it.',
    ),
    "replay_stale": Kind(
        _WRONG,
        "its replay port answers with other batches than were published",
        "Correct the replay address: it must be that of the same engine process.",
    ),
    "removals_lost": Kind(
        _DEGRADED,
        "it is said to hold more than it can: events of removals are missing",
        "Restart the replica; look for a proxy or a high-water mark that drops events.",
    ),
    "restart_unnoticed": Kind(
        _DEGRADED,
        "what its events said it holds is gone, and they did not say so",
        "Restart the replica; report it, with the versions of vLLM and of the gateway.",
    ),
    "index_lost": Kind(
        _DEGRADED,
        "the index lacks what the events told",
        "It is written anew by itself; if it stays, look at Redis: evictions, flushes, its memory.",
    ),
    "over_predicted": Kind(
        _DEGRADED,
        "requests find less in its cache than predicted",
        "Run `prefixway check`; look at its events in /status.",
    ),
    "under_predicted": Kind(
        _DEGRADED,
        "requests find more in its cache than predicted",
        "Run `prefixway check`; look at its events in /status, and whether LMCache announces what it keeps.",
    ),
    "unconfirmed": Kind(
        _DEGRADED,
        "its events do not tell of the prompts that it was sent",
        "Run `prefixway check`, which finds out why.",
    ),
    "coverage_low": Kind(
        _DEGRADED,
        "nearly no request can be verified",
        "Let clients ask for usage in streams, or set PREFIXWAY_ASK_USAGE=true.",
    ),
}


def found(name: str, replica_id: str, detail: str) -> Finding:
    """A finding of a known kind. Raises ``KeyError`` for any other name."""
    kind = KINDS[name]
    return Finding(name, replica_id, kind.severity, detail, kind.mend)
