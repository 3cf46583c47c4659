"""Write the schemas of tests/data/crds from definitions of resources: ``python scripts/crd_schemas.py SOURCE FILE...``

``SOURCE`` says where the files are from, and their licence. What Kubernetes prunes in silence, these schemas refuse: no
key that a definition does not name. Rules in CEL are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

SCHEMAS = Path(__file__).resolve().parent.parent / "tests" / "data" / "crds"
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
    },
}


def closed_schema(definition: dict[str, Any], source: str) -> dict[str, Any]:
    """Of the version that is stored."""
    spec = definition["spec"]
    version = next(version for version in spec["versions"] if version["storage"])
    schema = _closed(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {
        "apiVersion": {"const": f"{spec['group']}/{version['name']}"},
        "kind": {"const": spec["names"]["kind"]},
        "metadata": _METADATA,
    }
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    del schema["properties"]["status"]  # the cluster's to write
    return {"$comment": source, **schema}


def _closed(part: Any) -> Any:
    """Without descriptions and what only Kubernetes understands; objects take the named keys only."""
    if isinstance(part, list):
        return [_closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(value) for key, value in part.items() if not key.startswith("x-kubernetes-")}
    if isinstance(closed.get("description"), str):
        del closed["description"]
    if isinstance(closed.get("pattern"), str):  # of Go, where flags may stand anywhere
        closed["pattern"] = closed["pattern"].replace("^(?i)", "(?i)^")
    if isinstance(part.get("properties"), dict) and not part.get("x-kubernetes-preserve-unknown-fields"):
        closed["additionalProperties"] = False
    return closed


if __name__ == "__main__":
    SCHEMAS.mkdir(parents=True, exist_ok=True)
    for file in sys.argv[2:]:
        definition = yaml.safe_load(Path(file).read_text())
        text = json.dumps(closed_schema(definition, sys.argv[1]), indent=1)
        (SCHEMAS / f"{definition['spec']['names']['singular']}.json").write_text(text + "\n")
