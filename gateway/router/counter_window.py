"""CounterWindow: what a replica's own counters say of the predictions that no usage told of.

vLLM counts on /metrics the prompt tokens looked up in its prefix cache and those found there. Between two reports that
is the work of all requests together, so it can only be compared with the sum of their predictions, and only where the
tokens looked up are about those that this process sent: else somebody else talks to the replica. Requests that run at
the time of a report are on one side of it here and may be on the other there; a window therefore grows until the two
agree, or for so many reports that they never will.

It also says where tokens came from that nobody predicted: L1 and L2 hits are counted by tier since vLLM 0.32.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from gateway.fleet.load_report import LoadReport

_TOLERANCE = 0.05  # of the tokens looked up
_MOST_REPORTS = 8
#: vLLM's names for tiers other than its GPU, in ``vllm:prompt_tokens_cached_by_source``; the GPU is ``device``.
_OTHER_TIERS = ("host", "disk", "p2p", "external_unspecified")
_GPU, _UNKNOWN = "device", "unknown"


class WindowResult(NamedTuple):
    """What became of the predictions that waited. ``unverified``: requests by reason, where the window said nothing."""

    requests: int
    prompt_tokens: int
    predicted_tokens: int
    actual_tokens: int
    unverified: Counter[str]


class CounterWindow:
    """Of one engine process. Tell it of every request that ends well, and of every report."""

    def __init__(self) -> None:
        self._report: LoadReport | None = None  # at the window's beginning
        self._reports = 0
        self._sent_tokens = 0
        self._told_tokens = 0  # cached, as usage told
        self._knows_all = True  # of all other requests the cached tokens are known, so what is left is of those waiting
        self._waiting: Counter[str] = Counter()
        self._waiting_tokens = self._waiting_predicted = 0
        self._under_tokens = 0
        self._sources: dict[str, float] | None = None  # cached tokens by source, at the last report
        self._grown: deque[Counter[str]] = deque(maxlen=_MOST_REPORTS)  # since then, less what was explained by it

    def ended(self, prompt_tokens: int, *, cached_tokens: int | None) -> None:
        """A request whose prediction is verified or not to be. ``cached_tokens``: ``None`` where usage did not tell;
        then nothing can be said of those that wait.
        """
        self._sent_tokens += prompt_tokens
        if cached_tokens is None:
            self._knows_all = False
        else:
            self._told_tokens += cached_tokens

    def wait(self, prompt_tokens: int, predicted_tokens: int, reason: str) -> None:
        """A request whose prediction was fit to be compared, and whose usage did not tell, for this ``reason``."""
        self._sent_tokens += prompt_tokens
        self._waiting[reason] += 1
        self._waiting_tokens += prompt_tokens
        self._waiting_predicted += predicted_tokens

    def under(self, tokens: int) -> None:
        """So many tokens were cached that nobody predicted."""
        self._under_tokens += tokens

    def reported(self, report: LoadReport) -> WindowResult | None:
        """What a new report settles; ``None``: nothing yet."""
        before, self._reports = self._report, self._reports + 1
        looked_up, found = _between(before, report)
        if looked_up is None or not self._waiting:
            return self._begin(report, verified=False)
        if abs(looked_up - self._sent_tokens) <= _TOLERANCE * max(looked_up, self._sent_tokens):
            return self._begin(report, verified=self._knows_all, found=found)
        return self._begin(report, verified=False) if self._reports >= _MOST_REPORTS else None

    def sources_of_under(self, report: LoadReport) -> Counter[str]:
        """Where what nobody predicted came from, as far as reports tell; each token once.

        A request that ended now may have been counted by an earlier report, while it ran.
        """
        before, self._sources = self._sources, dict(report.cached_by_source)
        left, self._under_tokens = self._under_tokens, 0
        split: Counter[str] = Counter()
        if report.cached_by_source and before is not None:
            self._grown.append(_growth(before, report.cached_by_source))
        elif left:
            split[_UNKNOWN] = left
            return split
        for grown in self._grown if left else ():
            for source in _OTHER_TIERS:
                if part := min(left, grown[source]):
                    grown[source] -= part
                    split[source] += part
                    left -= part
        if left:
            split[_GPU] = left
        return split

    def _begin(self, report: LoadReport, *, verified: bool, found: float = 0.0) -> WindowResult | None:
        """A new window, from this report on. What waited is settled one way or the other."""
        result = None
        if self._waiting and verified:
            actual = max(0, int(found) - self._told_tokens)
            result = WindowResult(
                self._waiting.total(), self._waiting_tokens, self._waiting_predicted, actual, Counter()
            )
        elif self._waiting:
            result = WindowResult(0, self._waiting_tokens, 0, 0, self._waiting)
        self._report = report
        self._reports = self._sent_tokens = self._told_tokens = 0
        self._knows_all = True
        self._waiting = Counter()
        self._waiting_tokens = self._waiting_predicted = 0
        return result


def _between(before: LoadReport | None, report: LoadReport) -> tuple[float | None, float]:
    """Tokens looked up and tokens found between two reports; ``None``: they do not say, or a process began anew."""
    if before is None or before.prefix_queries is None or report.prefix_queries is None:
        return None, 0.0
    looked_up = report.prefix_queries - before.prefix_queries
    found = _hits(report) - _hits(before)
    return (looked_up, found) if looked_up >= 0 <= found else (None, 0.0)


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> Counter[str]:
    """Cached tokens that came since, by source, of tiers other than the GPU. What has become less began anew from 0."""
    grown: Counter[str] = Counter()
    for source in _OTHER_TIERS:
        was, is_ = before.get(source, 0.0), after.get(source, 0.0)
        grown[source] = int(is_ - was if is_ >= was else is_)
    return grown


def _hits(report: LoadReport) -> float:
    """In every tier: predictions are of them all."""
    return (report.prefix_hits or 0.0) + (report.external_hits or 0.0)
