"""A cluster's API over real HTTP: who is shown the token, and what each kind of failure is called."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gateway.fleet.discovery.kubernetes_api import Gone, KubernetesApi
from gateway.fleet.discovery.polling import LookupFailed
from gateway.fleet.discovery.service_account import ServiceAccount
from tests.fakes.kubernetes_api import TOKEN
from tests.fakes.kubernetes_api import KubernetesApi as FakeApi
from tests.fakes.scripted_server import (
    Script,
    ScriptedServer,
    Wire,
    answer,
    closed_port,
    plays,
    plays_and_closes,
    plays_and_resets,
)

_LOCATION = b"location: http://127.0.0.1:1/\r\n"
PODS = "/api/v1/namespaces/default/pods"


async def _get(api: KubernetesApi, *, most_bytes: int = 1_000_000) -> bytes:
    return await api.get(PODS, {"limit": "9"}, most_bytes=most_bytes)


async def _fault(fake: FakeApi, folder: Path) -> str:
    """Of one question. The token is never in it."""
    api = KubernetesApi(fake.url, ServiceAccount(fake.write_account(folder)), answer_s=0.3)
    try:
        with pytest.raises(LookupFailed) as failed:
            await _get(api)
    finally:
        await api.close()
    assert TOKEN not in str(failed.value)
    return str(failed.value).removeprefix(fake.url).strip()


async def test_a_list_over_tls_with_the_accounts_token(tmp_path: Path) -> None:
    """One connection for many questions."""
    async with FakeApi(tls=True) as fake:
        fake.add("vllm-0")
        api = KubernetesApi(fake.url, ServiceAccount(fake.write_account(tmp_path)))
        pages = [json.loads(await _get(api)) for _ in range(3)]
        await api.close()

    assert [page["items"][0]["metadata"]["name"] for page in pages] == ["vllm-0"] * 3
    assert fake.connections == 1
    assert fake.requests[0].values("authorization") == [f"Bearer {TOKEN}".encode()]
    assert fake.requests[0].values("user-agent")[0].startswith(b"prefixway/")


async def test_a_token_that_was_rotated_is_read_anew(tmp_path: Path) -> None:
    async with FakeApi(tls=True) as fake:
        api = KubernetesApi(fake.url, ServiceAccount(fake.write_account(tmp_path)))
        await _get(api)
        fake.token = "another-token"
        with pytest.raises(LookupFailed, match=f"answers 401 .*{tmp_path}/token is not taken"):
            await _get(api)
        fake.write_account(tmp_path)
        await _get(api)
        await api.close()


async def test_a_certificate_that_was_replaced_is_trusted_once_the_account_says_so(tmp_path: Path) -> None:
    """An API that shows another one than the account trusts is not told the token."""
    async with FakeApi(tls=True) as fake:
        account = ServiceAccount(fake.write_account(tmp_path))
        api = KubernetesApi(fake.url, account)
        await _get(api)
        fake.renew_certificate()
        await api.close()
        asked = len(fake.requests)
        with pytest.raises(LookupFailed, match=r"cannot be reached: .*CERTIFICATE_VERIFY_FAILED"):
            await _get(api)
        assert len(fake.requests) == asked
        fake.write_account(tmp_path)
        await _get(api)
        await api.close()


async def test_plain_http_is_shown_no_token(tmp_path: Path) -> None:
    """It is for ``kubectl proxy``; no account is needed."""
    async with FakeApi(token=None) as fake:
        api = KubernetesApi(fake.url, ServiceAccount(tmp_path / "nowhere"))
        await _get(api)
        await api.close()

    assert fake.requests[0].values("authorization") == []


async def test_the_path_of_a_url_is_kept(tmp_path: Path) -> None:
    """As of a proxy before several clusters."""
    async with ScriptedServer(plays(answer(b"{}"))) as server:
        api = KubernetesApi(f"{server.origin.url}/clusters/one/", ServiceAccount(tmp_path))
        await _get(api)
        await api.close()

    assert server.requests[0].line == b"GET /clusters/one/api/v1/namespaces/default/pods?limit=9 HTTP/1.1"


async def test_a_right_that_is_missing_is_named(tmp_path: Path) -> None:
    async with FakeApi(tls=True) as fake:
        fake.may_list = False
        fault = await _fault(fake, tmp_path)

    assert fault.startswith(
        'answers 403 (pods is forbidden: User "system:serviceaccount:default:prefixway" cannot list'
    )
    assert fault.endswith("give it a Role with the verb list on the resource pods in that namespace")


def _status(status: str, message: str = "") -> Script:
    return plays(answer(json.dumps({"kind": "Status", "message": message}).encode(), status=status))


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (_status("404 Not Found"), "answers 404: that is no Kubernetes API: see PREFIXWAY_KUBERNETES_API"),
        (_status("429 Too Many Requests", "later"), "answers 429 (later): it has too much to do"),
        (_status("500 Internal Server Error", f"you sent {TOKEN}\n"), "answers 500 (you sent ***)"),
        (_status("503 Service Unavailable", "x" * 9999), f"answers 503 ({'x' * 200})"),
        (plays(answer(b"\xff[", status="502 Bad Gateway")), "answers 502"),
        (plays(answer(b"z" * 99_999, status="502 Bad Gateway")), "answers 502"),
        (plays(answer(b'{"message": 7}', status="400 Bad Request")), "answers 400"),
        (plays(answer(b"", status="302 Found", headers=_LOCATION)), "answers 302: redirects are not followed"),
        (plays_and_resets(), "broke off: ReadError"),
        (plays_and_closes(answer(b"x" * 99)[:-9]), "broke off: RemoteProtocolError"),
        (plays_and_closes(b"garbage\r\n\r\n"), "broke off: RemoteProtocolError"),
        (plays_and_closes(answer(b"no gzip", headers=b"content-encoding: gzip\r\n")), "broke off: DecodingError"),
        (Wire.until_gone, "does not answer in time"),
        (plays(answer(b"x" * 1_000_001)), "answers with more than 1000000 bytes"),
    ],
)  # fmt: skip
async def test_every_other_failure_is_a_fault_for_people(tmp_path: Path, script: Script, fault: str) -> None:
    """Of one line, and without the token, whatever is said."""
    async with FakeApi(tls=True) as fake:
        fake.cues.append(script)
        assert await _fault(fake, tmp_path) == fault


async def test_what_is_too_old_is_a_fault_of_its_own(tmp_path: Path) -> None:
    async with FakeApi(token=None) as fake:
        fake.cues.append(_status("410 Gone", "too old"))
        api = KubernetesApi(fake.url, ServiceAccount(tmp_path))
        with pytest.raises(Gone, match=r"answers 410 \(too old\)"):
            await _get(api)
        await api.close()


async def test_nobody_is_there(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    api = KubernetesApi(url, ServiceAccount(tmp_path))
    with pytest.raises(LookupFailed, match=f"{url} cannot be reached: "):
        await _get(api)
    await api.close()


async def test_an_api_that_is_back_is_asked_again(tmp_path: Path) -> None:
    """Over a new connection."""
    async with FakeApi(token=None) as fake:
        api = KubernetesApi(fake.url, ServiceAccount(tmp_path))
        await _get(api)
        fake.kill()
        for _ in range(2):
            with pytest.raises(LookupFailed):
                await _get(api)
        await fake.revive()
        await _get(api)
        await api.close()


async def test_one_that_is_cancelled_leaves_no_connection(tmp_path: Path) -> None:
    async with ScriptedServer(Wire.until_gone) as server:
        api = KubernetesApi(server.origin.url, ServiceAccount(tmp_path))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await _get(api)
        await asyncio.wait_for(server.wires[0].gone.wait(), 20)
        await api.close()


@pytest.mark.parametrize("url", ["", "10.0.0.1:443", "ftp://x", "https://", "https://user:passw0rd@h", "https://h?x=1"])
def test_a_url_that_is_none_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match=r"must be a URL like https://10\.96\.0\.1:443") as refused:
        KubernetesApi(url, ServiceAccount(tmp_path))

    assert "passw0rd" not in str(refused.value)
