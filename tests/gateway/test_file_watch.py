"""Files that are replaced are noticed, once a change, however it comes about."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.file_watch import FileWatch


def rewritten(path: Path) -> None:
    path.write_text("two words")


def swapped(path: Path) -> None:
    """As Kubernetes does with a volume of a ConfigMap or Secret."""
    other = path.with_name("other")
    other.write_text("one")
    link = path.with_name("link")
    link.symlink_to(other)
    link.replace(path)


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [rewritten, swapped, removed])
def test_a_change_is_noticed_once(tmp_path: Path, change: object) -> None:
    """Of one file among several."""
    assert callable(change)
    path, still = tmp_path / "file", tmp_path / "still"
    for each in (path, still):
        each.write_text("one")
    watch = FileWatch(still, path)
    assert not watch.changed()
    change(path)
    assert watch.changed()
    assert not watch.changed()


def test_a_file_that_comes_is_a_change(tmp_path: Path) -> None:
    """It need not be there at the start."""
    watch = FileWatch(tmp_path / "file")
    assert not watch.changed()
    (tmp_path / "file").write_text("")
    assert watch.changed()
