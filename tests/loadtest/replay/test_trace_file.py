"""Files of any known format."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from loadtest.replay import trace_file
from loadtest.replay.trace_lines import TraceError
from tests.loadtest.replay import test_decision_trace, test_dialogues, test_mooncake
from tests.loadtest.replay.trace_files import ANYTHING, read_or_refused, written


def test_the_first_line_tells_the_format(tmp_path: Path) -> None:
    """Each has fields that the others have not."""
    file = tmp_path / "a.jsonl"
    assert trace_file.read(written(file, [test_mooncake.line(0, 600, 1, [1, 2])])).block_tokens == 512
    assert trace_file.read(written(file, [test_decision_trace.line(0, 600, [1, 2])])).block_tokens == 128
    turns = [test_dialogues.turn(10, []), test_dialogues.turn(20, [])]
    assert not trace_file.read(written(file, [{"turns": turns}, {"turns": turns}]), limit=1).is_open


@pytest.mark.parametrize(
    ("lines", "why"),
    [([], "nothing here"), (['{"prompt": "hello"}'], "of no known format"), (["[1]"], "Expected `object`")],
)
def test_what_is_no_trace_is_told_what_one_is(tmp_path: Path, lines: list[str], why: str) -> None:
    """The forms that there are."""
    with pytest.raises(TraceError, match=why):
        trace_file.read(written(tmp_path / "a.jsonl", lines))


@given(ANYTHING)
def test_whatever_a_file_holds_it_is_a_trace_or_an_error_that_says_why(data: bytes) -> None:
    """Never another exception."""
    trace = read_or_refused(trace_file.read, data)
    assert trace is None or trace.requests
