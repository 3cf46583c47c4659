"""L2Estimate: which beginnings of prompts most likely lie in the storage that all replicas of a model share.

An estimate, and called so wherever it shows: no replica tells what lies there. A prompt that any replica finished is
held to lie there for a while, whatever becomes of that replica and of its own cache.

LMCache stores whole chunks of a prompt and looks them up from its first token on. A chunk is known here by the block
that ends it, whose hash stands for all of the prompt up to there, and for its namespace, LoRA and salt.

Where answers tell how much was cached, the estimate is held to it: while less than half of what was estimated lately is
found, nothing is estimated. What was seen is forgotten with time, so that it is tried again.

Synchronous, and told the time: seconds on any monotonic clock. Every prompt refreshes its deeper chunks before the
shallower ones, and the oldest go first: so what is known of a prompt has no holes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from gateway.kv.index import Chains

#: Tokens of a chunk: LMCache's default, ``chunk_size``.
CHUNK_TOKENS = 256
#: How long a prompt is held to lie there.
TTL_S = 3600.0
_LEAST_HOLDING = 0.5
_PRIOR_TOKENS = 20_000.0  # believed to be found before anything is known: about ten prompts that are worth loading
_HALF_LIFE_S = 300.0  # of what was seen
_MOST_GONE = 10_000  # chunks forgotten in one step, which takes 2 ms; the rest goes with the next


class L2Estimate:
    """Of all namespaces at once. Bounded by time; :class:`~gateway.kv.index_budget.IndexBudget` bounds its memory."""

    def __init__(self, *, ttl_s: float = TTL_S, chunk_tokens: int = CHUNK_TOKENS) -> None:
        self.ttl_s = ttl_s
        self.chunk_tokens = chunk_tokens
        self.finished_prompts = 0
        self._gone_s: OrderedDict[int, float] = OrderedDict()  # by the block that ends a chunk, the soonest first
        self._estimated_tokens = self._found_tokens = 0.0  # lately
        self._seen_s = 0.0

    def __repr__(self) -> str:
        return f"<L2Estimate {len(self._gone_s)} chunks>"

    @property
    def chunks(self) -> int:
        """What its memory is proportional to."""
        return len(self._gone_s)

    def finished(self, blocks: Sequence[int], block_size: int, *, now: float) -> None:
        """A replica computed a prompt of these full blocks to its end: own hashes, ``block_size`` tokens each."""
        self.finished_prompts += 1
        gone_s, until_s, move_to_end = self._gone_s, now + self.ttl_s, self._gone_s.move_to_end
        for block in reversed(self._chunk_ends(blocks, block_size)):
            gone_s[block] = until_s
            move_to_end(block)
        self.expire(now)

    def match(self, chains: Chains, *, now: float) -> int:
        """How many tokens from the prompt's first on most likely lie there: whole chunks; 0 while that holds badly."""
        if self._estimated_tokens and self.holds(now) < _LEAST_HOLDING:
            return 0
        longest, gone_s = 0, self._gone_s.get
        for block_size, chain in chains.items():
            ends = self._chunk_ends(chain, block_size)
            known = bisect_left(ends, True, key=lambda block: gone_s(block, 0.0) <= now)
            longest = max(longest, self._tokens_at(known, block_size))
        return longest

    def compared(self, estimated: int, found: int, *, now: float) -> None:
        """Of so many tokens that a request was to load from there, so many were cached indeed."""
        faded = self._faded(now)
        self._estimated_tokens = self._estimated_tokens * faded + estimated
        self._found_tokens = self._found_tokens * faded + found
        self._seen_s = now

    def holds(self, now: float) -> float:
        """The share of what was estimated lately that was found, 0..1; 1.0 where nobody told."""
        faded = self._faded(now)
        found, estimated = self._found_tokens * faded, self._estimated_tokens * faded
        return (_PRIOR_TOKENS + found) / (_PRIOR_TOKENS + estimated)

    def expire(self, now: float) -> None:
        """Forget what has lain there for so long that it may be gone. Much of it takes several calls."""
        gone_s = self._gone_s
        for _ in range(min(len(gone_s), _MOST_GONE)):
            block, until_s = next(iter(gone_s.items()))
            if until_s > now:
                return
            del gone_s[block]

    def forget_oldest(self, most: int) -> int:
        """Know up to ``most`` chunks less; how many that were."""
        gone = list(islice(self._gone_s, most))
        for block in gone:
            del self._gone_s[block]
        return len(gone)

    def clear(self) -> None:
        """What was hashed means nothing any more."""
        self._gone_s.clear()

    def status(self, now: float) -> dict[str, object]:
        """For /status."""
        return {
            "kind": "estimate",
            "holds": round(self.holds(now), 4),
            "ttl_s": self.ttl_s,
            "chunk_tokens": self.chunk_tokens,
            "chunks": self.chunks,
            "finished_prompts": self.finished_prompts,
        }

    def _faded(self, now: float) -> float:
        """What is left of what was seen, as a share."""
        return float(0.5 ** (max(0.0, now - self._seen_s) / _HALF_LIFE_S))

    def _chunk_ends(self, blocks: Sequence[int], block_size: int) -> Sequence[int]:
        """The first block, of every chunk, with which all of that chunk is known; one block may end several."""
        a_chunk, rest = divmod(self.chunk_tokens, block_size)
        if not rest:
            return blocks[a_chunk - 1 :: a_chunk]
        if not a_chunk:
            return blocks
        chunks = len(blocks) * block_size // self.chunk_tokens
        return [blocks[-(-chunk * self.chunk_tokens // block_size) - 1] for chunk in range(1, chunks + 1)]

    def _tokens_at(self, ends: int, block_size: int) -> int:
        """Whole chunks up to the end of so many of :meth:`_chunk_ends`, in tokens."""
        if self.chunk_tokens < block_size:
            return ends * block_size // self.chunk_tokens * self.chunk_tokens
        return ends * self.chunk_tokens
