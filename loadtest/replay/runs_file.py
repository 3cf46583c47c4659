"""RunsFile: finished runs as lines of CSV, written one by one, so that a stopped comparison can go on."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from loadtest.replay.figures import Figures
from loadtest.replay.measured import Cell, Measured

_HEADER = (*Cell._fields, "strategy", "seed", "code", *Figures.names())
_END = b"\n"


class RunsFile:
    """To be entered: then its folder is there, and nobody else writes it. Runs of one cell, strategy and seed are the
    same run.

    Raises ``ValueError`` where the file is another's or in use, ``OSError`` where it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._folder)
            raise ValueError(f"{self.path.parent} is in use by another replay") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._folder)

    def read(self) -> list[Measured]:
        """All runs, sorted; of several that are the same the last one. A last line that was not finished is no run."""
        text = self.path.read_bytes() if self.path.exists() else b""
        if _END not in text:
            return []
        try:
            rows = list(csv.reader(io.StringIO(text[: text.rfind(_END)].decode(), newline="")))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path}: {error}") from error
        if rows[:1] != [list(_HEADER)]:
            raise ValueError(f"{self.path} has not the columns of this version: name another folder")
        runs = [self._measured(row, number) for number, row in enumerate(rows[1:], 2)]
        return sorted({run[:3]: run for run in runs}.values())

    def append(self, run: Measured) -> None:
        """Add a run; the file has it when this returns."""
        if not self._ends_well():
            self.write(self.read())
        with self.path.open("a", encoding="utf-8", newline="") as file:
            _write(file, [_row(run)])

    def write(self, runs: Iterable[Measured]) -> None:
        """Replace all, at once."""
        new = self.path.with_name(self.path.name + ".new")
        with new.open("w", encoding="utf-8", newline="") as file:
            _write(file, [_HEADER, *(_row(run) for run in runs)])
        new.replace(self.path)

    def _ends_well(self) -> bool:
        if not self.path.exists() or not self.path.stat().st_size:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == _END

    def _measured(self, row: Sequence[str], number: int) -> Measured:
        try:
            trace, requests, replicas, load, scenario, strategy, seed, code, *figures = row
            cell = Cell(trace, int(requests), int(replicas), float(load), scenario)
            return Measured(cell, strategy, int(seed), code, Figures.read(figures))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.path}:{number}: {error}") from error


def _row(run: Measured) -> list[str]:
    cell = run.cell
    start = [
        cell.trace,
        cell.requests,
        cell.replicas,
        f"{cell.load:g}",
        cell.scenario,
        run.strategy,
        run.seed,
        run.code,
    ]
    return [*map(str, start), *run.figures.words()]


def _write(file: io.TextIOBase | io.TextIOWrapper, rows: Iterable[Sequence[str]]) -> None:
    csv.writer(file, lineterminator=_END.decode()).writerows(rows)
    file.flush()
