"""``prefixway explain``: what a running gateway would decide for a request body, as a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.admin_client import AdminClient, default_url
from gateway.settings import Settings

_COLUMNS = ("", "replica", "cost", "prefill", "promised", "held", "expected", "trust", "in flight", "memory", "why")


def add_explain_command(commands: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Add it to a parser's sub-commands; ``run`` is what it runs."""
    parser = commands.add_parser("explain", help="what would be decided for a request body now, and why")
    parser.add_argument("file", metavar="FILE", help="the body; -: standard input")
    parser.add_argument(
        "--path",
        default="",
        help="whose body it is, such as /v1/responses (default: by its fields; "
        "messages: a chat, prompt: completions, else embeddings)",
    )
    parser.add_argument("--strategy", default="", metavar="NAME", help="ask another strategy than the one in force")
    parser.add_argument("--admin", metavar="URL", default="", help="the admin port (default: PREFIXWAY_ADMIN_LISTEN)")
    parser.add_argument("--json", action="store_true", help="the whole answer, as JSON")
    parser.set_defaults(run=run)


def run_explain(arguments: argparse.Namespace, settings: Settings) -> tuple[str, bool]:
    """What to print, and whether some replica would be chosen.

    Raises as :class:`AdminClient` does, and ``OSError`` for a file that cannot be read.
    """
    body = sys.stdin.buffer.read() if arguments.file == "-" else Path(arguments.file).read_bytes()
    wanted = {name: value for name in ("path", "strategy") if (value := getattr(arguments, name))}
    with AdminClient(arguments.admin or default_url(settings), settings.admin_token) as client:
        answer = client.ask("POST", "/explain", body, wanted)
    text = json.dumps(answer, indent=2) if arguments.json else explained(answer)
    return text, answer["choice"] is not None


def explained(answer: Mapping[str, Any]) -> str:
    """The answer of /explain, for people."""
    lines = [_about_request(answer), _about_prompt(answer), ""]
    if answer["candidates"]:
        lines += [*_table([_COLUMNS, *(_row(each, answer["choice"]) for each in answer["candidates"])]), ""]
    for each in answer["excluded"]:
        fault = each["fault"] if each["fault"] != each["why"] else ""
        lines.append(f"{each['replica']} is out: {each['why']}{_in_brackets(fault)}")
    return "\n".join([*lines, _about_choice(answer)])


def _about_request(answer: Mapping[str, Any]) -> str:
    request = answer["request"]
    words = [f"{request['route']} for {request['model'] or 'any model'}"]
    if request["lora"]:
        words.append(f"an adapter of {request['namespace']}")
    if request["salted"]:
        words.append("salted")
    if not request["reads_cache"]:
        words.append("computed anew, cached or not")
    if request["kept_by"]:
        words.append(f"its response is kept by {request['kept_by']}")
    return f"{', '.join(words)}; strategy {answer['strategy']}"


def _about_prompt(answer: Mapping[str, Any]) -> str:
    prompt = answer["prompt"]
    if not prompt["tokens"]:
        why = _in_brackets(prompt["reason"] or "the strategy does not ask for it")
        return f"prompt not read{why}: planned with {prompt['planned_tokens']} tokens"
    blocks = " or ".join(f"{count} blocks of {size}" for size, count in prompt["matchable"].items())
    reasons = ", ".join(filter(None, (prompt["reason"], prompt["index_reason"])))
    known = "prompt of" if prompt["complete"] else "prompt that begins with"
    return f"{known} {prompt['tokens']} tokens; to be matched: {blocks or 'nothing'}{_in_brackets(reasons)}"


def _row(candidate: Mapping[str, Any], choice: Mapping[str, Any] | None) -> Sequence[str]:
    memory, confirmed = candidate["memory"], candidate["confirmed"]
    chosen = choice is not None and choice["replica"] == candidate["replica"]
    return (
        "*" if chosen else "",
        candidate["replica"],
        " ".join(f"{number:.6g}" for number in candidate["cost"]) or "-",
        _ms(candidate["prefill_s"]),
        _ms(candidate["promised_s"]),
        " ".join(f"{tier}={tokens}" for tier, tokens in confirmed.items()) or "-",
        str(candidate["expected_tokens"]),
        f"{candidate['trust']:g} {candidate['trust_reason']}",
        str(candidate["inflight"]),
        f"{memory['used_blocks']:g}+{memory['needed_blocks']:g}/{memory['capacity_blocks'] or '?'}",
        " ".join([*(f"{name}={number:.4g}" for name, number in candidate["parts"].items()), candidate["obstacle"]]),
    )


def _about_choice(answer: Mapping[str, Any]) -> str:
    choice = answer["choice"]
    if choice is None:
        return f"nobody: {answer['error']['message']}"
    equals = [id_ for id_ in choice["ties"] if id_ != choice["replica"]]
    tie = f"; {', '.join(equals)} cost as little" if equals else ""
    spared = f", {_ms(choice['avoided_s'])} of prefill spared" if choice["avoided_s"] else ""
    return f"{choice['replica']}, because: {choice['reason']}{spared}{tie}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""
