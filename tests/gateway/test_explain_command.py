"""``prefixway explain`` against a real admin port."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.asgi_server import listen_socket
from gateway.cli import main
from gateway.explaining import explain_routes
from gateway.fleet.discovery.static import StaticDiscovery
from gateway.fleet.replica_pool import ReplicaPool
from gateway.observe.admin_app import admin_app
from gateway.observe.side_server import SideServer
from gateway.settings import Settings
from tests.fakes.background import running
from tests.fakes.scripted_server import closed_port
from tests.gateway.examples import MODEL, a_pool, a_router

BODY = json.dumps({"model": MODEL, "prompt": list(range(1000)), "cache_salt": "sesame"}).encode()


@pytest.fixture
def pool() -> ReplicaPool:
    return a_pool("a=http://a:1,b=http://b:1,c=http://c:1")


@pytest.fixture
async def admin(monkeypatch: pytest.MonkeyPatch, pool: ReplicaPool) -> AsyncIterator[None]:
    """The environment points at its admin port, which wants a token."""
    routes = explain_routes(Settings.from_env({}), a_router(pool), StaticDiscovery("", None, lambda _: None))
    side = SideServer(admin_app(dict, list, "t0", more=[routes]), listen_socket("127.0.0.1", 0))
    monkeypatch.setenv("PREFIXWAY_ADMIN_LISTEN", f"127.0.0.1:{side.port}")
    monkeypatch.setenv("PREFIXWAY_ADMIN_TOKEN", "t0")
    async with running(side.run()):
        yield
    side.close()


async def _run(*argv: str) -> int:
    """The exit status."""

    def run() -> int:
        with pytest.raises(SystemExit) as ended:
            main(["explain", *argv])
        return ended.value.code if isinstance(ended.value.code, int) else -1

    return await asyncio.to_thread(run)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "body.json"
    path.write_bytes(BODY)
    return str(path)


async def test_a_table_of_candidates(
    admin: None, pool: ReplicaPool, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who would get it, what each would cost, who is out, and nothing of the prompt."""
    pool.set_drained({"c"})
    status = await _run(file)
    out, err = capsys.readouterr()
    lines = out.splitlines()

    assert (status, err) == (0, "")
    assert lines[0] == "completions for tiny, salted; strategy kv_aware"
    assert lines[1] == "prompt of 1000 tokens; to be matched: 62 blocks of 16"
    assert lines[3].split()[:2] == ["replica", "cost"]
    assert sum(line.startswith("*") for line in lines) == 1
    assert lines[-2] == "c is out: draining"
    assert lines[-1].endswith(("because: cost; b cost as little", "because: cost; a cost as little"))
    assert "sesame" not in out


async def test_the_whole_answer_as_json(admin: None, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With another strategy, whose prompt is not read."""
    status = await _run(file, "--json", "--strategy", "roundrobin", "--path", "/v1/completions")
    page: dict[str, Any] = json.loads(capsys.readouterr().out)

    assert status == 0
    assert (page["strategy"], page["choice"]["reason"], page["path"]) == ("round_robin", "rotation", "/v1/completions")


async def test_a_prompt_that_is_not_read(admin: None, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Says so, and what is planned with."""
    status = await _run(file, "--strategy", "round_robin")
    lines = capsys.readouterr().out.splitlines()

    assert status == 0
    assert lines[1].startswith("prompt not read (the strategy does not ask for it): planned with ")


async def test_from_standard_input(
    admin: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``-``."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY)))

    assert await _run("-") == 0
    assert "prompt of 1000 tokens" in capsys.readouterr().out


async def test_nobody_to_choose(admin: None, pool: ReplicaPool, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same table without rows; the exit status tells."""
    pool.set_drained({"a", "b", "c"})
    status = await _run(file)
    out = capsys.readouterr().out

    assert status == 2
    assert "nobody: No replica is healthy." in out
    assert "a is out: draining" in out


@pytest.mark.parametrize(
    ("argv", "body", "message"),
    [
        ([], b"{odd", "JSON"),
        (["--path", "/nowhere"], BODY, "not served here"),
        (["--strategy", "fastest"], BODY, "no strategy is named 'fastest'"),
        ([], b'{"model": "nope", "prompt": "x"}', "does not exist"),
        (["--admin", "nonsense://"], BODY, "no http or https URL"),
    ],
)
async def test_what_is_wrong_with_the_question(
    admin: None, file: str, capsys: pytest.CaptureFixture[str], argv: list[str], body: bytes, message: str
) -> None:
    """Exit status 1, and the gateway's own words."""
    Path(file).write_bytes(body)
    status = await _run(file, *argv)
    out, err = capsys.readouterr()

    assert (status, out) == (1, "")
    assert message in err


async def test_a_file_that_is_not_there(admin: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1."""
    assert await _run("/nowhere/body.json") == 1
    assert capsys.readouterr().err == "prefixway: /nowhere/body.json: No such file or directory\n"


async def test_no_gateway(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, with where it was looked for."""
    port = closed_port()
    assert await _run(file, "--admin", f"127.0.0.1:{port}") == 2
    assert str(port) in capsys.readouterr().err
