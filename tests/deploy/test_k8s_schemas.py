"""Every manifest under deploy/k8s is what Kubernetes takes: nothing unknown, nothing of a wrong type."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.cluster import Cluster, container, pod
from tests.deploy.kustomize import DEPLOY, Manifest, kustomize, rendered
from tests.deploy.strict_schemas import VERSIONS, schema_fault

_LARGEST = 262_144  # bytes of all annotations: client-side apply puts the whole object into one

Break = Callable[[Manifest], Any]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_manifests_are_valid(clusters: dict[str, Cluster], version: str) -> None:
    """Each object once, as the largest folder has it and as those have it that stand alone."""
    objects = {json.dumps(each, sort_keys=True): each for cluster in clusters.values() for each in cluster.objects}

    faults = {each["metadata"]["name"]: schema_fault(each, version) for each in objects.values()}

    assert {each["kind"] for each in objects.values()} > {"Deployment", "StatefulSet", "ServiceMonitor", "StorageClass"}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def _without_selector(deployment: Manifest) -> None:
    del deployment["spec"]["selector"]


def _broken() -> dict[str, tuple[str, str, Break]]:
    return {
        "unknown field": ("Deployment", "prefixway", lambda each: each["spec"].update(replicaCount=2)),
        "unknown field of a container": (
            "Deployment",
            "prefixway",
            lambda each: container(each, "gateway").update(image_pull_policy="Always"),
        ),
        "unknown field of a probe": (
            "StatefulSet",
            "vllm",
            lambda each: container(each, "vllm")["readinessProbe"]["httpGet"].update(url="/health"),
        ),
        "wrong type": ("Deployment", "prefixway", lambda each: each["spec"].update(replicas="two")),
        "number for a text": (
            "Deployment",
            "prefixway",
            lambda each: container(each, "gateway")["env"].append({"name": "PREFIXWAY_WORKERS", "value": 2}),
        ),
        "unknown word": (
            "Deployment",
            "prefixway",
            lambda each: pod(each)["spec"].update(terminationGracePeriodSeconds="145s"),
        ),
        "missing selector": ("Deployment", "prefixway", _without_selector),
        "unknown kind": ("Deployment", "prefixway", lambda each: each.update(kind="Deploiment")),
        "old version": ("PodDisruptionBudget", "prefixway", lambda each: each.update(apiVersion="policy/v1beta1")),
        "port of a policy": (
            "NetworkPolicy",
            "prefixway",
            lambda each: each["spec"]["egress"][0]["ports"][0].update(protocl="TCP"),
        ),
        "rights": ("Role", "prefixway", lambda each: each["rules"][0].update(verb=["list"])),
        "interval of a monitor": (
            "ServiceMonitor",
            "prefixway",
            lambda each: each["spec"]["endpoints"][0].update(interval="often"),
        ),
        "unknown field of a monitor": (
            "ServiceMonitor",
            "prefixway",
            lambda each: each["spec"]["endpoints"][0].update(prt="metrics"),
        ),
        "alert without an expression": (
            "PrometheusRule",
            "prefixway",
            lambda each: each["spec"]["groups"][0]["rules"][0].pop("expr"),
        ),
        "unknown field of an alert": (
            "PrometheusRule",
            "prefixway",
            lambda each: each["spec"]["groups"][0]["rules"][0].update(severity="page"),
        ),
    }


@pytest.mark.parametrize("what", _broken())
def test_what_is_broken_is_refused(example: Cluster, what: str) -> None:
    """So that the test above can fail."""
    kind, name, breaks = _broken()[what]
    manifest = deepcopy(example.get(kind, name))
    breaks(manifest)

    assert [bool(schema_fault(manifest, version)) for version in VERSIONS] == [True] * len(VERSIONS)


def test_kustomizations_are_read_strictly(tmp_path: Path) -> None:
    """By kubectl: a field that it does not know is no comment."""
    (tmp_path / "kustomization.yaml").write_text("resource: [a.yaml]\n")
    with pytest.raises(ValueError, match="unknown field"):
        kustomize(tmp_path)


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping that has a key twice, of which YAML's readers take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def test_no_key_is_there_twice() -> None:
    """In any YAML under deploy/."""
    files = [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]
    documents = [each for file in files for each in yaml.load_all(file.read_text(), _UniqueKeys)]

    assert len(documents) > 20
    assert all(isinstance(each, dict) for each in documents)
    with pytest.raises(AssertionError):
        yaml.load("a: 1\nb: {c: 1, c: 2}\n", _UniqueKeys)


def test_no_file_lies_about_unused() -> None:
    """Each is named by the kustomization beside it, which the tests above put together."""
    folder = DEPLOY / "k8s"
    named = set()
    for file in folder.rglob("kustomization.yaml"):
        read = yaml.safe_load(file.read_text())
        names = [*read.get("resources", ()), *(patch.get("path", "") for patch in read.get("patches", ()))]
        names += [name for made in read.get("configMapGenerator", ()) for name in made.get("envs", ())]
        named |= {file, *(file.parent / name for name in names)}
    examples = {folder / "example" / "keys.example", folder / "example" / "secret.env.example"}
    written = {folder / "example" / "keys", folder / "example" / "secret.env"}  # by whoever works with them here
    files = {file for file in folder.rglob("*") if file.is_file()} - written

    assert files == {file for file in named if file.is_file()} | examples


def test_the_rule_has_the_alerts_of_prometheus(example: Cluster) -> None:
    """`python scripts/prometheus_rule.py` writes it."""
    alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    script = Path(__file__).parents[2] / "scripts" / "prometheus_rule.py"

    assert example.get("PrometheusRule", "prefixway")["spec"] == alerts
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


def test_every_object_is_small_enough_to_be_applied(clusters: dict[str, Cluster]) -> None:
    """Most of all the dashboard."""
    sizes = {each["metadata"]["name"]: len(json.dumps(json.dumps(each))) for each in clusters["monitoring"].objects}

    assert max(sizes.values()) < _LARGEST, sizes


def test_another_namespace_is_one_line(tree: Path) -> None:
    """Also in the binding's subject, which is not where namespaces are."""
    overlay = tree / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text("namespace: inference\nresources: [../k8s]\n")
    objects = rendered(overlay)
    binding = Cluster(objects).get("RoleBinding", "prefixway")

    assert {each["metadata"]["namespace"] for each in objects} == {"inference"}
    assert [subject["namespace"] for subject in binding["subjects"]] == ["inference"]
