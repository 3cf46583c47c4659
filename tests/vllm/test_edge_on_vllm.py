"""What the edge does with a real engine behind it: every answer of vLLM's passes, and what ends here ends there."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fakes.raw_client import post
from tests.running_gateway import RunningGateway, running_gateway
from tests.vllm.real_replicas import RealReplica

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 4}


@pytest.fixture(scope="module", params=["kv_aware", "round_robin"])
def gateway(request: pytest.FixtureRequest, replicas: list[RealReplica]) -> Iterator[RunningGateway]:
    urls = [replica.url for replica in replicas]
    with running_gateway(urls, strategy=request.param, model_aliases="nick=tiny") as started:
        started.wait(lambda: "tiny" in started.status()["models"])
        started.wait(lambda: all(each["healthy"] for each in started.replicas().values()))
        yield started


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=60) as client:
        yield client


def running(replicas: list[RealReplica]) -> float:
    """Requests that the engines work on."""
    pages = [httpx.get(f"{replica.url}/metrics", trust_env=False).text for replica in replicas]
    lines = [line for page in pages for line in page.splitlines() if line.startswith("vllm:num_requests_running{")]
    assert len(lines) == len(replicas)
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_tokens_there_and_back(client: httpx.Client) -> None:
    """/tokenize and /detokenize."""
    tokens = (
        client.post("/tokenize", json={"model": "tiny", "prompt": "hello there"}).raise_for_status().json()["tokens"]
    )
    text = client.post("/detokenize", json={"model": "tiny", "tokens": tokens}).raise_for_status().json()["prompt"]

    assert text == "hello there"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"model": "tiny", "input": "x"}),
        ("/pooling", {"model": "tiny", "input": "x"}),
        ("/v1/score", {"model": "tiny", "text_1": "x", "text_2": "y"}),
        ("/rerank", {"model": "tiny", "query": "x", "documents": ["y"]}),
        ("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "temperature": -1}),
        ("/v1/chat/completions", {"model": "tiny", "messages": "none"}),
        ("/v1/completions", {"model": "tiny", "prompt": [5] * 5000}),
        ("/v1/responses/resp_none", None),
    ],
)
def test_vllms_errors_pass(client: httpx.Client, replicas: list[RealReplica], path: str, body: Any) -> None:
    """Status and body of a 4xx are the engine's own."""
    method = "GET" if body is None else "POST"
    direct = httpx.request(method, replicas[0].url + path, json=body, trust_env=False, timeout=60)
    through = client.request(method, path, json=body)

    assert 400 <= through.status_code < 500
    assert (through.status_code, through.content) == (direct.status_code, direct.content)


@pytest.mark.parametrize("stream", [True, False])
def test_an_alias(client: httpx.Client, stream: bool) -> None:
    """In every event."""
    text = client.post("/v1/chat/completions", json=CHAT | {"model": "nick", "stream": stream}).raise_for_status().text
    events = [line.removeprefix("data: ") for line in text.splitlines() if line and line != "data: [DONE]"]

    assert {json.loads(event)["model"] for event in events} == {"nick"}
    assert len(events) > 2 or not stream


def test_anthropics_messages(client: httpx.Client) -> None:
    """With the stream's own event names."""
    body = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
    plain = client.post("/v1/messages", json=body).raise_for_status().json()
    stream = client.post("/v1/messages", json=body | {"stream": True}).raise_for_status().text

    assert plain["usage"]["output_tokens"] > 0
    assert stream.count("event: message_start") == stream.count("event: message_stop") == 1
    assert "event: error" not in stream


def test_responses(client: httpx.Client) -> None:
    """Made, and streamed to the end. This engine keeps none, and says so itself."""
    body = {"model": "tiny", "input": "hello", "max_output_tokens": 4}
    made = client.post("/v1/responses", json=body).raise_for_status().json()
    stream = client.post("/v1/responses", json=body | {"stream": True}).raise_for_status().text
    read = client.get(f"/v1/responses/{made['id']}")
    followed = client.post("/v1/responses", json=body | {"previous_response_id": made["id"]})

    assert made["usage"]["output_tokens"] > 0
    assert "response.created" in stream
    assert stream.count("event: response.completed") + stream.count("event: response.incomplete") == 1
    assert read.status_code == followed.status_code == 404


@pytest.mark.parametrize("stream", [True, False])
def test_who_leaves_ends_the_generation(gateway: RunningGateway, replicas: list[RealReplica], stream: bool) -> None:
    """The engine stops though it was asked for thousands of tokens more."""
    gateway.wait(lambda: running(replicas) == 0)
    request_id = f"who-leaves-{uuid4().hex}"

    def told() -> list[dict[str, object]]:
        """The lines of this request: the log is written a moment later."""
        whole, _, _ = gateway.access_log.read_text().rpartition("\n")
        lines = map(json.loads, whole.splitlines())
        return [line for line in lines if line["request_id"] == request_id]

    headers = f"content-type: application/json\r\nx-request-id: {request_id}\r\n".encode()
    body = json.dumps(CHAT | {"stream": stream, "max_tokens": 3500, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as client:
        client.sendall(post(body, path="/v1/chat/completions", headers=headers))
        gateway.wait(lambda: running(replicas) == 1)
    gateway.wait(lambda: running(replicas) == 0)
    gateway.wait(lambda: gateway.status()["edge"]["under_way"] == 0)

    gateway.wait(lambda: bool(told()))
    assert [(line["outcome"], line["stream"]) for line in told()] == [("client_gone", stream)]
    assert gateway.status()["admission"]["inflight"] == 0
