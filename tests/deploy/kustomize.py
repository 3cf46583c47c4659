"""What ``kubectl apply -k`` would apply: the manifests of deploy/k8s, put together by the real kubectl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"

Manifest = dict[str, Any]

#: What a user writes before the example can be applied.
SECRETS = {
    "redis-password": "a password",
    "replica-api-key": "a-key-of-replicas",
    "hash-secret": "a secret of hashes",
    "admin-token": "a-token-of-admins",
    "hf-token": "hf_token",
}
CLIENT_KEY = "a-key-of-a-client"


def written(folder: Path) -> Path:
    """A copy of deploy/ in ``folder``, with the files that its example wants."""
    tree = Path(shutil.copytree(DEPLOY, folder / "deploy"))
    example = tree / "k8s" / "example"
    (example / "secret.env").write_text("".join(f"{key}={value}\n" for key, value in SECRETS.items()))
    (example / "keys").write_text(f"team-a={CLIENT_KEY}\n")
    return tree


def kustomizations(tree: Path) -> Iterator[Path]:
    """The folders that can be applied, in a copy of deploy/ or in itself."""
    for file in sorted((tree / "k8s").rglob("kustomization.yaml")):
        if yaml.safe_load(file.read_text())["kind"] == "Kustomization":
            yield file.parent


def kustomize(folder: Path) -> str:
    """The YAML of ``kubectl kustomize``. Raises ``ValueError`` with what it says is wrong."""
    command = [str(Path(sys.executable).with_name("kubectl")), "kustomize", str(folder)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def rendered(folder: Path) -> list[Manifest]:
    """All that is in a folder."""
    return list(yaml.load_all(kustomize(folder), yaml.CSafeLoader))
