"""What a run is made of."""

from __future__ import annotations

from loadtest.replay.scenario import Scenario


def test_replicas_of_which_nothing_is_said_have_speed_one() -> None:
    scenario = Scenario(replicas=3, speeds=(0.5, 2.0))
    assert [scenario.speed(replica) for replica in range(3)] == [0.5, 2.0, 1.0]
