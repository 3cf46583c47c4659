"""Small real objects that several tests of the router's level start from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gateway.fleet.inflight import InFlight
from gateway.fleet.model_card import parse_models
from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import Chains, IndexUnavailable
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier, TierTokens
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import pack_tokens
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import AbsentEncoder, PromptEncoder
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Decision, Stages
from gateway.router.response_homes import ResponseHomes
from gateway.router.router import Router
from gateway.router.truth import Truth
from router_strategies import Strategy, available, load

SECRET = b"secret"
MODEL = "tiny"


def a_pool(servers: str = "a=http://a:1,b=http://b:1") -> ReplicaPool:
    """A healthy fleet that serves :data:`MODEL`, known without a network."""
    pool = ReplicaPool()
    pool.reconcile(parse_servers(servers))
    for server in pool.servers:
        pool.identify(server, parse_models({"data": [{"id": MODEL}, {"id": "ad1", "parent": MODEL}]}), {})
        server.probe_answered()
    return pool


class Events:
    """Knowledge of the replicas in ``sizes``, in one state; of others none."""

    def __init__(
        self, sizes: Mapping[str, Mapping[Tier, int]] | None = None, state: FeedState = FeedState.FRESH
    ) -> None:
        self._stats = {
            id_: FeedStats(state=state, block_sizes=dict(of), l0_block_size=of.get(Tier.L0, 0))
            for id_, of in (sizes or {}).items()
        }

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        return self._stats.get(key.server_id)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Told:
    """What a listener was told, in order."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def dispatched(self, replica: Replica, inflight: InFlight, block_size: int, chain: Sequence[int]) -> None:
        self.words.append(f"{replica.id} {inflight.uncached_tokens} {block_size} {list(chain)}")

    def first_byte(self, inflight: InFlight, sample: PrefillSample | None) -> None:
        self.words.append("first byte")

    def ended(self, inflight: InFlight, kept: bool) -> None:
        self.words.append("kept" if kept else "ended")


class FarIndex(MemoryIndex):
    """Lies elsewhere, and does not answer."""

    def knows(self, keys: Collection[ReplicaKey]) -> bool:
        return False

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        raise IndexUnavailable({})


class SlowEncoder:
    """Has to ask somebody, who says that every prompt is these 64 tokens."""

    def encode_now(self, request: InferenceRequest) -> EncodedPrompt | None:
        return None

    async def encode(self, request: InferenceRequest) -> EncodedPrompt:
        return EncodedPrompt.of(pack_tokens(range(64)), "remote_tokenize")


def a_router(
    pool: ReplicaPool,
    *,
    clock: Clock | None = None,
    index: MemoryIndex | None = None,
    events: Events | None = None,
    speeds: Speeds | None = None,
    routed: Routed | None = None,
    strategy: str = "kv_aware",
    offered: Sequence[str] = available(),
    homes: ResponseHomes | None = None,
    encoder: PromptEncoder | None = None,
    always_read: bool = False,
    truth: Truth | None = None,
    l2: L2Estimate | None = None,
) -> Router:
    """A router over ``pool`` for prompts that are token ids already."""
    strategies: dict[str, Strategy] = {name: load(name) for name in offered}
    return Router(
        pool=pool,
        index=index or MemoryIndex(),
        routed=routed or Routed(),
        events=events or Events(),
        speeds=speeds or Speeds(),
        encoder=lambda _: encoder or AbsentEncoder("no_tokenizer"),
        strategies=strategies,
        strategy=strategy,
        secret=lambda: SECRET,
        clock=clock or Clock(),
        homes=homes,
        always_read=always_read,
        truth=truth,
        l2=l2,
    )


def a_decision(**changes: object) -> Decision:
    """A decision with something in every field."""
    fields: dict[str, object] = {
        "replica_id": "a",
        "namespace": MODEL,
        "strategy": "kv_aware",
        "reason": "prefix",
        "prompt_reason": "",
        "index_reason": "",
        "prompt_tokens": 1925,
        "confirmed": TierTokens(640),
        "expected_tokens": 640,
        "uncached_tokens": 1285,
        "prefill_s": 0.2,
        "avoided_s": 0.1,
        "incomparable": "",
        "candidates": 2,
        "stages": Stages(0.001, 0.0002, 0.00005),
    }
    return Decision(**{**fields, **changes})  # type: ignore[arg-type]


def tokens(ids: Sequence[int]) -> EncodedPrompt:
    """A prompt of these ids."""
    return EncodedPrompt.of(b"".join(i.to_bytes(4, "little") for i in ids))
