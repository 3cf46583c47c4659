"""A start says what is in force and where it listens."""

from __future__ import annotations

import logging

import pytest

from gateway.observe.announcement import announce
from gateway.settings import Listen, Settings


def test_settings_odd_names_and_addresses(caplog: pytest.LogCaptureFixture) -> None:
    """Secrets masked; real ports."""
    settings = Settings.from_env({"PREFIXWAY_STRATEGI": "x", "PREFIXWAY_API_KEYS": "k1"})
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
