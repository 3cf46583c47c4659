"""Mooncake's format."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from loadtest.replay import mooncake
from loadtest.replay.trace_lines import TraceError
from tests.loadtest.replay import public_traces
from tests.loadtest.replay.trace_files import ANYTHING, read_or_refused, written


def line(at_ms: float, tokens: int, output: int, ids: list[int]) -> dict[str, object]:
    return {"timestamp": at_ms, "input_length": tokens, "output_length": output, "hash_ids": ids}


def test_reads_times_lengths_and_full_blocks(tmp_path: Path) -> None:
    """The last, partly full block has no id here."""
    file = written(tmp_path / "chats.jsonl", [line(3000, 1100, 5, [7, 8, 9]), line(4500, 1024, 6, [7, 8])])
    trace = mooncake.read(file)
    assert (trace.name, trace.block_tokens, trace.is_open) == ("chats", 512, True)
    first, second = (session.turns[0] for session in trace.sessions)
    assert (first.prompt_tokens, first.output_tokens, first.blocks) == (1100, 5, (0, 1))
    assert (second.prompt_tokens, second.blocks) == (1024, (0, 1))
    assert [session.begins_s for session in trace.sessions] == [0.0, 1.5]


def test_lines_are_put_in_order_of_time_and_no_output_counts_as_one_token(tmp_path: Path) -> None:
    """Several writers, one file; an engine always makes a token."""
    file = written(tmp_path / "a.jsonl", [line(900, 20, 0, []), line(100, 10, 3, [])])
    trace = mooncake.read(file)
    assert [session.turns[0].prompt_tokens for session in trace.sessions] == [10, 20]
    assert [session.turns[0].output_tokens for session in trace.sessions] == [3, 1]


def test_ids_that_name_a_block_alone_are_not_taken_for_prefixes(tmp_path: Path) -> None:
    """5 after 1 is another prefix than 5 after 2."""
    file = written(tmp_path / "a.jsonl", [line(0, 1024, 1, [1, 5]), line(0, 1024, 1, [2, 5])])
    first, second = mooncake.read(file).sessions
    assert not set(first.turns[0].blocks) & set(second.turns[0].blocks)


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    """What comes after it may be anything."""
    file = written(tmp_path / "a.jsonl", [line(0, 10, 1, []), "garbage"])
    assert mooncake.read(file, limit=1).requests == 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (line(0, 2000, 1, [1]), "1 hash_ids do not fit 2000 tokens"),
        (line(0, 512, 1, [1, 2, 3]), "3 hash_ids do not fit 512 tokens"),
        (line(0, 0, 1, []), "input_length"),
        (line(0, 2**40, 1, []), "input_length"),
        (line(0, 10, -1, []), "output_length"),
        (line(-5, 10, 1, []), "timestamp"),
        ({"timestamp": 0, "input_length": 10}, "output_length"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, bad: dict[str, object], why: str) -> None:
    """The second line here."""
    file = written(tmp_path / "a.jsonl", [line(0, 10, 1, []), bad])
    with pytest.raises(TraceError, match=rf"a\.jsonl:2: .*{why}"):
        mooncake.read(file)


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    """It would replay to nothing."""
    with pytest.raises(TraceError, match="no request"):
        mooncake.read(written(tmp_path / "a.jsonl", []))


@settings(max_examples=50)
@given(ANYTHING)
def test_whatever_a_file_holds_it_is_a_trace_or_an_error_that_says_why(data: bytes) -> None:
    """Never another exception; and what is read can be replayed."""
    trace = read_or_refused(mooncake.read, data)
    for session in trace.sessions if trace else ():
        assert session.begins_s >= 0
        turn = session.turns[0]
        assert turn.output_tokens >= 1
        assert len(turn.blocks) == turn.prompt_tokens // 512


def test_the_published_conversations_are_read(tmp_path: Path) -> None:
    """7,218 requests in 37 minutes, most of whose chats have one turn."""
    trace = mooncake.read(public_traces.path("conversation.jsonl"))
    assert trace.requests == 7218
    assert trace.sessions[-1].begins_s == 2223.0
    assert 4000 < len({session.key for session in trace.sessions}) < 5000
