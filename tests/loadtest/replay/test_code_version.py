"""Which code made a run."""

from __future__ import annotations

from pathlib import Path

from loadtest.replay.code_version import code_version


def test_it_changes_with_any_module_and_nothing_else(tmp_path: Path) -> None:
    module = tmp_path / "gateway" / "router" / "router.py"
    module.parent.mkdir(parents=True)
    module.write_text("a = 1")
    first = code_version(tmp_path)
    (tmp_path / "README.md").write_text("read me")
    same = code_version(tmp_path)
    module.write_text("a = 2")

    assert same == first
    assert code_version(tmp_path) != first


def test_ours_has_one() -> None:
    assert code_version() == code_version()
    assert len(code_version()) == 8
