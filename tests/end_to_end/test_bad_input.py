"""Whatever a client sends, it gets a 4xx of OpenAI's shape or the replica's own answer; never a 5xx of ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.end_to_end.house import House, house

JSON = {"content-type": "application/json"}
BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"3",
    b'"text"',
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b'{"model": 3}',
    b'{"model": ["simulated"]}',
    b'{"model": ""}',
    b'{"model": "nope", "messages": [], "prompt": "x"}',
    b'{"model": "simulated"}',
    b'{"model": "simulated", "messages": 7, "prompt": {"a": 1}}',
    b'{"model": "simulated", "messages": [7], "prompt": [[7], "x"]}',
    b'{"model": "simulated", "messages": [{"role": 7}], "prompt": [-1]}',
    b'{"model": "simulated", "messages": [{"role": "user"}], "prompt": [1e99]}',
    b'{"model": "simulated", "messages": [{"role": "user", "content": NaN}], "prompt": NaN}',
    b'{"model": "simulated", "messages": '
    + b"[" * 5000
    + b"]" * 5000
    + b', "prompt": '
    + b"[" * 5000
    + b"]" * 5000
    + b"}",
    b'{"model": "simulated", "model": "nope", "messages": [], "prompt": "x"}',
    b'{"model": "simulated", "messages": [{"role": "user", "content": "\\ud800"}], "prompt": "\\ud800"}',
    b'{"model": "simulated", "messages": [], "prompt": "", "stream": "yes", "max_tokens": "many"}',
    b'{"model": "simulated", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "max_tokens": 1e400}',
]


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
async def test_odd_bodies(strategy: str, route: str) -> None:
    """Every odd body under every strategy: an answer below 500, and if not 200 then with an error object."""
    async with house(["a"], strategy=strategy) as home:
        answers = [await home.client.post(route, content=body, headers=JSON) for body in BODIES]

    for body, answer in zip(BODIES, answers):
        assert answer.status_code < 500, (body[:80], answer.text)
        if answer.status_code != 200:
            assert answer.json()["error"]["message"], body[:80]
    assert [answer.status_code for answer in answers[:7]] == [400] * 7


async def test_a_missing_model_means_the_only_one() -> None:
    """One model in the fleet: no name is needed."""
    async with house(["a"]) as home:
        answer = await home.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})

    assert answer.status_code == 200


async def test_a_replicas_own_error_passes_untouched() -> None:
    """The body of a 400 is what the replica sent, byte for byte, and it was asked once."""
    async with house(["a", "b"]) as home:
        body = {"model": "simulated", "prompt": "x", "max_tokens": 1}
        long = {"model": "simulated", "prompt": [5] * 20_000, "max_tokens": 1}
        direct = await home.client.post(f"{home.replicas['a'].url}/v1/completions", json=long)
        before = sum(home.served().values())
        through = await home.client.post("/v1/completions", json=long)
        after = sum(home.served().values())
        fine = await home.client.post("/v1/completions", json=body)

    assert (through.status_code, through.content) == (direct.status_code, direct.content)
    assert through.status_code == 400
    assert after - before == 1
    assert fine.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/sleep", 403),
        ("POST", "/reset_prefix_cache", 403),
        ("POST", "/%72eset_prefix_cache", 404),
        ("POST", "/v1/../sleep", 403),
        ("POST", "//sleep", 404),
        ("GET", "/metrics", 403),
        ("GET", "/server_info", 403),
        ("POST", "/collective_rpc", 403),
        ("POST", "/v1/load_lora_adapter", 403),
    ],
)
async def test_what_is_not_proxied_is_refused(method: str, path: str, status: int) -> None:
    """Unknown paths, wrong methods and control routes, in any spelling, never reach a replica."""
    async with house(["a"]) as home:
        before = [r for r in home.replicas["a"].requests if r.target.startswith(("/sleep", "/reset", "/coll"))]
        request = home.client.build_request(method, home.gateway.url + path)
        request.url = request.url.copy_with(raw_path=path.encode())
        answer = await home.client.send(request)
        after = [r for r in home.replicas["a"].requests if r.target.startswith(("/sleep", "/reset", "/coll"))]

    assert answer.status_code == status
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert before == after == []


async def _series(home: House) -> set[str]:
    """The series of counts, without those that only tell how often the test looked."""
    return {line.rpartition(" ")[0] for line in (await home.metrics()).splitlines() if not line.startswith("#")}


async def test_client_text_cannot_grow_the_metrics() -> None:
    """After one unknown model and one unknown path, hundreds more random ones add no series."""
    async with house(["a"]) as home:

        async def odd(number: int) -> None:
            body = {"model": f"m{number}", "messages": [{"role": "user", "content": "x"}]}
            await home.client.post("/v1/chat/completions", json=body)
            await home.client.get(f"/path-{number}")
            await home.client.post(f"/v1/path-{number}", json=body)

        await home.complete("x", max_tokens=1)
        await odd(0)
        before = await _series(home)
        for start in range(1, 201, 50):
            await asyncio.gather(*(odd(number) for number in range(start, start + 50)))
        after = await _series(home)

    assert after == before
