"""Whether manifests are what Kubernetes' own schemas say, and have nothing that those do not name."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import kubernetes_validate

from tests.deploy.kustomize import Manifest

#: The oldest with all that is used here (sidecars that begin first), and the newest whose schemas are at hand.
VERSIONS = ("1.29", "1.37")
_CRDS = Path(__file__).parents[1] / "data" / "crds"


def schema_fault(manifest: Manifest, version: str) -> str:
    """What is wrong with it first; "": nothing. A kind without a schema is wrong."""
    try:
        schema = _CRDS / f"{manifest['kind'].lower()}.json"
        if schema.exists():
            jsonschema.validate(manifest, json.loads(schema.read_text()))
        else:
            kubernetes_validate.validate(manifest, version, strict=True)
    except jsonschema.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        return str(error.message)
    return ""
