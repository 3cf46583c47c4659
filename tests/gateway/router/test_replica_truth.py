"""What requests showed of one replica: what follows for its feed, and when what is known begins to fade."""

from __future__ import annotations

from gateway.fleet.load_report import LoadReport
from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import TierTokens
from gateway.kv.trust import NO_DOUBT, FeedState
from gateway.router.claim import Claim
from gateway.router.prediction_counts import COUNTERS, UNVERIFIED, USAGE, PredictionCounts
from gateway.router.replica_truth import ReplicaTruth
from gateway.usage import Usage
from tests.gateway.examples import a_decision, a_pool


class Nobody:
    def ended(self, claim: Claim, usage: Usage | None) -> None:
        """Not heard."""


class Bench:
    """One replica, and claims on it."""

    def __init__(self) -> None:
        (self.replica,) = a_pool("a=http://a:1").replicas
        self.stats = FeedStats(state=FeedState.FRESH, l0_block_size=16)
        self.truth = ReplicaTruth(self.replica, self.stats, PredictionCounts(), 0.0)

    def claim(self, l0: int | None = 640) -> Claim:
        decision = a_decision(confirmed=TierTokens(l0), expected_tokens=l0 or 0)
        return Claim(Nobody(), self.replica, decision, self.stats, "plain", 0, 0)

    def compare(self, cached_tokens: int, l0: int | None = 640) -> None:
        self.truth.compared(self.claim(l0), cached_tokens)


def test_errors_both_ways() -> None:
    """Only claims of too much cost trust; more than was predicted is counted, by where it came from."""
    bench = Bench()
    bench.truth.look_at_counters()
    bench.replica.reported(LoadReport(cached_by_source={"host": 0.0}), 1.0)
    bench.truth.settle(bench.stats, 1.0)
    for _ in range(8):
        bench.compare(1024)
    after_more = bench.stats.doubt
    bench.replica.reported(LoadReport(cached_by_source={"host": 2000.0}), 2.0)
    for _ in range(8):
        bench.compare(0)
    bench.truth.settle(bench.stats, 2.0)
    counts, evidence = bench.truth.counts, bench.truth.evidence

    assert after_more == NO_DOUBT
    assert bench.stats.trust_reason == "suspect: over_predicted"
    assert (counts.over_tokens, counts.under) == (8 * 640, 8 * 384)
    assert (evidence.over_tokens, evidence.under_tokens) == (8 * 640, 8 * 384)
    assert counts.under_tokens == {"host": 2000, "device": 8 * 384 - 2000}
    assert counts.by_source == {USAGE: 16}
    assert "16 compared" in repr(bench.truth)


def test_what_was_evicted_meanwhile_is_counted_apart() -> None:
    """It is an error of the prediction, and nobody's fault."""
    bench = Bench()
    for _ in range(8):
        claim = bench.claim()
        bench.stats.removed += 1000
        bench.truth.compared(claim, 0)

    assert bench.truth.counts.over_tokens == bench.truth.counts.evicted_tokens == 8 * 640
    assert bench.truth.evidence.over_share == 0.0
    assert bench.stats.trust == 1.0


def test_a_straggler_of_a_process_that_is_gone_casts_no_doubt_on_the_next() -> None:
    """The stats of its feed are the new one's by then."""
    bench = Bench()
    for _ in range(8):
        bench.compare(0)
    straggler = bench.claim()
    bench.replica.restart()
    bench.stats.doubted(NO_DOUBT)
    bench.truth.compared(straggler, 0)

    assert bench.stats.doubt == NO_DOUBT


def test_nothing_predicted_proves_nothing() -> None:
    """It is compared; trust has nothing to learn from it."""
    bench = Bench()
    for _ in range(10):
        bench.compare(0, l0=None)

    assert (bench.truth.evidence.compared, bench.stats.trust) == (10, 1.0)


def test_a_report_is_used_once_and_only_of_this_process() -> None:
    """What waits is settled by it."""
    bench = Bench()
    bench.replica.reported(LoadReport(prefix_queries=0.0, prefix_hits=0.0), 1.0)
    bench.truth.look_at_counters()
    bench.truth.wait(bench.claim(), "no_usage")
    bench.truth.look_at_counters()
    waiting = dict(bench.truth.counts.by_source)
    bench.replica.reported(LoadReport(prefix_queries=1925.0, prefix_hits=640.0), 2.0)
    bench.truth.look_at_counters()
    bench.truth.wait(bench.claim(), "no_usage")
    bench.replica.reported(LoadReport(prefix_queries=0.0), 3.0)
    bench.truth.look_at_counters()
    bench.replica.restart()
    bench.replica.reported(LoadReport(prefix_queries=9.0), 4.0)
    bench.truth.look_at_counters()

    assert waiting == {}
    assert bench.truth.counts.by_source == {COUNTERS: 1, UNVERIFIED: 1}
    assert bench.truth.counts.prompt_tokens == {COUNTERS: 1925, UNVERIFIED: 1925}
    assert bench.truth.counts.actual_tokens == {COUNTERS: 640}
