"""OwnChooser: one gateway of ours in simulated time: the project's own router, pool, index and speeds.

What is left out is what costs no thought: bytes, tokens, templates. A prompt's block hashes are the trace's ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from gateway.errors import NoReplica
from gateway.fleet.load_report import LoadReport
from gateway.fleet.model_card import parse_models
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import ServerSpec
from gateway.fleet.speeds import Speeds
from gateway.fleet.strangers import reports_in
from gateway.kv.feed_stats import FeedStats
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.encoded_prompt import EncodedPrompt
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt
from gateway.router.decision import Decision
from gateway.router.prepared import Prepared, matchable_chains
from gateway.router.router import Router
from gateway.usage import Usage
from loadtest.replay.agenda import Agenda
from loadtest.replay.chooser import Asked, Engines
from loadtest.replay.scenario import Scenario
from loadtest.replay.trace import Turn
from router_strategies import load
from router_strategies._cost import Rates

_MODEL = "m"


class OwnChooser:
    """``strategy``: one of :func:`router_strategies.available`."""

    def __init__(
        self,
        strategy: str,
        options: Mapping[str, object],
        scenario: Scenario,
        *,
        block_tokens: int,
        agenda: Agenda,
        engines: Engines,
        seed: int,
    ) -> None:
        self._scenario = scenario
        self._block_tokens = block_tokens
        self._agenda = agenda
        self._engines = engines
        self._probed_s = agenda.now  # all replicas
        self._asked_s = agenda.now  # those that strangers use
        self._pool = ReplicaPool(stall_s=float("inf"))
        self._index = MemoryIndex()
        self._present: dict[int, ReplicaKey] = {}
        self._numbers: dict[str, int] = {}  # by server id
        capacity = scenario.engine.l0_blocks * block_tokens
        self._l2 = L2Estimate() if scenario.estimates_l2 else None
        chosen = load(strategy, _seeded(strategy, options, seed))
        self._reads_prompt = chosen.reads_prompt
        self._router = Router(
            pool=self._pool,
            index=self._index,
            routed=Routed(default_capacity=capacity),
            events=_Events(block_tokens, publishes=scenario.publishes),
            speeds=Speeds(rates_of(scenario)),
            encoder=lambda _: None,
            strategies={strategy: chosen},
            strategy=strategy,
            secret=lambda: b"",
            clock=agenda.clock,
            l2=self._l2,
        )

    def joined(self, number: int) -> None:
        """A replica is there, its cache empty."""
        speed = self._scenario.speed(number) if self._scenario.tells_speeds else 1.0
        spec = ServerSpec.build(f"http://10.0.{number // 256}.{number % 256}:8000", f"r{number}", {"speed": str(speed)})
        self._pool.reconcile([*(server.spec for server in self._pool.servers), spec])
        server = self._pool.server(spec.id)
        assert server is not None  # noqa: S101
        self._pool.identify(server, parse_models({"data": [{"id": _MODEL}]}), {})
        server.probe_answered()
        replica = server.replicas[0]
        replica.reported(self._report(number), self._agenda.now)
        self._index.begin(replica.key, {})
        self._present[number] = replica.key
        self._numbers[spec.id] = number

    def _report(self, number: int) -> LoadReport:
        engine, blocks = self._engines[number], self._scenario.engine.l0_blocks
        return LoadReport(
            running=engine.running,
            waiting=engine.waiting,
            kv_usage=engine.kv_usage,
            block_size=self._block_tokens,
            kv_blocks=blocks,
            kv_tokens=blocks * self._block_tokens,
        )

    def _probe(self) -> None:
        """As :class:`~gateway.fleet.probes.Probes` does, when the next request shows that it is time."""
        now, interval_s = self._agenda.now, self._scenario.probe_s
        is_round = now - self._probed_s >= interval_s
        if not is_round and now - self._asked_s < interval_s / reports_in(interval_s):
            return
        self._asked_s = now
        if is_round:
            self._probed_s = now
        for number, key in self._present.items():
            replica = self._pool.replica(key)
            assert replica is not None  # noqa: S101
            if is_round or replica.strangers is not None:
                replica.asked()
                replica.reported(self._report(number), now)

    def left(self, number: int) -> None:
        """It gets nothing new. What it was given is still told to it."""
        key = self._present.pop(number)
        self._index.drop(key)
        self._pool.reconcile(server.spec for server in self._pool.servers if server.id != key.server_id)

    def heard(self, number: int, tier: Tier, stored: Collection[int], removed: Collection[int]) -> None:
        """A replica's KV events came."""
        if (key := self._present.get(number)) is not None and self._scenario.publishes:
            self._index.apply(key, tier, stored, removed)

    def choose(self, asked: Asked) -> OwnTicket | None:
        """Where to send it; ``None``: nowhere."""
        self._probe()
        try:
            attempt = self._router.attempt(self._prepared(asked))
        except NoReplica:
            return None
        return OwnTicket(attempt, self._numbers[attempt.server_id], asked.turn, self._found_in_l2)

    def _found_in_l2(self, decision: Decision, cached_tokens: int) -> None:
        if self._l2 is not None and decision.l2_estimate:
            found = decision.found_in_l2(cached_tokens)
            self._l2.compared(decision.l2_estimate, found, now=self._agenda.now)

    def _prepared(self, asked: Asked) -> Prepared:
        """As the router would have it after reading the prompt, where the strategy wants that. Raises ``NoReplica``."""
        turn = asked.turn
        request = InferenceRequest("completions", model=_MODEL, stream=asked.streamed, session=asked.session)
        prepared = Prepared(request, self._pool.names.resolve(_MODEL), self._router.strategy)
        prepared.work_tokens = turn.prompt_tokens
        if not self._reads_prompt:  # nothing but the length is known, by the body's size
            return prepared
        prepared.prompt = EncodedPrompt(b"", turn.prompt_tokens)
        prepared.chains = {self._block_tokens: turn.blocks}
        prepared.matchable = matchable_chains(prepared.chains, turn.prompt_tokens)
        if self._l2 is not None:
            prepared.l2_estimate = self._l2.match(prepared.matchable, now=self._agenda.now)
        prepared.confirmed = self._index.match_now(prepared.matchable, self._present.values())
        return prepared


class OwnTicket:
    """A request on its way: the router's attempt."""

    __slots__ = ("_attempt", "_found", "_turn", "replica")

    def __init__(self, attempt: Attempt, replica: int, turn: Turn, found: Callable[[Decision, int], None]) -> None:
        self._attempt = attempt
        self._turn = turn
        self._found = found
        self.replica = replica

    def first_token(self) -> None:
        self._attempt.first_byte()

    def ended(self, cached_tokens: int) -> None:
        usage = Usage(self._turn.prompt_tokens, self._turn.output_tokens, cached_tokens)
        self._attempt.end(Outcome.OK, usage=usage)
        self._found(self._attempt.decision, cached_tokens)


class _Events:
    """All replicas publish and are believed, or none does."""

    def __init__(self, block_tokens: int, *, publishes: bool) -> None:
        fresh = FeedStats(state=FeedState.FRESH, block_sizes={Tier.L0: block_tokens}, l0_block_size=block_tokens)
        self._stats = fresh if publishes else None

    def stats(self, _: ReplicaKey) -> FeedStats | None:
        return self._stats


def rates_of(scenario: Scenario) -> Rates:
    """What a gateway assumes before it has learned anything: the truth, but for the scenario's error."""
    engine, speeds = scenario.engine, scenario.engine.speeds
    return Rates(
        prefill_tokens_s=speeds.prefill_tokens_per_s * scenario.rate_error,
        doubling_tokens=speeds.attention_tokens,
        step_s=speeds.step_s,
        l1_tokens_s=engine.l1_tokens_s,
        l2_tokens_s=engine.l2_tokens_s,
        l2_fixed_s=engine.l2_fixed_s,
    )


def _seeded(strategy: str, options: Mapping[str, object], seed: int) -> dict[str, object]:
    """The options, with the seed where the strategy breaks ties at random."""
    draws = hasattr(load(strategy), "seed")
    return {"seed": seed, **options} if draws else dict(options)
