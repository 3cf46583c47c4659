"""Whole lines in a file of bounded size, whoever else writes there, and whatever goes wrong."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.observe.rotating_file import RotatingFile

_WRITER = """
import json, sys
from pathlib import Path
from gateway.observe.rotating_file import RotatingFile

file = RotatingFile(Path(sys.argv[1]), int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(1000):
    file.write(json.dumps([sys.argv[3], number]) + "\\n")
"""


@contextmanager
def _files_end_at(size: int) -> Iterator[None]:
    """As on a disk that is full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _write_together(path: Path, most_bytes: int) -> None:
    """Two processes, a and b, write a thousand lines each, at the same time."""
    command = [sys.executable, "-c", _WRITER, str(path), str(most_bytes)]
    pipe = subprocess.PIPE
    writers = [subprocess.Popen([*command, name], stdin=pipe, stdout=pipe, text=True) for name in "ab"]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_it_is_appended_to_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for text in ("one\n", "two\nthree\n"):
        file = RotatingFile(path, 1000)
        file.write(text)
        file.close()

    assert _lines(path) == ["one", "two", "three"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_large_one_is_renamed(tmp_path: Path) -> None:
    """In place of the one before; nothing is written beyond the size but what alone is larger."""
    path = tmp_path / "log"
    file = RotatingFile(path, 8)
    for text in ("one\n", "two\n", "three\n", "four\n", "longer than all of it\n"):
        file.write(text)

    assert _lines(path) == ["longer than all of it"]
    assert _lines(tmp_path / "log.1") == ["four"]
    assert sorted(os.listdir(tmp_path)) == ["log", "log.1"]


def test_who_moved_it_away_gets_no_more_lines(tmp_path: Path) -> None:
    """A new one is begun, also where it was removed."""
    path = tmp_path / "log"
    file = RotatingFile(path, 1000)
    file.write("one\n")
    path.rename(tmp_path / "moved")
    file.write("two\n")
    path.unlink()
    file.write("three\n")

    assert (_lines(tmp_path / "moved"), _lines(path)) == (["one"], ["three"])


def test_several_processes_share_one(tmp_path: Path) -> None:
    """No line is torn, and none is lost."""
    path = tmp_path / "log"
    _write_together(path, 1_000_000)

    told = [json.loads(line) for line in _lines(path)]
    assert [[n for name, n in told if name == writer] for writer in "ab"] == [[*range(1000)]] * 2


def test_nobody_writes_while_another_does(tmp_path: Path) -> None:
    """Who renames it meanwhile leaves a new one for whoever waited."""
    path = tmp_path / "log"
    file = RotatingFile(path, 1000)
    file.write("one\n")
    with path.open() as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        waiting = threading.Thread(target=file.write, args=("two\n",))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        path.rename(tmp_path / "log.1")
    waiting.join()

    assert (_lines(tmp_path / "log.1"), _lines(path)) == (["one"], ["two"])


def test_several_processes_share_its_renaming(tmp_path: Path) -> None:
    """The newest lines of both are in the two files, in order, up to their last."""
    path = tmp_path / "log"
    _write_together(path, 5_000)

    told = [json.loads(line) for name in ("log.1", "log") for line in _lines(tmp_path / name)]
    for writer in "ab":
        numbers = [number for name, number in told if name == writer]
        assert numbers == sorted(numbers)
    assert [max(number for _, number in told)] == [999]
    assert (tmp_path / "log.1").stat().st_size > 4900


def test_a_line_that_a_killed_process_left_unfinished_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\nha")
    RotatingFile(path, 1000).write("two\n")

    assert _lines(path) == ["one", "ha", "two"]


def test_a_full_disk_takes_whole_lines_or_none(tmp_path: Path) -> None:
    """And goes on when there is room again."""
    path = tmp_path / "log"
    file = RotatingFile(path, 1_000_000)
    file.write("one\n")
    with _files_end_at(100), pytest.raises(OSError, match="File too large"):
        file.write("x" * 200 + "\n")
    file.write("two\n")

    assert _lines(path) == ["one", "two"]


def test_a_folder_that_is_not_there_is_a_fault_until_it_is(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "log"
    file = RotatingFile(path, 1000)
    for attempt in (file.open, lambda: file.write("one\n")):
        with pytest.raises(FileNotFoundError):
            attempt()
    path.parent.mkdir()
    file.write("two\n")

    assert _lines(path) == ["two"]
