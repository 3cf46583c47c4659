"""Many runs in several processes, some of which fail."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from loadtest.replay.grid import Grid, Made
from tests.fakes.waiting import eventually
from tests.loadtest.replay.makers import runs, seed_is_ttft


def results(made: list[Made]) -> set[tuple[str, int, float]]:
    return {(one.run.label, one.run.seed, one.figures.ttft_mean_s if one.figures else -1.0) for one in made}


def alive(process: int) -> bool:
    """A process that has ended may still wait for its parent to notice."""
    status = Path(f"/proc/{process}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except FileNotFoundError:
        return False


def test_how_many_processes_there_are_changes_nothing() -> None:
    """Each run is made once."""
    asked = runs("a", "b", seeds=3)
    alone = list(Grid(seed_is_ttft, processes=1).run(asked))
    shared = list(Grid(seed_is_ttft, processes=2).run(asked))

    assert [made.run for made in alone] == asked
    assert len(shared) == len(asked)
    assert results(alone) == results(shared)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_fails_costs_only_itself(processes: int) -> None:
    """It is told, with its reason."""
    made = list(Grid(seed_is_ttft, processes=processes).run(runs("a", "bad", "b")))

    assert {one.run.label: one.error for one in made} == {"a": "", "bad": "ValueError: no luck", "b": ""}


def test_a_run_that_ends_its_process_costs_only_itself() -> None:
    """What was under way beside it is made again, and the rest goes on."""
    made = list(Grid(seed_is_ttft, processes=2).run(runs("a", "deadly", "b", "c")))
    errors = {one.run.label: one.error for one in made}

    assert len(made) == 4
    assert "its process ended" in errors.pop("deadly")
    assert errors == {"a": "", "b": "", "c": ""}


def test_who_stops_asking_waits_for_nobody(tmp_path: Path) -> None:
    """What is under way is ended, not finished."""
    pid = tmp_path / "pid"
    with closing(Grid(seed_is_ttft, processes=2).run([*runs("endless", source=str(pid)), *runs("a")])) as made:
        assert next(made).run.label == "a"

    assert not pid.exists() or not alive(int(pid.read_text()))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_no_process_outlives_the_first(tmp_path: Path, how: signal.Signals) -> None:
    """Neither after Ctrl-C, nor where nothing could be done any more."""
    pid = tmp_path / "pid"
    script = (
        "from loadtest.replay.grid import Grid\n"
        "from tests.loadtest.replay.makers import runs, seed_is_ttft\n"
        f"list(Grid(seed_is_ttft, processes=2).run(runs('endless', source={str(pid)!r})))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stderr=subprocess.PIPE, start_new_session=True
    )
    await eventually(lambda: pid.exists() and pid.read_text() != "", timeout_s=30.0)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does: to all of them
    else:
        process.kill()
    _, errors = await process.communicate()

    await eventually(lambda: not alive(int(pid.read_text())), timeout_s=30.0)
    assert process.returncode != 0
    assert errors.count(b"Traceback") == (how == signal.SIGINT)
