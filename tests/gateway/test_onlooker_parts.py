"""Who looks on as replicas are chosen is made as the settings say."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gateway.onlooker_parts import OnlookerParts, shadow_strategies
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.exchange import Exchange
from gateway.settings import Settings
from router_strategies import Strategy
from router_strategies.kv_aware import KvAware
from tests.gateway.examples import MODEL, SECRET, a_pool, a_router


def _settings(**settings: str) -> Settings:
    return Settings.from_env({f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()})


@contextmanager
def _parts(**settings: str) -> Iterator[OnlookerParts]:
    parts = OnlookerParts(_settings(**settings), lambda: SECRET, lambda: 1000.0)
    try:
        yield parts
    finally:
        parts.close()


def _seed(strategy: Strategy) -> int | None:
    assert isinstance(strategy, KvAware)
    return strategy.seed


def _decided(parts: OnlookerParts, count: int = 1) -> None:
    """So many requests are sent somewhere, and end."""
    router = a_router(a_pool())
    router.watch(parts.onlookers)
    body = json.dumps({"model": MODEL, "prompt": list(range(300))}).encode()
    for _ in range(count):
        prepared = router.prepare_now(InferenceRequest.parse("completions", body))
        assert prepared is not None
        decision = router.attempt(prepared).decision
        for observe in parts.observers:
            observe(Exchange("completions", "1", 10.0, ended_s=11.0, decision=decision))


def _lost(parts: OnlookerParts) -> float | None:
    registry = CollectorRegistry()
    for collector in parts.collectors:
        registry.register(collector)
    return registry.get_sample_value("prefixway_decision_log_lines_lost_total")


def test_by_default_nobody_looks_on() -> None:
    with _parts() as parts:
        assert (parts.onlookers, parts.collectors, parts.observers, list(parts.status())) == (None, [], [], [])


def test_shadows_have_the_options_of_their_name() -> None:
    """Those that are configured belong to the configured strategy."""
    made = shadow_strategies(
        _settings(shadow="kv-aware,round_robin", strategy="kv_aware", strategy_options='{"seed": 7}')
    )
    others = shadow_strategies(_settings(shadow="kv_aware", strategy="round_robin"))

    assert list(made) == ["kv_aware", "round_robin"]
    assert [_seed(made["kv_aware"]), _seed(others["kv_aware"])] == [7, None]


def test_shadows_alone_write_no_log() -> None:
    with _parts(shadow="round_robin") as parts:
        _decided(parts, 2)

        assert [row["decisions"] for row in parts.status()] == [2]  # type: ignore[index]
        assert parts.observers == []


def test_every_line_is_out_when_it_is_closed(tmp_path: Path) -> None:
    """With what shadows would have chosen, where there are any."""
    path = tmp_path / "decisions.jsonl"
    with _parts(decision_log=str(path), shadow="round_robin") as parts:
        _decided(parts, 5)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["shadows"] for line in lines] == [{"round_robin": "a"}, {"round_robin": "b"}] * 2 + [
        {"round_robin": "a"}
    ]
    assert {(line["timestamp"], line["input_length"]) for line in lines} == {(999_000, 300)}


def test_its_size_is_bounded(tmp_path: Path) -> None:
    """0.002 MB, twice."""
    path = tmp_path / "decisions.jsonl"
    for _ in range(4):
        with _parts(decision_log=str(path), decision_log_mb="0.002") as parts:
            _decided(parts, 3)

    sizes = [file.stat().st_size for file in (path, tmp_path / "decisions.jsonl.1")]
    assert all(1000 < size <= 2000 for size in sizes)


def test_a_folder_that_is_not_there_is_one_warning_and_lost_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests are none the worse for it."""
    with caplog.at_level(logging.WARNING), _parts(decision_log=str(tmp_path / "no" / "log")) as parts:
        _decided(parts, 3)
        parts.close()

        assert _lost(parts) == 3
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "the decision log cannot be written; lines are lost and counted"
    ]


def test_a_folder_that_goes_away_is_one_warning_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with caplog.at_level(logging.WARNING), _parts(decision_log=str(folder / "log")) as parts:
        (folder / "log").unlink()
        folder.rmdir()
        _decided(parts, 3)
        parts.close()

        assert _lost(parts) == 3
    assert len(caplog.records) == 1
