"""``prefixway check``: the chain from a prompt to a hit proved, replica by replica, and what mends it where it breaks.

Exit status: 0 all is well, 1 something is configured wrong, 2 something is degraded or does not answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import uvloop

from gateway.admin_client import AdminClient, AdminRefusedError, AdminUnreachableError, default_url
from gateway.check.finding import KINDS, Finding, found
from gateway.check.verdict import Verdict, fine, skipped, wrong
from gateway.check_run import check_run
from gateway.config_check import check_config
from gateway.setting_field import SettingsError
from gateway.settings import Settings

_GATEWAY = "gateway"
_COVERAGE = "coverage"
_ADMIN_TIMEOUT_S = 5.0
#: Checks of a replica without which its chain is not proved.
_PROOFS = frozenset({"tokenizer", "template", "reuse", "events", "salt", "replay", "the rest", "all"})


def run_check(arguments: argparse.Namespace, settings: Settings) -> tuple[str, int]:
    """What to print, and the exit status. Raises ``SettingsError``."""
    verdicts = list(check_config(settings))
    if not arguments.config_only:
        verdicts += (checked := uvloop.run(_of_replicas(settings)))
        verdicts += (told := _of_gateway(arguments.admin, settings, checked))
        if not checked and all(verdict.skipped for verdict in told):
            raise SettingsError(f"nothing to check: {_absence(settings)}")
        if settings.uses_redis:
            verdicts.append(skipped("redis", "", "not touched: the gateway that runs tells how it is"))
    findings = distinct(verdict.finding for verdict in verdicts if verdict.finding is not None)
    text = as_json(verdicts, findings) if arguments.json else as_text(verdicts, findings)
    return text, exit_status(findings)


def _absence(settings: Settings) -> str:
    if settings.discovery.kind == "static":
        return "set PREFIXWAY_REPLICAS or PREFIXWAY_REPLICAS_FILE"
    return f"PREFIXWAY_DISCOVERY={settings.discovery} finds no replica"


async def _of_replicas(settings: Settings) -> list[Verdict]:
    async with check_run(settings) as run:
        progress = _Progress()
        try:
            return await run.check(progress.show)
        finally:
            progress.show("")


class _Progress:
    """A line on standard error, written over where that is a terminal, and only once where it is not."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
        elif text and not self._shown:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
        self._shown = True


# A gateway that runs already


def _of_gateway(admin: str, settings: Settings, checked: Iterable[Verdict]) -> list[Verdict]:
    """What it found by itself, and what became of its predictions. One that was not named need not be there."""
    try:
        with AdminClient(admin or default_url(settings), settings.admin_token, timeout_s=_ADMIN_TIMEOUT_S) as client:
            status = client.ask("GET", "/status")
            runs = fine(_GATEWAY, "", f"version {status['version']}, runs")
            return [runs, *told_by(status), *coverage_by(status)]
    except (AdminUnreachableError, AdminRefusedError) as error:
        why = str(error)
    except (AttributeError, KeyError, TypeError):
        why = "its /status is not as this version's"
    if admin:
        return [wrong(_GATEWAY, "", "unreachable", why if admin in why else f"{admin}: {why}")]
    ids = dict.fromkeys(verdict.replica_id for verdict in checked if verdict.replica_id)
    none = [skipped(_COVERAGE, id_, "no gateway to ask what became of its predictions") for id_ in ids]
    return [skipped(_GATEWAY, "", f"none asked: {why}"), *none]


def told_by(status: Mapping[str, Any]) -> list[Verdict]:
    """The findings on a gateway's status page, as verdicts. Those of another version may have other names."""
    rows = status.get("findings", ())
    known = [row for row in rows if isinstance(row, dict) and row.get("name") in KINDS]
    return [
        Verdict(_GATEWAY, row["replica"], row["detail"], found(row["name"], row["replica"], row["detail"]))
        for row in known
    ]


def coverage_by(status: Mapping[str, Any]) -> Iterator[Verdict]:
    """How much of what a gateway predicted of each replica could be verified, and how far that was wrong."""
    for row in status.get("replicas", ()):
        truth, id_ = row.get("truth") or {}, row["id"]
        coverage, accuracy = truth.get("coverage"), truth.get("accuracy", {})
        requests = sum(truth.get("requests", {}).values())
        if not coverage:
            why = f"none of {requests} predictions was verified" if requests else "nothing was predicted of it yet"
            yield skipped(_COVERAGE, id_, why)
            continue
        shares = [f"{100 * coverage.get(source, 0):.1f} % by {source}" for source in ("usage", "counters")]
        detail = f"of its prompt tokens {' and '.join(shares)} verified"
        if (error := accuracy.get("error")) is not None:
            detail += f", {100 * error:.2f} % of those by usage predicted wrongly"
        yield fine(_COVERAGE, id_, detail)


# What is printed


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Each name once a replica, the first detail."""
    return list({(finding.name, finding.replica_id): finding for finding in reversed(list(findings))}.values())[::-1]


def exit_status(findings: Sequence[Finding]) -> int:
    """What is configured wrong counts before what is degraded."""
    return min((finding.severity.value for finding in findings), default=0)


def as_json(verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> str:
    """For programs."""
    page = {
        "status": exit_status(findings),
        "verdicts": [
            {"replica": verdict.replica_id, "check": verdict.check, "verdict": verdict.word, "detail": verdict.detail}
            for verdict in verdicts
        ],
        "findings": [
            {
                "name": finding.name,
                "replica": finding.replica_id,
                "severity": finding.severity.name.lower(),
                "detail": finding.detail,
                "mend": finding.mend,
            }
            for finding in findings
        ],
    }
    return json.dumps(page, indent=2)


def as_text(verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> str:
    """For people: a table, then each finding with what mends it."""
    rows = [("REPLICA", "CHECK", "VERDICT", "DETAIL")]
    rows += [(verdict.replica_id or "-", verdict.check, verdict.word, verdict.detail) for verdict in verdicts]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip() for row in rows]
    for finding in findings:
        where = finding.replica_id or "the gateway"
        lines += ["", f"{where}: {finding.name}: {KINDS[finding.name].meaning}", f"    seen: {finding.detail}"]
        lines.append(f"    mend: {finding.mend}")
    if not findings:
        lines += ["", _conclusion(verdicts)]
    return "\n".join(lines)


def _conclusion(verdicts: Iterable[Verdict]) -> str:
    """Where nothing is wrong: a chain with a link that could not be tried is not proved."""
    skips = {(verdict.check, bool(verdict.replica_id)) for verdict in verdicts if verdict.skipped}
    if ("replicas", False) in skips or any((check, True) in skips for check in _PROOFS):
        return "Nothing wrong was found; what was skipped is not proved."
    return "All is well."
