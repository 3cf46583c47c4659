"""deploy/compose/compose.yaml, read as Docker Compose reads it: with merge keys, and variables in what is text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.deploy.dockerfile import ROOT

PATH = ROOT / "deploy" / "compose" / "compose.yaml"
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::-([^}]*))?\})")
_SIZES = {"m": 1 << 20, "g": 1 << 30}


class Mount(NamedTuple):
    """A file or folder of the host, as a container sees it. ``source`` of a named volume: its name."""

    source: str
    target: str
    mode: str = ""

    @property
    def is_of_the_host(self) -> bool:
        return self.source.startswith((".", "/"))

    @property
    def path(self) -> Path:
        """Where it lies."""
        return (PATH.parent / self.source).resolve()


class Service(NamedTuple):
    """One service. ``fields``: as they are written, variables filled in."""

    name: str
    fields: Mapping[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.fields.get("environment", {}))

    @property
    def command(self) -> list[str]:
        """What is run, but for an image's own entry point."""
        return [*self.fields.get("entrypoint", []), *self.fields.get("command", [])]

    @property
    def health_check(self) -> list[str]:
        """The command; empty where there is none."""
        kind, *command = map(str, self.fields["healthcheck"].get("test", [""]))
        assert kind in ("", "CMD")
        return command

    @property
    def is_ours(self) -> bool:
        """Made from our own image."""
        return "build" in self.fields

    @property
    def profiles(self) -> list[str]:
        return list(self.fields.get("profiles", []))

    @property
    def replicas(self) -> int:
        return int(self.fields.get("scale", 1))

    @property
    def mounts(self) -> list[Mount]:
        return [Mount(*text.split(":")) for text in self.fields.get("volumes", [])]

    @property
    def published(self) -> list[list[str]]:
        """Each as ``[host address, port, port of the container]``; the address may be missing."""
        return [str(text).split(":") for text in self.fields.get("ports", [])]

    @property
    def memory_bytes(self) -> int:
        return size(self.fields["mem_limit"])

    def waits_for(self, condition: str) -> list[str]:
        """The services that must be so before it starts."""
        wanted = self.fields.get("depends_on", {})
        return [name for name, how in wanted.items() if how["condition"] == condition]


class ComposeFile(NamedTuple):
    """The whole file."""

    services: Mapping[str, Service]
    secrets: Mapping[str, str]
    volumes: tuple[str, ...]

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> ComposeFile:
        """As with this environment."""
        document = _filled(yaml.safe_load(PATH.read_text()), environ or {})
        services = {name: Service(name, fields) for name, fields in document["services"].items()}
        secrets = {name: secret["file"] for name, secret in document["secrets"].items()}
        return cls(services, secrets, tuple(document["volumes"]))


def size(text: str) -> int:
    """``2g`` in bytes."""
    return int(text[:-1]) * _SIZES[text[-1]]


def seconds(text: str) -> int:
    """``30s`` or ``20m``."""
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def _filled(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, environ) for item in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: match[1] or environ.get(match[2]) or match[3] or "", value)
    return value
