"""``prefixway alive``: ask the gateway, or the indexer, of this machine whether it lives, by its metrics port.

For container engines, whose health checks are commands. Knows where to ask from the settings alone: the environment of
the container is the same for both.
"""

from __future__ import annotations

import argparse
from http.client import HTTPConnection, HTTPException
from typing import Any

from gateway.setting_field import SettingsError
from gateway.settings import Settings

_TIMEOUT_S = 2.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here


def add_alive_command(commands: Any, run: Any) -> None:
    """The command and what it takes; ``run`` is handed what was given."""
    alive = commands.add_parser(
        "alive",
        help="whether the gateway of this machine answers: the health check of a container",
        description="Asks the metrics port for /livez, or /readyz. Exit status: 0 it is so, 1 it is not.",
    )
    alive.add_argument("--ready", action="store_true", help="whether it takes requests, too")
    alive.set_defaults(run=run)


def run_alive(arguments: argparse.Namespace, settings: Settings, *, timeout_s: float = _TIMEOUT_S) -> tuple[str, int]:
    """What was answered, and the exit status. Raises ``SettingsError`` where nobody can know whom to ask."""
    host, port = settings.metrics_listen
    if port == 0:
        raise SettingsError("PREFIXWAY_METRICS_LISTEN has port 0, which is any: `prefixway alive` needs a fixed one")
    path = "/readyz" if arguments.ready else "/livez"
    connection = HTTPConnection(_WILDCARDS.get(host, host), port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode("latin-1").strip()
    except (OSError, HTTPException) as error:
        return f"{settings.metrics_listen}{path}: {str(error) or type(error).__name__}", 1
    finally:
        connection.close()
    return text, 0 if answer.status == 200 else 1
