"""What a start says: every setting in force, names that are none, and where it listens."""

from __future__ import annotations

import logging

from gateway.setting_values import Listen
from gateway.settings import Settings

_log = logging.getLogger(__name__)


def announce(settings: Settings, *, metrics: Listen, admin: Listen, api: Listen | None = None) -> None:
    """Log it. The addresses are real ones, not port 0. An indexer has no API."""
    _log.info("settings", extra={"fields": {"settings": settings.effective()}})
    for line in settings.unknown:
        _log.warning("%s", line)
    listening = {"api": api, "metrics": metrics, "admin": admin}
    urls = {name: f"http://{address}" for name, address in listening.items() if address is not None}
    if api is not None and settings.tls_cert is not None:
        urls["api"] = f"https://{api}"
    _log.info("listening", extra={"fields": {"urls": urls}})
