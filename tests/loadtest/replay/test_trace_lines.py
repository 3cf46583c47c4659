"""TraceLines: which line is wrong, and why."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from loadtest.replay.trace_lines import TraceError, TraceLines
from tests.loadtest.replay.trace_files import written


class Line(msgspec.Struct):
    size: int


def test_unknown_fields_and_empty_lines_are_ignored(tmp_path: Path) -> None:
    """Formats grow fields."""
    file = written(tmp_path / "a.jsonl", [{"size": 1, "more": [1]}, "", {"size": 2}])
    lines = TraceLines(file, Line)
    assert [line.size for line in lines] == [1, 2]
    assert lines.number == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"size": "big"}', "Expected `int`"),
        ("{}", "required field `size`"),
        ('{"size": 1', "truncated"),
        ("hello", "malformed"),
        ('{"size": 1, "other": ' + "[" * 100_000, "ursion"),
    ],
)
def test_an_error_names_file_line_and_reason(tmp_path: Path, line: str, why: str) -> None:
    """As compilers do, so that editors find the place."""
    file = written(tmp_path / "a.jsonl", [{"size": 1}, line])
    with pytest.raises(TraceError, match=why) as error:
        list(TraceLines(file, Line))
    assert str(error.value).startswith(f"{file}:2: ")


def test_torn_lines_may_be_skipped_and_are_counted(tmp_path: Path) -> None:
    """But not those that are whole and wrong."""
    file = written(tmp_path / "a.jsonl", [{"size": 1}, '{"size": 1', {"size": 2}, '{"si'])
    lines = TraceLines(file, Line, skip_torn=True)
    assert [line.size for line in lines] == [1, 2]
    assert lines.torn == 2
    with pytest.raises(TraceError, match=":1: "):
        list(TraceLines(written(file, ["{}"]), Line, skip_torn=True))


def test_bytes_that_are_no_text_are_an_error_of_their_line(tmp_path: Path) -> None:
    """A compressed file, say."""
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(b"\x1f\x8b\x08\xff\xfe")
    with pytest.raises(TraceError, match=":1: "):
        list(TraceLines(file, Line))


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    """By the operating system's own words."""
    with pytest.raises(FileNotFoundError):
        list(TraceLines(tmp_path / "none", Line))
