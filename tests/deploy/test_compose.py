"""deploy/compose: read by the real Docker Compose, and run without an engine (tests/deploy/local_compose.py)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from gateway.settings import Settings
from loadtest.__main__ import parser
from tests.debian_programs import program
from tests.deploy.compose_file import PATH, ComposeFile, Service, seconds, size
from tests.deploy.docker_compose import config
from tests.deploy.dockerfile import ROOT

FILE = ComposeFile.read()
SERVICES = list(FILE.services.values())
GATEWAYS = [service for service in SERVICES if service.name.startswith("gateway-")]
VLLMS = [service for service in SERVICES if service.name.startswith("vllm-")]
TOKEN = "b8-Yw2"
HANDOVER_S = 8  # docs/operate.md


def settings_of(gateway: Service, folder: Path) -> Settings:
    """As the process reads them, with the secret's file where this test has put one."""
    token = folder / "admin_token"
    token.write_text(TOKEN + "\n")
    return Settings.from_env(
        {name: value.replace("/run/secrets/admin_token", str(token)) for name, value in gateway.environment.items()}
    )


def test_docker_compose_takes_it_and_reads_it_as_these_tests_do() -> None:
    """Its own schema and its own variables; commands, environment and health checks come out the same."""
    said, fault = config(PATH, {"PREFIXWAY_STRATEGY": "round_robin"})
    ours = ComposeFile.read({"PREFIXWAY_STRATEGY": "round_robin"}).services

    assert fault == ""
    assert said["services"].keys() == ours.keys()
    for name, service in ours.items():
        theirs = said["services"][name]
        assert [*(theirs["entrypoint"] or []), *(theirs["command"] or [])] == service.command
        assert theirs.get("environment", {}) == service.environment
        assert theirs["healthcheck"].get("test", ["CMD"])[1:] == service.health_check
        assert theirs["image"] == service.fields["image"]
    assert said["services"]["gateway-1"]["environment"]["PREFIXWAY_STRATEGY"] == "round_robin"


def test_docker_compose_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    """So the test above can fail."""
    broken = tmp_path / "compose.yaml"
    broken.write_text(PATH.read_text().replace("mem_limit: 2g", "memlimit: 2g"))

    assert "memlimit" in config(broken, {})[1]


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.name)
def test_the_gateways_settings_are_settings(gateway: Service, tmp_path: Path) -> None:
    """With PREFIXWAY_STRICT_ENV: an unknown name would have stopped it."""
    settings = settings_of(gateway, tmp_path)

    assert settings.strict_env
    assert settings.admin_token == TOKEN
    assert settings.shares_index
    assert settings.discovery.name in FILE.services


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.name)
def test_a_gateway_has_the_memory_and_the_time_that_its_settings_take(gateway: Service, tmp_path: Path) -> None:
    """The index, bodies that come in, temporary files and 200 MB for itself; lingering, answers, handing over."""
    settings = settings_of(gateway, tmp_path)
    assert settings.index_memory_mb is not None
    (temporary,) = re.findall(r"^/tmp:size=(\w+)$", "\n".join(gateway.fields["tmpfs"]), re.MULTILINE)
    taken = (settings.index_memory_mb + settings.max_uploads_mb + 200) * (1 << 20) + size(temporary)

    assert taken < gateway.memory_bytes
    assert settings.linger_s + settings.drain_s + HANDOVER_S <= seconds(gateway.fields["stop_grace_period"])


def test_what_is_published() -> None:
    """The two APIs to everybody; people's pages to this machine; nothing twice."""
    published = [(service.name, *ports) for service in SERVICES for ports in service.published]
    open_to_all = {(name, *ports) for name, *ports in published if len(ports) == 2}

    assert open_to_all == {("gateway-1", "8080", "8080"), ("gateway-2", "8081", "8080")}
    assert all(address == "127.0.0.1" for _, address, *_ in (row for row in published if len(row) == 4))
    assert len({row[-2] for row in published}) == len(published)


def test_profiles() -> None:
    """Real replicas and the load are asked for by name; everything else is always there, and waits for none of them."""
    named = {service.name: service.profiles for service in SERVICES if service.profiles}

    assert named == {"vllm-0": ["vllm"], "vllm-1": ["vllm"], "load": ["load"]}
    for service in SERVICES:
        if not service.profiles:
            assert not set(service.fields.get("depends_on", {})) & set(named)


@pytest.mark.parametrize("service", [service for service in SERVICES if service not in VLLMS], ids=lambda s: s.name)
def test_nobody_may_do_more_than_it_needs(service: Service) -> None:
    """A read-only root, no capability, no way to one, a limit for memory, logs that end; and it is started again."""
    fields = service.fields

    assert fields["read_only"] is True
    assert fields["cap_drop"] == ["ALL"]
    assert fields["security_opt"] == ["no-new-privileges:true"]
    assert service.memory_bytes
    assert fields["logging"]["options"]["max-size"]
    assert fields["restart"] == "unless-stopped"
    assert "healthcheck" in fields


def test_images_are_pinned() -> None:
    """By a version: none is `latest`, none is without one."""
    tags = {service.name: service.fields["image"].partition(":")[2] for service in SERVICES}

    assert all(re.match(r"v?\d+\.\d+", tag) for tag in tags.values()), tags


def test_every_mounted_file_is_there() -> None:
    """And every volume is declared; what is mounted from here is read-only."""
    for service in SERVICES:
        for mount in service.mounts:
            if mount.is_of_the_host:
                assert mount.path.exists(), mount
                assert mount.mode == "ro", mount
            else:
                assert mount.source in FILE.volumes
    assert all(set(service.fields.get("secrets", [])) <= set(FILE.secrets) for service in SERVICES)


@pytest.mark.parametrize("name", [FILE.secrets["admin_token"], ".env"])
def test_files_with_secrets_are_not_committed(name: str) -> None:
    """Git does not see them, whoever makes one: the admin token, and the environment with HF_TOKEN and API keys."""
    file = PATH.parent / name
    ignored = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "check-ignore", "--quiet", file], check=False, cwd=ROOT
    )

    assert ignored.returncode == 0


@pytest.mark.parametrize("service", VLLMS, ids=lambda service: service.name)
def test_real_replicas_tell_what_the_gateways_need(service: Service) -> None:
    """Events and their replay on ports that ranks do not share, cached tokens in usage; found by the gateways' name."""
    (events,) = (word.removeprefix("--kv-events-config=") for word in service.command if "kv-events" in word)
    told = json.loads(events)

    assert {"--enable-prefix-caching", "--enable-prompt-tokens-details"} <= set(service.command)
    assert told["enable_kv_cache_events"] is True
    assert (told["endpoint"], told["replay_endpoint"]) == ("tcp://*:5557", "tcp://*:5657")
    assert service.fields["networks"]["default"]["aliases"] == ["replica"]


def test_each_real_replica_has_a_gpu_of_its_own() -> None:
    """``count: 1`` would give all of them the first."""
    devices = [service.fields["deploy"]["resources"]["reservations"]["devices"] for service in VLLMS]

    assert [device["device_ids"] for (device,) in devices] == [["0"], ["1"]]


def test_the_commands_of_the_simulation_are_understood() -> None:
    """By its own parser."""
    replica, load = (parser().parse_args(FILE.services[name].fields["command"]) for name in ("replica", "load"))

    assert (replica.host, replica.events, replica.replay) == ("0.0.0.0", "tcp://*:5557", "tcp://*:5657")
    assert load.url == ["http://gateway-1:8080", "http://gateway-2:8080"]


def test_what_can_be_set_is_told() -> None:
    """Every variable of the file, in docs/deploy.md."""
    variables = set(re.findall(r"\$\{(\w+)", PATH.read_text()))
    page = (ROOT / "docs" / "deploy.md").read_text()

    assert variables == {name for name in variables if f"`{name}" in page}


def test_prometheus_takes_its_configuration() -> None:
    """With the rules that are mounted beside it; and scrapes every gateway, and whatever is called a replica."""
    file = ROOT / "deploy" / "prometheus" / "prometheus.yaml"
    command = [str(program("usr/bin/promtool")), "check", "config", str(file)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)
    jobs = {job["job_name"]: job for job in yaml.safe_load(file.read_text())["scrape_configs"]}
    mounted = {mount.target: mount.path for mount in FILE.services["prometheus"].mounts}

    assert checked.returncode == 0, checked.stderr
    assert jobs["prefixway"]["static_configs"][0]["targets"] == [f"{gateway.name}:9464" for gateway in GATEWAYS]
    assert jobs["vllm"]["dns_sd_configs"][0]["names"] == ["replica"]
    assert {file, file.with_name("alerts.yaml")} <= set(mounted.values())


def test_grafana_finds_its_data_and_its_dashboard() -> None:
    """The datasource is that Prometheus; the provider's folder has the mounted file, which is the first page."""
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "prefixway.yaml").read_text())["providers"]
    grafana = FILE.services["grafana"]
    targets = {mount.path: mount.target for mount in grafana.mounts}
    dashboard = targets[ROOT / "deploy" / "grafana" / "routing.json"]

    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    assert targets[provisioning] == "/etc/grafana/provisioning"
    assert str(Path(dashboard).parent) == provider["options"]["path"]
    assert grafana.environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard
