"""The alerts: what they ask for exists, they fire when they should and only then, and each has a runbook."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.app import running_gateway
from gateway.check.finding import KINDS, Severity
from gateway.fleet.outcome import Outcome
from gateway.settings import Settings
from loadtest.replica import Fault, ReplicaOptions, SimulatedReplica
from tests.debian_programs import program
from tests.deploy.prometheus_house import Prometheus
from tests.end_to_end.house import FAST
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.redis_servers import RedisServer
from tests.fakes.scripted_server import closed_port
from tests.fakes.waiting import eventually

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "alerts.yaml"
TLS = ROOT / "tests" / "data" / "tls"
_SELECTOR = re.compile(r"(prefixway_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')


def rules() -> list[dict[str, Any]]:
    """All, those that only record too."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def promtool(*arguments: str) -> None:
    """Run it where the rules are; fail with what it says."""
    ended = subprocess.run(
        [program("usr/bin/promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_rules_are_valid() -> None:
    """No name twice, no expression or template that cannot be read."""
    promtool("check", "rules", "--lint-fatal", RULES.name)


@pytest.mark.parametrize("file", sorted(file.name for file in FOLDER.glob("*_test.yaml")))
def test_they_fire_when_they_should(file: str) -> None:
    """promtool's unit tests: firing, not firing, idle, two gateways, missed scrapes, restarts, a fleet that starts."""
    promtool("test", "rules", file)


def test_each_is_seen_firing() -> None:
    """By some unit test."""
    tests = "".join(file.read_text() for file in FOLDER.glob("*_test.yaml"))
    firing = set(re.findall(r'alertname="(\w+)"', tests)) | set(re.findall(r"alertname: (\w+)", tests))

    assert firing == alerts().keys()


@pytest.mark.parametrize("name", alerts())
def test_each_says_what_to_do(name: str) -> None:
    """How urgent it is, what it is, with figures or names, and where its section of the runbook is."""
    alert = alerts()[name]

    assert alert["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert "{{ $" in alert["annotations"]["description"] or "{{ with $" in alert["annotations"]["description"]
    assert alert["annotations"]["runbook_url"] == f"docs/operate.md#{name.lower()}"


def test_who_is_woken_for_what() -> None:
    """For what users notice, and nothing else."""
    pages = [name for name, alert in alerts().items() if alert["labels"]["severity"] == "page"]

    assert pages == ["PrefixwayDown", "PrefixwayNoHealthyReplica", "PrefixwayErrors"]


def test_each_has_a_section_in_the_runbook() -> None:
    """And no section is of an alert that there is not."""
    page = (ROOT / "docs" / "operate.md").read_text()

    assert re.findall(r"^### (Prefixway\w+)$", page, re.MULTILINE) == list(alerts())


def test_every_finding_that_somebody_must_mend_is_told() -> None:
    """Those that are wrong, and no other."""
    (listed,) = re.findall(r'name=~"([^"]*)"', alerts()["PrefixwayFinding"]["expr"])
    wrong = [name for name, kind in KINDS.items() if kind.severity is Severity.WRONG]

    assert listed.split("|") == wrong


# What a real gateway shows


class Selector(NamedTuple):
    """A metric as an expression asks for it."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def selectors() -> Iterator[Selector]:
    for rule in rules():
        for name, matchers in _SELECTOR.findall(rule["expr"]):
            yield Selector(name, tuple(_MATCHER.findall(matchers)))


def shown(page: str) -> Mapping[str, Metric]:
    """Families by the names of their series: those of a histogram end in three ways."""
    families: dict[str, Metric] = {}
    for family in text_string_to_metric_families(page):
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
        families |= {family.name + ending: family for ending in endings}
    return families


@pytest.fixture
async def metrics() -> AsyncIterator[Mapping[str, Metric]]:
    """Of a gateway with Redis, TLS, keys and replicas that are looked for, after an answer, an error and a refusal."""
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        replica = await stack.enter_async_context(SimulatedReplica(ReplicaOptions(speeds=FAST)))
        cluster = await stack.enter_async_context(KubernetesApi(token=None))
        cluster.add("vllm-0", port=int(replica.url.rpartition(":")[2]))
        environ = {
            "PREFIXWAY_DISCOVERY": "kubernetes:default/app=vllm",
            "PREFIXWAY_KUBERNETES_API": cluster.url,
            "PREFIXWAY_REDIS_URL": redis.url,
            "PREFIXWAY_TLS_CERT": str(TLS / "certificate.pem"),
            "PREFIXWAY_TLS_KEY": str(TLS / "key.pem"),
            "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
            "PREFIXWAY_RETRY_BUDGET": "0",
            "PREFIXWAY_ACCESS_LOG": "false",
            "PREFIXWAY_BACKGROUND_CHECKS": "false",
            **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
        }
        gateway = await stack.enter_async_context(running_gateway(Settings.from_env(environ)))
        await gateway.until_complete()
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False, timeout=30))
        body = {"model": "simulated", "prompt": "tell me about the sea " * 20, "max_tokens": 2}
        for fault in (None, None, Fault(status=500)):
            if fault is not None:
                replica.faults.add(fault)
            await client.post(f"{gateway.url}/v1/completions", json=body)
        yield shown((await client.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")).text)


#: Label values that only trouble brings: the names that the code has for them.
_TROUBLE = {"outcome": {outcome.label for outcome in Outcome}, "name": set(KINDS)}


async def test_what_they_ask_for_is_there(metrics: Mapping[str, Metric]) -> None:
    """Each metric, each label and each value: a wrong name would be an alert that never fires."""
    missing = [
        f"{name}{{{label}{how}{value!r}}}"
        for name, matchers in selectors()
        for label, how, value in [*matchers, ("", "", "")]
        if name not in metrics or (label and not _is_there(metrics[name], label, value))
    ]

    assert len({name for name, _ in selectors()}) > 20
    assert missing == []


def _is_there(family: Metric, label: str, values: str) -> bool:
    told = {sample.labels.get(label) for sample in family.samples} | _TROUBLE.get(label, set())
    return set(values.split("|")) <= told


# A real Prometheus


def _hurried(folder: Path) -> Path:
    """The same rules, which look back for two seconds where they say three minutes, and wait for nothing."""
    text = re.sub(r"\bfor: \w+", "for: 0s", RULES.read_text().replace("[3m]", "[2s]"))
    file = folder / "alerts.yaml"
    file.write_text(text)
    return file


async def test_a_fleet_falls_ill(tmp_path: Path) -> None:
    """A replica that nobody hears is a ticket; when the last replica dies somebody is woken."""
    async with AsyncExitStack() as stack:
        port = closed_port()
        prometheus = await stack.enter_async_context(
            Prometheus({"prefixway": [f"127.0.0.1:{port}"]}, rules=[_hurried(tmp_path)])
        )
        sick = AsyncExitStack()
        heard, unheard = [
            await sick.enter_async_context(SimulatedReplica(ReplicaOptions(speeds=FAST))) for _ in range(2)
        ]
        stack.push_async_callback(sick.aclose)
        settings = Settings.from_env(
            {
                "PREFIXWAY_REPLICAS": f"a={heard.url},b={unheard.url}?events=tcp://127.0.0.1:{closed_port()}",
                "PREFIXWAY_PROBE_INTERVAL_S": "0.1",
                "PREFIXWAY_ACCESS_LOG": "false",
                "PREFIXWAY_BACKGROUND_CHECKS": "false",
                "PREFIXWAY_LISTEN": "127.0.0.1:0",
                "PREFIXWAY_ADMIN_LISTEN": "127.0.0.1:0",
                "PREFIXWAY_METRICS_LISTEN": f"127.0.0.1:{port}",
            }
        )
        gateway = await stack.enter_async_context(running_gateway(settings))
        await gateway.until_complete()
        await prometheus.until("sum(last_over_time(prefixway_replica_trust[2s]))", lambda found: found)
        await prometheus.until(
            'ALERTS{alertstate="firing"}',
            lambda found: (
                [(s.labels["alertname"], s.labels.get("replica")) for s in found] == [("PrefixwayReplicaBlind", "b")]
            ),
        )
        await sick.aclose()
        await eventually(lambda: not any(server.healthy for server in gateway.pool.servers))
        page = 'ALERTS{alertname="PrefixwayNoHealthyReplica",alertstate="firing",severity="page"}'
        await prometheus.until(page, len)
        blind = 'ALERTS{alertname="PrefixwayReplicaBlind",alertstate="firing"}'
        await prometheus.until(blind, lambda found: not found)  # who is down is not said to be blind
