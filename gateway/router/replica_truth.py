"""ReplicaTruth: what requests showed of one replica: lately, of one engine process, and in all."""

from __future__ import annotations

from gateway.fleet.replica import Replica
from gateway.kv.evidence import Evidence
from gateway.kv.feed_stats import FeedStats
from gateway.kv.trust import Reliability
from gateway.router.claim import Claim
from gateway.router.counter_window import CounterWindow, WindowResult
from gateway.router.decision import Decision
from gateway.router.prediction_counts import COUNTERS, UNVERIFIED, USAGE, PredictionCounts
from gateway.usage import Usage

#: Evidence is halved after so many requests, and after so many seconds: it tells of the last 32 to 64 requests at most.
_MOST_REQUESTS = 64
_HALF_LIFE_S = 120.0


class ReplicaTruth:
    """``counts`` go on growing where another process takes the place of this one; all else begins anew."""

    def __init__(self, replica: Replica, stats: FeedStats | None, counts: PredictionCounts, now: float) -> None:
        self.key = replica.key
        self.replica = replica
        self.counts = counts
        self.evidence = Evidence()
        self._reliability = Reliability(now, stats.gaps if stats is not None else 0)
        self._window = CounterWindow()
        self._reported_s: float | None = None
        self._halved_s = now

    def __repr__(self) -> str:
        return f"<ReplicaTruth {self.key.replica_id} {self.evidence.compared:.0f} compared {self._reliability!r}>"

    def request_ended(self) -> None:
        """A request ended well, and its prompt was known. Said before all else of it, which then weighs the same."""
        if self.evidence.requests >= _MOST_REQUESTS:
            self.evidence.halve()
        self.evidence.requests += 1

    def compared(self, claim: Claim, cached_tokens: int) -> None:
        """The engine told what it found cached, and the claim is fit to be compared with it."""
        evidence, counts, prompt_tokens = self.evidence, self.counts, claim.decision.prompt_tokens
        predicted = claim.predicted_tokens
        over, under = (predicted - cached_tokens, 0) if predicted > cached_tokens else (0, cached_tokens - predicted)
        if claim.decision.l2_estimate:
            under -= claim.decision.found_in_l2(cached_tokens)  # nothing foretold it, and yet it was no surprise
        evidence.compared += 1
        evidence.predicted_tokens += predicted
        evidence.actual_tokens += cached_tokens
        evidence.prompt_tokens += prompt_tokens
        evidence.over_tokens += over
        evidence.under_tokens += under
        counts.by_source[USAGE] += 1
        counts.prompt_tokens[USAGE] += prompt_tokens
        counts.predicted_tokens[USAGE] += predicted
        counts.actual_tokens[USAGE] += cached_tokens
        counts.over_tokens += over
        counts.under += under
        self._window.ended(prompt_tokens, cached_tokens=cached_tokens)
        if under:
            self._window.under(under)
        if predicted:
            self._judge(claim, predicted, over, cached_tokens)

    def estimated(self, tokens: int, found: int | None) -> None:
        """So much of a prompt was to come from L2, by an estimate. ``found``: so much was; ``None``: nobody told."""
        self.counts.estimated_tokens += tokens
        if found is not None:
            self.counts.estimated_compared_tokens += tokens
            self.counts.estimated_found_tokens += found

    def wait(self, claim: Claim, reason: str) -> None:
        """The engine did not tell; its counters may."""
        decision = claim.decision
        self.evidence.unverified[reason] += 1
        self._window.wait(decision.prompt_tokens, claim.predicted_tokens, reason)

    def unverified(self, decision: Decision, usage: Usage | None, reason: str) -> None:
        """Nothing can be said of a prediction."""
        told_tokens, cached_tokens = (0, None) if usage is None else (usage.prompt_tokens, usage.cached_tokens)
        if decision.prompt_tokens:
            self.evidence.unverified[reason] += 1
        self._window.ended(told_tokens or decision.prompt_tokens, cached_tokens=cached_tokens)
        self._count_unverified(1, decision.prompt_tokens or told_tokens, reason)

    def miscounted(self) -> None:
        """The engine counted another number of tokens in a prompt."""
        self.evidence.miscounted += 1
        self.counts.miscounted += 1

    def confirmed(self, kind: str, *, told: bool) -> None:
        """Events told of a new prompt, or they did not."""
        if told:
            self.evidence.confirmed += 1
            self.counts.confirmed += 1
        else:
            self.evidence.unconfirmed += 1
            self.evidence.unconfirmed_kinds[kind] += 1
            self.counts.unconfirmed[kind] += 1

    def look_at_counters(self) -> None:
        """Use the replica's metrics as they were read last: once, before what ended since they were is counted."""
        replica = self.replica
        if replica.reported_s == self._reported_s or replica.key != self.key:
            return
        self._reported_s = replica.reported_s
        self.counts.under_tokens.update(self._window.sources_of_under(replica.report))
        if (result := self._window.reported(replica.report)) is not None:
            self._count_window(result)

    def settle(self, stats: FeedStats | None, now: float) -> None:
        """Let time pass, and say what is doubtful of the replica's events, if ``stats`` are of this process."""
        self.look_at_counters()
        if now - self._halved_s >= _HALF_LIFE_S:
            self._halved_s = now
            self.evidence.halve()
        if stats is not None:
            self._reliability.settle(stats.gaps, now)
            self._doubt(stats)

    def _judge(self, claim: Claim, predicted: int, over: int, cached_tokens: int) -> None:
        if over:
            evicted = min(over, claim.evicted_tokens(cached_tokens))
            self.counts.evicted_tokens += evicted
            self.evidence.evicted_tokens += evicted
            over -= evicted
        self._reliability.compared(predicted, over, claim.decision.prompt_tokens)
        if claim.stats is not None and claim.replica.key == self.key:  # else they are another process's by now
            self._doubt(claim.stats)

    def _doubt(self, stats: FeedStats) -> None:
        doubt = self._reliability.doubt
        if doubt != stats.doubt:
            stats.doubted(doubt)

    def _count_unverified(self, requests: int, prompt_tokens: int, reason: str) -> None:
        self.counts.by_source[UNVERIFIED] += requests
        self.counts.prompt_tokens[UNVERIFIED] += prompt_tokens
        self.counts.unverified[reason] += requests

    def _count_window(self, result: WindowResult) -> None:
        counts = self.counts
        for reason, requests in result.unverified.items():
            self._count_unverified(requests, 0, reason)
        counts.prompt_tokens[COUNTERS if result.requests else UNVERIFIED] += result.prompt_tokens
        if result.requests:
            counts.by_source[COUNTERS] += result.requests
            counts.predicted_tokens[COUNTERS] += result.predicted_tokens
            counts.actual_tokens[COUNTERS] += result.actual_tokens
