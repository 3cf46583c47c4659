"""Lines get out in order, and a reader that does not read costs lines, never time."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from gateway.observe.line_writer import LineWriter


def test_lines_come_out_in_order_and_are_all_there_after_close() -> None:
    """A thousand lines through a pipe."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w") as out:
        lines = LineWriter(out)
        for number in range(1000):
            lines.write(f"line {number}")
        lines.close()
        out.close()

        assert read.read().splitlines() == [f"line {number}" for number in range(1000)]
    assert lines.dropped == 0


def test_many_threads_lose_no_line() -> None:
    """Each one's lines come out in its order, also those that were queued while the writer rested."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w") as out:
        lines = LineWriter(out)

        def tell(name: int) -> None:
            for number in range(500):
                lines.write(f"{name} {number}")

        threads = [threading.Thread(target=tell, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines.close()
        out.close()
        told = read.read().splitlines()

    assert all([f"{name} {n}" for n in range(500)] == [t for t in told if t[0] == str(name)] for name in range(4))
    assert lines.dropped == 0


def test_lines_come_out_without_a_close() -> None:
    """At once, and again after a pause in which there was nothing to write."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w") as out:
        lines = LineWriter(out)
        told = []
        for line in ("one", "two", "three"):
            lines.write(line)
            told.append(read.readline())
        lines.close()

    assert told == ["one\n", "two\n", "three\n"]


def test_a_full_pipe_drops_lines_and_counts_them() -> None:
    """Nobody reads: writing returns all the same, and what did not fit is counted."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w") as out:
        lines = LineWriter(out, most_queued=10)
        for _ in range(2000):
            lines.write("x" * 1000)
        dropped = lines.dropped
        late_reader = threading.Thread(target=read.read)
        late_reader.start()
        lines.close()
        out.close()
        late_reader.join()

    assert dropped > 1000


def test_closing_does_not_wait_for_ever() -> None:
    """A reader that never reads costs the close its time-out, no more."""
    reader, writer = os.pipe()
    out = os.fdopen(writer, "w")
    lines = LineWriter(out, most_queued=10, close_timeout_s=0.01)
    for _ in range(2000):
        lines.write("x" * 1000)
    lines.close()
    os.close(reader)  # ends the thread that is stuck
    lines._thread.join(0.5)
    with suppress(OSError):
        out.close()

    assert lines.dropped > 1000


def test_a_reader_that_left_is_survived() -> None:
    """Lines to a closed pipe are lost and counted."""
    reader, writer = os.pipe()
    os.close(reader)
    out = os.fdopen(writer, "w", buffering=1)
    lines = LineWriter(out)
    lines.write("x")
    lines.close()
    with suppress(OSError):
        out.close()

    assert lines.dropped >= 1


def test_a_stream_that_is_not_utf_8_gets_escapes() -> None:
    """One odd character costs no line."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w", encoding="ascii") as out:
        lines = LineWriter(out)
        for line in ("one", "€", "three"):
            lines.write(line)
        lines.close()
        out.close()

        assert read.read() == "one\n\\u20ac\nthree\n"


def test_processes_that_share_a_pipe_tear_no_line() -> None:
    """Lines of both come out whole and in order, though the pipe is full all the time."""
    reader, writer = os.pipe()
    with (
        os.fdopen(reader, "rb", buffering=0) as read,
        os.fdopen(os.dup(writer), "w", encoding="utf-8") as one,
        os.fdopen(writer, "w", encoding="utf-8") as two,
    ):
        expected = {letter: [f"{letter} {n} {'é' * (n % 300)}" for n in range(1000)] for letter in "ab"}
        shared = [LineWriter(out, shared=True, close_timeout_s=30) for out in (one, two)]
        for lines in zip(*expected.values()):
            for writing, line in zip(shared, lines):
                writing.write(line)

        def close_both() -> None:
            for writing in shared:
                writing.close()

        closing = threading.Thread(target=close_both)
        closing.start()
        data = b""
        while len(data.splitlines()) < 2000 or not data.endswith(b"\n"):
            data += read.read(5000)
        closing.join()

    told = data.decode().splitlines()
    assert {letter: [line for line in told if line.startswith(letter)] for letter in "ab"} == expected


def test_a_reader_that_left_is_told_of_once() -> None:
    """However many lines are lost."""
    told: list[Exception] = []
    reader, writer = os.pipe()
    os.close(reader)
    out = os.fdopen(writer, "w", buffering=1)
    lines = LineWriter(out, rest_s=0.001, on_broken=told.append)
    for number in range(3):
        lines.write("x")
        deadline = threading.Event()
        while lines.dropped <= number:
            deadline.wait(0.001)
    lines.close()
    with suppress(OSError):
        out.close()

    assert [type(error) for error in told] == [BrokenPipeError]
