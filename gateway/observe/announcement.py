"""What a start says: every setting in force, names that are none, and where it listens."""

from __future__ import annotations

import logging

from gateway.settings import Listen, Settings

_log = logging.getLogger(__name__)


def announce(settings: Settings, *, metrics: Listen, admin: Listen, api: Listen | None = None) -> None:
    """Log it. The addresses are real ones, not port 0. An indexer has no API."""
    _log.info("settings", extra={"fields": {"settings": settings.effective()}})
    for line in settings.unknown:
        _log.warning("%s", line)
    listening = {"api": api, "metrics": metrics, "admin": admin}
    urls = {name: f"http://{address}" for name, address in listening.items() if address is not None}
    _log.info("listening", extra={"fields": {"urls": urls}})
