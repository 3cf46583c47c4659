"""Generator: traces of our own with the structures of public ones, deterministic: same kind, size and seed, same trace.

Their block ids are chained as Mooncake's are, and their blocks as long. docs/routing.md has their figures beside those
of the public traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from loadtest.replay.kinds import agentic, conversation, documents, hot_prefix, mixed
from loadtest.replay.kinds.growing_prompt import BLOCK_TOKENS
from loadtest.replay.trace import Session, Trace

#: By name. All but ``agentic`` are open: nobody waits for answers.
KINDS: Mapping[str, Callable[[int, Random], list[Session]]] = {
    "agentic": agentic.make,
    "conversation": conversation.make,
    "documents": documents.make,
    "hot_prefix": hot_prefix.make,
    "hot_shift": partial(hot_prefix.make, hot_from=0.5),
    "mixed": mixed.make,
}


def generate(kind: str, *, requests: int, seed: int) -> Trace:
    """A trace of exactly so many requests. Raises ``ValueError`` for an unknown kind, or less than one request."""
    if kind not in KINDS:
        raise ValueError(f"no generated trace is named {kind!r}; there are {', '.join(KINDS)}")
    if requests < 1:
        raise ValueError(f"a trace has at least 1 request, not {requests}")
    return Trace(kind, BLOCK_TOKENS, KINDS[kind](requests, Random(f"{kind} {seed}"))).first(requests)
