"""A start says what is in force and where it listens."""

from __future__ import annotations

import logging

import pytest

from gateway.observe.announcement import announce
from gateway.setting_values import Listen
from gateway.settings import Settings


def test_settings_odd_names_and_addresses(caplog: pytest.LogCaptureFixture) -> None:
    """Secrets masked; real ports."""
    settings = Settings.from_env({"PREFIXWAY_STRATEGI": "x", "PREFIXWAY_API_KEYS": "sk-mellon"})
    with caplog.at_level(logging.INFO):
        announce(settings, api=Listen("::", 80), metrics=Listen("127.0.0.1", 81), admin=Listen("127.0.0.1", 82))
    fields = [record.__dict__.get("fields", {}) for record in caplog.records]

    assert fields[0]["settings"]["PREFIXWAY_API_KEYS"] == "***"
    assert "PREFIXWAY_STRATEGI is no setting" in caplog.records[1].getMessage()
    assert fields[2]["urls"] == {
        "api": "http://[::]:80",
        "metrics": "http://127.0.0.1:81",
        "admin": "http://127.0.0.1:82",
    }


def test_with_a_certificate_the_api_speaks_tls(caplog: pytest.LogCaptureFixture) -> None:
    """The other ports do not."""
    settings = Settings.from_env({"PREFIXWAY_TLS_CERT": "/c.pem", "PREFIXWAY_TLS_KEY": "/k.pem"})
    with caplog.at_level(logging.INFO):
        announce(settings, api=Listen("::1", 80), metrics=Listen("::1", 81), admin=Listen("::1", 82))

    urls = caplog.records[-1].__dict__["fields"]["urls"]
    assert urls == {"api": "https://[::1]:80", "metrics": "http://[::1]:81", "admin": "http://[::1]:82"}
