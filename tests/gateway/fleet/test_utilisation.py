"""Utilisation is the share of their time that replicas spend on prefill."""

from __future__ import annotations

import pytest

from gateway.fleet.utilisation import Utilisation


def test_a_steady_load_is_its_share() -> None:
    """Half a second of prefill each second on two replicas keeps each a quarter busy."""
    utilisation = Utilisation(window_s=60)
    for second in range(600):
        utilisation.dispatched(0.5, float(second))

    assert utilisation.per_replica(2, 600.0) == pytest.approx(0.25, rel=0.05)


def test_it_is_forgotten_and_bounded() -> None:
    """Never above 1, and gone after a while."""
    utilisation = Utilisation(window_s=60)
    utilisation.dispatched(1000, 0.0)

    assert utilisation.per_replica(1, 0.0) == 1.0
    assert utilisation.per_replica(1, 6000.0) < 0.001


def test_it_is_right_from_the_start() -> None:
    """Fifteen seconds of the same load already show it."""
    utilisation = Utilisation(window_s=60)
    for second in range(1000, 1015):
        utilisation.dispatched(0.5, float(second))

    assert utilisation.per_replica(2, 1015.0) == pytest.approx(0.25, rel=0.05)
