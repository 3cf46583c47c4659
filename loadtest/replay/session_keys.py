"""Session keys for traces that name no sessions: requests that share more than everybody shares go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_EVERYBODY = 0.01  # part of all requests: a block in more prompts is a system prompt's, not a conversation's
_FEW = 10  # requests: in a short trace so many may still be one conversation


def inferred(chains: Sequence[Sequence[int]]) -> list[str]:
    """A key for every prompt: its first block that few others begin with, or one of its own where there is none.

    A block that is in 1 % of the prompts or more is taken for a system prompt's. What this cannot see: a conversation
    before its first full block of its own.
    """
    counts = Counter(block for chain in chains for block in chain)
    few = max(_FEW, len(chains) * _EVERYBODY)
    return [_key(chain, counts, few, number) for number, chain in enumerate(chains)]


def _key(chain: Sequence[int], counts: Counter[int], few: float, number: int) -> str:
    own = next((block for block in chain if counts[block] < few), None)
    return f"request-{number}" if own is None else f"block-{own}"
