"""Plots as SVG: what stands in them, and that they suit the page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from loadtest.replay.comparison import Comparison
from loadtest.replay.page import Drawn
from loadtest.replay.page_style import STYLE
from loadtest.replay.plots import draw
from tests.loadtest.replay.hand_made import CELL, OTHER, measured

COMPARISON = Comparison(
    [
        *measured("kv_aware", 1.0, 1.1, 1.2),
        *measured("rival:b", 2.0, 2.5, 2.1),
        *measured("kv_aware", 1.0, cell=OTHER._replace(trace="agents")),
        *measured("rival:c", 300.0, cell=OTHER._replace(trace="agents")),
    ],
    "kv_aware",
)


@pytest.fixture(scope="module", name="drawn")
def _drawn() -> Drawn:
    return draw(COMPARISON)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def test_a_trace_s_name_is_no_formula() -> None:
    """Files have any names."""
    drawn = draw(Comparison(measured("kv_aware", 1.0, cell=CELL._replace(trace=r"$\frac$")), "kv_aware"))

    assert r"$\frac$" in " ".join(texts(drawn.hits))


def test_ratios_are_named_and_numbered(drawn: Drawn) -> None:
    words = texts(drawn.ratios)

    assert {"kv_aware", "rival:b", "rival:c", "1.00", "300.00"} <= set(words)
    assert "TTFT over kv_aware's, mean" in words


def test_hits_have_a_panel_a_trace_and_the_bound(drawn: Drawn) -> None:
    """Tiers that had nothing anywhere have no place in it."""
    words = texts(drawn.hits)

    assert {"chats", "agents", "L0", "L1", "L2", "never forgets"} <= set(words)


def test_every_cell_has_its_percentiles(drawn: Drawn) -> None:
    assert list(drawn.latencies) == COMPARISON.cells
    assert {"p50", "p90", "p99", "kv_aware", "rival:b"} <= set(texts(drawn.latencies[CELL]))


def test_colours_are_the_page_s_own(drawn: Drawn) -> None:
    """None is fixed, so that all can be read on light and on dark paper."""
    for svg in (drawn.ratios, drawn.hits, drawn.balance, *drawn.latencies.values()):
        used = {part.split(")")[0] for part in svg.split("var(")[1:]}

        assert all(f"{name}:" in STYLE for name in used)
        assert "#0" not in svg.replace('href="#', "")
        assert "font-family" not in svg


def test_a_strategy_that_never_met_the_baseline_has_no_ratio() -> None:
    """The other plots show it all the same; where there is no baseline at all, too."""
    runs = [*measured("kv_aware", 1.0), *measured("rival:c", 3.0, cell=OTHER)]
    drawn = draw(Comparison(runs, "kv_aware"))

    assert "rival:c" not in texts(drawn.ratios)
    assert "rival:c" in texts(drawn.balance)
    assert "rival:c" in texts(draw(Comparison(runs[1:], "kv_aware")).hits)
