"""What a comparison says in words and CSV."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from loadtest.replay.comparison import Comparison
from loadtest.replay.report import cell_table, summary_table, text, verdicts, write_summary
from tests.loadtest.replay.hand_made import CELL, OTHER, measured

TWO = Comparison(
    [
        *measured("kv_aware", 1.0, 1.0, 1.0),
        *measured("rival:b", 2.0, 2.0, 2.0),
        *measured("kv_aware", 1.5, cell=OTHER),
        *measured("rival:b", 1.0, cell=OTHER),
    ],
    "kv_aware",
)


def summary(comparison: Comparison) -> list[dict[str, str]]:
    file = StringIO()
    write_summary(comparison, file)
    return list(csv.DictReader(StringIO(file.getvalue())))


def test_a_cell_s_table_has_the_best_first_with_its_ratio() -> None:
    table = cell_table(TWO, CELL)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]

    assert table.title == (
        "chats, 8 replicas, load 0.6 (2000 requests; 3 seeds; a cache that never forgets would hit 60.0%)"
    )
    assert [row["strategy"] for row in rows] == ["kv_aware", "rival:b"]
    assert (rows[1]["TTFT s"], rows[1]["TTFT / kv_aware"]) == ("2.000", "2.00 (2.00-2.00)")
    assert (rows[0]["hit"], rows[0]["L1"], rows[0]["decisions/s"]) == ("45.0%", "10.0%", "9,000")


def test_one_seed_is_no_confidence() -> None:
    """It is said, and no interval shown."""
    table = cell_table(TWO, OTHER)

    assert "one seed: too few for confidence" in table.title
    assert table.rows[0][5] == "0.67"


def test_the_summary_has_means_over_cells_and_the_worst_one() -> None:
    table = summary_table(TWO)
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}

    assert rows["rival:b"]["TTFT / kv_aware"] == "1.15"
    assert rows["kv_aware"]["near best"] == "1/2"
    assert rows["kv_aware"]["farthest behind a cell's best"] == "x1.50 in chats, 8 replicas, load 0.6, 3 gateways"


def test_nowhere_for_sure_does_not_hide_where_it_may_be_behind() -> None:
    """Few seeds have wide intervals: then "nowhere" alone would say nothing."""
    one = [*measured("a", 2, 1, 2.4), *measured("b", 1, 1, 1)]
    two = [*one, *measured("a", 1, 1, 1, cell=OTHER), *measured("b", 1, 1, 1, cell=OTHER)]

    assert "in the one cell, farthest in chats, 8 replicas, load 0.6: x1.69 (0.5" in verdicts(Comparison(one, "a"))[1]
    assert "mean alone, without confidence, in 1 of 2 cells, farthest in" in verdicts(Comparison(two, "a"))[1]
    assert len(verdicts(Comparison(two, "b"))) == 2


def test_where_the_baseline_is_behind_is_said_with_how_sure_it_is() -> None:
    unsure = "\n".join(verdicts(TWO))
    sure = "\n".join(verdicts(Comparison([*measured("a", 2, 2.1, 2.2), *measured("b", 1, 1, 1)], "a")))

    assert "kv_aware is more than 10 % behind the best with 95 % confidence: nowhere" in unsure
    assert "too few seeds to be sure, kv_aware is more than 10 % behind:\n  chats, 8 replicas, load 0.6, 3" in unsure
    assert "confidence:\n  chats, 8 replicas, load 0.6: x2.10 (1.86-2.36) of b" in sure
    assert "too few" not in sure


def test_the_summary_as_csv() -> None:
    """A line a cell and strategy, and one a strategy over all cells; no confidence is no number."""
    rows = summary(TWO)
    first, last = rows[0], rows[-1]

    assert len(rows) == 6
    assert (first["trace"], first["strategy"], first["seeds"], first["ttft_mean_s"]) == ("chats", "kv_aware", "3", "1")
    assert (last["trace"], last["strategy"], last["ttft_mean_s_ratio_low"]) == ("all cells", "rival:b", "")
    assert float(last["ttft_mean_s_ratio"]) == pytest.approx((2 / 1.5) ** 0.5, rel=1e-5)
    assert not any("decisions" in column for column in first)


def test_strategies_without_the_baseline_are_still_shown() -> None:
    """As after a run that failed."""
    comparison = Comparison(measured("rival:b", 2.0), "kv_aware")

    assert "rival:b" in text(comparison)
    assert cell_table(comparison, CELL).rows[0][5] == "-"
    assert summary(comparison)[0]["ttft_mean_s_ratio"] == ""
