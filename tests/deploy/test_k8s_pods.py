"""The containers of deploy/k8s do what their manifests say of them, as far as that can be seen without a cluster."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.deploy.cluster import Cluster, secret
from tests.deploy.kustomize import SECRETS
from tests.deploy.local_pods import LocalPods, valkey_client
from tests.deploy.own_network import run_in_own_network

_API = "http://127.0.0.1:8080"
_TARGET_LABELS = {"namespace", "service", "pod", "container", "endpoint", "job", "instance"}
_MODEL = "qwen2.5-7b-instruct"


def _body(text: str, **more: Any) -> dict[str, Any]:
    return {"model": _MODEL, "messages": [{"role": "user", "content": text}], **more}


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=_API, trust_env=False, timeout=30)


def test_a_gateway_is_ready_by_its_probes_and_drains(cluster: Cluster, tmp_path: Path) -> None:
    """It lists its replicas in its own namespace, serves, and on SIGTERM is unready at once, serves on for its linger
    time, and ends, with its running stream, before its pod would be killed.
    """
    with_secret = Cluster([*cluster.objects, secret("prefixway", SECRETS)])

    async def work() -> None:
        async with LocalPods(with_secret, tmp_path) as pods, _client() as client:
            await pods.until_answers(pods.valkey())
            gateway = pods.gateway(linger_s="3", discovery_interval_s="0.3")  # less, for the sake of time
            await gateway.until("startupProbe")
            assert not await gateway.probe("readinessProbe")  # alive, and without a replica
            async with pods.replica("vllm-0", "127.0.2.1"), pods.replica("vllm-1", "127.0.2.2") as last:
                await gateway.until("readinessProbe")
                body = _body("tell me", stream=True, max_tokens=120)
                async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
                    chunks = stream.aiter_lines()
                    await anext(chunks)
                    ended = asyncio.ensure_future(gateway.terminate())
                    await gateway.until("readinessProbe", says=False)
                    assert await gateway.probe("livenessProbe")
                    assert (await client.post("/v1/chat/completions", json=_body("linger"))).is_success
                    rest = [line async for line in chunks if line]
                assert rest[-1] == "data: [DONE]"
                assert await ended == 0, gateway.output.read_text()[-3000:]
                assert last.requests

    run_in_own_network(work)


def test_valkey_wants_the_password_of_the_secret(example: Cluster, tmp_path: Path) -> None:
    """Whatever is in it."""
    odd = "p@ss: w\"or'd\\ $(X) #%"
    objects = [each for each in example.objects if each["kind"] != "Secret"]

    async def work() -> None:
        pods = LocalPods(Cluster([*objects, secret("prefixway", {**SECRETS, "redis-password": odd})]), tmp_path)
        async with pods:
            await pods.until_answers(pods.valkey())
            stranger = valkey_client()
            with pytest.raises(redis.AuthenticationError):
                stranger.ping()
            stranger.close()

    run_in_own_network(work)


def test_the_sidecar_writes_what_gateways_read(example: Cluster, tmp_path: Path) -> None:
    """An indexer beside its replica, and a gateway that only reads, call it by the same name: what one prompt left in
    the cache is predicted for the next. Metrics have no label that the scrape would put there itself.
    """
    settings = example.get("ConfigMap", "prefixway")
    plain = {key: value for key, value in settings["data"].items() if key != "PREFIXWAY_API_KEYS_FILE"}
    objects = [{**each, "data": plain} if each is settings else each for each in example.objects]

    async def work() -> None:
        async with LocalPods(Cluster(objects), tmp_path) as pods, _client() as client:
            await pods.until_answers(pods.valkey())
            async with pods.replica("vllm-0", "127.0.0.1"):
                beside = {"metrics_listen": "127.0.0.1:9474", "admin_listen": "127.0.0.1:9475"}
                indexer = pods.indexer("vllm-0", **beside)  # another pod, where it runs
                gateway = pods.gateway(linger_s="0", receipt="all")
                await indexer.until("livenessProbe")
                await gateway.until("readinessProbe")
                await _until_matched(client, 100)
                own = pods.api.server_id("vllm-0", "prefixway")
                for each in (indexer, gateway):
                    metrics = await client.get(f"http://127.0.0.1:{each.metrics_port}/metrics")
                    labels = {label for names in re.findall(r"\{(.*)\} ", metrics.text) for label in _names(names)}
                    assert f'replica="{own}"' in metrics.text
                    assert labels & _TARGET_LABELS == set()
                assert await gateway.terminate() == 0
                assert await indexer.terminate() == 0

    run_in_own_network(work)


async def _until_matched(client: httpx.AsyncClient, tokens: int) -> None:
    """So many are predicted for a prompt that was asked before: soon."""
    words = " ".join(f"word{number}" for number in range(200))
    found = ""
    for _ in range(200):
        answer = await client.post("/v1/chat/completions", json=_body(words, max_tokens=2))
        found = answer.headers["x-prefixway-matched"]
        if int((re.findall(r"l0=(\d+)", found) or ["0"])[0]) > tokens:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the last of 200: {found}")


def _names(labels: str) -> list[str]:
    return re.findall(r'(\w+)="', labels)
