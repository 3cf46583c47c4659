"""PrefillTimer: from the first bytes of one replica's answers, how long its prefills took.

A replica computes prompts in order of arrival, and several in one step where they fit. So a span is timed: from the
moment the oldest prompt could be started to its first byte, with the work of all that ended meanwhile; first bytes of
one step belong together. A prompt alone would be given the time of those computed beside it, and these none at all.
"""

from __future__ import annotations

from typing import Protocol

from gateway.fleet.prefill_sample import PrefillSample, PrefillWork

_SAME_STEP_S = 0.003  # between first bytes of one engine step, as they reach us
_NEVER_S = float("-inf")


class TimedRequest(Protocol):
    """What the timer must know of a request. ``work``: ``None`` where it is not known."""

    dispatched_s: float
    unscaled_s: float
    work: PrefillWork | None


class _Span:
    """Sums over prompts that ended in it."""

    __slots__ = ("actual_s", "decoding", "l1_tokens", "l2_tokens", "pairs", "spoiled", "steps", "tokens", "unscaled_s")

    def __init__(self) -> None:
        self.actual_s = self.unscaled_s = self.steps = 0.0
        self.tokens = self.pairs = self.l1_tokens = self.l2_tokens = self.decoding = 0.0
        self.spoiled = False

    def add(self, request: TimedRequest) -> None:
        if request.work is None:
            self.spoiled = True
            return
        tokens, pairs, _, l1_tokens, l2_tokens = request.work
        self.unscaled_s += request.unscaled_s
        self.tokens += tokens
        self.pairs += pairs
        self.l1_tokens += l1_tokens
        self.l2_tokens += l2_tokens

    def merge(self, other: _Span) -> None:
        """One sum of both. ``other`` is not used any more."""
        self.actual_s += other.actual_s
        self.unscaled_s += other.unscaled_s
        self.tokens += other.tokens
        self.pairs += other.pairs
        self.steps += other.steps
        self.l1_tokens += other.l1_tokens
        self.l2_tokens += other.l2_tokens
        self.decoding += other.decoding
        self.spoiled |= other.spoiled

    def sample(self) -> PrefillSample | None:
        if self.spoiled:
            return None
        return PrefillSample(
            self.actual_s,
            self.unscaled_s,
            self.tokens,
            self.pairs,
            self.steps,
            self.l1_tokens,
            self.l2_tokens,
            self.decoding,
        )


class PrefillTimer:
    """Told of every first byte. Synchronous; ``now`` in seconds of a monotonic clock."""

    __slots__ = ("_ended_s", "_held", "_open", "_unseen_until_s")

    def __init__(self) -> None:
        self._ended_s = _NEVER_S  # when the last span ended
        self._unseen_until_s = _NEVER_S  # when the last prefill whose end nobody sees is estimated to end
        self._open = _Span()
        self._held: _Span | None = None  # ended, but others of the same step may follow

    def unseen(self, until_s: float) -> None:
        """What may have waited for something that ended unseen, up to then, is no sample."""
        self._unseen_until_s = max(self._unseen_until_s, until_s)

    def gone(self, *, others_wait: bool) -> None:
        """The oldest prompt was given up: nobody knows how far it was. ``others_wait``: behind it."""
        if others_wait:
            self._open.spoiled = True
        else:
            self._open = _Span()

    def first_byte(
        self, request: TimedRequest, oldest: TimedRequest, *, decoding: int, others_wait: bool, now: float
    ) -> PrefillSample | None:
        """The prompt of ``request`` is computed. A sample as soon as no more can belong to it.

        ``oldest``: of those that waited for a first byte, ``request`` among them. ``decoding``: sequences past theirs.
        """
        span = self._open
        span.add(request)
        if request is not oldest:
            span.spoiled |= oldest.work is None
            return None
        self._open = _Span()
        started_s = max(request.dispatched_s, self._ended_s)
        is_same_step = self._held is not None and now - self._ended_s < _SAME_STEP_S
        span.actual_s = now - started_s
        span.spoiled |= started_s < self._unseen_until_s
        self._ended_s = now
        if not is_same_step and request.work is not None:
            span.steps, span.decoding = request.work.steps, decoding * request.work.steps
        return self._closed(span, is_same_step=is_same_step, others_wait=others_wait)

    def _closed(self, span: _Span, *, is_same_step: bool, others_wait: bool) -> PrefillSample | None:
        """``span`` has ended; it is held back where more of the same step may follow, and what was held is free."""
        held, self._held = self._held, None
        if held is not None and is_same_step:
            held.merge(span)
            span, held = held, None
        if others_wait:
            self._held = span
            return None if held is None else held.sample()
        if held is None or held.spoiled:
            return span.sample()
        if not span.spoiled:
            held.merge(span)
        return held.sample()
