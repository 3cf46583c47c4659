"""``python -m loadtest replay``: from the command line to tables, CSV files and a page."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadtest.replay import page, report
from loadtest.replay.code_version import code_version
from loadtest.replay.comparison import Comparison
from loadtest.replay.grid import Grid, Run
from loadtest.replay.known_traces import KnownTraces
from loadtest.replay.measured import Measured
from loadtest.replay.one_run import make_run, notes_on_load, trace_source
from loadtest.replay.plan import baseline_of, planned_runs
from loadtest.replay.progress import Progress
from loadtest.replay.runs_file import RunsFile

FAILED, WRONG, INTERRUPTED = 1, 2, 130


def run_replay(arguments: argparse.Namespace, argv: Sequence[str]) -> int:
    """Make the runs and report them. 0; or 1 where a run failed, 2 where the arguments are wrong, 130 after Ctrl-C.

    ``argv``: what the page names as its command, after ``python -m loadtest``.
    """
    try:
        with _heeding_sigterm():
            return _compare(arguments, argv)
    except (ValueError, OSError) as error:
        _say(f"python -m loadtest replay: {error}")
        return WRONG
    except KeyboardInterrupt:
        _say("interrupted" + ("; the same command goes on from here" if arguments.out else ""))
        return INTERRUPTED


def _compare(arguments: argparse.Namespace, argv: Sequence[str]) -> int:
    runs, baseline = planned_runs(arguments), baseline_of(arguments)
    notes = [*_notes_on_traces(runs), *_notes_on_loads(runs)]
    progress = Progress()
    grid = Grid(make_run, processes=min(arguments.processes, len(runs)))
    if arguments.out is None:
        measured = list(_made(grid, runs, progress))
    else:
        with RunsFile(arguments.out / "runs.csv") as file:
            made = file.read()
            sources = {run.cell.trace: run.source for run in runs}
            KnownTraces(arguments.out / "traces.json").add(sources, {run.cell.trace for run in made})
            there = set() if arguments.afresh else {run[:3] for run in made}
            for one in _made(grid, [run for run in runs if (run.cell, run.label, run.seed) not in there], progress):
                file.append(one)
            measured = file.read()
            file.write(measured)
    if measured:
        _report(Comparison(measured, baseline), arguments.out, argv, [*notes, *_notes_on_code(measured)])
    return FAILED if progress.failed else 0


def _made(grid: Grid, runs: Sequence[Run], progress: Progress) -> Iterator[Measured]:
    code = code_version()
    progress.begin(len(runs))
    for made in grid.run(runs):
        progress.ended(made)
        if made.figures is not None:
            yield Measured(made.run.cell, made.run.label, made.run.seed, code, made.figures)


def _report(comparison: Comparison, out: Path | None, argv: Sequence[str], notes: Sequence[str]) -> None:
    print(report.text(comparison))
    for note in notes:
        _say(note)
    if out is None:
        return
    with (out / "summary.csv").open("w", newline="") as file:
        report.write_summary(comparison, file)
    command = shlex.join(["python", "-m", "loadtest", *argv])
    text = page.page(comparison, _drawn(comparison), command=command, notes=notes)
    (out / "report.html").write_text(text, encoding="utf-8")
    _say(f"see {out / 'report.html'}")


def _drawn(comparison: Comparison) -> page.Drawn | None:
    try:
        from loadtest.replay.plots import draw  # noqa: PLC0415 - matplotlib is an extra
    except ImportError as error:
        _say(f"the page has no plots: they need matplotlib ({error}); pip install 'prefixway[loadtest]'")
        return None
    return draw(comparison)


def _notes_on_traces(runs: Sequence[Run]) -> list[str]:
    """What their readers left out or guessed. Raises ``ValueError`` and ``OSError`` where one cannot be read."""
    notes = []
    for text in dict.fromkeys(run.source for run in runs):
        if (recorded := trace_source(text).recorded) is not None:
            notes += [f"{recorded.name}: {note}" for note in recorded.notes]
            if recorded.requests < max(run.cell.requests for run in runs if run.source == text):
                notes.append(f"{recorded.name} has no more than {recorded.requests} requests")
    return notes


def _notes_on_loads(runs: Sequence[Run]) -> list[str]:
    """By the first seed: the others are much alike."""
    first = {run.cell: run for run in reversed(runs)}
    return [f"{cell}: {note}" for cell, run in reversed(first.items()) for note in notes_on_load(run)]


def _notes_on_code(measured: Sequence[Measured]) -> list[str]:
    codes = sorted({run.code for run in measured})
    if len(codes) == 1:
        return []
    return [f"{len(codes)} versions of the code made these runs ({', '.join(codes)}); --afresh makes them again"]


@contextlib.contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """As Ctrl-C: with nothing left behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
