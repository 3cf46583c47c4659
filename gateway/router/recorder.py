"""Recorder: writes down what a choice was made from, in keyed hashes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from gateway.prompt.blocks import chain_root, extend_chain
from gateway.router.decision_record import BLOCK_TOKENS, DecisionRecord
from gateway.router.prepared import Prepared
from router_strategies import Candidate, Cost

_CHAIN_ROOTS = 1024  # kept: few are in use, but for cache salts
_HASH_BYTES = 8


class Recorder:
    """``secret`` keys the hashes; it may change, and nothing compares across that."""

    def __init__(self, secret: Callable[[], bytes]) -> None:
        self._secret = secret
        self._chain_root = lru_cache(_CHAIN_ROOTS)(chain_root)

    def record(
        self,
        prepared: Prepared,
        candidates: Sequence[Candidate],
        costs: Sequence[Cost],
        shadows: Mapping[str, str],
    ) -> DecisionRecord:
        """Of a request that was just decided on. Keeps what it is given: candidates are never changed."""
        prompt = prepared.prompt
        return DecisionRecord(
            prepared.served.name,
            prompt.count if prompt.count and prompt.complete else None,
            self._blocks(prepared) if prompt.count else (),
            self._session(prepared.request.session) if prepared.request.session else None,
            candidates,
            costs,
            shadows,
        )

    def _blocks(self, prepared: Prepared) -> list[int]:
        """In a size of its own: those of replicas differ, and are not known before their first events."""
        served, salt = prepared.served, prepared.request.cache_salt
        root = self._chain_root(self._secret(), served.namespace, served.lora, salt, BLOCK_TOKENS)
        return extend_chain(root, prepared.prompt.tokens, BLOCK_TOKENS)

    def _session(self, name: str) -> int:
        """Names can be guessed, unlike prompts: this must not be reversed by trying, so it is no hash of blocks."""
        key = blake2b(self._secret()).digest()
        return int.from_bytes(blake2b(name.encode(), digest_size=_HASH_BYTES, key=key).digest(), "big")
