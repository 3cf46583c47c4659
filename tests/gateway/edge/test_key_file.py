"""API keys in a file that changes under a running gateway."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from gateway.edge.auth import ApiKeys
from gateway.edge.key_file import KeyFile
from gateway.errors import Unauthorized
from tests.fakes.waiting import eventually


def opens(keys: ApiKeys, key: str) -> bool:
    try:
        return keys.check([(b"x-api-key", key.encode())]) is not None
    except Unauthorized:
        return False


def replace(path: Path, text: str) -> None:
    """As editors do: the new one is another inode."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def test_a_changed_file_gives_and_takes_keys(tmp_path: Path) -> None:
    """Both old and new while it has both, then only the new."""
    path = tmp_path / "keys"
    path.write_text("a=old-mellon")
    keys = ApiKeys(required=True)
    file = KeyFile(path, keys)
    assert opens(keys, "old-mellon")

    replace(path, "a=old-mellon\na=new-mellon\n")
    file.poll()
    assert (opens(keys, "old-mellon"), opens(keys, "new-mellon")) == (True, True)
    replace(path, "a=new-mellon\n")
    file.poll()
    assert (opens(keys, "old-mellon"), opens(keys, "new-mellon")) == (False, True)


def test_a_mounted_secret_changes_by_a_symbolic_link(tmp_path: Path) -> None:
    """Kubernetes swaps the link ``..data``; the file's own path stays the same."""
    for version, key in (("1", "old-mellon"), ("2", "new-mellon")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "keys").write_text(key)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "keys").symlink_to("..data/keys")
    keys = ApiKeys(required=True)
    file = KeyFile(tmp_path / "keys", keys)

    (tmp_path / "..new").symlink_to("2")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    file.poll()
    assert (opens(keys, "old-mellon"), opens(keys, "new-mellon")) == (False, True)


def test_a_file_gone_bad_changes_nothing_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong, unreadable or gone: the keys before stay, the fault is told once without a key, until it is mended."""
    path = tmp_path / "keys"
    path.write_text("a=good-mellon")
    keys = ApiKeys(required=True)
    file = KeyFile(path, keys)

    listed = "- name: a\n  key: half-a-sesame\n"
    for text in ("good, half-a-sesame=", "- {key: half-a-sesame", f"keys:\n{listed}", f"<p>\n{listed}", None):
        if text is None:
            path.unlink()
        else:
            replace(path, text)
        with caplog.at_level(logging.DEBUG):
            caplog.clear()
            file.poll()
            file.poll()
        assert len(caplog.records) == 1
        assert str(path) in caplog.text
        assert "sesame" not in caplog.text
        assert str(path) in file.fault
        assert opens(keys, "good-mellon")

    replace(path, "a=mended-mellon")
    file.poll()
    assert file.fault == ""
    assert (opens(keys, "good-mellon"), opens(keys, "mended-mellon")) == (False, True)


def test_an_empty_file_means_nobody_and_never_everybody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the start and later, loudly."""
    path = tmp_path / "keys"
    path.write_text("# none\n")
    keys = ApiKeys(required=True)
    file = KeyFile(path, keys)
    assert not opens(keys, "")
    with pytest.raises(Unauthorized):
        keys.check([])
    assert "every request is refused" in caplog.text

    replace(path, "a=one-mellon")
    file.poll()
    assert opens(keys, "one-mellon")
    replace(path, "")
    file.poll()
    assert not opens(keys, "one-mellon")
    with pytest.raises(Unauthorized):
        keys.check([])


def test_a_wrong_file_stops_the_start(tmp_path: Path) -> None:
    """There is nothing to keep."""
    with pytest.raises(ValueError, match="No such file"):
        KeyFile(tmp_path / "keys", ApiKeys(required=True))


async def test_it_watches_by_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log line names who may ask, and has no key."""
    path = tmp_path / "keys"
    path.write_text("a=sesame-1")
    keys = ApiKeys(required=True)
    watch = asyncio.get_running_loop().create_task(KeyFile(path, keys, interval_s=0.01).run())
    with caplog.at_level(logging.INFO):
        replace(path, "b=sesame-2")
        await eventually(lambda: opens(keys, "sesame-2"))
    watch.cancel()

    assert "in force: b" in caplog.text
    assert "sesame" not in caplog.text
