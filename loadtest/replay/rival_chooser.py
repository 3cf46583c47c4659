"""RivalChooser: one gateway of somebody else's in simulated time: a rival's formula, and the counts that it goes by."""

from __future__ import annotations

from collections.abc import Collection

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.router.prepared import matchable_chains
from loadtest.replay.agenda import Agenda
from loadtest.replay.chooser import Asked, Engines
from loadtest.replay.scenario import Scenario
from loadtest.rivals import Rival, RivalRequest, View

_NOTHING = TierTokens()


class RivalChooser:
    """Its own counts are exact; what it reads of the replicas is up to ``report_s`` old."""

    def __init__(
        self, rival: Rival, scenario: Scenario, *, block_tokens: int, agenda: Agenda, engines: Engines
    ) -> None:
        self._rival = rival
        self._scenario = scenario
        self._block_tokens = block_tokens
        self._agenda = agenda
        self._engines = engines
        self._reads_events = rival.reads_events and scenario.publishes
        self._index = MemoryIndex()
        self._views: dict[int, View] = {}
        self._keys: dict[int, ReplicaKey] = {}
        self._reported_s = float("-inf")

    def joined(self, number: int) -> None:
        """A replica is there, its cache empty."""
        self._views[number] = View(number, capacity_blocks=self._scenario.engine.l0_blocks)
        key = self._keys[number] = ReplicaKey("m", f"r{number}", 0, 0)
        self._index.begin(key, {})
        self._reported_s = float("-inf")

    def left(self, number: int) -> None:
        """It gets nothing new."""
        del self._views[number]
        self._index.drop(self._keys.pop(number))
        self._rival.left(number)

    def heard(self, number: int, tier: Tier, stored: Collection[int], removed: Collection[int]) -> None:
        """A replica's KV events came."""
        if self._reads_events and number in self._keys:
            self._index.apply(self._keys[number], tier, stored, removed)

    def choose(self, asked: Asked) -> RivalTicket | None:
        """Where to send it; ``None``: nowhere."""
        if not self._views:
            return None
        now, turn = self._agenda.now, asked.turn
        request = RivalRequest(asked.number, turn.prompt_tokens, self._block_tokens, turn.blocks, asked.session, now)
        if now - self._reported_s >= self._scenario.report_s:
            self._read_reports()
        if self._reads_events:
            self._match(request)
        view, prefill_tokens = self._rival.select(request, list(self._views.values()))
        return RivalTicket(self._rival, request, view, prefill_tokens)

    def _read_reports(self) -> None:
        self._reported_s = self._agenda.now
        for number, view in self._views.items():
            engine = self._engines[number]
            view.waiting, view.running, view.kv_usage = engine.waiting, engine.running, engine.kv_usage
            view.queued_tokens, view.running_tokens = engine.waiting_tokens, engine.running_tokens

    def _match(self, request: RivalRequest) -> None:
        chains = matchable_chains({self._block_tokens: request.blocks}, request.prompt_tokens)
        held = self._index.match_now(chains, self._keys.values())
        for number, view in self._views.items():
            tokens = held.get(self._keys[number], _NOTHING)
            view.l0_tokens, view.l1_tokens, view.l2_tokens = tokens.split()


class RivalTicket:
    """A request on its way, in the counts of its replica's view."""

    __slots__ = ("_blocks", "_is_pending", "_prefill_tokens", "_request", "_rival", "_view", "replica")

    def __init__(self, rival: Rival, request: RivalRequest, view: View, prefill_tokens: int) -> None:
        self._rival = rival
        self._request = request
        self._view = view
        self._prefill_tokens = prefill_tokens
        self._blocks = -(-request.prompt_tokens // request.block_tokens)
        self._is_pending = True
        self.replica = view.number
        view.inflight += 1
        view.pending += 1
        view.pending_tokens += prefill_tokens
        view.inflight_blocks += self._blocks

    def first_token(self) -> None:
        if self._is_pending:
            self._is_pending = False
            self._view.pending -= 1
            self._view.pending_tokens -= self._prefill_tokens

    def ended(self, cached_tokens: int) -> None:
        self.first_token()
        self._view.inflight -= 1
        self._view.inflight_blocks -= self._blocks
        self._rival.ended(self._request, self._view)
