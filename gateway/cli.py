"""argv -> a command. The only reader of argv, and the only importer of ``loadtest``, for the demo."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvloop

import router_strategies
from gateway import __version__
from gateway.admin_client import AdminRefusedError, AdminUnreachableError
from gateway.alive_command import add_alive_command, run_alive
from gateway.client_keys import hashed
from gateway.explain_command import add_explain_command, run_explain
from gateway.order_commands import add_order_commands, run_order
from gateway.setting_field import SettingsError
from gateway.settings import Settings

_CONFIGURATION_WRONG = 1
_UNREACHABLE = 2
_INTERRUPTED = 130  # as shells say it: 128 + SIGINT


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that ``argv`` names; exit with its status."""
    arguments = _parser().parse_args(argv)
    try:
        sys.exit(arguments.run(arguments))
    except SettingsError as error:
        sys.exit(_say(f"prefixway: {error}"))
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        sys.exit(_say(f"prefixway: {where}{error.strerror or error}"))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prefixway", description="A prefix-aware routing gateway for vLLM.")
    parser.add_argument("--version", action="version", version=f"prefixway {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="run the gateway, as PREFIXWAY_* in the environment say",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n\n".join(["strategies (PREFIXWAY_STRATEGY):", *map(_described, router_strategies.available())]),
    )
    serve.add_argument("--workers", type=int, metavar="N", help="processes that serve (default: PREFIXWAY_WORKERS)")
    serve.add_argument("--worker", help=argparse.SUPPRESS)  # given to a worker by its supervisor
    serve.set_defaults(run=_serve)
    index = commands.add_parser(
        "index", help="follow replicas' events into Redis, for gateways elsewhere; serves nobody"
    )
    index.set_defaults(run=_index)
    demo = commands.add_parser("demo", help="simulated replicas, a gateway and a load under four strategies")
    demo.add_argument("--stay", action="store_true", help="keep the gateway up afterwards")
    demo.add_argument("--seed", type=int, default=1, help="of the load (default: 1)")
    demo.add_argument(
        "--turns", type=_count, metavar="N", help="of each conversation: fewer take less time (default: 5)"
    )
    demo.set_defaults(run=_demo)
    hash_key = commands.add_parser("hash-key", help="read an API key, print what may stand for it in a file of keys")
    hash_key.set_defaults(run=_hash_key)
    add_alive_command(commands, _alive)
    add_order_commands(commands, _order)
    add_explain_command(commands, _explain)
    _add_check(commands)
    return parser


def _add_check(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        help="prove that prefix routing works, replica by replica, and say what mends it",
        description="Reads the same settings as `serve` and sends each replica a few small requests. "
        "Exit status: 0 fine, 1 configuration wrong, 2 degraded or unreachable.",
    )
    check.add_argument("--config-only", action="store_true", help="check the settings, and ask no replica")
    check.add_argument("--admin", metavar="URL", default="", help="a running gateway (default: the one here, if any)")
    check.add_argument("--json", action="store_true", help="verdicts and findings as JSON")
    check.set_defaults(run=_check)


def _described(strategy: str) -> str:
    return f"{strategy}\n{textwrap.indent(router_strategies.describe(strategy), '    ')}"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return int(text)


def _say(message: str) -> int:
    print(message, file=sys.stderr)
    return _CONFIGURATION_WRONG


def _serve(arguments: argparse.Namespace) -> int:
    from gateway.serving import serve

    environ = os.environ  # noqa: TID251 - the one place that hands it over
    return serve(environ, workers=arguments.workers, worker=arguments.worker)


def _index(_: argparse.Namespace) -> int:
    from gateway.serving import index

    return index(os.environ)  # noqa: TID251 - handed over, as for serve


def _alive(arguments: argparse.Namespace) -> int:
    return _asked(lambda settings: run_alive(arguments, settings))


def _order(arguments: argparse.Namespace) -> int:
    return _asked(lambda settings: (run_order(arguments, settings), 0))


def _check(arguments: argparse.Namespace) -> int:
    from gateway.check_command import run_check

    logging.disable(logging.WARNING)  # what is wrong is told in the table
    text, status = run_check(arguments, Settings.from_env(os.environ))  # noqa: TID251 - handed over, as for serve
    print(text)
    return status


def _explain(arguments: argparse.Namespace) -> int:
    def explain(settings: Settings) -> tuple[str, int]:
        text, is_served = run_explain(arguments, settings)
        return text, 0 if is_served else _UNREACHABLE

    return _asked(explain)


def _asked(question: Callable[[Settings], tuple[str, int]]) -> int:
    """Print what a running gateway was asked; the exit status."""
    settings = Settings.from_env(os.environ)  # noqa: TID251 - handed over, as for serve
    try:
        text, status = question(settings)
    except AdminRefusedError as error:
        return _say(f"prefixway: {error}")
    except AdminUnreachableError as error:
        _say(f"prefixway: {error}")
        return _UNREACHABLE
    print(text)
    return status


def _hash_key(_: argparse.Namespace) -> int:
    """From standard input: what stands in argv, everybody on the machine can read."""
    try:
        print(hashed(sys.stdin.read().strip()))
    except ValueError as error:
        return _say(f"prefixway: {error}")
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from loadtest.demo import DemoOptions, run_demo

    options = DemoOptions() if arguments.turns is None else DemoOptions().with_turns(arguments.turns)
    try:
        uvloop.run(run_demo(_demo_gateway, stay=arguments.stay, seed=arguments.seed, options=options))
    except KeyboardInterrupt:
        print("\nstopped")
    return 0


@asynccontextmanager
async def _demo_gateway(urls: Sequence[str], strategy: str) -> AsyncIterator[str]:
    """The real gateway on free ports of this machine, once it knows its replicas and their tokenizer."""
    from gateway.app import running_gateway

    settings = Settings.from_env(
        {
            "PREFIXWAY_REPLICAS": ",".join(urls),
            "PREFIXWAY_STRATEGY": strategy,
            "PREFIXWAY_ACCESS_LOG": "false",
            "PREFIXWAY_BACKGROUND_CHECKS": "false",
            "PREFIXWAY_PROBE_INTERVAL_S": "0.5",
            **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
        }
    )
    async with running_gateway(settings) as gateway:
        await gateway.until_complete()
        yield gateway.url
