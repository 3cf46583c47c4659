"""The public port as settings want it, and what is said when they cannot be had."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.edge.auth import ApiKeys
from gateway.edge_parts import admission_of, key_file_of, rules_of, tls_of
from gateway.errors import Overloaded
from gateway.setting_field import SettingsError
from gateway.settings import Settings

TLS = Path(__file__).parents[1] / "data" / "tls"


def settings(**given: str) -> Settings:
    return Settings.from_env({f"PREFIXWAY_{name.upper()}": value for name, value in given.items()})


def test_without_a_certificate_there_is_no_tls() -> None:
    """The default."""
    assert tls_of(settings()) is None


def test_a_certificate_and_its_key_make_tls() -> None:
    """Both files are read at the start."""
    files = tls_of(settings(tls_cert=str(TLS / "certificate.pem"), tls_key=str(TLS / "key.pem")))
    assert files is not None


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"tls_cert": "/nowhere.pem"}, "PREFIXWAY_TLS_CERT and PREFIXWAY_TLS_KEY go together"),
        ({"tls_key": "/nowhere.pem"}, "PREFIXWAY_TLS_CERT and PREFIXWAY_TLS_KEY go together"),
        ({"tls_cert": "/nowhere.pem", "tls_key": "/nowhere.pem"}, "/nowhere.pem"),
        (
            {"tls_cert": str(TLS / "certificate.pem"), "tls_key": str(TLS / "other-key.pem")},
            "PREFIXWAY_TLS_CERT",
        ),
    ],
)
def test_what_is_wrong_with_tls_is_said(given: dict[str, str], fault: str) -> None:
    """By the settings' names, and the file's."""
    with pytest.raises(SettingsError, match=fault):
        tls_of(settings(**given))


def test_a_key_file_that_broke_after_the_settings_were_read(tmp_path: Path) -> None:
    """Is a fault of the settings all the same."""
    path = tmp_path / "keys"
    path.write_text("a-good-key")
    given = settings(api_keys_file=str(path))
    path.unlink()
    with pytest.raises(SettingsError, match="PREFIXWAY_API_KEYS_FILE"):
        key_file_of(given, ApiKeys(required=True))
    assert key_file_of(settings(), ApiKeys()) is None


async def test_limits_are_those_of_the_settings() -> None:
    """One request at a time, and nobody waits."""
    admission = admission_of(settings(max_inflight="1", max_queue="0"), time.monotonic)
    ticket = admission.enter(1, 0, lambda _: None, lambda _: None)
    with pytest.raises(Overloaded):
        admission.enter(1, 0, lambda _: None, lambda _: None)
    ticket.release()


def test_rules_follow_the_keys() -> None:
    """With keys of our own a client's do not pass, and it sees no receipt."""
    assert b"authorization" in rules_of(settings(api_keys="mellon-1")).credentials.held_back
    assert not rules_of(settings(api_keys="mellon-1")).show_receipt
    assert b"authorization" not in rules_of(settings()).credentials.held_back
    assert rules_of(settings(model_aliases="a=b")).aliases == {"a": "b"}
