"""The configuration alone: what would stop a start is an error, what would make it useless a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config_check import check_config
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.gateway.check.proving import words


def _check(**settings: str) -> dict[str, str]:
    return words(list(check_config(Settings.from_env({f"PREFIXWAY_{k.upper()}": v for k, v in settings.items()}))))


def test_nothing_set_is_fine_and_says_what_is_left_open() -> None:
    assert _check() == {"settings": "ok", "replicas": "skipped", "tokenizer": "skipped"}


def test_a_tokenizer_that_loads_is_fine() -> None:
    found = _check(replicas="a=http://10.0.0.1:8000", tokenizer=str(DEFAULT_FOLDER))

    assert found == {"settings": "ok", "replicas": "ok", "tokenizer": "ok"}


def test_one_that_is_not_there_or_whose_template_is_none_is_a_finding(tmp_path: Path) -> None:
    assert _check(tokenizer=str(tmp_path))["tokenizer"] == "tokenizer_absent"
    (tmp_path / "tokenizer.json").write_bytes((DEFAULT_FOLDER / "tokenizer.json").read_bytes())
    assert _check(tokenizer=f"m={tmp_path}")["tokenizer"] == "ok"
    (tmp_path / "chat_template.jinja").write_text("{% for %}")
    broken = list(check_config(Settings.from_env({"PREFIXWAY_TOKENIZER": f"m={tmp_path}"})))[-1]
    assert (broken.word, broken.detail.split(": ")[:2]) == ("tokenizer_absent", ["of m", "a chat template"])


@pytest.mark.parametrize(
    ("name", "value"),
    [("replica", "x"), ("replicas", "ftp://x"), ("tokenizer", "=x"), ("tls_cert", "/nowhere"), ("kv_events", "tcp://")],
)
def test_what_would_stop_a_start_and_unknown_names_are_errors(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"PREFIXWAY_{name.upper()}"):
        _check(**{name: value})


@pytest.mark.parametrize("finder", ["dns:vllm.models:8000", "kubernetes:models/app=vllm"])
def test_replicas_that_have_to_be_looked_up_are_not(finder: str) -> None:
    """The configuration can be right where no network is."""
    found = list(
        check_config(Settings.from_env({"PREFIXWAY_DISCOVERY": finder, "PREFIXWAY_KUBERNETES_API": "https://h"}))
    )

    assert [(v.word, v.detail) for v in found if v.check == "replicas"] == [("ok", f"looked up when it runs: {finder}")]


def test_an_api_that_is_none_is_an_error() -> None:
    with pytest.raises(SettingsError, match="PREFIXWAY_KUBERNETES_API"):
        _check(discovery="kubernetes:app=vllm", kubernetes_api="somewhere")
