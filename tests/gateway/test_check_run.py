"""CheckRun: all servers, at the same time, within a time."""

from __future__ import annotations

import pytest

from gateway.check_run import check_run
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.scripted_server import Wire, plays_and_resets
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


async def _checked(api: KubernetesApi) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Verdicts with their details, and what was waited for."""
    settings = {
        "PREFIXWAY_DISCOVERY": "kubernetes:default/app=vllm",
        "PREFIXWAY_DISCOVERY_INTERVAL_S": "0.05",
        "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
        "PREFIXWAY_KUBERNETES_API": api.url,
    }
    shown: list[str] = []
    async with check_run(Settings.from_env(settings), patience_s=0.5) as run:
        verdicts = await run.check(shown.append)
    return [(verdict.check, verdict.word, verdict.detail) for verdict in verdicts], shown


async def test_who_has_to_be_found_first_is_waited_for() -> None:
    """Also where the first look fails."""
    async with KubernetesApi(token=None) as api:
        api.add("a", port=1)
        api.cues.append(plays_and_resets())
        verdicts, shown = await _checked(api)

    assert [verdict[:2] for verdict in verdicts] == [("reachable", "unreachable")]
    assert shown[:2] == ["looking replicas up", "checking 1 replicas"]


async def test_that_nobody_can_be_found_is_named() -> None:
    async with KubernetesApi(token=None) as api:
        api.may_list = False
        ((check, word, detail),), _ = await _checked(api)
    async with KubernetesApi(token=None) as api:
        api.cues.append(Wire.until_gone)
        ((_, _, no_answer),), _ = await _checked(api)

    assert (check, word) == ("replicas", "discovery_stale")
    assert "the verb list on the resource pods" in detail
    assert no_answer == "no answer within 0.5 s"
