"""The command, from its words to what it leaves in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.__main__ import main

SMALL = ["replay", "--trace", "conversation", "--requests", "60", "--replicas", "2", "--strategy"]
TWO = [*SMALL, "round_robin,rival:random", "--processes", "1"]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def without_decisions(path: Path) -> list[str]:
    return [line.rpartition(",")[0] for line in path.read_text().splitlines()]


def test_it_prints_tables_and_leaves_a_page_and_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*TWO, "--out", str(tmp_path / "out")) == 0

    said = capsys.readouterr()
    assert "conversation, 2 replicas, load 0.6 (60 requests; 3 seeds;" in said.out
    assert "6/6 conversation, 2 replicas, load 0.6: rival:random, seed 3: TTFT" in said.err
    assert len((tmp_path / "out" / "runs.csv").read_text().splitlines()) == 1 + 6
    assert len((tmp_path / "out" / "summary.csv").read_text().splitlines()) == 1 + 2 + 2
    assert (tmp_path / "out" / "report.html").read_text().count("<svg") == 4


def test_the_same_words_give_the_same_files_in_however_many_processes(tmp_path: Path) -> None:
    """All but the clock on the wall."""
    for name, processes in (("one", "1"), ("two", "2")):
        assert run(*TWO[:-1], processes, "--seeds", "2", "--out", str(tmp_path / name)) == 0
    one, two = tmp_path / "one", tmp_path / "two"

    assert without_decisions(one / "runs.csv") == without_decisions(two / "runs.csv")
    assert (one / "summary.csv").read_bytes() == (two / "summary.csv").read_bytes()


def test_it_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there is not made again, unless that is asked for; the end is the same."""
    out = ["--out", str(tmp_path)]
    assert run(*TWO, "--seeds", "2", *out) == 0
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    lines = (tmp_path / "runs.csv").read_text().splitlines(keepends=True)
    (tmp_path / "runs.csv").write_text("".join(lines[:3]) + lines[3][:20])
    capsys.readouterr()

    assert run(*TWO, "--seeds", "2", *out) == 0
    assert "2/2 " in capsys.readouterr().err
    assert (tmp_path / "summary.csv").read_bytes() == whole["summary.csv"]
    assert run(*TWO, "--seeds", "2", *out, "--afresh") == 0
    assert "4/4 " in capsys.readouterr().err


def test_another_comparison_adds_to_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So unlike scenarios end up on one page."""
    run(*TWO, "--seeds", "1", "--out", str(tmp_path))
    run(*TWO, "--seeds", "1", "--gateways", "2", "--out", str(tmp_path))

    assert "all 2 cells" in capsys.readouterr().out


def test_a_trace_that_changed_is_not_added_to_the_old_one_s_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A decision log grows; half of a table would be of each."""
    trace, out = tmp_path / "log.jsonl", str(tmp_path / "out")
    for again, code in (("", 0), ("", 0), ("\n", 2)):
        lines = [{"timestamp": at, "input_length": 600, "output_length": 5, "hash_ids": [at]} for at in range(30)]
        trace.write_text("".join(json.dumps(line) + "\n" for line in lines) + again)
        assert run(*TWO, "--trace", str(trace), "--seeds", "1", "--out", out) == code

    assert "has runs of another trace named log" in capsys.readouterr().err


def test_a_load_that_is_not_reached_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or figures of an idle fleet would pass for those of a busy one; also when all runs are there already."""
    for _ in range(2):
        assert run(*TWO, "--trace", "agentic", "--seeds", "2", "--out", str(tmp_path)) == 0
        said = capsys.readouterr().err
        assert said.count("agentic, 2 replicas, load 0.6: too few sessions for a load of 0.6: about 0.") == 1

    assert "too few sessions" in (tmp_path / "report.html").read_text()


def test_runs_of_other_code_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures made before a change do not pass for figures made after it."""
    runs = tmp_path / "runs.csv"
    run(*TWO, "--seeds", "2", "--out", str(tmp_path))
    header, first, *rest = runs.read_text().splitlines(keepends=True)
    code = first.split(",")[7]
    runs.write_text("".join([header, first.replace(code, "00000000"), *rest]))
    capsys.readouterr()
    run(*TWO, "--seeds", "2", "--out", str(tmp_path))

    assert f"2 versions of the code made these runs (00000000, {code})" in capsys.readouterr().err
    assert "2 versions of the code" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trace", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--strategy", "fastest"], "no strategy is named 'fastest'; there are "),
        (["--slow", "9x0.5"], "--slow speaks of 9 replicas"),
        (["--out", "/dev/null/x"], "/dev/null"),
    ],
)
def test_wrong_words_are_told_before_anything_runs(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*TWO, *words) == 2

    said = capsys.readouterr()
    assert said.err.startswith("python -m loadtest replay: ")
    assert message in said.err
    assert "Traceback" not in said.err


def test_without_matplotlib_all_but_the_plots_is_there(tmp_path: Path) -> None:
    """And it says what to install."""
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from loadtest.__main__ import main\n"
        f"main({[*TWO, '--seeds', '1', '--out', str(tmp_path)]!r})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ended.returncode == 0
    assert "pip install 'prefixway[loadtest]'" in ended.stderr
    assert "round_robin" in ended.stdout
    assert "<svg" not in (tmp_path / "report.html").read_text()
    assert (tmp_path / "summary.csv").exists()
