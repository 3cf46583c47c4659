"""Prepared: a request, and what was known of its prompt when it came."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.fleet.model_names import ServedModel
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import Chains
from gateway.kv.tiers import TierTokens
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Stages
from gateway.router.decision_record import DecisionRecord

_BYTES_PER_TOKEN = 4  # of English text in most vocabularies
_MOST_GUESSED_TOKENS = 16_384  # a guess must not empty a replica
_MEDIA_TOKENS = 1_024
_MEDIA = frozenset({"image", "audio", "video", "file", "prompt_embeds", "route"})  # their bytes say nothing of tokens
_NO_CHAINS: Chains = {}
_NO_TIME = Stages(0.0, 0.0, 0.0)
_NOTHING_HELD: Mapping[ReplicaKey, TierTokens] = {}

#: A prompt that nobody has to know.
UNREAD = EncodedPrompt.unknown("")


class Prepared:
    """Made once a request; every attempt chooses by it, so that a retry costs no second look-up.

    Only the router fills it, and before anybody else sees it. ``prompt`` stays :data:`UNREAD` where the strategy does
    not read it.
    """

    __slots__ = (
        "alias",
        "chains",
        "confirmed",
        "index_reason",
        "l2_estimate",
        "matchable",
        "pinned",
        "prompt",
        "record",
        "request",
        "served",
        "stages",
        "strategy",
        "work_tokens",
    )

    def __init__(self, request: InferenceRequest, served: ServedModel, strategy: str) -> None:
        self.request = request
        self.served = served
        self.strategy = strategy
        self.prompt = UNREAD
        self.work_tokens = 0  # prompt tokens to plan with: counted, or guessed where they are unknown
        self.chains = _NO_CHAINS  # own hashes of all full blocks, by block size in tokens
        # The part of them that a cache can spare; nothing where none is read, all where more of the prompt follows.
        self.matchable = _NO_CHAINS
        self.confirmed = _NOTHING_HELD
        self.index_reason = ""  # "" or why that may not be all
        self.l2_estimate = 0  # tokens from the first on that most likely lie in shared storage
        self.stages = _NO_TIME
        self.alias = request.alias  # what the client calls the model, where that is an alias
        self.record: DecisionRecord | None = None  # of the first attempt, where such are kept
        self.pinned = ""  # the id of the only server that can serve it; "": any

    @property
    def incomparable(self) -> str:
        """Why what is known of the prompt cannot be compared with the engine's own count; "": it can."""
        return self.request.incomparable or ("" if self.prompt.complete else self.prompt.reason)

    def output_tokens(self, mean: float) -> float:
        """How many tokens the answer is expected to have: the mean, or the request's own limit."""
        limit = self.request.max_tokens
        return mean if limit is None or limit >= mean else max(0, limit)


def guessed_tokens(request: InferenceRequest) -> int:
    """Prompt tokens by the body's size, where they are not known; of one with media, what those may come to."""
    guess = request.size // _BYTES_PER_TOKEN
    if guess <= _MEDIA_TOKENS:  # then it does not matter what the bytes are, and nobody has to look
        return guess
    return min(guess, _MEDIA_TOKENS if _why_unknown(request) in _MEDIA else _MOST_GUESSED_TOKENS)


def _why_unknown(request: InferenceRequest) -> str:
    return request.unrendered or (request.chat.gap if request.chat is not None else "")


def matchable_chains(chains: Chains, prompt_tokens: int) -> Chains:
    """``chains`` without the block that holds the last token: a whole one only where the prompt ends with it."""
    return {size: chain if prompt_tokens % size else chain[:-1] for size, chain in chains.items()}
