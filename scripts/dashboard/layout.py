"""Layout: rows and panels as the JSON that Grafana reads. Does not know what they say.

The forms are those of Grafana 10 and later (schema 39): what an exported dashboard holds, less what is the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from scripts.dashboard.panels import Form, Panel, Row, Steps

Json = dict[str, Any]

_WIDTH = 24
_TEXT_HEIGHT = 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_NO_STEPS: Steps = (("blue", None),)
_CUSTOM: Mapping[Form, Json] = {
    Form.LINES: {"lineWidth": 1, "fillOpacity": 5, "showPoints": "auto"},
    Form.STACK: {"lineWidth": 1, "fillOpacity": 40, "showPoints": "never", "stacking": {"mode": "normal"}},
    Form.BARS: {"drawStyle": "bars", "lineWidth": 0, "fillOpacity": 80, "stacking": {"mode": "normal"}},
}


def dashboard(rows: Sequence[Row]) -> Json:
    """The whole of it."""
    return {
        "uid": "prefixway-routing",
        "id": None,
        "title": "Prefixway: Is routing working?",
        "description": "What Prefixway's gateways predict of their replicas' caches, what came of it, and why.",
        "tags": ["prefixway", "vllm"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_placed(rows), start=1)],
    }


def _variables() -> list[Json]:
    source = {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "current": {},
        "options": [],
        "multi": False,
        "includeAll": False,
    }
    return [
        source,
        _variable("namespace", "Namespace", "prefixway_index_block_owners"),
        _variable("job", "Job", 'prefixway_index_block_owners{namespace=~"$namespace"}'),
        _variable("instance", "Gateway", 'prefixway_index_block_owners{namespace=~"$namespace", job=~"$job"}'),
        _variable("model_name", "Model", 'prefixway_requests_total{namespace=~"$namespace", job=~"$job"}'),
    ]


def _variable(label: str, shown: str, series: str) -> Json:
    """All its values at first. ``.*`` holds for series without the label, too."""
    query = f"label_values({series}, {label})"
    return {
        "type": "query",
        "name": label,
        "label": shown,
        "datasource": _SOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
    }


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    y = 0
    for row in rows:
        yield {"type": "row", "title": row.title, "collapsed": False, "panels": [], "gridPos": _place(0, y, _WIDTH, 1)}
        yield _text(row.good) | {"gridPos": _place(0, y + 1, _WIDTH, _TEXT_HEIGHT)}
        x, y = 0, y + 1 + _TEXT_HEIGHT
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y = 0, y + row.height
            yield _panel(panel) | {"gridPos": _place(x, y, panel.width, row.height)}
            x += panel.width
        y += row.height


def _place(x: int, y: int, width: int, height: int) -> Json:
    return {"x": x, "y": y, "w": width, "h": height}


def _text(content: str) -> Json:
    return {"type": "text", "title": "", "transparent": True, "options": {"mode": "markdown", "content": content}}


def _panel(panel: Panel) -> Json:
    kind, targets = panel.form.value.split(",")[0], zip(ascii_uppercase, panel.queries.items())
    return {
        "type": kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "targets": [_target(panel.form, ref, legend, query) for ref, (legend, query) in targets],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": [_column(*each) for each in panel.columns.items()]},
        "options": _options(panel),
        **({"transformations": _as_one_table(panel)} if panel.form is Form.TABLE else {}),
    }


def _target(form: Form, ref: str, legend: str, query: str) -> Json:
    target: Json = {"refId": ref, "datasource": _SOURCE, "expr": query}
    if form is Form.TABLE:
        return target | {"format": "table", "instant": True, "range": False}
    of_now = form is Form.NUMBERS
    return target | {"legendFormat": legend, "instant": of_now, "range": not of_now}


def _defaults(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "thresholds": _thresholds(panel.steps)}
    if panel.nothing:
        of_nothing = {"match": "null+nan", "result": {"text": panel.nothing}}  # a share of nothing is NaN, not missing
        defaults |= {"noValue": panel.nothing, "mappings": [{"type": "special", "options": of_nothing}]}
    if panel.form is Form.NUMBERS:
        return defaults | {"color": {"mode": "thresholds"}}
    if panel.form is Form.TABLE:
        return defaults | {"custom": {"align": "auto", "cellOptions": {"type": "auto"}}}
    style = {"thresholdsStyle": {"mode": "dashed" if panel.steps else "off"}}
    limits = {"min": 0} if panel.most is None else {"min": 0, "max": panel.most}
    return defaults | limits | {"color": {"mode": "palette-classic"}, "custom": _CUSTOM[panel.form] | style}


def _thresholds(steps: Steps) -> Json:
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in steps or _NO_STEPS]}


def _options(panel: Panel) -> Json:
    if panel.form is Form.NUMBERS:
        is_named = any(panel.queries)
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "orientation": "vertical",
            "textMode": "value_and_name" if is_named else "value",
        }
    if panel.form is Form.TABLE:
        return {"showHeader": True, "cellHeight": "sm"}
    return {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _column(name: str, shown: tuple[str, Steps]) -> Json:
    unit, steps = shown
    properties: list[Json] = [{"id": "unit", "value": unit}]
    if steps:
        properties.append({"id": "thresholds", "value": _thresholds(steps)})
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}


def _as_one_table(panel: Panel) -> list[Json]:
    """A row for each set of labels, a column for each query. With one query Grafana calls its column plainly Value."""
    is_one = len(panel.queries) == 1
    names = {"Value" if is_one else f"Value #{ref}": column for ref, column in zip(ascii_uppercase, panel.queries)}
    renamed = {"replica": "Replica", "name": "Finding"} | names
    return [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": renamed}},
    ]
