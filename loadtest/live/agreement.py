"""Agreement: figures of live runs and of replays side by side, and how far both rank strategies alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from loadtest.replay.figures import Figures
from loadtest.replay.table import Table

_HIT: Callable[[Figures], float] = attrgetter("hit")
_TTFT: Callable[[Figures], float] = attrgetter("ttft_mean_s")


class Pair(NamedTuple):
    """One strategy, both ways. ``offline``: at least one replay; several differ in how ties fall, and show by how much
    figures differ for no other reason.
    """

    strategy: str
    live: Figures
    offline: Sequence[Figures]

    def mean(self, figure: Callable[[Figures], float]) -> float:
        """Of the replays."""
        return fmean(figure(one) for one in self.offline)


def ranks(values: Sequence[float], *, highest_first: bool = False) -> list[int]:
    """The place of each value, from 1; equal ones share the better place."""
    ordered = sorted(values, reverse=highest_first)
    return [ordered.index(value) + 1 for value in values]


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau: the pairs that both order alike, less those that they order unlike, over all pairs; -1..1.

    1 for fewer than two values.
    """
    pairs = list(combinations(zip(first, second, strict=True), 2))
    signs = [_sign(left[0] - right[0]) * _sign(left[1] - right[1]) for left, right in pairs]
    return sum(signs) / len(signs) if signs else 1.0


def decided(pairs: Sequence[Pair], figure: Callable[[Figures], float]) -> tuple[int, int]:
    """How many pairs of strategies all replays order alike, and how many of these the live runs order so, too."""
    orders = [(_sure_order(left, right, figure), left, right) for left, right in combinations(pairs, 2)]
    sure = [(order, _sign(figure(left.live) - figure(right.live))) for order, left, right in orders if order]
    return len(sure), sum(order == live for order, live in sure)


def table(title: str, pairs: Sequence[Pair]) -> Table:
    """Hit shares, times to the first token in milliseconds, and the places by live runs and by replays."""
    header = ["strategy", "hit live", "offline", "least..most", "places"]
    header += ["TTFT mean live", "offline", "least..most", "places", "p50 live", "offline", "p90 live", "offline"]
    hit_places = _places(pairs, _HIT, highest_first=True)
    ttft_places = _places(pairs, _TTFT, highest_first=False)
    rows = [
        [
            pair.strategy,
            *_both(pair, _HIT, _share),
            _spread(pair, _HIT, _share),
            hit_places[row],
            *_both(pair, _TTFT, _ms),
            _spread(pair, _TTFT, _ms),
            ttft_places[row],
            *_both(pair, attrgetter("ttft_p50_s"), _ms),
            *_both(pair, attrgetter("ttft_p90_s"), _ms),
        ]
        for row, pair in enumerate(pairs)
    ]
    return Table(title, header, rows)


def verdict(pairs: Sequence[Pair]) -> str:
    """How far they agree, a line for each of hit share and mean TTFT."""
    return f"{_verdict('hit share', pairs, _HIT)}\n{_verdict('mean TTFT', pairs, _TTFT)}"


def _verdict(name: str, pairs: Sequence[Pair], figure: Callable[[Figures], float]) -> str:
    tau = kendall([figure(pair.live) for pair in pairs], [pair.mean(figure) for pair in pairs])
    sure, alike = decided(pairs, figure)
    return (
        f"By {name}: Kendall's tau {tau:.2f}; of {sure} pairs that all replays order alike, live runs order {alike} so"
    )


def _sure_order(left: Pair, right: Pair, figure: Callable[[Figures], float]) -> int:
    """Its sign, or 0 where replays differ in it."""
    signs = {_sign(figure(one) - figure(other)) for one in left.offline for other in right.offline}
    return signs.pop() if len(signs) == 1 else 0


def _places(pairs: Sequence[Pair], figure: Callable[[Figures], float], *, highest_first: bool) -> list[str]:
    live = ranks([figure(pair.live) for pair in pairs], highest_first=highest_first)
    offline = ranks([pair.mean(figure) for pair in pairs], highest_first=highest_first)
    return [f"{one}/{other}" for one, other in zip(live, offline, strict=True)]


def _both(pair: Pair, figure: Callable[[Figures], float], word: Callable[[float], str]) -> list[str]:
    return [word(figure(pair.live)), word(pair.mean(figure))]


def _spread(pair: Pair, figure: Callable[[Figures], float], word: Callable[[float], str]) -> str:
    values = [figure(one) for one in pair.offline]
    return f"{word(min(values))}..{word(max(values))}"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _share(value: float) -> str:
    return f"{value:.3f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"
