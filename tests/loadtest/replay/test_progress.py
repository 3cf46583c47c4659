"""What somebody who waits is told."""

from __future__ import annotations

from io import StringIO

from loadtest.replay.grid import Made
from loadtest.replay.progress import Progress
from tests.loadtest.replay.hand_made import FIGURES
from tests.loadtest.replay.makers import runs


def test_how_far_how_good_and_how_long() -> None:
    """As fast as so far."""
    times, out = iter([0.0, 0.0, 30.0, 60.0, 90.0]), StringIO()
    progress = Progress(out, clock=lambda: next(times))
    progress.begin(10)
    for run in runs("a", "b", "c"):
        progress.ended(Made(run, FIGURES))

    assert out.getvalue().splitlines()[0] == (
        "1/10 chats, 8 replicas, load 0.6: a, seed 1: TTFT 1.000 s, hit 45.0%; 4 min left"
    )
    assert progress.failed == 0


def test_failures_are_told_and_counted() -> None:
    out = StringIO()
    progress = Progress(out)
    progress.begin(1)
    progress.ended(Made(runs("a")[0], error="ValueError: no luck"))

    assert out.getvalue() == "1/1 chats, 8 replicas, load 0.6: a, seed 1: FAILED: ValueError: no luck\n"
    assert progress.failed == 1
