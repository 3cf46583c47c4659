"""A decision log as a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from loadtest.replay import decision_trace
from loadtest.replay.trace_lines import TraceError
from tests.loadtest.replay.trace_files import ANYTHING, read_or_refused, written

START_MS = 1_700_000_000_000
DEEP = 2**64 - 5


def line(after_ms: float, tokens: int | None, ids: list[int], **more: object) -> dict[str, object]:
    return {
        "timestamp": START_MS + after_ms,
        "input_length": tokens,
        "output_length": 20,
        "block_tokens": 128,
        "hash_ids": ids,
        "session": None,
        "model": "m",
        "candidates": [{"replica": "a", "cost": [0.5]}],
        **more,
    }


def test_reads_requests_in_order_of_time_with_their_prefixes(tmp_path: Path) -> None:
    """Lines stand in order of their ends; hashes are of 64 bits."""
    file = written(tmp_path / "log.jsonl", [line(2500, 300, [9, DEEP]), line(0, 200, [9])])
    trace = decision_trace.read(file)
    assert (trace.name, trace.block_tokens, trace.is_open) == ("log", 128, True)
    assert [session.begins_s for session in trace.sessions] == [0.0, 2.5]
    assert [session.turns[0].blocks for session in trace.sessions] == [(0,), (0, 1)]
    assert [session.turns[0].prompt_tokens for session in trace.sessions] == [200, 300]


def test_sessions_are_the_log_s_own_where_it_has_them(tmp_path: Path) -> None:
    """Else inferred, and the notes say for how many."""
    lines = [line(0, 300, [1], session=77), line(1, 300, [2], session=77), line(2, 300, [2]), line(3, 300, [2])]
    trace = decision_trace.read(written(tmp_path / "log.jsonl", lines))
    keys = [session.key for session in trace.sessions]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert trace.notes == ("2 requests without a session: inferred",)


def test_what_cannot_be_replayed_is_left_out_and_counted(tmp_path: Path) -> None:
    """Unknown prompts, blocks of a rarer size; guessed outputs are told too."""
    named = {"session": 1}
    lines = [
        line(0, None, [], **named),
        line(1, 300, [1], **named, output_length=10),
        line(2, 300, [1], **named, output_length=None),
        line(3, 300, [1], **named, output_length=50),
        line(4, 300, [1], **named, output_length=40, model="n"),
        line(5, 300, [1], **named, block_tokens=256),
    ]
    trace = decision_trace.read(written(tmp_path / "log.jsonl", lines))
    assert [session.turns[0].output_tokens for session in trace.sessions] == [10, 40, 50, 40]
    assert trace.notes == (
        "1 of 6 requests had a prompt that was not known: left out",
        "1 of 6 had blocks of another size than 128 tokens: left out",
        "1 answers of unknown length: taken for 40 tokens",
        "2 models, taken for one",
    )


def test_a_line_that_was_not_written_to_its_end_costs_only_itself(tmp_path: Path) -> None:
    """A gateway was killed as it wrote, and the next one went on; or it is being written now."""
    named = line(0, 300, [1], session=1)
    written(tmp_path / "log.jsonl.1", [named, '{"timestamp": 17', named])
    trace = decision_trace.read(written(tmp_path / "log.jsonl", [named, '{"timesta']))
    assert trace.requests == 3
    assert trace.notes == ("2 lines that were not written to their end: left out",)


def test_without_any_known_answer_a_usual_length_is_taken(tmp_path: Path) -> None:
    """A log of answers that carry no usage."""
    trace = decision_trace.read(written(tmp_path / "log.jsonl", [line(0, 300, [1], output_length=None)]))
    assert trace.sessions[0].turns[0].output_tokens == 128
    assert trace.notes[0] == "1 answers of unknown length: taken for 128 tokens"


def test_the_rotated_beginning_is_read_too(tmp_path: Path) -> None:
    """Prefixes go on over the rotation."""
    written(tmp_path / "log.jsonl.1", [line(0, 300, [5, 6])])
    file = written(tmp_path / "log.jsonl", [line(9000, 300, [5, 7])])
    first, second = decision_trace.read(file).sessions
    assert (first.begins_s, second.begins_s) == (0.0, 9.0)
    assert first.turns[0].blocks[0] == second.turns[0].blocks[0]
    assert first.turns[0].blocks[1] != second.turns[0].blocks[1]


@pytest.mark.parametrize(
    ("bad", "why"),
    [(line(0, 100, [1]), "1 hash_ids are more than 100 tokens have"), (line(0, 300, [1], block_tokens=0), ">= 1")],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, bad: dict[str, object], why: str) -> None:
    """The second line here."""
    file = written(tmp_path / "a.jsonl", [line(0, 10, []), bad])
    with pytest.raises(TraceError, match=rf"a\.jsonl:2: .*{why}"):
        decision_trace.read(file)
    assert decision_trace.read(file, limit=1).requests == 1


def test_a_log_of_unknown_prompts_is_no_trace(tmp_path: Path) -> None:
    """There is nothing to replay."""
    with pytest.raises(TraceError, match="prompt was known"):
        decision_trace.read(written(tmp_path / "a.jsonl", [line(0, None, [])]))


@settings(max_examples=50)
@given(ANYTHING)
def test_whatever_a_file_holds_it_is_a_trace_or_an_error_that_says_why(data: bytes) -> None:
    """Never another exception."""
    trace = read_or_refused(decision_trace.read, data)
    assert trace is None or all(session.turns[0].prompt_tokens >= 1 for session in trace.sessions)
