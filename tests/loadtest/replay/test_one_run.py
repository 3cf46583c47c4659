"""One run from its words to its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.replay.figures import Figures
from loadtest.replay.grid import Run
from loadtest.replay.measured import Cell
from loadtest.replay.one_run import make_run, notes_on_load
from loadtest.replay.scenario import EngineOptions, Scenario

CELL = Cell("conversation", 200, 4, 0.6, "")
RUN = Run(CELL, "round_robin", 1, "conversation", Scenario(replicas=4, load=0.6), "round_robin")


def alike(one: Figures, other: Figures) -> bool:
    """But for the clock on the wall."""
    return replace(one, decisions_s=0.0) == replace(other, decisions_s=0.0)


def test_a_run_gives_the_same_whatever_ran_before() -> None:
    """What is kept for the next run is not changed by it."""
    first = make_run(RUN)
    other = make_run(replace(RUN, seed=2))

    assert alike(make_run(RUN), first)
    assert not alike(other, first)
    assert first.counted == 180
    assert 0 < first.hit <= first.bound < 1


def test_memory_is_as_large_whatever_the_trace_s_blocks_are(tmp_path: Path) -> None:
    """A decision log's are a quarter of a public trace's: the same prompts must be found all the same."""
    prompts = [(number % 8, 2048 * (1 + number % 3) + 60) for number in range(200)]
    coarse, fine = tmp_path / "coarse.jsonl", tmp_path / "fine.jsonl"
    for path, tokens, more in ((coarse, 512, {}), (fine, 128, {"block_tokens": 128})):
        lines = [
            {"timestamp": 1000 * number, "input_length": length, "output_length": 10, **more}
            | {"hash_ids": [1000 * who + block for block in range(length // tokens)]}
            for number, (who, length) in enumerate(prompts)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    small = replace(RUN.scenario, engine=EngineOptions(l0_blocks=24))

    hits = [make_run(replace(RUN, source=str(path), scenario=small)).hit for path in (coarse, fine)]

    assert 0.1 < hits[0] < 0.9
    assert hits[1] == pytest.approx(hits[0], abs=0.15)


def test_the_bound_is_of_the_same_requests_as_the_hits(tmp_path: Path) -> None:
    """One prompt again and again: one replica finds what can be found, and no more than that."""
    line = {"timestamp": 0, "input_length": 1084, "output_length": 10, "hash_ids": [1, 2, 3]}
    path = tmp_path / "again.jsonl"
    path.write_text("".join(json.dumps({**line, "timestamp": 1000 * number}) + "\n" for number in range(20)))

    figures = make_run(replace(RUN, source=str(path), scenario=Scenario(replicas=1, load=0.1)))

    assert figures.hit == figures.bound == pytest.approx(1024 / 1084, rel=1e-5)


def test_memory_of_less_than_one_block_of_the_trace_is_told(tmp_path: Path) -> None:
    """Rather than a division by it."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 9, "output_length": 1, "block_tokens": 16384, "hash_ids": []}\n')

    with pytest.raises(ValueError, match="24 blocks of 512 tokens hold none of 16384"):
        make_run(replace(RUN, source=str(path), scenario=Scenario(engine=EngineOptions(l0_blocks=24))))


def test_too_few_sessions_for_the_load_are_told() -> None:
    """Of a closed loop; an open one always comes up to its load."""
    assert notes_on_load(RUN) == ()
    (note,) = notes_on_load(replace(RUN, source="agentic"))
    assert note.startswith("too few sessions for a load of 0.6: about 0.")


def test_the_strategy_gets_its_options() -> None:
    """A wrong one is refused by the strategy itself."""
    with pytest.raises(ValueError, match="no option"):
        make_run(replace(RUN, options=(("taste", 1),)))


def test_a_trace_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no file"):
        make_run(replace(RUN, source="nowhere.jsonl"))
