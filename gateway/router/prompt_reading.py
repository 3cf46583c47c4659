"""PromptReading: what is known of a request's prompt: its tokens, their hashes, and who holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from gateway.fleet.model_names import ServedModel
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.index import IndexUnavailable, PrefixMatcher
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.salted_prompts import SaltedPrompts
from gateway.prompt.blocks import TOKEN_BYTES, chain_root, extend_chain
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import PromptEncoder
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.candidates import BlockSizes
from gateway.router.decision import Stages
from gateway.router.prepared import Prepared, guessed_tokens, matchable_chains

_CHAIN_ROOTS = 1024  # kept: few are in use, but for cache salts
_LONG_TOKENS = 50_000  # hashed in about 1 ms, and booked in two more
_USUAL_SIZES = (16, 32, 64, 128, 256)  # of blocks, in tokens: of a tier whose size no event has told yet
_NO_TOKENIZER = EncodedPrompt.unknown("no_tokenizer")


class PromptReading:
    """Fills in what a :class:`Prepared` says of its prompt.

    ``encoder`` finds a base model's encoder. ``secret`` keys the block hashes; it may change.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        index: PrefixMatcher,
        block_sizes: BlockSizes,
        *,
        encoder: Callable[[str], PromptEncoder | None],
        secret: Callable[[], bytes],
        clock: Callable[[], float],
        salted: SaltedPrompts | None = None,
        l2: L2Estimate | None = None,
    ) -> None:
        """``salted`` is told of prompts with a cache salt. ``l2`` estimates what lies in shared storage."""
        self._pool = pool
        self._salted = salted
        self._l2 = l2
        self._index = index
        self._block_sizes = block_sizes
        self._encoder = encoder
        self._secret = secret
        self._clock = clock
        self._chain_root = lru_cache(_CHAIN_ROOTS)(chain_root)

    def read_now(self, prepared: Prepared) -> bool:
        """Whether that could be done without waiting; if not, nothing was."""
        began_s, request = self._clock(), prepared.request
        members = self._pool.members(prepared.served.namespace)
        if not self._index.knows(members.keys):
            return False
        encoder = self._encoder_for(prepared)
        prompt = _untokenized(request) if encoder is None else encoder.encode_now(request)
        if prompt is None:
            return False
        encoded_s = self._clock()
        self._hash(prepared, prompt, members.replicas)
        hashed_s = self._clock()
        if prepared.matchable:
            prepared.confirmed = self._index.match_now(prepared.matchable, members.keys)
        prepared.stages = Stages(encoded_s - began_s, hashed_s - encoded_s, self._clock() - hashed_s)
        return True

    async def read(self, prepared: Prepared) -> None:
        """The same, and waits for what must be waited for."""
        began_s, request = self._clock(), prepared.request
        encoder = self._encoder_for(prepared)
        prompt = _untokenized(request) if encoder is None else await encoder.encode(request)
        encoded_s = self._clock()
        members = self._pool.members(prepared.served.namespace)  # as they are by now
        self._hash(prepared, prompt, members.replicas)
        hashed_s = self._clock()
        if prompt.count > _LONG_TOKENS:
            await asyncio.sleep(0)  # others first: what follows takes as long again
        if prepared.matchable:
            try:
                prepared.confirmed = await self._index.match(prepared.matchable, members.keys)
            except IndexUnavailable as error:
                prepared.confirmed, prepared.index_reason = error.known, "index_unavailable"
        prepared.stages = Stages(encoded_s - began_s, hashed_s - encoded_s, self._clock() - hashed_s)

    def _encoder_for(self, prepared: Prepared) -> PromptEncoder | None:
        return self._encoder(prepared.served.namespace) if prepared.request.route != "other" else None

    def _hash(self, prepared: Prepared, prompt: EncodedPrompt, replicas: Sequence[Replica]) -> None:
        """The tokens are known, or why they are not: what follows from that alone."""
        prepared.prompt = prompt
        if not prompt.count:
            prepared.work_tokens = guessed_tokens(prepared.request)
            return
        prepared.work_tokens = prompt.count if prompt.complete else prompt.count + guessed_tokens(prepared.request)
        secret, served, request = self._secret(), prepared.served, prepared.request
        chains: dict[int, Sequence[int]] = {}
        for size in self._block_sizes.among(replicas):
            root = self._chain_root(secret, served.namespace, served.lora, request.cache_salt, size)
            chains[size] = extend_chain(root, prompt.tokens, size)
        prepared.chains = chains
        if request.cache_salt and self._salted is not None:
            self._note_salted(self._salted, prompt, served, chains)
        if request.reads_cache:
            prepared.matchable = matchable_chains(chains, prompt.count) if prompt.complete else chains
            if self._l2 is not None:
                prepared.l2_estimate = self._l2.match(prepared.matchable, now=self._clock())

    def _note_salted(
        self, salted: SaltedPrompts, prompt: EncodedPrompt, served: ServedModel, sizes: Iterable[int]
    ) -> None:
        beginnings: list[int] = []
        for size in {*sizes, *_USUAL_SIZES}:
            root = self._chain_root(self._secret(), served.namespace, served.lora, "", size)
            beginnings += extend_chain(root, prompt.tokens[: size * TOKEN_BYTES], size)
        salted.sent(beginnings)


def _untokenized(request: InferenceRequest) -> EncodedPrompt:
    """Why a prompt that no encoder is asked for is not known."""
    return EncodedPrompt.unknown(request.unrendered) if request.route == "other" else _NO_TOKENIZER
