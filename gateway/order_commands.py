"""``prefixway strategy``, ``drain`` and ``undrain``: orders from the command line, by way of the admin port."""

from __future__ import annotations

import argparse
import getpass
import socket
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from gateway.admin_client import AdminClient, default_url
from gateway.settings import Settings

#: A command: what it did, in a line or two. Raises as :class:`AdminClient` does.
Command = Callable[[AdminClient, argparse.Namespace], str]

_SCOPES = {"fleet": "in all gateways", "process": "in this process only: there is no Redis"}


def add_order_commands(commands: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Add them to a parser's sub-commands; ``run`` is what each runs, with ``order`` as the :data:`Command`."""
    strategy = commands.add_parser("strategy", help="show or change where requests go, in all gateways")
    actions = strategy.add_subparsers(required=True, metavar="ACTION")
    setting = _add(actions, "set", "use another strategy until it is cleared", set_strategy, run)
    setting.add_argument("name", metavar="NAME")
    _add(actions, "clear", "go back to the configured strategy", clear_strategy, run)
    _add(actions, "show", "what is in force, and who ordered it", show_strategy, run)
    for name, help_, order in (
        ("drain", "send a server no new requests, until undrain", drain),
        ("undrain", "let a server take requests again", undrain),
    ):
        _add(commands, name, help_, order, run).add_argument("server", metavar="ID", help="as /replicas names it")


def run_order(arguments: argparse.Namespace, settings: Settings) -> str:
    """What the command did. Raises as :class:`AdminClient` does."""
    with AdminClient(arguments.admin or default_url(settings), settings.admin_token) as client:
        order: Command = arguments.order
        return order(client, arguments)


def set_strategy(client: AdminClient, arguments: argparse.Namespace) -> str:
    answer = client.ask("POST", "/strategy", {"name": arguments.name, **_signed(arguments)})
    return _done(f"strategy {answer['order']['value']}", answer)


def clear_strategy(client: AdminClient, arguments: argparse.Namespace) -> str:
    answer = client.ask("DELETE", "/strategy", _signed(arguments))
    return _done(f"strategy {answer['strategy']}, as configured", answer)


def show_strategy(client: AdminClient, _: argparse.Namespace) -> str:
    answer = client.ask("GET", "/strategy")
    if (order := answer["order"]) is None:
        return f"strategy {answer['strategy']}, as configured"
    who = f"by {order['author']} at {order['at']}, version {order['version']}, {_SCOPES[answer['scope']]}"
    return f"strategy {answer['strategy']} (configured: {answer['configured']})\nordered: {order['value']}, {who}"


def drain(client: AdminClient, arguments: argparse.Namespace) -> str:
    answer = client.ask("POST", "/drain", {"server": arguments.server, **_signed(arguments)})
    return _done(f"server {arguments.server} takes no new requests", answer)


def undrain(client: AdminClient, arguments: argparse.Namespace) -> str:
    answer = client.ask("POST", "/undrain", {"server": arguments.server, **_signed(arguments)})
    return _done(f"server {arguments.server} takes requests again", answer)


def _add(
    commands: Any, name: str, help_: str, order: Command, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_)
    parser.add_argument("--admin", metavar="URL", default="", help="the admin port (default: PREFIXWAY_ADMIN_LISTEN)")
    parser.add_argument("--author", default="", help="who orders it (default: user@host)")
    parser.set_defaults(run=run, order=order)
    return parser


def _signed(arguments: argparse.Namespace) -> dict[str, str]:
    return {"author": arguments.author or _user_at_host(), "id": uuid4().hex}


def _user_at_host() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in many containers
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _done(what: str, answer: dict[str, Any]) -> str:
    return f"{what}: {_SCOPES[answer['scope']]} (version {answer['order']['version']})"
