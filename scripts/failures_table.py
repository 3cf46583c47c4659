"""Write the tables of docs/failures.md from the code; with --check only say whether they are current."""

from __future__ import annotations

from gateway.fleet.outcome import Outcome
from gateway.setting_field import PREFIX
from gateway.settings import Settings
from scripts.written_page import WrittenPage

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


PAGE = WrittenPage("docs/failures.md", "scripts/failures_table.py", {"endings": endings, "limits": limits})

if __name__ == "__main__":
    PAGE.main()
