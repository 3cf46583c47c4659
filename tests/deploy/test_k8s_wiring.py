"""What the manifests of deploy/k8s name is there, and what they select is what is meant."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.deploy.cluster import Cluster, MissingReference, container, containers, pod, secret
from tests.deploy.kustomize import DEPLOY, SECRETS, Manifest
from tests.deploy.wiring import wiring_faults

FIELDS = {"metadata.name": "vllm-0", "metadata.uid": "6f1c2d3e-0000-4000-8000-000000000000"}
_FOLDERS = (".", "example", "gateway", "monitoring", "valkey", "vllm")
_Break = Callable[[Cluster], Any]


@pytest.mark.parametrize("folder", _FOLDERS)
def test_all_that_is_named_is_there(clusters: dict[str, Cluster], folder: str) -> None:
    """In each folder that can be applied, by itself."""
    assert clusters.keys() == {*_FOLDERS}
    assert wiring_faults(clusters[folder]) == []


def _spec(cluster: Cluster, kind: str, name: str) -> Manifest:
    spec: Manifest = cluster.get(kind, name)["spec"]
    return spec


_BROKEN: dict[str, _Break] = {
    "labels of pods": lambda it: pod(it.get("Deployment", "prefixway"))["metadata"]["labels"].clear(),
    "spread": lambda it: pod(it.get("Deployment", "prefixway"))["spec"]["topologySpreadConstraints"][0][
        "labelSelector"
    ]["matchLabels"].update(app="other"),
    "selector of a Service": lambda it: _spec(it, "Service", "prefixway")["selector"].update(app="other"),
    "port of a Service": lambda it: _spec(it, "Service", "prefixway")["ports"][0].update(targetPort="web"),
    "port of a sidecar by its name": lambda it: _spec(it, "Service", "prefixway-indexer-metrics")["ports"][0].update(
        targetPort="metrics"
    ),
    "port of a probe": lambda it: container(it.get("Deployment", "prefixway"), "gateway")["livenessProbe"][
        "httpGet"
    ].update(port="admin"),
    "name of the headless Service": lambda it: _spec(it, "StatefulSet", "vllm").update(serviceName="replicas"),
    "volume": lambda it: pod(it.get("Deployment", "prefixway"))["spec"]["volumes"].pop(0),
    "claim": lambda it: it.get("PersistentVolumeClaim", "kv-cache")["metadata"].update(name="other"),
    "storage class": lambda it: it.get("StorageClass", "curvine-kv-cache")["metadata"].update(name="other"),
    "account": lambda it: it.get("ServiceAccount", "prefixway")["metadata"].update(name="other"),
    "token": lambda it: pod(it.get("Deployment", "valkey"))["spec"].update(automountServiceAccountToken=True),
    "binding": lambda it: it.get("RoleBinding", "prefixway")["subjects"][0].update(namespace="default"),
    "budget": lambda it: _spec(it, "PodDisruptionBudget", "prefixway")["selector"]["matchLabels"].update(app="other"),
    "policy": lambda it: _spec(it, "NetworkPolicy", "valkey")["podSelector"]["matchLabels"].update(app="other"),
    "port of a policy": lambda it: _spec(it, "NetworkPolicy", "vllm")["ingress"][0]["ports"][0].update(port="api"),
    "fixed replicas": lambda it: _spec(it, "Deployment", "prefixway").update(replicas=2),
    "monitor": lambda it: _spec(it, "ServiceMonitor", "prefixway")["selector"]["matchLabels"].update(app="other"),
    "port of a monitor": lambda it: _spec(it, "ServiceMonitor", "prefixway")["endpoints"][0].update(port="http"),
    "image without a version": lambda it: container(it.get("StatefulSet", "vllm"), "vllm").update(image="vllm/vllm"),
}


@pytest.mark.parametrize("what", _BROKEN)
def test_what_is_broken_is_found(example: Cluster, what: str) -> None:
    """So that the test above can fail: one fault, or one for each that it touches."""
    broken = Cluster(deepcopy(list(example.objects)))
    _BROKEN[what](broken)

    assert wiring_faults(broken)


def test_every_container_finds_what_its_environment_names(example: Cluster) -> None:
    """Whether a key may be left out or not; and a reference to a later variable would stay as it is written."""
    environs = {
        each["name"]: example.environ(each, FIELDS) for workload in example.workloads for each in containers(workload)
    }

    assert environs.keys() == {"gateway", "valkey", "vllm", "indexer"}
    assert environs["vllm"]["LMCACHE_EXTRA_CONFIG"] == '{"fs_connector_relative_tmp_dir": "tmp-vllm-0"}'


@pytest.mark.parametrize("folder", [".", "example"])
def test_only_the_password_of_redis_must_be_there(clusters: dict[str, Cluster], folder: str) -> None:
    """All other secrets may be left out; without that one nothing starts, rather than without a password."""
    objects = [each for each in clusters[folder].objects if each["kind"] != "Secret"]
    least = Cluster([*objects, secret("prefixway", {"redis-password": "p"})])
    none = Cluster([*objects, secret("prefixway", {})])
    every = [(workload, each) for workload in least.workloads for each in containers(workload)]
    need = set()
    for _, each in every:
        least.environ(each, FIELDS)
        try:
            none.environ(each, FIELDS)
        except MissingReference:
            need.add(each["name"])

    assert need == {"gateway", "valkey", *(["indexer"] if folder == "example" else [])}


def test_the_example_names_each_secret(example: Cluster) -> None:
    """And holds none: what is not filled in is not there."""
    text = (DEPLOY / "k8s" / "example" / "secret.env.example").read_text()
    offered = {line.lstrip("#").partition("=")[0] for line in text.splitlines() if "=" in line}
    wanted = {
        item["valueFrom"]["secretKeyRef"]["key"]
        for workload in example.workloads
        for each in containers(workload)
        for item in each.get("env", ())
        if "secretKeyRef" in item.get("valueFrom", {})
    }

    assert offered == wanted == SECRETS.keys()
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []


def test_an_outside_indexer_is_told_to_both_sides(cluster: Cluster, example: Cluster) -> None:
    """With the sidecar gateways only read; without it they follow the events."""
    settings = {name: it.get("ConfigMap", "prefixway")["data"] for name, it in (("", cluster), ("example", example))}
    sidecar = container(example.get("StatefulSet", "vllm"), "indexer")

    assert "PREFIXWAY_INDEXER" not in settings[""]
    assert settings["example"]["PREFIXWAY_INDEXER"] == "outside"
    assert sidecar["restartPolicy"] == "Always"
    assert [name for name in sidecar if name.endswith("Probe")] == ["livenessProbe"]
    assert example.environ(sidecar, FIELDS)["PREFIXWAY_REDIS_URL"] == settings["example"]["PREFIXWAY_REDIS_URL"]


def test_a_setting_replaces_gateways_and_no_replica(cluster: Cluster, example: Cluster) -> None:
    """The ConfigMap's name says what is in it; no pod that takes half an hour to start knows that name."""
    for it in (cluster, example):
        name = it.get("ConfigMap", "prefixway")["metadata"]["name"]

        assert name != "prefixway"
        assert name in str(pod(it.get("Deployment", "prefixway")))
        assert name not in str(pod(it.get("StatefulSet", "vllm")))
        assert {each["metadata"]["name"] for each in it.kind("Secret")} <= {"prefixway", "prefixway-keys"}


def test_the_account_may_list_pods_and_nothing_else(example: Cluster) -> None:
    assert [each["rules"] for each in example.kind("Role")] == [
        [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    ]
    assert example.kind("ClusterRole", "ClusterRoleBinding") == []
    assert [each["metadata"]["name"] for each in example.workloads if "serviceAccountName" in pod(each)["spec"]] == [
        "prefixway"
    ]
