"""Rows of shadows: one gateway's, and several added up."""

from __future__ import annotations

from gateway.observe.shadow_page import ShadowTotals, merged_shadows


def test_means_are_per_decision() -> None:
    row = ShadowTotals(decisions=10, agreed=6, saved_s=5.0, lost_s=1.0, cached_tokens=-300).row("x", "kv_aware")

    assert (row["shadow"], row["strategy"], row["decisions"]) == ("x", "kv_aware", 10)
    assert (row["agreement"], row["mean_regret_s"], row["cached_tokens"]) == (0.6, 0.4, -300)


def test_rows_of_several_gateways_add_up() -> None:
    """Those of the same shadow beside the same strategy; means follow from the sums."""
    one = [ShadowTotals(10, 10).row("x", "kv_aware"), ShadowTotals(1, 1).row("y", "kv_aware")]
    other = [ShadowTotals(30, 0, 8.0, 4.0, 100).row("x", "kv_aware"), ShadowTotals(2, 1).row("x", "session")]

    merged = merged_shadows([one, other, []])

    assert merged == [
        ShadowTotals(40, 10, 8.0, 4.0, 100).row("x", "kv_aware"),
        ShadowTotals(1, 1).row("y", "kv_aware"),
        ShadowTotals(2, 1).row("x", "session"),
    ]
    assert merged[0]["agreement"] == 0.25


def test_nothing_was_decided_yet() -> None:
    assert ShadowTotals().row("x", "kv_aware")["mean_regret_s"] == 0.0
    assert merged_shadows([]) == []
