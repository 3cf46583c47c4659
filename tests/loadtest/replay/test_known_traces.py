"""Which traces a folder knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.replay.known_traces import KnownTraces


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Path:
    log = tmp_path / "log.jsonl"
    log.write_text("one\n")
    return log


@pytest.mark.parametrize("changed", ["log.jsonl", "log.jsonl.1"])
def test_a_file_that_changed_is_another_trace(tmp_path: Path, log: Path, changed: str) -> None:
    """The part before a rotation belongs to it."""
    known = KnownTraces(tmp_path / "traces.json")
    known.add({"log": str(log)}, [])
    known.add({"log": str(log)}, ["log"])
    (tmp_path / changed).write_text("two\n")

    with pytest.raises(ValueError, match=r"runs of another trace named log: rename .*log\.jsonl"):
        known.add({"log": str(log)}, ["log"])


def test_a_file_named_like_a_generated_trace_is_another_one(tmp_path: Path, log: Path) -> None:
    """Mooncake's file is called conversation, too."""
    known = KnownTraces(tmp_path / "traces.json")
    known.add({"conversation": "conversation"}, [])

    with pytest.raises(ValueError, match="another trace named conversation"):
        known.add({"conversation": str(log)}, ["conversation"])


def test_a_trace_without_runs_may_change(tmp_path: Path, log: Path) -> None:
    """Nothing would be mixed."""
    known = KnownTraces(tmp_path / "traces.json")
    known.add({"log": str(log), "mixed": "mixed"}, [])
    log.write_text("two\n")
    known.add({"log": str(log)}, ["mixed"])
    known.add({"log": str(log), "mixed": "mixed"}, ["log", "mixed"])


@pytest.mark.parametrize("text", ["", "[1]", '{"log": 1}', "{"])
def test_a_file_of_other_things_is_named(tmp_path: Path, text: str) -> None:
    """Rather than replaced."""
    (tmp_path / "traces.json").write_text(text)

    with pytest.raises(ValueError, match=r"traces\.json"):
        KnownTraces(tmp_path / "traces.json").add({}, [])
