"""Router: InferenceRequest -> Decision.

``prepare`` learns what is known of a request's prompt, once: tokens, hashes, who holds them. ``attempt`` chooses among
the replicas as they are at that moment and books the choice, in one synchronous step, as often as it takes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

from gateway.errors import BadRequest, NoReplica, ResponseNotFound
from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillWork
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.fleet.utilisation import Utilisation
from gateway.kv.index import PrefixMatcher
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.routed import Routed
from gateway.kv.salted_prompts import SaltedPrompts
from gateway.kv.tiers import TierTokens
from gateway.kv.trust import FeedState
from gateway.prompt.encoder import PromptEncoder
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt, Books
from gateway.router.candidates import BlockSizes, Candidates, EventKnowledge, credited_work
from gateway.router.decision import Decision
from gateway.router.dispatch_listener import DispatchListener, Nobody
from gateway.router.explanation import Explanation, excluded_of
from gateway.router.onlookers import Onlookers
from gateway.router.prepared import Prepared, guessed_tokens
from gateway.router.prompt_reading import PromptReading
from gateway.router.response_homes import ResponseHomes
from gateway.router.truth import Truth
from router_strategies import Candidate, RouteRequest, Strategy, canonical, load
from router_strategies._cost import Work, prefill_seconds

_NOTHING = TierTokens()
_NOBODY: frozenset[str] = frozenset()
_NONE: Sequence[Replica] = ()


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
        always_read: bool = False,
        homes: ResponseHomes | None = None,
        truth: Truth | None = None,
        salted: SaltedPrompts | None = None,
        l2: L2Estimate | None = None,
    ) -> None:
        """``encoder`` finds a base model's encoder. ``strategies`` are those a request may ask for by name. ``secret``
        keys the block hashes; it may change. ``always_read``: prompts are read under strategies that do not ask for it.
        ``truth`` hears what is predicted of prompts, and what became of it; ``salted`` of those with a cache salt.
        ``l2`` hears of prompts that were finished, and estimates by them what lies in shared storage.
        """
        self._pool = pool
        self._routed = routed
        self._events = events
        self.speeds = speeds
        self._strategies = dict(strategies)
        self._offered = frozenset(strategies)
        self._configured = strategy
        self._clock = clock
        self._always_read = always_read
        self._block_sizes = BlockSizes(events)
        self._reading = PromptReading(
            pool, index, self._block_sizes, encoder=encoder, secret=secret, clock=clock, salted=salted, l2=l2
        )
        self._candidates = Candidates(routed, events, self._block_sizes, speeds)
        self._homes = ResponseHomes(clock=clock) if homes is None else homes
        self._books = Books(routed, speeds, self.is_told_nothing, Nobody(), clock, self._homes, l2)
        self._truth = truth
        self._onlookers: Onlookers | None = None
        self.utilisation = Utilisation()
        self.strategy = strategy

    def prepare_now(self, request: InferenceRequest, *, strategy: str | None = None) -> Prepared | None:
        """Tokenize, hash and look up, without waiting. ``None``: something must be waited for, :meth:`prepare` does.

        Raises ``ModelNotFound``, ``NoReplica``, ``BadRequest`` or ``ResponseNotFound``.
        """
        if request.response_id and self._homes.must_ask(request.response_id):
            return None
        prepared = self._begin(request, self._allowed(strategy))
        if not self._reads_prompt(prepared):
            prepared.work_tokens = guessed_tokens(request)
            return prepared
        return prepared if self._reading.read_now(prepared) else None

    async def prepare(self, request: InferenceRequest, *, strategy: str | None = None) -> Prepared:
        """As :meth:`prepare_now`, and waits for what must be waited for."""
        return await self._prepare(request, self._allowed(strategy))

    async def _prepare(self, request: InferenceRequest, strategy: str) -> Prepared:
        if request.response_id:
            await self._homes.find(request.response_id)
        prepared = self._begin(request, strategy)
        if self._reads_prompt(prepared):
            await self._reading.read(prepared)
        else:
            prepared.work_tokens = guessed_tokens(request)
        return prepared

    def attempt(self, prepared: Prepared, tried: frozenset[str] = frozenset()) -> Attempt:
        """Choose a replica outside the server ids ``tried`` and book the request there. Raises ``NoReplica``."""
        now = self._clock()
        replica, chosen, reason, among = self._choose(prepared, tried, now)
        decision = self._decision(prepared, replica, chosen, reason, among)
        self.utilisation.dispatched(chosen.prefill_s, now)
        self.speeds.sent(chosen.prefill_s * chosen.speed, decision.uncached_tokens)
        block_size = self.block_size(replica)
        chain = prepared.chains.get(block_size, ())
        if chain and replica.kv_tokens:
            self._routed.set_capacity(replica.key, replica.kv_tokens)
        claim = None
        if self._truth is not None and (decision.prompt_tokens or decision.prompt_reason):
            claim = self._truth.claim(prepared, decision, replica, chain, block_size)
        return Attempt(
            decision,
            replica,
            self._inflight(prepared, decision, chosen, block_size, now),
            chain,
            block_size=block_size,
            books=self._books,
            claim=claim,
            stored_as=prepared.alias if prepared.request.stores_response else None,
        )

    def listen(self, listener: DispatchListener) -> None:
        """Tell ``listener`` of every attempt from now on, in place of whoever was told before."""
        self._books = self._books._replace(listener=listener)

    def watch(self, onlookers: Onlookers | None) -> None:
        """Let ``onlookers`` see each choice from now on, but for retries and for what only one server can serve."""
        self._onlookers = onlookers
        self._always_read = self._always_read or (onlookers is not None and onlookers.reads_prompt)

    def use_strategy(self, name: str | None) -> None:
        """Choose by another strategy from now on, with its default options; ``None``: by the configured one.

        Raises ``ValueError`` for a name that is not known, and then changes nothing.
        """
        self.strategy = self._configured if name is None else self._loaded(name)

    async def explain(self, request: InferenceRequest, *, strategy: str | None = None) -> Explanation:
        """What would be chosen now, and why. Nothing is booked, and no strategy moves on: a copy of it chooses.

        ``strategy``: any there is, whatever requests may ask for. Raises as :meth:`prepare` does.
        """
        try:
            name = self.strategy if strategy is None else self._loaded(strategy)
        except ValueError as error:
            raise BadRequest(str(error), param="strategy", code="strategy_not_found") from error
        prepared = await self._prepare(request, name)
        now = self._clock()
        explanation = Explanation(prepared, self._events, excluded_of(self._pool.servers, prepared, now), now)
        try:
            replicas, at_home = self._routable(prepared, _NOBODY, now)
        except NoReplica as error:
            explanation.error = error
            return explanation
        chooser = copy.deepcopy(self._strategies[name])
        facts = self._facts(prepared, _NOBODY, now, reads_load=chooser.reads_load)
        candidates = self._candidates.build(prepared, replicas, now)
        seen = candidates if chooser.reads_load else [replica.named for replica in replicas]
        explanation.weighed(replicas, candidates, chooser.costs(facts, seen), facts)
        chosen, reason = chooser.select(facts, seen)
        place = seen.index(chosen)
        reason = "response" if at_home else reason
        explanation.decision = self._decision(prepared, replicas[place], candidates[place], reason, len(replicas))
        return explanation

    # What is known of a replica

    def block_size(self, replica: Replica) -> int:
        """Tokens of one block in its GPU, as its prompts are hashed here."""
        return self._block_sizes.l0(replica)

    def is_told_nothing(self, replica: Replica) -> bool:
        """Whether no events tell what it holds: none are sent, or none arrive."""
        stats = self._events.stats(replica.key)
        return stats is None or stats.state is FeedState.BLIND

    # What is known of a request

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

    def _loaded(self, name: str) -> str:
        """The strategy that ``name`` means, there from now on. Raises ``ValueError``."""
        known = canonical(name)
        if known not in self._strategies:
            self._strategies[known] = load(known)
        return known

    def _begin(self, request: InferenceRequest, strategy: str) -> Prepared:
        """What is known of any request, its prompt unread."""
        if request.response_id:
            return self._begin_at_home(request, strategy)
        return Prepared(request, self._pool.names.resolve(request.model, request.alias), strategy)

    def _begin_at_home(self, request: InferenceRequest, strategy: str) -> Prepared:
        """The same of one that refers to a stored response. If nobody knows its home, its replica will say so."""
        kept = self._homes.known(request.response_id)
        home = None if kept is None else self._pool.server(kept.server_id)
        try:
            served = self._pool.names.resolve(request.model or (home and home.namespace) or "", request.alias)
        except BadRequest:  # it names no model, and there are several
            raise ResponseNotFound from None
        prepared = Prepared(request, served, strategy)
        if kept is not None and home is not None and home.serves(served.name):
            prepared.pinned = home.id
            if not request.model:
                prepared.alias = kept.alias
        return prepared

    def _reads_prompt(self, prepared: Prepared) -> bool:
        return self._always_read or self._strategies[prepared.strategy].reads_prompt

    # The choice

    def _choose(self, prepared: Prepared, tried: frozenset[str], now: float) -> tuple[Replica, Candidate, str, int]:
        strategy = self._strategies[prepared.strategy]
        onlookers = None if tried or prepared.pinned else self._onlookers
        reads_load = strategy.reads_load or onlookers is not None
        replicas, at_home = self._routable(prepared, tried, now)
        candidates = self._candidates.build(prepared, replicas, now) if reads_load else [r.named for r in replicas]
        facts = self._facts(prepared, tried, now, reads_load=reads_load)
        if onlookers is None:
            chosen, reason = strategy.select(facts, candidates)
        else:
            chosen, reason = onlookers.select(strategy, prepared, facts, candidates)
        replica = replicas[candidates.index(chosen)]
        if not reads_load:
            chosen = self._candidates.priced(prepared, replica, now)
        return replica, chosen, "response" if at_home else reason, len(replicas)

    def _routable(
        self, prepared: Prepared, tried: frozenset[str], now: float
    ) -> tuple[Sequence[Replica], Sequence[Replica]]:
        """Who may be chosen, and who of them keep what the request refers to. Raises ``NoReplica``."""
        at_home = self._at_home(prepared, tried) if prepared.pinned else _NONE
        return at_home or self._pool.routable(prepared.served.name, tried, now), at_home

    def _facts(self, prepared: Prepared, tried: frozenset[str], now: float, *, reads_load: bool) -> RouteRequest:
        """What a strategy may know of the request."""
        return RouteRequest(
            prepared.prompt.count,
            prepared.request.session,
            now,
            self.utilisation.per_replica(self._pool.healthy_replicas, now) if reads_load else 0.0,
            prepared.served.namespace,
            self._pool.replica_ids(tried) if tried else _NOBODY,
        )

    def _at_home(self, prepared: Prepared, tried: frozenset[str]) -> list[Replica]:
        """The replicas of the server that keeps what the request refers to, drained or not; none if it is gone.

        Raises ``NoReplica`` when it was tried: the others can only say that they know of no such response.
        """
        home = self._pool.server(prepared.pinned)
        if home is None or not home.healthy:
            return []
        if home.id in tried:
            raise NoReplica("The replica that keeps the response was tried.")
        return home.replicas

    def _decision(self, prepared: Prepared, replica: Replica, chosen: Candidate, reason: str, among: int) -> Decision:
        expected_tokens, confirmed = chosen.expected_tokens, prepared.confirmed.get(replica.key, _NOTHING)
        return Decision(
            replica_id=replica.id,
            namespace=prepared.served.namespace,
            strategy=prepared.strategy,
            reason=reason,
            prompt_reason=prepared.prompt.reason,
            index_reason=prepared.index_reason,
            prompt_tokens=prepared.prompt.count,
            confirmed=confirmed,
            expected_tokens=expected_tokens,
            uncached_tokens=max(0, prepared.work_tokens - expected_tokens),
            prefill_s=chosen.prefill_s,
            avoided_s=self._avoided_s(prepared.work_tokens, confirmed, chosen) if expected_tokens else 0.0,
            incomparable=prepared.incomparable,
            candidates=among,
            stages=prepared.stages,
            knows_beginning_only=not prepared.prompt.complete,
            record=prepared.record,
            l2_estimate=chosen.l2_estimate,
        )

    def _avoided_s(self, work_tokens: int, confirmed: TierTokens, chosen: Candidate) -> float:
        """What the cache spares, as far as it is known: what is estimated of L2 is not."""
        rates, speed, prefill_s = self.speeds.rates, chosen.speed, chosen.prefill_s
        if chosen.l2_estimate:
            known = credited_work(work_tokens, confirmed.split(), chosen.expected_tokens, chosen.trust)
            prefill_s = prefill_seconds(known, rates, speed, chosen.decoding)
        return max(0.0, prefill_seconds(Work(work_tokens, 0), rates, speed, chosen.decoding) - prefill_s)

    def _inflight(
        self, prepared: Prepared, decision: Decision, chosen: Candidate, block_size: int, now: float
    ) -> InFlight:
        inflight = InFlight(
            promised_s=chosen.prefill_s,
            unscaled_s=0.0,
            uncached_tokens=decision.uncached_tokens,
            kv_blocks=1 + prepared.output_tokens(self.speeds.output_tokens) / block_size,
            streamed=prepared.request.stream,
            dispatched_s=now,
            asks_engine=prepared.request.asks_engine,
        )
        if inflight.streamed and decision.prompt_tokens and not (decision.knows_beginning_only or decision.l2_estimate):
            self._to_time(inflight, decision, chosen.speed)
        return inflight

    def _to_time(self, inflight: InFlight, decision: Decision, speed: float) -> None:
        """What it asks of the replica, whatever the trust: what the time really taken is compared with."""
        rates = self.speeds.rates
        work = credited_work(decision.prompt_tokens, decision.confirmed.split(), decision.expected_tokens)
        inflight.unscaled_s = prefill_seconds(work, rates, speed) / rates.calibration
        inflight.work = PrefillWork.of(work, rates, speed)
