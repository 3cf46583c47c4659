"""At the most talkative level, with everything going wrong: no key, password, prompt or token id is told to anybody."""

from __future__ import annotations

import asyncio
import json

import httpx

from tests.end_to_end.beside import gateway_beside
from tests.fakes.any_engine import AnyEngine
from tests.fakes.redis_servers import RedisServer
from tests.fakes.scripted_server import (
    SSE_HEAD,
    Wire,
    answer,
    chunk,
    plays,
    plays_and_closes,
    plays_and_resets,
)
from tests.running_gateway import RunningGateway

CLIENT_KEY, WRONG_KEY, REPLICA_KEY = "sk-client-7f3a", "sk-wrong-91bd", "sk-replica-c05e"
PASSWORD, HASH_SECRET, ADMIN_TOKEN = "pw-of-redis-44ac", "hash-secret-18ef", "admin-token-aa31"
PROMPT = "the otter juggles seventeen marigolds"
TOKENS = [7130517, 7130518, 7130519, 7130520]
SECRETS = (
    CLIENT_KEY, WRONG_KEY, REPLICA_KEY, PASSWORD, HASH_SECRET, ADMIN_TOKEN, "otter", "marigolds", "7130517", "7130519",
)  # fmt: skip
SETTINGS = {
    "api_keys": f"tester={CLIENT_KEY}",
    "replica_api_key": REPLICA_KEY,
    "hash_secret": HASH_SECRET,
    "admin_token": ADMIN_TOKEN,
    "receipt": "all",
    "client_priority": "true",
    "client_strategy": "true",
}
CHAT = {"model": "real", "messages": [{"role": "user", "content": PROMPT}]}
ECHO = json.dumps({"error": {"message": f"cannot read {PROMPT!r} ({TOKENS}) by {REPLICA_KEY}"}}).encode()


async def echoes(wire: Wire) -> None:
    """A 500 with all that was sent, in its head too."""
    said = wire.request.head.hex().encode() + ECHO
    await wire.send(answer(said, status="500 Internal Server Error", headers=b"x-echo: %b\r\n" % PROMPT.encode()))


CUES = (
    echoes,
    plays(answer(ECHO, status="400 Bad Request")),
    plays(answer(ECHO, status="429 Too Many Requests", headers=b"retry-after: 0\r\n")),
    plays_and_resets(ECHO),  # no HTTP
    plays_and_resets(b"HTTP/1.1 200 OK\r\n%b: x\r\n\r\n" % PROMPT.encode()),
    plays_and_closes(SSE_HEAD, chunk(b"data: " + ECHO)),
    plays(SSE_HEAD, b"zz" + ECHO),
    plays(answer(b'{"usage": {"prompt_tokens": "%b"}}' % PROMPT.encode())),
    plays(answer(b'{"usage": {"prompt_tokens": 1, "completion_tokens": [7130517]}}')),
)


async def test_nothing_is_told() -> None:
    """Logs, the access log, and the pages of both side ports."""
    with RedisServer(config={"requirepass": PASSWORD}) as redis:
        async with AnyEngine("a") as engine, AnyEngine("b", cues=engine.cues) as other:
            urls = [f"a={engine.url}", f"b={other.url}"]
            async with gateway_beside(urls, redis_url=redis.url, **SETTINGS) as gateway:
                await provoke(gateway, engine)
                await asyncio.to_thread(redis.restart)
                await asyncio.to_thread(redis.client().config_set, "requirepass", "another")
                await provoke(gateway, engine)
                await asyncio.to_thread(redis.kill)
                await provoke(gateway, engine)
                pages = await read_pages(gateway)
    for where, text in pages.items():
        assert len(text) > 100, where
        for secret in SECRETS:
            assert secret not in text, (where, secret, text[max(0, text.find(secret) - 300) :][:600])


async def provoke(gateway: RunningGateway, engine: AnyEngine) -> None:
    """Everything that might be worth telling."""
    key = {"authorization": f"Bearer {CLIENT_KEY}"}
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=30) as client:
        await client.post("/v1/chat/completions", json=CHAT, headers=key)
        await client.post("/v1/completions", json={"model": "real", "prompt": TOKENS}, headers=key)
        for wrong in (f"Bearer {WRONG_KEY}", WRONG_KEY, f"Basic {CLIENT_KEY}", f"Bearer {CLIENT_KEY} {WRONG_KEY}"):
            assert (
                await client.post("/v1/completions", json=CHAT, headers={"authorization": wrong})
            ).status_code == 401
        for body in BAD_BODIES:
            await client.post("/v1/chat/completions", content=body, headers=key)
            await client.post("/v1/audio/transcriptions", content=body, headers=key | FORM)
        for name in ("x-prefixway-priority", "x-prefixway-strategy", "x-session-id", "traceparent"):
            await client.post("/v1/completions", json=CHAT, headers=key | {name: PROMPT})
        for path in (f"/v1/{CLIENT_KEY}", f"/v1/models/{WRONG_KEY}", f"/v1/responses/{WRONG_KEY}", "/sleep"):
            for method in ("GET", "POST", "PUT"):
                await client.request(method, f"{path}?key={CLIENT_KEY}&prompt=otter", headers=key)
        for cue in CUES:
            for stream in (False, True):
                engine.cues.extend([cue, cue])
                try:
                    await client.post("/v1/chat/completions", json=CHAT | {"stream": stream}, headers=key)
                except httpx.HTTPError:  # it was broken off
                    assert gateway.process.poll() is None
        engine.cues.clear()
        await client.get("/status", headers={"host": "x" * 70_000, **key})


FORM = {"content-type": "multipart/form-data; boundary=cut"}
BAD_BODIES = (
    json.dumps(CHAT).encode()[:-3],
    b'{"model": "real", "prompt": "%b\xff"}' % PROMPT.encode(),
    json.dumps({"model": [PROMPT], "prompt": TOKENS}).encode(),
    json.dumps([PROMPT, TOKENS]).encode(),
    json.dumps({"model": "real", "messages": {"content": PROMPT}, "prompt": {PROMPT: TOKENS}}).encode(),
    json.dumps({"model": "real", "messages": [{"role": PROMPT, "content": [{"type": PROMPT}]}]}).encode(),
    json.dumps({"model": "real", "messages": CHAT["messages"], "chat_template": "{{ " + PROMPT}).encode(),
    json.dumps({"model": "real", "messages": CHAT["messages"], "max_tokens": PROMPT, "stream": PROMPT}).encode(),
    b"--cut\r\n" + PROMPT.encode(),
)


async def read_pages(gateway: RunningGateway) -> dict[str, str]:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        admin = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        pages = {
            page: (await client.get(gateway.admin_url + page, headers=admin)).raise_for_status().text
            for page in ("/status", "/replicas")
        }
        pages["/metrics"] = (await client.get(f"{gateway.metrics_url}/metrics")).raise_for_status().text
    lines = pages["/metrics"].count("\n")
    assert lines > 50
    await asyncio.to_thread(gateway.wait, lambda: gateway.access_log.read_text().count("\n") > 100)
    return pages | {"the log": gateway.log.read_text(), "the access log": gateway.access_log.read_text()}
