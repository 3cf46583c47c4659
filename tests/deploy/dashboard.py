"""The dashboard as Grafana would read it: panels, what they ask, and its variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent.parent.parent / "deploy" / "grafana" / "routing.json"
Json = dict[str, Any]


class Target(NamedTuple):
    """One query of a panel. ``legend``: of a table the name of its column."""

    panel: str
    legend: str
    expression: str

    def __str__(self) -> str:
        return f"{self.panel} / {self.legend}"


def read() -> Json:
    """The file."""
    dashboard: Json = json.loads(FILE.read_text())
    return dashboard


def panels(dashboard: Json) -> Iterator[Json]:
    """All, in rows that are closed too."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def targets(dashboard: Json) -> list[Target]:
    """Every query, with its variables as they stand there."""
    found = []
    for panel in panels(dashboard):
        columns = _columns(panel)
        for target in panel.get("targets", ()):
            legend = target.get("legendFormat") or columns.get(target["refId"], "")
            found.append(Target(panel["title"], legend, target["expr"]))
    return found


def variables(dashboard: Json) -> dict[str, Json]:
    """By name."""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def substituted(text: str, values: Mapping[str, str]) -> str:
    """As Grafana puts the values of variables in. Longer names first: ``$__rate_interval`` begins like ``$__rate``."""
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"${name}", values[name])
    return text


def since_the_start(expression: str) -> str:
    """The same of counters as they are, in place of how fast they grow: exact, and put together in the same way."""
    return re.sub(r"(?:rate|increase)\(([^\[]*)\[[^\]]*\]\)", r"\1", expression)


def _columns(panel: Json) -> dict[str, str]:
    """Of a table: the column that each query becomes, by the query's letter."""
    for transformation in panel.get("transformations", ()):
        renamed = transformation["options"].get("renameByName", {})
        if renamed:
            return {name.rpartition("#")[2].replace("Value", "A"): column for name, column in renamed.items()}
    return {}
