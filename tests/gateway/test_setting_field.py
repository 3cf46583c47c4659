"""One setting: read by its reader or from a file, shown without secrets; and what the environment tells beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.setting_field import (
    SettingsError,
    declared,
    in_cluster,
    read_value,
    setting,
    shown,
    table,
    unknown_names,
)
from gateway.setting_values import Finder, Listen, Secret, read_count, read_credential


@dataclass(frozen=True)
class _Two:
    """A number, a secret, and something that is no setting."""

    most: int = setting("3", "How many.", read_count, unit="pieces")
    word: Secret = setting("", "To get in.", read_credential)
    other: int = 0


def _read(**environ: str) -> list[object]:
    return [read_value(item, environ) for item in declared(_Two)]


def test_a_setting_is_read_from_text_or_is_its_default(tmp_path: Path) -> None:
    assert _read() == [3, ""]
    assert _read(PREFIXWAY_MOST=" 5 ", PREFIXWAY_WORD="x") == [5, "x"]
    (tmp_path / "word").write_text("y\n")
    assert _read(PREFIXWAY_MOST="", PREFIXWAY_WORD_FILE=str(tmp_path / "word")) == [3, "y"]


def test_a_fault_names_the_setting_and_never_a_secret() -> None:
    with pytest.raises(SettingsError, match="PREFIXWAY_MOST='x': must be a whole number above 0"):
        _read(PREFIXWAY_MOST="x")
    with pytest.raises(SettingsError, match=r"^PREFIXWAY_WORD: must be visible"):
        _read(PREFIXWAY_WORD="ä")


def test_the_table_has_a_row_a_setting() -> None:
    assert table(_Two).splitlines()[2:] == [
        "| `PREFIXWAY_MOST` | `3` pieces | How many. |",
        "| `PREFIXWAY_WORD` |  | To get in. Also as `_FILE`. |",
    ]


def test_names_that_nobody_reads_are_told_but_not_those_that_kubernetes_injects() -> None:
    environ = {"PREFIXWAY_MOSt": "1", "PREFIXWAY_PORT": "tcp://1", "PREFIXWAY_VALKEY_SERVICE_HOST": "x", "PATH": "/"}
    assert unknown_names(_Two, environ) == ("PREFIXWAY_MOSt is no setting; did you mean PREFIXWAY_MOST?",)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, ""),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://10.96.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443"),
    ],
)
def test_a_pod_is_told_where_its_clusters_api_is(environ: dict[str, str], url: str) -> None:
    assert in_cluster(environ) == url


def test_shown_as_text() -> None:
    assert [shown(value) for value in (Secret("x"), Listen("::", 1), ("a", "b"), None, {"a": 1})] == [
        "***",
        "[::]:1",
        "a,b",
        "",
        "a=1",
    ]
    assert shown(Finder("kubernetes", "app=vllm", "prod", "http")) == "kubernetes:prod/app=vllm:http"
