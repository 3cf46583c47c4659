"""A file of runs that is written while others fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.runs_file import RunsFile
from tests.loadtest.replay.hand_made import CELL, OTHER, measured

RUNS = [*measured("a", 1.0, 2.5, cell=CELL), *measured("rival:b@x=1,5", 0.25, cell=OTHER)]


def test_runs_read_back_the_same_and_sorted(tmp_path: Path) -> None:
    """In whatever order they ended."""
    with RunsFile(tmp_path / "new" / "runs.csv") as file:
        for run in reversed(RUNS):
            file.append(run)

        assert file.read() == RUNS


def test_each_run_is_in_the_file_at_once(tmp_path: Path) -> None:
    """Nothing waits for the end, which may not come."""
    with RunsFile(tmp_path / "runs.csv") as file:
        file.append(RUNS[0])
        lines = file.path.read_text().splitlines()

    assert len(lines) == 2
    assert lines[0].startswith("trace,requests,replicas,load,scenario,strategy,seed,code,counted,")


def test_what_was_cut_off_in_writing_is_no_run(tmp_path: Path) -> None:
    """The next one does not grow on its stump."""
    with RunsFile(tmp_path / "runs.csv") as file:
        file.write(RUNS)
        text = file.path.read_text()
        file.path.write_text(text[:-9])
        left = file.read()
        file.append(RUNS[-1])

        assert left == RUNS[:-1]
        assert file.path.read_text() == text


def test_of_a_run_made_again_the_later_one_is_kept(tmp_path: Path) -> None:
    again = measured("a", 7.0, code="new")[0]
    with RunsFile(tmp_path / "runs.csv") as file:
        file.write(RUNS)
        file.append(again)

        assert file.read() == [again, *RUNS[1:]]


def test_two_at_once_do_not_write_one_file(tmp_path: Path) -> None:
    """The second says so; when the first is done it may."""
    with (
        RunsFile(tmp_path / "runs.csv"),
        pytest.raises(ValueError, match="in use by another"),
        RunsFile(tmp_path / "runs.csv"),
    ):
        pass
    with RunsFile(tmp_path / "runs.csv") as file:
        assert file.read() == []


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "\n", "trace\n"])
def test_another_s_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with RunsFile(path) as file, pytest.raises(ValueError, match="name another folder"):
        file.read()

    assert path.read_text() == text


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    with RunsFile(tmp_path / "runs.csv") as file:
        file.write(RUNS)
        with file.path.open("a") as more:
            more.write("nonsense\n")
        with pytest.raises(ValueError, match=r"runs\.csv:5: "):
            file.read()


@given(st.lists(st.sampled_from([b"\r", b"\n", b'"', b",", b"1", b"\xff", b"\0"]), max_size=30).map(b"".join))
def test_any_text_is_runs_or_an_error(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    """And nothing else."""
    with RunsFile(tmp_path_factory.mktemp("any") / "runs.csv") as file:
        file.write(RUNS)
        with file.path.open("ab") as more:
            more.write(text + b"\n")
        try:
            found = file.read()
        except ValueError as error:
            found = RUNS if str(error).startswith(str(file.path)) else []

        assert found == RUNS
