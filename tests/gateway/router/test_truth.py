"""Predicted against actual, over a router and engines that keep blocks."""

from __future__ import annotations

import json
import random

import pytest

from gateway.fleet.load_report import LoadReport
from gateway.fleet.outcome import Outcome
from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.prediction_counts import COUNTERS, UNVERIFIED, USAGE
from gateway.usage import Usage
from tests.gateway.examples import MODEL
from tests.gateway.router.toy_fleet import BLOCK_SIZE, Engine, Running, ToyFleet

PROMPT = range(1000, 1200)
HELD = len(PROMPT) // BLOCK_SIZE * BLOCK_SIZE


def trust(engine: Engine) -> tuple[float, str]:
    return engine.stats.trust, engine.stats.trust_reason


def test_every_good_request_is_compared() -> None:
    """The first time nothing is predicted and nothing there, then all of it."""
    fleet = ToyFleet()
    for _ in range(3):
        fleet.ask(PROMPT)
    evidence = fleet.truth.evidence(fleet.only.replica.key)

    assert evidence is not None
    assert (evidence.requests, evidence.compared) == (3, 3)
    assert evidence.predicted_tokens == evidence.actual_tokens == 2 * HELD
    assert (evidence.over_tokens, evidence.under_tokens, evidence.miscounted) == (0, 0, 0)
    assert (fleet.truth.total.by_source, fleet.truth.total.coverage(USAGE)) == ({USAGE: 3}, 1.0)
    assert trust(fleet.only) == (1.0, "fresh")
    assert "1 replicas" in repr(fleet.truth)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"n": 2}, "several_choices"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
        ({"truncate_prompt_tokens": -1}, "truncated"),
    ],
)
def test_what_vllm_counts_otherwise_is_not_compared(fields: dict[str, object], reason: str) -> None:
    """Nor is it a miscount."""
    fleet = ToyFleet()
    fleet.finish(fleet.send(PROMPT, **fields), miscounts=5)
    counts = fleet.truth.total

    assert (counts.by_source, counts.unverified, counts.miscounted) == ({UNVERIFIED: 1}, {reason: 1}, 0)


def test_twins_under_way_are_no_error() -> None:
    """Whether the second is scheduled after the first has stored its blocks, nobody can know."""
    fleet = ToyFleet()
    one, two = fleet.send(PROMPT), fleet.send(PROMPT)
    fleet.finish(one)
    fleet.finish(two)

    assert fleet.truth.total.unverified == {"in_flight": 1}
    assert fleet.truth.total.by_source == {USAGE: 1, UNVERIFIED: 1}


def test_another_number_of_prompt_tokens_is_loud() -> None:
    """Whatever the state of the events; the prediction was of another prompt."""
    fleet = ToyFleet()
    fleet.finish(fleet.send(PROMPT), miscounts=3)
    fleet.only.stats.state = FeedState.BLIND
    fleet.finish(fleet.send(PROMPT), miscounts=3)
    evidence = fleet.truth.evidence(fleet.only.replica.key)

    assert evidence is not None
    assert (evidence.miscounted, evidence.compared, evidence.unverified) == (2, 0, {"miscounted": 2})
    assert fleet.truth.total.miscounted == 2


def test_a_prompt_nobody_knows_is_no_evidence() -> None:
    """It is counted, with the tokens that usage tells or none."""
    fleet = ToyFleet()
    prompt = {"model": MODEL, "prompt": "words, and no tokenizer"}
    for usage in (Usage(7, 1, 0), None):
        prepared = fleet.router.prepare_now(InferenceRequest.parse("completions", json.dumps(prompt).encode()))
        assert prepared is not None
        fleet.router.attempt(prepared).end(Outcome.OK, usage=usage)
    evidence = fleet.truth.evidence(fleet.only.replica.key)

    assert evidence is not None
    assert (evidence.requests, evidence.unverified) == (0, {})
    assert (fleet.truth.total.unverified, fleet.truth.total.prompt_tokens) == ({"unknown_prompt": 2}, {UNVERIFIED: 7})


def test_new_prompts_are_confirmed_by_events() -> None:
    """By kind; those whose engine is silent are not; those whose blocks were there already are not asked about."""
    fleet = ToyFleet()
    fleet.ask(PROMPT)
    fleet.ask(PROMPT)
    fleet.only.tells_stores = False
    fleet.ask(range(5000, 5100), cache_salt="pepper")
    fleet.ask(range(7000, 7100))
    fleet.truth.settle()
    evidence = fleet.truth.evidence(fleet.only.replica.key)

    assert evidence is not None
    assert (evidence.confirmed, evidence.unconfirmed) == (1, 2)
    assert evidence.unconfirmed_kinds == {"salted": 1, "plain": 1}


def test_a_feed_that_is_not_current_confirms_nothing() -> None:
    """Late events may come yet."""
    fleet = ToyFleet()
    fleet.only.tells_stores = False
    fleet.ask(PROMPT, seconds=0.0)
    fleet.only.stats.late_s = 5.0
    fleet.clock.now += 10
    fleet.truth.settle()

    assert fleet.truth.total.unconfirmed == {}


def test_what_nobody_here_follows_is_not_asked() -> None:
    """Another process does."""
    fleet = ToyFleet(announces=False)
    fleet.ask(PROMPT)
    fleet.ask(range(7000, 7100))

    assert (fleet.truth.total.confirmed, fleet.truth.total.unconfirmed) == (0, {})


def test_counters_tell_where_usage_does_not() -> None:
    """With the sums between two reports."""
    fleet = ToyFleet()
    replica = fleet.only.replica
    replica.reported(LoadReport(prefix_queries=0.0, prefix_hits=0.0), 1.0)
    found = 0.0
    fleet.finish(fleet.send(PROMPT), details=False)
    for usage in (True, False):
        fleet.clock.now += 2.5
        found += fleet.finish(fleet.send(PROMPT), details=False, usage=usage).cached_tokens or 0
    replica.reported(LoadReport(prefix_queries=3.0 * len(PROMPT), prefix_hits=found), 2.0)
    before = fleet.truth.total.by_source
    fleet.truth.settle()
    counts, evidence = fleet.truth.total, fleet.truth.evidence(replica.key)

    assert evidence is not None
    assert (before, counts.by_source) == ({}, {COUNTERS: 3})
    assert counts.predicted_tokens == counts.actual_tokens == {COUNTERS: 2 * HELD}
    assert (evidence.compared, evidence.unverified) == (0, {"no_details": 2, "no_usage": 1})


def test_where_the_first_requests_found_what_nobody_predicted() -> None:
    """Counters count from before them, though the first to end is not the first that was sent, and both take long."""
    fleet = ToyFleet()
    replica = fleet.only.replica
    replica.reported(LoadReport(cached_by_source={"device": 0.0, "external_unspecified": 640.0}), 1.0)
    first, second = fleet.send(range(5000, 5200)), fleet.send(PROMPT)
    replica.reported(LoadReport(cached_by_source={"device": 0.0, "external_unspecified": 640.0 + 2 * HELD}), 2.0)
    for running in (second, first):
        running.attempt.first_byte()
        running.attempt.end(Outcome.OK, usage=Usage(len(PROMPT), 1, HELD))
    replica.reported(LoadReport(cached_by_source={"device": 0.0, "external_unspecified": 640.0 + 2 * HELD}), 3.0)
    fleet.truth.settle()

    assert fleet.truth.total.under_tokens == {"external_unspecified": 2 * HELD}


def test_lost_removals_cost_trust_and_truth_restores_it() -> None:
    """Everything is claimed and nothing there; soon it is not believed, and when it is true again it is."""
    fleet = ToyFleet(capacity=40)
    prompts = [range(start, start + 200) for start in range(0, 8000, 1000)]
    for prompt in prompts:
        fleet.ask(prompt)
    fleet.only.tells_removals = False
    for prompt in prompts:
        fleet.ask(prompt)
    for prompt in prompts:
        fleet.ask(prompt)
    distrusted = trust(fleet.only)
    fleet.only.tells_removals = True
    fleet.only.clear()
    fleet.index.clear(fleet.only.replica.key, Tier.L0)
    for _ in range(40):
        fleet.ask(PROMPT)

    assert distrusted == (0.1, "suspect: over_predicted")
    assert trust(fleet.only) == (1.0, "fresh")
    assert fleet.truth.total.evicted_tokens == 0


def test_evictions_behind_a_queue_are_no_false_claims() -> None:
    """What others push out between decision and lookup is told by events: a long run under thrashing raises no alarm.

    Ten are always under way, and each finds the cache as nine others have left it.
    """
    rng, fleet = random.Random(3), ToyFleet(capacity=60)
    waiting = []
    for _ in range(1500):
        start = 1000 * rng.randrange(12)
        waiting.append(fleet.send(range(start, start + 200)))
        if len(waiting) > 10:
            fleet.finish(waiting.pop(0))
        fleet.clock.now += rng.choice((0.01, 3.0))
        assert trust(fleet.only) == (1.0, "fresh")
    counts = fleet.truth.total

    assert counts.over_tokens > 1000
    assert counts.evicted_tokens > 0.9 * counts.over_tokens


def test_one_liar_does_not_cost_the_fleet_its_hits() -> None:
    """Of three replicas one never tells of removals. It is found out, alone; what others hold is still found."""
    shares, least = {}, {}
    for lies in (False, True):
        rng, fleet = random.Random(7), ToyFleet("a=http://a:1,b=http://b:1,c=http://c:1", capacity=120)
        fleet.engines["a"].tells_removals = not lies
        asked = found = 0
        least[lies] = 1.0
        for number in range(900):
            start = 1000 * min(rng.randrange(45), rng.randrange(45))
            decision, usage = fleet.ask(range(start, start + 200), seconds=1.5)
            least[lies] = min(least[lies], fleet.engines["a"].stats.trust)
            if number >= 300:
                asked += decision.prompt_tokens
                found += usage.cached_tokens or 0
        shares[lies] = found / asked
        assert trust(fleet.engines["b"]) == trust(fleet.engines["c"]) == (1.0, "fresh")

    assert least[False] == 1.0
    assert least[True] < 0.5
    assert shares[True] > 0.8 * shares[False]


def test_a_new_process_begins_with_nothing_against_it() -> None:
    """What ends late of the old one is not held against it either; counts go on."""
    fleet = ToyFleet()
    old = fleet.only.replica.key
    late = fleet.send(PROMPT)
    fleet.ask(range(50, 150))
    new = fleet.pool.restart(old)
    fleet.index.begin(new, {})
    before = fleet.truth.evidence(new)
    fleet.ask(PROMPT)
    fleet.finish(late)
    evidence = fleet.truth.evidence(new)

    assert (before, fleet.truth.evidence(old)) == (None, None)
    assert evidence is not None
    assert (evidence.requests, fleet.truth.total.by_source[USAGE]) == (1, 2)


def test_a_replica_that_left_has_no_series_and_stays_in_the_total() -> None:
    """Nor does a stream that ends later bring it back."""
    fleet = ToyFleet()
    late = fleet.send(range(50, 150))
    fleet.ask(PROMPT)
    fleet.truth.process_changed(fleet.only.replica)
    fleet.truth.left(fleet.only.replica)
    fleet.finish(late)

    assert (dict(fleet.truth.by_replica), fleet.truth.counts("a")) == ({}, None)
    assert fleet.truth.total.by_source == {USAGE: 1}


def test_evidence_is_of_the_recent_past() -> None:
    """It fades with requests, and with time."""
    fleet = ToyFleet()
    for _ in range(500):
        fleet.ask(PROMPT, seconds=0.1)
    evidence = fleet.truth.evidence(fleet.only.replica.key)
    assert evidence is not None
    many = evidence.requests
    fleet.clock.now += 500
    fleet.truth.settle()

    assert 30 < many < 66
    assert evidence.requests == evidence.compared == many / 2


def test_a_strategy_that_reads_no_prompts_claims_nothing() -> None:
    """And pays for nothing."""
    fleet = ToyFleet(strategy="round_robin")
    body = json.dumps({"model": MODEL, "prompt": list(PROMPT)}).encode()
    prepared = fleet.router.prepare_now(InferenceRequest.parse("completions", body))
    assert prepared is not None
    fleet.router.attempt(prepared).end(Outcome.OK, usage=Usage(len(PROMPT), 1, 0))

    assert (fleet.truth.total.by_source, fleet.truth.total.unverified) == ({}, {})


@pytest.mark.parametrize("counts_removed", [True, False])
def test_a_healthy_replica_under_pressure_keeps_its_trust(counts_removed: bool) -> None:
    """A queue, and a cache too small for what is asked for: much is evicted between choice and prefill. Also where
    another process follows the events, which tells of no evictions."""
    fleet, rng = ToyFleet(capacity=300), random.Random(1)
    stats, queue, trusts = fleet.only.stats, list[Running](), set[float]()
    stats.counts_removed = counts_removed
    for _ in range(600):
        start = rng.randrange(30) * 10_000
        queue.append(fleet.send(range(start, start + 20 * BLOCK_SIZE + 3)))
        if len(queue) > 6:
            fleet.finish(queue.pop(0))
        stats.removed *= counts_removed
        trusts.add(stats.trust)

    assert trusts == {1.0}
    assert fleet.truth.total.over_tokens > 10_000


def test_a_straggler_of_a_replica_that_left_says_nothing_of_its_successor() -> None:
    """Of the same name, at the same place: it is another object, whose reports are its own."""
    fleet = ToyFleet()
    fleet.pool.listen(fleet.truth)
    late, later, specs = fleet.send(PROMPT), fleet.send(PROMPT), [server.spec for server in fleet.pool.servers]
    fleet.pool.reconcile([])
    fleet.pool.reconcile(specs)
    (server,) = fleet.pool.servers
    fleet.pool.identify(server, late.engine.replica.server.cards, {})
    server.probe_answered()
    fleet.finish(late)
    (successor,) = fleet.pool.replicas
    before = fleet.truth.evidence(successor.key)
    fleet.send(PROMPT)
    fleet.finish(later)
    after = fleet.truth.evidence(successor.key)

    assert successor.key == late.engine.replica.key
    assert before is None
    assert after is not None
    assert after.requests == 0


def test_stats_of_a_feed_elsewhere_are_judged_too() -> None:
    """They may be other objects with every report of another process."""
    fleet = ToyFleet(capacity=40)
    engine = fleet.only
    prompts = [range(start, start + 200) for start in range(0, 8000, 1000)]
    engine.tells_removals = False
    for prompt in [*prompts, *prompts]:
        fleet.ask(prompt)
    engine.stats = FeedStats(state=FeedState.FRESH)
    before = engine.stats.trust
    fleet.truth.settle()

    assert (before, engine.stats.trust) == (1.0, 0.1)
