"""Grid: many runs in several processes. What each gives depends on nothing but itself, so neither on how many they are.

A run that fails costs nothing but itself: not even one that ends its process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from loadtest.replay.figures import Figures
from loadtest.replay.measured import Cell
from loadtest.replay.scenario import Scenario

#: An option of a strategy.
Option = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Run:
    """One run to be made. ``label``: the strategy's name with its options; ``source``: a file or a generator's name."""

    cell: Cell
    label: str
    seed: int
    source: str
    scenario: Scenario
    strategy: str
    options: tuple[tuple[str, Option], ...] = ()
    slo_s: float = 2.0

    def __str__(self) -> str:
        return f"{self.cell}: {self.label}, seed {self.seed}"


#: Makes a run. With several processes it must be a module's function.
Make = Callable[[Run], Figures]


@dataclass(frozen=True, slots=True)
class Made:
    """A run that has ended: with ``figures``, or with an ``error``."""

    run: Run
    figures: Figures | None = None
    error: str = ""


class Grid:
    """``make`` is called for each run, in as many ``processes``; with one, in this one."""

    def __init__(self, make: Make, *, processes: int) -> None:
        self._make = make
        self._processes = processes

    def run(self, runs: Sequence[Run]) -> Generator[Made, None, None]:
        """Each as it ends. Runs that follow each other should share a trace: processes keep the last ones.

        Where the caller stops asking, or is interrupted, the processes are ended.
        """
        if self._processes == 1:
            yield from (_attempt(self._make, run) for run in runs)
            return
        suspects: list[Run] = []
        waiting = deque(runs)
        while waiting:
            yield from self._in_pool(waiting, self._processes, suspects)
        for suspect in suspects:
            yield from self._alone(suspect)

    def _in_pool(self, waiting: deque[Run], processes: int, suspects: list[Run]) -> Generator[Made, None, None]:
        """Until all are made, or one has ended its process: all that were under way then are suspects."""
        with _Pool(processes) as pool:
            under_way: dict[Future[Made], Run] = {}
            while waiting or under_way:
                try:
                    while waiting and len(under_way) < processes:
                        future = pool.submit(_attempt, self._make, waiting[0])
                        under_way[future] = waiting.popleft()
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        made = future.result()
                        del under_way[future]
                        yield made
                except BrokenProcessPool:
                    suspects.extend(under_way.values())
                    return

    def _alone(self, run: Run) -> Generator[Made, None, None]:
        ended: list[Run] = []
        yield from self._in_pool(deque([run]), 1, ended)
        yield from (Made(one, error="its process ended: out of memory?") for one in ended)


class _Pool(ProcessPoolExecutor):
    """Left early it does not wait for what is under way: it ends its processes."""

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        super().__init__(processes, mp_context=context, initializer=_begin)
        self._others = set(multiprocessing.active_children())

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            for child in set(multiprocessing.active_children()) - self._others:
                child.terminate()
        self.shutdown(cancel_futures=True)


def _begin() -> None:
    """In each process: Ctrl-C is the first one's business, and none outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _attempt(make: Make, run: Run) -> Made:
    try:
        return Made(run, make(run))
    except Exception as error:  # noqa: BLE001 - a run's fault is its own
        return Made(run, error=f"{type(error).__name__}: {error}")
