"""Dialogues: sessions whose turns wait for answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from loadtest.replay import dialogues
from loadtest.replay.trace_lines import TraceError
from tests.loadtest.replay import public_traces
from tests.loadtest.replay.trace_files import ANYTHING, read_or_refused, written


def turn(tokens: int, ids: list[int], **more: object) -> dict[str, object]:
    return {"input_length": tokens, "output_length": 4, "hash_ids": ids, **more}


def test_reads_sessions_with_their_turns_and_think_times(tmp_path: Path) -> None:
    """One begins each second; the key is the session's own."""
    file = written(
        tmp_path / "agents.jsonl",
        [{"session": 3, "turns": [turn(600, [0]), turn(1100, [0, 1, 2], think=9.5)]}, {"turns": [turn(512, [0])]}],
    )
    trace = dialogues.read(file)
    assert (trace.name, trace.block_tokens, trace.requests, trace.is_open) == ("agents", 512, 3, False)
    one, other = trace.sessions
    assert (one.key, one.begins_s, other.begins_s) == ("3", 0.0, 1.0)
    assert [(t.prompt_tokens, t.output_tokens, t.think_s) for t in one.turns] == [(600, 4, 0.0), (1100, 4, 9.5)]
    assert one.turns[1].blocks == (0, 1)
    assert other.turns[0].blocks == (0,)
    assert other.key != one.key


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"session": 1, "turns": []}, "length >= 1"),
        ({"session": 1}, "turns"),
        ({"session": 1, "turns": [turn(2000, [1])]}, "1 hash_ids do not fit 2000 tokens"),
        ({"session": 1, "turns": [turn(10, [], think=-1)]}, "think"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, bad: dict[str, object], why: str) -> None:
    """The second line here."""
    file = written(tmp_path / "a.jsonl", [{"session": 0, "turns": [turn(10, [])]}, bad])
    with pytest.raises(TraceError, match=rf"a\.jsonl:2: .*{why}"):
        dialogues.read(file)
    assert dialogues.read(file, limit=1).requests == 1


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    """It would replay to nothing."""
    with pytest.raises(TraceError, match="no session"):
        dialogues.read(written(tmp_path / "a.jsonl", [""]))


@settings(max_examples=50)
@given(ANYTHING)
def test_whatever_a_file_holds_it_is_a_trace_or_an_error_that_says_why(data: bytes) -> None:
    """Never another exception."""
    trace = read_or_refused(dialogues.read, data)
    assert trace is None or all(session.turns for session in trace.sessions)


def test_the_published_dialogues_are_read() -> None:
    """200 sessions of up to 60 turns, and prompts of up to 100,000 tokens."""
    trace = dialogues.read(public_traces.path("agentic_sessions.jsonl"))
    assert len(trace.sessions) == 200
    assert max(len(session.turns) for session in trace.sessions) == 60
    assert max(turn.prompt_tokens for session in trace.sessions for turn in session.turns) < 100_000
