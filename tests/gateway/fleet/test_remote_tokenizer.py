"""A replica tokenizes where the gateway cannot."""

from __future__ import annotations

from time import monotonic

import pytest

from gateway.errors import NoReplica
from gateway.fleet.model_card import parse_models
from gateway.fleet.remote_tokenizer import RemoteTokenizer
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from loadtest.replica import SimulatedReplica
from tests.fakes.scripted_server import ScriptedServer, answer, plays


def _pool(url: str) -> ReplicaPool:
    pool = ReplicaPool()
    pool.reconcile(parse_servers(url))
    for server in pool.servers:
        pool.identify(server, parse_models({"data": [{"id": "simulated"}]}), {})
        server.probe_answered()
    return pool


async def test_ids_come_from_the_replica_with_our_key() -> None:
    """The same ids as its own; the call carries the replica's key."""
    async with SimulatedReplica() as simulated:
        remote = RemoteTokenizer(_pool(simulated.url), clock=monotonic, api_key="replica-key")
        ids = await remote.tokenize("simulated", {"model": "simulated", "prompt": "hello world"})
        await remote.close()

    assert ids == simulated.folder.encode("hello world")
    assert simulated.requests[-1].header("authorization") == "Bearer replica-key"


async def test_failures_are_those_that_the_prompt_room_expects() -> None:
    """An error answer is ValueError, no connection OSError, no replica NoReplica."""
    async with SimulatedReplica() as simulated:
        pool = _pool(simulated.url)
        remote = RemoteTokenizer(pool, clock=monotonic)
        with pytest.raises(ValueError, match="answered 4"):
            await remote.tokenize("simulated", {"model": "nope", "prompt": 3})
    with pytest.raises(OSError, match="ConnectError"):
        await remote.tokenize("simulated", {"prompt": "x"})
    pool.reconcile([])
    with pytest.raises(NoReplica):
        await remote.tokenize("simulated", {"prompt": "x"})
    await remote.close()


@pytest.mark.parametrize("page", [b"[1]", b"null", b'{"tokens": 3}', b"[" * 200_000, b"nonsense"])
async def test_nonsense_is_a_value_error(page: bytes) -> None:
    """Whatever a replica answers, the caller's request is not lost."""
    async with ScriptedServer(plays(answer(page))) as server:
        remote = RemoteTokenizer(_pool(server.origin.url), clock=monotonic)
        with pytest.raises(ValueError, match=r"."):
            await remote.tokenize("simulated", {"prompt": "x"})
        await remote.close()
