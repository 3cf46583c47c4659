"""DecisionRecord: what a choice was made from, for who wants to make it again. No prompt and no name of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from router_strategies import Candidate, Cost

#: Tokens of one block of ``DecisionRecord.blocks``: fine enough for short system prompts, and a long one fits a line.
BLOCK_TOKENS = 128


class DecisionRecord(NamedTuple):
    """Of a request's first attempt.

    ``prompt_tokens``: ``None``: not known. ``blocks``: keyed hashes of the full blocks of what is known of the prompt.
    ``session``: keyed hash of its name; ``None``: it has none. ``costs``: of ``candidates``, in their order, or none.
    ``shadows``: the replica that each would have chosen.
    """

    model: str
    prompt_tokens: int | None
    blocks: Sequence[int]
    session: int | None
    candidates: Sequence[Candidate]
    costs: Sequence[Cost]
    shadows: Mapping[str, str]
