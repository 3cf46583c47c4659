"""What no schema sees: whether what manifests name is there, and selects what it is meant to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.deploy.cluster import Cluster, containers, pod, ports, probes
from tests.deploy.kustomize import Manifest


def wiring_faults(cluster: Cluster) -> list[str]:
    """Sentences; none: all is in order."""
    checks = (_selectors, _services, _probe_ports, _volumes, _accounts, _targets, _policies, _images)
    return [fault for check in checks for fault in check(cluster)]


def _selectors(cluster: Cluster) -> Iterator[str]:
    """Of workloads: their own pods."""
    for each in cluster.workloads:
        labels = pod(each)["metadata"]["labels"]
        wanted = [each["spec"]["selector"]]
        wanted += [spread["labelSelector"] for spread in pod(each)["spec"].get("topologySpreadConstraints", ())]
        for selector in wanted:
            if not selector["matchLabels"].items() <= labels.items():
                yield f"{_named(each)}: {selector} does not select its own pods"


def _services(cluster: Cluster) -> Iterator[str]:
    """They select pods that have the port that they name; a StatefulSet's has no address of its own."""
    for service in cluster.kind("Service"):
        spec = service["spec"]
        chosen = cluster.selected(spec["selector"])
        if len(chosen) != 1:
            yield f"{_named(service)} selects the pods of {[_named(each) for each in chosen]}"
        for port in spec["ports"]:
            for each in chosen:
                yield from _missing(service, port["targetPort"], _ports_by_name(each))
    for each in cluster.kind("StatefulSet"):
        names = [service["metadata"]["name"] for service in cluster.kind("Service") if _is_headless(service)]
        if each["spec"]["serviceName"] not in names:
            yield f"{_named(each)}: there is no headless Service {each['spec']['serviceName']}"


def _ports_by_name(workload: Manifest) -> dict[str, int]:
    """As a Service finds them: before Kubernetes 1.33 it knows those of native sidecars by their numbers only.

    https://github.com/kubernetes/kubernetes/pull/128850
    """
    sidecars = {port["name"] for each in pod(workload)["spec"].get("initContainers", ()) for port in each["ports"]}
    return {f"sidecar's {name}" if name in sidecars else name: port for name, port in ports(workload).items()}


def _probe_ports(cluster: Cluster) -> Iterator[str]:
    """A probe's port is one of the container's own."""
    for each in cluster.workloads:
        for container in containers(each):
            own = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
            for name, probe in probes(container):
                if "httpGet" in probe:
                    yield from (f"{name}: {fault}" for fault in _missing(each, probe["httpGet"]["port"], own))


def _volumes(cluster: Cluster) -> Iterator[str]:
    for each in cluster.workloads:
        volumes = {volume["name"]: volume for volume in pod(each)["spec"].get("volumes", ())}
        mounts = [mount for container in containers(each) for mount in container.get("volumeMounts", ())]
        if {mount["name"] for mount in mounts} != volumes.keys():
            yield f"{_named(each)} mounts {sorted({mount['name'] for mount in mounts})} of {sorted(volumes)}"
        for volume in volumes.values():
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and not cluster.has("PersistentVolumeClaim", claim):
                yield f"{_named(each)}: there is no claim {claim}"
    for claim in cluster.kind("PersistentVolumeClaim"):
        if not cluster.has("StorageClass", claim["spec"]["storageClassName"]):
            yield f"{_named(claim)}: there is no such StorageClass"


def _accounts(cluster: Cluster) -> Iterator[str]:
    """Who shows a token has an account; a binding is of a role and an account that are there, in one namespace."""
    for each in cluster.workloads:
        spec = pod(each)["spec"]
        account = spec.get("serviceAccountName")
        if spec["automountServiceAccountToken"] is not (account is not None):
            yield f"{_named(each)}: a token of {account}"
        if account and not cluster.has("ServiceAccount", account):
            yield f"{_named(each)}: there is no account {account}"
    for binding in cluster.kind("RoleBinding"):
        for named in (binding["roleRef"], *binding["subjects"]):
            if not cluster.has(named["kind"], named["name"]):
                yield f"{_named(binding)}: there is no {named['kind']} {named['name']}"
        for subject in binding["subjects"]:
            if subject["namespace"] != binding["metadata"]["namespace"]:
                yield f"{_named(binding)}: an account of {subject['namespace']}"


def _targets(cluster: Cluster) -> Iterator[str]:
    """What budgets, autoscalers and monitors are about."""
    for budget in cluster.kind("PodDisruptionBudget"):
        if len(cluster.selected(budget["spec"]["selector"]["matchLabels"])) != 1:
            yield f"{_named(budget)} selects nothing"
    for scaler in cluster.kind("HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        if "replicas" in cluster.get(target["kind"], target["name"])["spec"]:
            yield f"{_named(scaler)}: an apply would undo what it does"
    if cluster.workloads:
        for monitor in cluster.kind("ServiceMonitor"):
            yield from _scraped(monitor, cluster)


def _scraped(monitor: Manifest, cluster: Cluster) -> Iterator[str]:
    labels = monitor["spec"]["selector"]["matchLabels"]
    services = [each for each in cluster.kind("Service") if labels.items() <= each["metadata"]["labels"].items()]
    if not services:
        yield f"{_named(monitor)} selects no Service"
    for service in services:
        for endpoint in monitor["spec"]["endpoints"]:
            named = {port["name"]: port["port"] for port in service["spec"]["ports"]}
            yield from _missing(monitor, endpoint["port"], named)


def _policies(cluster: Cluster) -> Iterator[str]:
    for policy in cluster.kind("NetworkPolicy"):
        chosen = cluster.selected(policy["spec"]["podSelector"]["matchLabels"])
        if not chosen:
            yield f"{_named(policy)} selects nothing"
        for rule in policy["spec"].get("ingress", ()):
            for port in rule["ports"]:
                for each in chosen:
                    if isinstance(port["port"], str):
                        yield from _missing(policy, port["port"], ports(each))


def _images(cluster: Cluster) -> Iterator[str]:
    """Each says which version; a folder alone leaves ours to whoever puts it together."""
    for each in cluster.workloads:
        for container in containers(each):
            image, _, tag = container["image"].rpartition(":")
            if container["image"] != "prefixway" and (not image or tag == "latest"):
                yield f"{_named(each)}: {container['image']} has no version"


def _missing(owner: Manifest, wanted: str | int, named: dict[str, int]) -> Iterable[str]:
    there = wanted in named if isinstance(wanted, str) else wanted in named.values()
    return () if there else (f"{_named(owner)}: no port {wanted} in {named}",)


def _is_headless(service: Manifest) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def _named(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"
