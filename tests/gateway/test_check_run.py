"""CheckRun: all servers, at the same time, within a time."""

from __future__ import annotations

import pytest

from gateway.check_run import check_run
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions
from tests.gateway.check.proving import FAST, proving


async def test_a_healthy_fleet_has_no_findings_twice() -> None:
    one = ReplicaOptions(speeds=FAST, loras=("ada",))
    async with proving(one, one, ReplicaOptions(speeds=FAST, ranks=2)) as proven:
        assert await proven.check() == {}
        assert await proven.check() == {}


async def test_each_broken_replica_is_named_and_the_others_are_not() -> None:
    one = ReplicaOptions(speeds=FAST)
    async with proving(one, one, one) as proven:
        proven.sims["b"].silent.ignores_salt = True
        proven.sims["c"].silent.template_preamble = "Odd. "

        assert await proven.check() == {"b": {"salt_dropped"}, "c": {"template_differs"}}


async def test_what_ranks_share_is_told_once() -> None:
    async with proving(ReplicaOptions(speeds=FAST, ranks=2)) as proven:
        verdicts = await proven.run.check(lambda _: None)

    assert [verdict.replica_id for verdict in verdicts if verdict.check == "reachable"] == ["a"]
    assert [verdict.replica_id for verdict in verdicts if verdict.check == "events"] == ["a", "a#1"]


async def test_a_server_that_is_not_there_is_waited_for_and_then_named() -> None:
    settings = Settings.from_env({"PREFIXWAY_REPLICAS": "a=http://127.0.0.1:1"})
    shown: list[str] = []
    async with check_run(settings, patience_s=0.2) as run:
        verdicts = await run.check(shown.append)

    assert [(verdict.replica_id, verdict.word) for verdict in verdicts] == [("a", "unreachable")]
    assert shown == ["checking 1 replicas", ""]


async def test_a_tokenizer_setting_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="PREFIXWAY_TOKENIZER"):
        async with check_run(Settings.from_env({"PREFIXWAY_TOKENIZER": "=x"})):
            pass
