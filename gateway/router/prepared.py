"""Prepared: a request, and what was known of its prompt when it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ServedModel
from gateway.kv.tiers import TierTokens
from gateway.prompt.blocks import matchable_blocks
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Stages

_BYTES_PER_TOKEN = 4  # of English text in most vocabularies
_MOST_GUESSED_TOKENS = 16_384  # a guess must not empty a replica
_MEDIA_TOKENS = 1_024
_MEDIA = frozenset({"image", "audio", "video", "file", "prompt_embeds", "route"})  # their bytes say nothing of tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """Made once a request; every attempt chooses by it, so that a retry costs no second look-up."""

    request: InferenceRequest
    served: ServedModel
    strategy: str
    prompt: EncodedPrompt
    chains: Mapping[int, Sequence[int]]  # own hashes of all full blocks, by block size in tokens
    matchable: Mapping[int, Sequence[int]]  # the part of them that a cache can spare; nothing where none is read
    confirmed: Mapping[ReplicaKey, TierTokens]
    index_reason: str  # "" or why that may not be all
    stages: Stages

    @property
    def work_tokens(self) -> int:
        """Prompt tokens to plan with: counted, or guessed from the body's size where they are unknown."""
        if self.prompt.count:
            return self.prompt.count
        guess = self.request.size // _BYTES_PER_TOKEN
        return min(guess, _MEDIA_TOKENS if self.prompt.reason in _MEDIA else _MOST_GUESSED_TOKENS)

    def output_tokens(self, mean: float) -> float:
        """How many tokens the answer is expected to have: the mean, or the request's own limit."""
        limit = self.request.max_tokens
        return mean if limit is None else min(mean, max(0, limit))


def matchable_chains(chains: Mapping[int, Sequence[int]], prompt_tokens: int) -> Mapping[int, Sequence[int]]:
    """``chains`` without the block that holds the last token."""
    return {size: chain[: matchable_blocks(prompt_tokens, size)] for size, chain in chains.items()}
