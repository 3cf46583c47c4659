"""Static discovery: the setting and the file, the file as it is now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.fleet.discovery.static import StaticDiscovery, read_replicas_file
from gateway.fleet.server_spec import ServerSpec


def _write(path: Path, text: str) -> Path:
    """Replace the file as a ConfigMap does: the new one is another inode."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)
    return path


def test_reads_urls_and_mappings(tmp_path: Path) -> None:
    """A list, or a list under ``replicas``; each entry a URL or a mapping."""
    entries = "- http://a:1\n- {id: b, url: 'http://b:1', speed: 2, events: 'tcp://{host}:5'}\n"
    listed = read_replicas_file(_write(tmp_path / "r.yaml", entries))
    nested = read_replicas_file(_write(tmp_path / "n.yaml", "replicas:\n" + entries))

    assert [(spec.id, spec.speed) for spec in listed] == [("a:1", 1.0), ("b", 2.0)]
    assert nested == listed


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "cannot be read"),
        ("replicas: 3", "must be a list of replicas"),
        ("- {id: x}", "replica 1: must be a URL, or a mapping with 'url'"),
        ("- http://a:1\n- {url: 'ftp://b'}", "replica 2: 'ftp://b': the scheme"),
        ("- http://a:1\n- http://a:1", "two replicas are named"),
    ],
)
def test_a_bad_file_names_file_entry_and_fault(tmp_path: Path, text: str, fault: str) -> None:
    """What is wrong and where."""
    with pytest.raises(ValueError, match=fault):
        read_replicas_file(_write(tmp_path / "r.yaml", text))


def test_a_changed_file_changes_the_fleet_and_a_bad_one_does_not(tmp_path: Path) -> None:
    """Reload adds to the setting's replicas; garbage keeps what was; a mended file counts again."""
    found: list[list[str]] = []

    def remember(specs: Sequence[ServerSpec]) -> None:
        found.append([spec.id for spec in specs])

    path = _write(tmp_path / "r.yaml", "- http://a:1\n")
    discovery = StaticDiscovery("fixed=http://f:1", path, remember)
    _write(path, "- http://a:1\n- http://b:1\n")
    discovery.poll()
    discovery.poll()
    _write(path, "- [nonsense\n")
    discovery.poll()
    path.unlink()
    discovery.poll()
    _write(path, "- http://b:1\n")
    discovery.poll()

    assert found == [["fixed", "a:1"], ["fixed", "a:1", "b:1"], ["fixed", "b:1"]]


def test_a_bad_setting_stops_the_start(tmp_path: Path) -> None:
    """At start there is nothing to keep: the error is raised."""
    with pytest.raises(ValueError, match="needs a host"):
        StaticDiscovery("http://", None, lambda specs: None)
