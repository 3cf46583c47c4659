"""Router: InferenceRequest -> Decision.

``prepare`` learns what is known of a request's prompt, once: tokens, hashes, who holds them. ``attempt`` chooses among
the replicas as they are at that moment and books the choice, in one synchronous step, as often as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gateway.errors import BadRequest
from gateway.fleet.inflight import InFlight
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool, ServedModel
from gateway.fleet.speeds import Speeds
from gateway.fleet.utilisation import Utilisation
from gateway.kv.index import Chains, IndexUnavailable, PrefixMatcher
from gateway.kv.routed import Routed
from gateway.kv.tiers import TierTokens
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.encoder import PromptEncoder
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt
from gateway.router.candidates import BlockSizes, Candidates, EventKnowledge, credited_work
from gateway.router.decision import Decision, Stages
from gateway.router.dispatch_listener import DispatchListener, Nobody
from gateway.router.prepared import Prepared, matchable_chains
from router_strategies import Candidate, RouteRequest, Strategy, canonical, load
from router_strategies._cost import Work, prefill_seconds

_NOTHING = TierTokens()
_NO_TOKENIZER = EncodedPrompt.unknown("no_tokenizer")


class Router:
    """Chooses. It does no HTTP, and keeps no state of its own but the fleet's utilisation."""

    def __init__(
        self,
        *,
        pool: ReplicaPool,
        index: PrefixMatcher,
        routed: Routed,
        events: EventKnowledge,
        speeds: Speeds,
        encoder: Callable[[str], PromptEncoder | None],
        strategies: Mapping[str, Strategy],
        strategy: str,
        secret: Callable[[], bytes],
        clock: Callable[[], float],
    ) -> None:
        """``encoder`` finds a base model's encoder. ``strategies`` are those a request may ask for by name. ``secret``
        keys the block hashes; it may change.
        """
        self._pool = pool
        self._index = index
        self._routed = routed
        self._events = events
        self.speeds = speeds
        self._encoder = encoder
        self._strategies = dict(strategies)
        self._offered = frozenset(strategies)
        self._configured = strategy
        self._secret = secret
        self._clock = clock
        self._block_sizes = BlockSizes(events)
        self._candidates = Candidates(routed, events, self._block_sizes, speeds)
        self._listener: DispatchListener = Nobody()
        self.utilisation = Utilisation()
        self.strategy = strategy

    async def prepare(self, request: InferenceRequest, *, strategy: str | None = None) -> Prepared:
        """Tokenize, hash and look up. Raises ``ModelNotFound``, ``NoReplica`` or ``BadRequest``."""
        began_s = self._clock()
        chosen_strategy = self._allowed(strategy)
        served = self._pool.resolve(request.model)
        prompt = await self._encode(request, served)
        encoded_s = self._clock()
        replicas = [replica for replica in self._pool.replicas if replica.key.namespace == served.namespace]
        chains = self._chains(request, served, prompt, replicas)
        matchable = matchable_chains(chains, prompt.count) if request.reads_cache else {}
        hashed_s = self._clock()
        confirmed, index_reason = await self._match(matchable, replicas)
        stages = Stages(encoded_s - began_s, hashed_s - encoded_s, self._clock() - hashed_s)
        return Prepared(request, served, chosen_strategy, prompt, chains, matchable, confirmed, index_reason, stages)

    def attempt(self, prepared: Prepared, tried: frozenset[str] = frozenset()) -> Attempt:
        """Choose a replica outside the server ids ``tried`` and book the request there. Raises ``NoReplica``."""
        now = self._clock()
        replica, chosen, reason, among = self._choose(prepared, tried, now)
        decision = self._decision(prepared, replica, chosen, reason, among)
        self.utilisation.dispatched(chosen.prefill_s, now)
        block_size = self.block_size(replica)
        if replica.kv_blocks:
            self._routed.set_capacity(replica.key, replica.kv_blocks)
        return Attempt(
            decision,
            replica,
            InFlight(
                promised_s=chosen.prefill_s,
                unscaled_s=self._unscaled_s(decision, chosen),
                uncached_tokens=decision.uncached_tokens,
                kv_blocks=1 + prepared.output_tokens(self.speeds.output_tokens) / block_size,
                streamed=prepared.request.stream,
                dispatched_s=now,
            ),
            prepared.chains.get(block_size, ()),
            block_size=block_size,
            routed=self._routed,
            speeds=self.speeds,
            keep_routed=lambda: self.is_told_nothing(replica),
            listener=self._listener,
            clock=self._clock,
        )

    def listen(self, listener: DispatchListener) -> None:
        """Tell ``listener`` of every attempt from now on, in place of whoever was told before."""
        self._listener = listener

    def use_strategy(self, name: str | None) -> None:
        """Choose by another strategy from now on, with its default options; ``None``: by the configured one.

        Raises ``ValueError`` for a name that is not known, and then changes nothing.
        """
        known = self._configured if name is None else canonical(name)
        if known not in self._strategies:
            self._strategies[known] = load(known)
        self.strategy = known

    def decide(self, prepared: Prepared) -> Decision:
        """What would be chosen now, without booking it. Raises ``NoReplica``."""
        return self._decision(prepared, *self._choose(prepared, frozenset(), self._clock()))

    # What is known of a replica

    def block_size(self, replica: Replica) -> int:
        """Tokens of one block in its GPU, as its prompts are hashed here."""
        return self._block_sizes.l0(replica)

    def is_told_nothing(self, replica: Replica) -> bool:
        """Whether no events tell what it holds: none are sent, or none arrive."""
        stats = self._events.stats(replica.key)
        return stats is None or stats.state is FeedState.BLIND

    # What is known of the prompt

    def _allowed(self, strategy: str | None) -> str:
        if strategy is None:
            return self.strategy
        try:
            name = canonical(strategy)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        if name not in self._offered:
            raise BadRequest(f"{name} is not offered here.")
        return name

    async def _encode(self, request: InferenceRequest, served: ServedModel) -> EncodedPrompt:
        if request.route == "other":
            return EncodedPrompt.unknown(request.unrendered)
        encoder = self._encoder(served.namespace)
        return _NO_TOKENIZER if encoder is None else await encoder.encode(request)

    def _chains(
        self,
        request: InferenceRequest,
        served: ServedModel,
        prompt: EncodedPrompt,
        replicas: Sequence[Replica],
    ) -> dict[int, Sequence[int]]:
        if not prompt.count:
            return {}
        chains: dict[int, Sequence[int]] = {}
        secret = self._secret()
        for size in {size for replica in replicas for size in self._block_sizes.all(replica)}:
            root = chain_root(secret, served.namespace, served.lora, request.cache_salt, size)
            chains[size] = extend_chain(root, prompt.tokens, size)
        return chains

    async def _match(
        self, matchable: Chains, replicas: Sequence[Replica]
    ) -> tuple[Mapping[ReplicaKey, TierTokens], str]:
        """What replicas hold, and the reason why that may not be all."""
        if not matchable:
            return {}, ""
        try:
            return await self._index.match(matchable, [replica.key for replica in replicas]), ""
        except IndexUnavailable as error:
            return error.known, "index_unavailable"

    # The choice

    def _choose(self, prepared: Prepared, tried: frozenset[str], now: float) -> tuple[Replica, Candidate, str, int]:
        replicas = self._pool.routable(prepared.served.name, tried, now)
        candidates = self._candidates.build(prepared, replicas, now)
        request = RouteRequest(
            prompt_tokens=prepared.prompt.count,
            session=prepared.request.session,
            now=now,
            utilisation=self.utilisation.per_replica(self._pool.healthy_replicas, now),
            model=prepared.served.namespace,
            tried=self._pool.replica_ids(tried),
        )
        choice = self._strategies[prepared.strategy].select(request, candidates)
        replica = replicas[candidates.index(choice.candidate)]
        return replica, choice.candidate, choice.reason, len(replicas)

    def _decision(self, prepared: Prepared, replica: Replica, chosen: Candidate, reason: str, among: int) -> Decision:
        prompt_tokens = prepared.prompt.count
        cold_s = prefill_seconds(Work(prepared.work_tokens, 0), self.speeds.rates, chosen.speed)
        return Decision(
            replica_id=replica.id,
            namespace=prepared.served.namespace,
            strategy=prepared.strategy,
            reason=reason,
            prompt_reason=prepared.prompt.reason,
            index_reason=prepared.index_reason,
            prompt_tokens=prompt_tokens,
            confirmed=prepared.confirmed.get(replica.key, _NOTHING),
            expected_tokens=chosen.expected_tokens,
            uncached_tokens=max(0, prepared.work_tokens - chosen.expected_tokens),
            prefill_s=chosen.prefill_s,
            avoided_s=max(0.0, cold_s - chosen.prefill_s),
            incomparable=prepared.request.incomparable,
            candidates=among,
            stages=prepared.stages,
        )

    def _unscaled_s(self, decision: Decision, chosen: Candidate) -> float:
        """x without trust and calibration: what the time really taken is compared with. 0: nothing to compare."""
        if not decision.prompt_tokens:
            return 0.0
        work = credited_work(decision.prompt_tokens, decision.confirmed.split(), decision.expected_tokens)
        rates = self.speeds.rates
        return prefill_seconds(work, rates, chosen.speed) / rates.calibration
