"""Cluster: manifests as what they are to each other in Kubernetes."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.deploy.kustomize import Manifest

WORKLOADS = ("Deployment", "StatefulSet")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


class MissingReference(Exception):
    """A container could not be started: something it names is not there."""


class Cluster:
    """``objects`` as kubectl would apply them."""

    def __init__(self, objects: Sequence[Manifest]) -> None:
        self.objects = objects

    def kind(self, *kinds: str) -> list[Manifest]:
        """All of these kinds."""
        return [each for each in self.objects if each["kind"] in kinds]

    def get(self, kind: str, name: str) -> Manifest:
        """One, by the name it was given: a suffix that says what is in it is not part of that."""
        found = [each for each in self.kind(kind) if re.fullmatch(rf"{name}(-[a-z0-9]{{10}})?", _name(each))]
        assert len(found) == 1, f"{kind} {name}: {[_name(each) for each in found]}"
        return found[0]

    def has(self, kind: str, name: str) -> bool:
        """By its whole name."""
        return any(_name(each) == name for each in self.kind(kind))

    @property
    def workloads(self) -> list[Manifest]:
        return self.kind(*WORKLOADS)

    def selected(self, labels: Mapping[str, str]) -> list[Manifest]:
        """The workloads whose pods have these labels."""
        return [each for each in self.workloads if labels.items() <= pod(each)["metadata"]["labels"].items()]

    def environ(self, container: Manifest, fields: Mapping[str, str]) -> dict[str, str]:
        """What the kubelet would set for a container; ``fields``: of its pod, by their path.

        Later ones go before earlier ones, and ``$(NAME)`` is known only if it stands before.
        https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
        """
        environ: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            environ |= self._data("ConfigMap", source["configMapRef"]["name"])
        for item in container.get("env", ()):
            value = self._value(item, fields, environ)
            if value is not None:
                environ[item["name"]] = value
        return environ

    def arguments(self, container: Manifest, environ: Mapping[str, str]) -> list[str]:
        """What follows the image's entry point, or replaces it."""
        given = [*container.get("command", ()), *container.get("args", ())]
        return [_expanded(text, environ) for text in given]

    def _value(self, item: Manifest, fields: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
        if "value" in item:
            return _expanded(item["value"], environ)
        (kind, source), *_ = item["valueFrom"].items()
        if kind == "fieldRef":
            return fields[source["fieldPath"]]
        data = self._data("Secret" if kind == "secretKeyRef" else "ConfigMap", source["name"])
        if source["key"] not in data and not source.get("optional"):
            raise MissingReference(f"{item['name']}: {source['name']} has no {source['key']}")
        return data.get(source["key"])

    def _data(self, kind: str, name: str) -> dict[str, str]:
        if not self.has(kind, name):
            raise MissingReference(f"there is no {kind} {name}")
        data = next(each for each in self.kind(kind) if _name(each) == name)["data"]
        return {key: base64.b64decode(text).decode() for key, text in data.items()} if kind == "Secret" else dict(data)


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise MissingReference(f"{text}: {match[1]} is not known here")
        return environ[match[1]]

    return _REFERENCE.sub(value, text)


def secret(name: str, values: Mapping[str, str]) -> Manifest:
    """As ``kubectl create secret generic`` makes one."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def pod(workload: Manifest) -> Manifest:
    """Its template."""
    template: Manifest = workload["spec"]["template"]
    return template


def containers(workload: Manifest) -> list[Manifest]:
    """All of a pod's, sidecars too."""
    spec = pod(workload)["spec"]
    return [*spec.get("initContainers", ()), *spec["containers"]]


def container(workload: Manifest, name: str) -> Manifest:
    return next(each for each in containers(workload) if each["name"] == name)


def ports(workload: Manifest) -> dict[str, int]:
    """Of its containers, by name."""
    return {port["name"]: port["containerPort"] for each in containers(workload) for port in each.get("ports", ())}


def probes(each: Manifest) -> Iterator[tuple[str, Manifest]]:
    """Those of a container, with their names."""
    yield from ((name, probe) for name, probe in each.items() if name.endswith("Probe"))


def quantity(text: str) -> float:
    """Bytes, or cores (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/)."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()  # type: ignore[union-attr]
    units: dict[str, float] = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    return float(number) * units[unit]


def _name(manifest: Manifest) -> str:
    name: Any = manifest["metadata"]["name"]
    return str(name)
