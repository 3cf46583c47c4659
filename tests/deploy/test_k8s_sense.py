"""The manifests of deploy/k8s say what the programs in them mean: settings, ports, times, memory, rights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from gateway.fleet.discovery.pod_list import parse_page
from gateway.fleet.discovery.pods import found_in
from gateway.fleet.server_spec import ServerSpec, parse_servers
from gateway.settings import Settings
from tests.deploy.cluster import Cluster, container, containers, pod, ports, quantity, secret
from tests.deploy.kustomize import DEPLOY, SECRETS, Manifest
from tests.deploy.test_k8s_wiring import FIELDS

_OURS = ("gateway", "indexer")
_IP = "10.1.2.3"
_MORE_THAN_DRAIN_S = 3 + 5  # docs/edge.md: what linger and drain may take longer, and the good-bye in Redis
_PROCESS_MB = 500  # a gateway with a large tokenizer and what it remembers of prompts, idle about 80
_IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
_RANKS = 16  # ranks whose ports policies let through


def _flag(arguments: list[str], name: str) -> str:
    """As ``--name=value`` or ``--name value``."""
    for at, argument in enumerate(arguments):
        if argument == name:
            return arguments[at + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    raise AssertionError(f"no {name} in {arguments}")


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def _settings(cluster: Cluster, workload: Manifest, name: str, folder: Path) -> Settings:
    """A container's whole environment, read as it would be there, unknown names refused."""
    each = container(workload, name)
    environ = cluster.environ(each, FIELDS) | _IN_CLUSTER | {"PREFIXWAY_STRICT_ENV": "true"}
    for mount in each.get("volumeMounts", ()):
        if mount["name"] == "keys":
            environ = {key: text.replace(mount["mountPath"], str(folder)) for key, text in environ.items()}
    return Settings.from_env(environ)


@pytest.fixture
def keys(tree: Path) -> Path:
    """The folder in which the example's keys of clients are."""
    return tree / "k8s" / "example"


@pytest.fixture
def settings(example: Cluster, keys: Path) -> Settings:
    return _settings(example, example.get("Deployment", "prefixway"), "gateway", keys)


def test_every_variable_is_a_setting(cluster: Cluster, example: Cluster, keys: Path) -> None:
    """And its value one that it can have; without any secret but Redis' too."""
    plain = Cluster([*cluster.objects, secret("prefixway", {"redis-password": "p"})])
    read = {
        (at, each["name"]): _settings(it, workload, each["name"], keys)
        for at, it in enumerate((plain, example))
        for workload in it.workloads
        for each in containers(workload)
        if each["name"] in _OURS
    }

    assert read.keys() == {(0, "gateway"), (1, "gateway"), (1, "indexer")}
    assert all(each.shares_index and each.unknown == () for each in read.values())


def test_secrets_arrive(settings: Settings) -> None:
    assert settings.redis_password == SECRETS["redis-password"]
    assert settings.replica_api_key == SECRETS["replica-api-key"]
    assert settings.hash_secret == SECRETS["hash-secret"]
    assert settings.admin_token == SECRETS["admin-token"]
    assert settings.wants_keys


def test_keys_can_be_read_by_the_gateway_and_by_nobody_else(example: Cluster) -> None:
    """The kubelet gives the files of a Secret to root and the pod's group."""
    spec = pod(example.get("Deployment", "prefixway"))["spec"]
    secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]

    assert [each["defaultMode"] for each in secrets] == [0o440]
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


def test_ports_are_those_that_the_settings_say(example: Cluster, keys: Path) -> None:
    """Of both commands; two containers of one pod do not want the same."""
    for kind, name, of in (("Deployment", "prefixway", "gateway"), ("StatefulSet", "vllm", "indexer")):
        workload = example.get(kind, name)
        settings = _settings(example, workload, of, keys)
        declared = {port["name"]: port["containerPort"] for port in container(workload, of)["ports"]}
        numbers = [port["containerPort"] for each in containers(workload) for port in each.get("ports", ())]

        assert declared["metrics"] == settings.metrics_listen.port
        assert declared.get("http", settings.listen.port) == settings.listen.port
        assert len(numbers) == len(set(numbers))
        assert settings.admin_listen.is_loopback


def test_a_gateway_may_drain_for_as_long_as_it_wants(cluster: Cluster, settings: Settings) -> None:
    """And what it wants is more than the seconds that load balancers need to look elsewhere."""
    spec = pod(cluster.get("Deployment", "prefixway"))["spec"]

    assert spec["terminationGracePeriodSeconds"] >= settings.linger_s + settings.drain_s + _MORE_THAN_DRAIN_S
    assert settings.linger_s >= 5
    assert "lifecycle" not in spec["containers"][0]


def test_a_replica_may_drain_for_as_long_as_it_wants(cluster: Cluster, settings: Settings) -> None:
    """It is held until all gateways have looked again, even if a look fails; then answers get their time."""
    workload = cluster.get("StatefulSet", "vllm")
    vllm = container(workload, "vllm")
    (held_s,) = map(int, vllm["lifecycle"]["preStop"]["exec"]["command"][1:])
    timeout_s = int(_flag(vllm["args"], "--shutdown-timeout"))

    assert held_s >= 4 * settings.discovery_interval_s
    assert timeout_s >= settings.drain_s
    assert pod(workload)["spec"]["terminationGracePeriodSeconds"] >= held_s + timeout_s + 10


def test_no_capacity_is_lost_while_gateways_are_replaced(cluster: Cluster) -> None:
    strategy = cluster.get("Deployment", "prefixway")["spec"]["strategy"]["rollingUpdate"]
    budget = cluster.get("PodDisruptionBudget", "prefixway")["spec"]

    assert strategy["maxUnavailable"] == 0
    assert budget["maxUnavailable"] == 1 < cluster.get("Deployment", "prefixway")["spec"]["replicas"]


def test_a_first_rollout_is_not_given_up_before_the_first_replica_can_be_ready(cluster: Cluster) -> None:
    """Gateways wait for it; past its deadline a rollout is said to have failed."""
    probe = container(cluster.get("StatefulSet", "vllm"), "vllm")["startupProbe"]

    deadline_s = cluster.get("Deployment", "prefixway")["spec"]["progressDeadlineSeconds"]

    assert deadline_s > probe["periodSeconds"] * probe["failureThreshold"] + 60


def test_memory_limits_hold_what_may_be_kept(example: Cluster, settings: Settings, keys: Path) -> None:
    """Index, uploads and the process; of Valkey its maximum and connections; of vLLM LMCache's and the shared one's."""
    limits = {
        each["name"]: quantity(each["resources"]["limits"]["memory"]) / 1e6
        for workload in example.workloads
        for each in containers(workload)
    }
    statefulset = example.get("StatefulSet", "vllm")
    indexer = _settings(example, statefulset, "indexer", keys)
    environ = example.environ(container(statefulset, "vllm"), FIELDS)
    shared = next(each for each in pod(statefulset)["spec"]["volumes"] if each["name"] == "shm")
    valkey = _flag(container(example.get("Deployment", "valkey"), "valkey")["args"], "--maxmemory")

    assert settings.index_memory_mb is not None
    assert limits["gateway"] >= settings.index_memory_mb + settings.max_uploads_mb + _PROCESS_MB
    assert indexer.index_memory_mb is not None
    assert limits["indexer"] >= indexer.index_memory_mb + _PROCESS_MB
    assert limits["valkey"] >= 1.4 * 1024 * int(valkey.removesuffix("gb"))
    staging_mb = quantity(shared["emptyDir"]["sizeLimit"]) / 1e6 + 16_000
    assert limits["vllm"] >= 1000 * float(environ["LMCACHE_MAX_LOCAL_CPU_SIZE"]) + staging_mb


def test_nobody_may_more_than_needed(example: Cluster) -> None:
    """All: no new rights, no capability, no variables of Services. Ours and Valkey: no root, nothing to write but
    mounts. vLLM's image is made for root.
    """
    for workload in example.workloads:
        spec = pod(workload)["spec"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        for each in containers(workload):
            context = spec["securityContext"] | each["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            if each["name"] != "vllm":
                assert context["runAsNonRoot"]
                assert context["runAsUser"] > 0
                assert context["readOnlyRootFilesystem"]


def _pod_list(workload: Manifest) -> bytes:
    """As the API would list one pod of a workload."""
    each = pod(workload)
    listed = {
        "metadata": each["metadata"] | {"name": FIELDS["metadata.name"], "uid": FIELDS["metadata.uid"]},
        "spec": each["spec"],
        "status": {"phase": "Running", "podIP": _IP, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [listed]})


def _discovered(cluster: Cluster, settings: Settings) -> ServerSpec:
    found = found_in(parse_page(_pod_list(cluster.get("StatefulSet", "vllm"))).pods, settings.discovery.port)
    assert found.held_back == frozenset()
    assert found.faults == ()
    (spec,) = found.specs
    return spec


def _labels(selector: str) -> Mapping[str, str]:
    return dict(re.split("==?", term) for term in selector.split(","))


def test_the_gateways_find_the_replicas(example: Cluster, settings: Settings) -> None:
    """By their labels, with the ports and the model that vLLM is told to have, in their own namespace."""
    assert settings.discovery.kind == "kubernetes"
    assert settings.discovery.namespace == ""
    assert [each["metadata"]["name"] for each in example.selected(_labels(settings.discovery.name))] == ["vllm"]
    workload = example.get("StatefulSet", "vllm")
    arguments = container(workload, "vllm")["args"]
    events = json.loads(_flag(arguments, "--kv-events-config"))
    spec = _discovered(example, settings)
    source = spec.event_source(0)

    assert spec.origin.url == f"http://{_IP}:{_flag(arguments, '--port')}"
    assert spec.model == _flag(arguments, "--served-model-name")
    assert source is not None
    assert source.endpoint == events["endpoint"].replace("*", _IP)
    assert source.replay_endpoint == events["replay_endpoint"].replace("*", _IP)
    assert all(_port(events[each]) in ports(workload).values() for each in ("endpoint", "replay_endpoint"))


def test_the_indexer_calls_its_replica_as_the_gateways_do(example: Cluster, settings: Settings) -> None:
    """Else what it writes nobody reads."""
    sidecar = container(example.get("StatefulSet", "vllm"), "indexer")
    (own,) = parse_servers(example.environ(sidecar, FIELDS)["PREFIXWAY_REPLICAS"])
    found = _discovered(example, settings)

    assert own.id == found.id == "vllm-0@6f1c2d3e"
    assert str(own.event_source(0)).replace("127.0.0.1", _IP) == str(found.event_source(0))
    assert own.origin.port == found.origin.port


def _lets(rules: list[Manifest], port: int | str, peer: Mapping[str, str] | None, protocol: str = "TCP") -> bool:
    """Whether some rule lets pods with labels ``peer`` through at a port; ``None``: whoever it is."""
    for rule in rules:
        peers = rule.get("to", rule.get("from"))
        selectors = [each.get("podSelector", {}).get("matchLabels", {"": ""}) for each in peers or ()]
        if peers is not None and (peer is None or not any(each.items() <= peer.items() for each in selectors)):
            continue
        for each in rule["ports"]:
            if each.get("protocol", "TCP") != protocol:
                continue
            if each["port"] == port or (isinstance(port, int) and _in_range(each, port)):
                return True
    return False


def _in_range(rule: Manifest, port: int) -> bool:
    return isinstance(rule["port"], int) and rule["port"] <= port <= rule.get("endPort", rule["port"])


def test_policies_let_through_what_is_needed(example: Cluster, settings: Settings) -> None:
    """From gateways and indexers to where they connect, at both ends; and nobody else to replicas and Valkey."""
    gateway, vllm, valkey = (
        pod(example.get(kind, name))["metadata"]["labels"]
        for kind, name in (("Deployment", "prefixway"), ("StatefulSet", "vllm"), ("Deployment", "valkey"))
    )
    out = example.get("NetworkPolicy", "prefixway")["spec"]["egress"]
    into = {name: example.get("NetworkPolicy", name)["spec"]["ingress"] for name in ("prefixway", "valkey", "vllm")}
    source = _discovered(example, settings).event_source(_RANKS - 1)
    assert source is not None
    events = [5557, 5657, _port(source.endpoint), _port(str(source.replay_endpoint))]

    assert all(_lets(out, port, vllm) for port in (8000, *events))
    assert _lets(into["vllm"], "http", gateway)
    assert all(_lets(into["vllm"], port, gateway) for port in events)
    assert _lets(out, 6379, valkey)
    assert _lets(into["valkey"], "redis", gateway)
    assert _lets(into["valkey"], "redis", vllm)
    assert _lets(out, 53, None, "UDP")
    assert all(_lets(out, port, None) for port in (53, 443, 6443))
    assert _lets(into["prefixway"], "http", None)
    assert not _lets(into["prefixway"], "metrics", None)
    assert not any(_lets(into[name], port, None) for name, port in (("vllm", "http"), ("valkey", "redis")))


def _scraped(cluster: Cluster) -> Iterator[tuple[Manifest, str | int, int]]:
    """Workloads behind the Services that Prometheus is told of: the port that it asks, by name where it has one."""
    wanted = cluster.get("ServiceMonitor", "prefixway")["spec"]["selector"]["matchLabels"]
    for service in cluster.kind("Service"):
        if wanted.items() <= service["metadata"]["labels"].items():
            for workload in cluster.selected(service["spec"]["selector"]):
                target = service["spec"]["ports"][0]["targetPort"]
                yield workload, target, ports(workload).get(target, target)


def test_policies_let_prometheus_through_to_what_it_scrapes(example: Cluster) -> None:
    """Gateways and the indexers beside replicas, from the namespace monitoring."""
    scraped = list(_scraped(example))
    monitoring = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}

    assert sorted(workload["metadata"]["name"] for workload, _, _ in scraped) == ["prefixway", "vllm"]
    for workload, target, number in scraped:
        rules = example.get("NetworkPolicy", workload["metadata"]["name"])["spec"]["ingress"]
        opened = [rule for rule in rules if {"namespaceSelector": monitoring} in rule.get("from", ())]
        assert {target, number} & {port["port"] for rule in opened for port in rule["ports"]}


def test_events_and_replay_never_meet(example: Cluster) -> None:
    """Rank r has both ports r higher: with the replay right behind the events, rank 1 would publish where rank 0
    replays.
    """
    events = json.loads(_flag(container(example.get("StatefulSet", "vllm"), "vllm")["args"], "--kv-events-config"))
    first, second = (_port(events[key]) for key in ("endpoint", "replay_endpoint"))

    assert abs(second - first) >= _RANKS


def test_valkey_refuses_rather_than_forgets_and_writes_nothing(cluster: Cluster) -> None:
    arguments = container(cluster.get("Deployment", "valkey"), "valkey")["args"]

    assert _flag(arguments, "--maxmemory-policy") == "noeviction"
    assert (_flag(arguments, "--save"), _flag(arguments, "--appendonly")) == ("", "no")
    assert cluster.get("Deployment", "valkey")["spec"]["strategy"] == {"type": "Recreate"}


def test_shared_storage_is_one_for_all_pods_and_a_temporary_folder_for_each(example: Cluster) -> None:
    """Two pods that write the same chunk under the same temporary name fail; and nobody else deletes what is old."""
    claim = example.get("PersistentVolumeClaim", "kv-cache")["spec"]
    workload = example.get("StatefulSet", "vllm")
    environs = [
        example.environ(container(workload, "vllm"), FIELDS | {"metadata.name": name}) for name in ("vllm-0", "vllm-1")
    ]
    folders = [json.loads(each["LMCACHE_EXTRA_CONFIG"])["fs_connector_relative_tmp_dir"] for each in environs]
    mount = next(each for each in container(workload, "vllm")["volumeMounts"] if each["name"] == "kv-cache")
    parameters = example.get("StorageClass", claim["storageClassName"])["parameters"]

    assert claim["accessModes"] == ["ReadWriteMany"]
    assert folders == ["tmp-vllm-0", "tmp-vllm-1"]
    assert environs[0]["LMCACHE_REMOTE_URL"] == f"fs://localhost:0{mount['mountPath']}/"
    assert {each["PYTHONHASHSEED"] for each in environs} == {"0"}
    assert parameters["client.ttl-action"] == "delete"
    assert int(parameters["client.ttl-ms"]) > 0


def test_the_page_names_each_component() -> None:
    """docs/deploy.md lists what can be applied, and what can be added."""
    page = (DEPLOY.parent / "docs" / "deploy.md").read_text()
    kinds = {
        str(file.parent.relative_to(DEPLOY / "k8s")): file for file in (DEPLOY / "k8s").rglob("kustomization.yaml")
    }

    assert len(kinds) == 10
    assert [name for name in kinds if name != "." and f"\n| `{name}` |" not in page] == []
