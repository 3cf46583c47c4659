"""Write the PrometheusRule of deploy/k8s from the alerts of deploy/prometheus; with --check only say whether it is
current. What Prometheus reads and what its operator takes differ by a head only.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
RULE = DEPLOY / "k8s" / "monitoring" / "prometheus-rule.yaml"
HEAD = """\
# Written by `python scripts/prometheus_rule.py` from deploy/prometheus/alerts.yaml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: prefixway
spec:
"""


def prometheus_rule(alerts: str) -> str:
    """The alerts, as they are written, under the head of a PrometheusRule."""
    groups = alerts[alerts.index("\ngroups:") + 1 :]
    return HEAD + textwrap.indent(groups, "  ")


if __name__ == "__main__":
    fresh = prometheus_rule(ALERTS.read_text())
    if "--check" in sys.argv:
        current = RULE.exists() and RULE.read_text() == fresh
        sys.exit(0 if current else f"{RULE.name}: run python scripts/prometheus_rule.py")
    RULE.write_text(fresh)
