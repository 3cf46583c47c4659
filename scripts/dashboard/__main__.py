"""Write the dashboard; with --check only say whether the file is current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scripts.dashboard.layout import dashboard
from scripts.dashboard.rows import caches, choices, events, glance, redis, replicas, requests, timing

ROWS = (
    glance.ROW,
    caches.ROW,
    timing.ROW,
    choices.ROW,
    replicas.ROW,
    events.ROW,
    redis.ROW,
    requests.ROW,
)
FILE = Path(__file__).resolve().parent.parent.parent / "deploy" / "grafana" / "routing.json"


def text() -> str:
    """What belongs into the file."""
    return json.dumps(dashboard(ROWS), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("deploy/grafana/routing.json: run python -m scripts.dashboard" if FILE.read_text() != text() else 0)
    FILE.write_text(text())
