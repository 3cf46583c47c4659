"""TraceSource: files and the generator alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.replay.trace_source import TraceSource
from tests.loadtest.replay import test_mooncake
from tests.loadtest.replay.trace_files import written


def test_a_name_of_a_kind_is_generated(tmp_path: Path) -> None:
    """As many requests as wanted, others for another seed."""
    source = TraceSource.of("documents")
    assert source.name == "documents"
    assert source.sample(50, 1).requests == 50
    assert source.sample(50, 1) == source.sample(50, 1) != source.sample(50, 2)


def test_a_path_is_read_and_sampled(tmp_path: Path) -> None:
    """It has no more requests than it has."""
    lines = [test_mooncake.line(n, 10 + n, 1, []) for n in range(8)]
    source = TraceSource.of(str(written(tmp_path / "chats.jsonl", lines)))
    assert source.name == "chats"
    assert source.sample(5, 0).requests == 5
    assert source.sample(50, 3).requests == 8
    assert source.sample(5, 0) != source.sample(5, 1)


def test_what_is_neither_is_told_what_there_is() -> None:
    """A typing error in a kind's name."""
    with pytest.raises(ValueError, match=r"'conversations' is no file, and not one of .*conversation, documents"):
        TraceSource.of("conversations")
