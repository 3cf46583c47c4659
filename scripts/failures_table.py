"""Write the tables of docs/failures.md from the code; with --check only say whether they are current."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.fleet.outcome import Outcome
from gateway.setting_field import PREFIX
from gateway.settings import Settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "failures.md"
LIMITS = (
    "connect_timeout_s",
    "first_byte_timeout_s",
    "chunk_timeout_s",
    "retry_budget",
    "stall_s",
    "probe_interval_s",
    "probe_timeout_s",
    "upload_timeout_s",
    "send_timeout_s",
    "max_body_mb",
    "max_uploads_mb",
    "queue_timeout_s",
    "linger_s",
    "drain_s",
)


def endings() -> str:
    """A row for each :class:`Outcome`."""
    rows = ["| ending | when | of the server it says | back-off | tried again |", "|---|---|---|---|---|"]
    for outcome in Outcome:
        back_off = "Retry-After, else 1 s; at most 30 s" if outcome.backs_off else ""
        rows.append(
            f"| `{outcome.label}` | {outcome.when} | {outcome.sign.value} | {back_off} | {outcome.again.value} |"
        )
    return "\n".join(rows)


def limits() -> str:
    """The settings that bound how long anything takes, as the README has them."""
    wanted = tuple(f"| `{PREFIX}{name.upper()}` " for name in LIMITS)
    head, rule, *rows = Settings.table().splitlines()
    return "\n".join([head, rule, *(row for row in rows if row.startswith(wanted))])


def with_tables(text: str) -> str:
    """The page's text with fresh tables."""
    return _replaced(_replaced(text, "endings", endings()), "limits", limits())


def _replaced(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: written by `python scripts/failures_table.py` -->\n", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}{table}\n{end}{after}"


if __name__ == "__main__":
    current = PAGE.read_text()
    fresh = with_tables(current)
    if "--check" in sys.argv:
        sys.exit("docs/failures.md: run python scripts/failures_table.py" if fresh != current else 0)
    PAGE.write_text(fresh)
