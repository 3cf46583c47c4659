"""docs/operate.md: its procedures are typed as written, on machines of this test, and what it promises is seen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.settings import Settings
from tests.deploy.console_blocks import PAGE, Block, Step, blocks
from tests.deploy.machines import Machines, People, wait_for
from tests.fakes.redis_servers import BINARIES
from tests.fakes.scripted_server import closed_port

DEPLOY = PAGE.parent.parent / "deploy"
TLS = PAGE.parent.parent / "tests" / "data" / "tls"
BLOCKS = list(blocks(PAGE.read_text()))
BODY = {"model": "simulated", "prompt": "tell me about the sea and its ships " * 20, "max_tokens": 2}
_LOOKS = ("curl ", "prefixway check", "prefixway strategy show", "diff ")  # may be repeated


def try_out(machines: Machines, tried: Sequence[Block]) -> None:
    """Type everything, in the order of the page; fail with the line of it that does not hold."""
    for block in tried:
        for step in block.steps:
            output = ""

            def is_seen(step: Step = step, machine: str = block.machine) -> bool:
                nonlocal output
                ended = machines.enter(machine, step.command)
                output = ended.stdout
                return step.is_seen(output) if step.shows else ended.returncode == 0

            what = f"{PAGE.name}, line {block.line}, on {block.machine}: {step.command}"
            if step.command.startswith(_LOOKS):
                try:
                    wait_for(is_seen, what)
                except AssertionError as error:
                    raise AssertionError(f"{error}\nexpected:\n{step.shows}\nlast seen:\n{output}") from error
            else:
                assert is_seen(), f"{what}\nexpected:\n{step.shows}\nseen:\n{output}"


# The machines


def add_replica(machines: Machines, name: str) -> str:
    """Its URL."""
    port = str(closed_port())
    command = [sys.executable, "-m", "loadtest", "replica", "--port", port, "--prefill-tokens-per-s", "200000"]
    machines.add(f"replica-{name}", "vllm", command).start()
    return f"http://127.0.0.1:{port}"


def add_redis(machines: Machines) -> str:
    """Its URL."""
    port = str(closed_port())
    machines.add("redis", "valkey", [BINARIES["valkey-9"](), "--port", port, "--save", ""]).start()
    return f"redis://127.0.0.1:{port}"


def add_gateway(machines: Machines, name: str, settings: dict[str, str], **variables: str) -> str:
    """The URL of its metrics port. It does not run yet."""
    folder = machines.folder(name)
    addresses = [f"127.0.0.1:{closed_port()}" for _ in range(3)]
    given = dict(zip(("PREFIXWAY_LISTEN", "PREFIXWAY_METRICS_LISTEN", "PREFIXWAY_ADMIN_LISTEN"), addresses))
    given |= {
        "PREFIXWAY_PROBE_INTERVAL_S": "0.2",
        "PREFIXWAY_LINGER_S": "1",  # whom people have just found ready answers them
        "PREFIXWAY_INDEX_BUDGET_MS": "50",
        "PREFIXWAY_BACKGROUND_CHECKS": "false",
        **settings,
    }
    (folder / "env").write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    (folder / "body.json").write_text(json.dumps(BODY))
    command = [str(Path(sys.executable).parent / "prefixway"), "serve"]
    machines.add(name, "prefixway", command, folder / "env")
    scheme = "https" if "PREFIXWAY_TLS_CERT" in settings else "http"
    machines.give(
        name,
        GATEWAY=f"{scheme}://{addresses[0]}",
        METRICS=f"http://{addresses[1]}",
        ADMIN=f"http://{addresses[2]}",
        ENV_FILE=str(folder / "env"),
        **variables,
    )
    return f"http://{addresses[1]}"


def is_complete(metrics_url: str, replicas: int) -> bool:
    """Whether a gateway reaches its replicas, and believes their events."""
    try:
        page = httpx.get(f"{metrics_url}/metrics", trust_env=False).text
    except httpx.TransportError:
        return False
    told = re.findall(r"^prefixway_replica_(?:up|trust)\{.*\} 1\.0$", page, re.MULTILINE)
    return len(told) == 2 * replicas


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if missing := [name for name in ("bash", "curl", "openssl", "ps") if shutil.which(name) is None]:
        pytest.skip(f"the page types what is not here: {', '.join(missing)}")
    with Machines(tmp_path) as machines:
        yield machines


def test_the_procedures_of_a_fleet(machines: Machines, tmp_path: Path) -> None:
    """Three gateways on one Valkey, and four replicas: all that is tried on them, while people ask, of whom none sees
    anything of it."""
    urls = {name: add_replica(machines, name) for name in "abcd"}
    old_key, new_key, key = "sk-the-old-key-of-team-a", "sk-the-new-key-of-team-a", "sk-the-key-of-the-load"
    keys_file, replicas_file = tmp_path / "keys", tmp_path / "replicas.yaml"
    keys_file.write_text(f"team-a={old_key}\nload={key}\n")
    replicas_file.write_text("".join(f"- {name}={urls[name]}\n" for name in "abc"))
    settings = {
        "PREFIXWAY_REDIS_URL": add_redis(machines),
        "PREFIXWAY_API_KEYS_FILE": str(keys_file),
        "PREFIXWAY_REPLICAS_FILE": str(replicas_file),
    }
    variables = {
        "KEYS_FILE": str(keys_file),
        "REPLICAS_FILE": str(replicas_file),
        "OLD_KEY": old_key,
        "NEW_KEY": new_key,
        "KEY": key,
        "NEW_REPLICA": urls["d"],
    }
    names = ("gateway-1", "gateway-2", "gateway-3")
    metrics = [add_gateway(machines, name, settings, **variables) for name in names]
    for name in names[:2]:
        assert machines.enter(name, "systemctl start prefixway").returncode == 0
    wait_for(lambda: all(is_complete(url, 3) for url in metrics[:2]), "both know their replicas")
    gateways = [machines.enter(name, "echo $GATEWAY").stdout.strip() for name in names]

    with People(gateways, key, BODY).asking() as people:
        wait_for(lambda: people.answered, "people are answered")
        try_out(machines, [block for block in BLOCKS if block.machine and block.machine != "edge"])

    assert people.failures == []


def test_the_procedures_of_one_gateway(machines: Machines, tmp_path: Path) -> None:
    """With TLS, and with its index in memory at first."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    shutil.copy(TLS / "certificate.pem", certificate)
    shutil.copy(TLS / "key.pem", key)
    settings = {
        "PREFIXWAY_REPLICAS": f"a={add_replica(machines, 'a')}",
        "PREFIXWAY_TLS_CERT": str(certificate),
        "PREFIXWAY_TLS_KEY": str(key),
    }
    variables = {
        "TLS_CERT": str(certificate),
        "TLS_KEY": str(key),
        "NEW_CERT_PEM": str(TLS / "other-certificate.pem"),
        "NEW_KEY_PEM": str(TLS / "other-key.pem"),
        "REDIS_URL": add_redis(machines),
    }
    metrics = add_gateway(machines, "edge", settings, **variables)
    assert machines.enter("edge", "systemctl start prefixway").returncode == 0
    wait_for(lambda: is_complete(metrics, 1), "the gateway knows its replica")

    try_out(machines, [block for block in BLOCKS if block.machine == "edge"])


# The page itself


def test_every_procedure_is_tried() -> None:
    """At least a part of each; and nobody takes a remark away unnoticed."""
    page = PAGE.read_text()
    procedures = re.findall(r"^### (.+)$", page[page.index("## Procedures") :], re.MULTILINE)
    tried = {block.section for block in BLOCKS if block.machine}

    assert [name for name in procedures if name not in tried] == ["Roll back"]  # an upgrade to something older
    assert sum(bool(block.machine) for block in BLOCKS) > 20


def _names(kind: str) -> set[str]:
    """What deploy/k8s makes of a kind."""
    documents: list[Any] = []
    for file in (DEPLOY / "k8s").rglob("*.yaml"):
        documents += [document for document in yaml.safe_load_all(file.read_text()) if document]
    return {document["metadata"]["name"] for document in documents if document.get("kind", "").lower() == kind}


@pytest.mark.parametrize("command", [s.command for b in BLOCKS for s in b.steps if s.command.startswith("kubectl")])
def test_what_is_typed_at_a_cluster_exists(command: str) -> None:
    """Each resource that is named; and kubectl takes the options, where there is one."""
    kinds = {"deploy": "deployment", "deployment": "deployment", "statefulset": "statefulset"}
    for kind, name in re.findall(r"\b(deploy|deployment|statefulset)/([\w-]+)", command):
        if kind != "deploy" or name != "k8s":
            assert name in _names(kinds[kind]), command
    if folder := re.search(r"apply -k (\S+)", command):
        assert (DEPLOY.parent / folder[1] / "kustomization.yaml").exists()
    if (kubectl := shutil.which("kubectl", path=str(Path(sys.executable).parent))) is not None:
        first = command.partition(" | ")[0].partition(" -- ")[0].split()[1:]
        ended = subprocess.run([kubectl, *first, "--help"], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("command", [s.command for b in BLOCKS for s in b.steps if "docker compose" in s.command])
def test_what_is_typed_at_compose_exists(command: str) -> None:
    """Each service that is named."""
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    named = re.findall(r"\b(gateway-\d|replica|valkey)\b", command)

    assert named
    assert set(named) <= services.keys()


def test_every_link_leads_somewhere() -> None:
    """To a page that there is, and a section of it."""
    for name, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", PAGE.read_text()):
        page = (PAGE.parent / name if name else PAGE).read_text()
        titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_setting_that_is_named_exists() -> None:
    """Their names, as the settings have them."""
    names = set(re.findall(r"PREFIXWAY_[A-Z0-9_]+", PAGE.read_text())) - {"PREFIXWAY_VERSION"}  # Compose's

    assert len(names) > 15
    assert Settings.from_env(dict.fromkeys(names, "")).unknown == ()


def test_every_panel_that_is_named_exists() -> None:
    """Titles and columns of the dashboard stand in italics, with a capital."""
    dashboard = (DEPLOY / "grafana" / "routing.json").read_text()
    named = {" ".join(name.split()) for name in re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", PAGE.read_text())}

    assert len(named) > 10
    assert [name for name in sorted(named) if f': "{name}"' not in dashboard] == []
