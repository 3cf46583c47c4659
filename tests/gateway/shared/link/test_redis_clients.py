"""Every form of URL reaches its server: database, login, TLS, unix socket."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from gateway.redis_url import RedisTarget
from gateway.setting_field import SettingsError
from gateway.shared.link.redis_clients import client_for
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from tests.fakes.redis_servers import FLAVOURS, RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.shared.link.links import linked

TLS = Path(__file__).parents[3] / "data" / "tls"
PASSWORD = "s3same%/@:#?&"
USER = "gate@way"


@pytest.fixture(scope="module", params=FLAVOURS)
def guarded_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """It wants a password, or a user with his own, who may do little."""
    user = f"{USER} on >{PASSWORD}{USER} ~pw:* +get +set +evalsha +eval +script +client +ping"
    with RedisServer(request.param, {"requirepass": PASSWORD, "user": user}) as server:
        yield server


def _serving_tls() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    return context


async def test_a_database_number(redis_server: RedisServer) -> None:
    """What is written lies there and nowhere else."""
    async with linked(f"{redis_server.url}/3") as link:
        await link.run(("SET", "k", "v"))

    assert redis_server.client(db=3).get("k") == b"v"
    assert redis_server.client(db=0).get("k") is None


async def test_a_unix_socket(redis_server: RedisServer) -> None:
    """With a database number as well."""
    async with linked(f"unix://{redis_server.socket_path}?db=2") as link:
        await link.run(("SET", "k", "v"))

    assert redis_server.client(db=2).get("k") == b"v"


async def test_a_unix_socket_that_is_not_there(tmp_path: Path) -> None:
    """Is a Redis that cannot be reached."""
    async with linked(f"unix://{tmp_path}/none") as link:
        with pytest.raises(RedisUnavailable, match="No such file"):
            await link.run(("PING",))


async def test_a_password_in_the_url_or_apart(guarded_server: RedisServer) -> None:
    """Special characters are percent-encoded in the URL, and as they are in the setting."""
    async with linked(guarded_server.url) as link:
        assert await link.run(("PING",)) == b"PONG"
    target = RedisTarget.parse(f"redis://127.0.0.1:{guarded_server.port}", PASSWORD)
    client = client_for(target, 20.0, lambda: None)

    assert await client.execute(("PING",)) == b"PONG"
    await client.close()


async def test_a_user_of_an_access_list(guarded_server: RedisServer) -> None:
    """What he may not do is refused, and the connection stays good."""
    login = f"{quote(USER, '')}:{quote(PASSWORD + USER, '')}"
    async with linked(f"redis://{login}@127.0.0.1:{guarded_server.port}") as link:
        replies = await link.run_all([("SET", "pw:k", "v"), ("SET", "k", "v"), ("FLUSHALL",), ("GET", "pw:k")])

        assert [replies[0], replies[3]] == [b"OK", b"v"]
        assert [reply.code for reply in replies[1:3]] == ["NOPERM", "NOPERM"]
        assert link.stats.connections == 1


@pytest.mark.parametrize("login", ["", ":wrong@", "nobody:wrong@"])
async def test_a_login_that_is_refused(guarded_server: RedisServer, login: str) -> None:
    """A refusal, for each command of several; and nothing in the texts that was sent."""
    async with linked(f"redis://{login}127.0.0.1:{guarded_server.port}") as link:
        with pytest.raises(RedisRefused) as caught:
            await link.run(("GET", "k"))
        replies = await link.run_all([("GET", "k"), ("GET", "l")])

    assert caught.value.code == ("WRONGPASS" if login else "NOAUTH")
    assert [reply.code for reply in replies] == [caught.value.code] * 2
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("options", ["ssl_ca_certs={ca}", "ssl_cert_reqs=none"])
async def test_tls(redis_server: RedisServer, options: str) -> None:
    """Trusting one authority, or everybody."""
    async with TcpProxy(redis_server.port, tls=_serving_tls()) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}?{options.format(ca=TLS / 'certificate.pem')}"
        async with linked(url) as link:
            assert await link.run(("PING",)) == b"PONG"


async def test_tls_with_a_certificate_of_our_own(redis_server: RedisServer) -> None:
    """For a server that asks for one."""
    serving = _serving_tls()
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_verify_locations(TLS / "certificate.pem")
    certificate, key = TLS / "certificate.pem", TLS / "key.pem"
    options = f"ssl_ca_certs={certificate}&ssl_certfile={certificate}&ssl_keyfile={key}"
    async with (
        TcpProxy(redis_server.port, tls=serving) as proxy,
        linked(f"rediss://127.0.0.1:{proxy.port}?{options}") as link,
    ):
        assert await link.run(("PING",)) == b"PONG"


async def test_a_server_that_nobody_vouches_for_is_not_spoken_to(redis_server: RedisServer) -> None:
    """Its certificate is of no authority of the system, or of another host."""
    async with TcpProxy(redis_server.port, tls=_serving_tls()) as proxy:
        for url in (
            f"rediss://127.0.0.1:{proxy.port}",
            f"rediss://localhost:{proxy.port}?ssl_ca_certs={TLS / 'certificate.pem'}",
        ):
            async with linked(url) as link:
                with pytest.raises(RedisUnavailable, match="certificate"):
                    await link.run(("PING",))


def test_tls_files_that_cannot_be_read_are_a_wrong_setting() -> None:
    """Said at the start, not with every connection."""
    target = RedisTarget.parse("rediss://h?ssl_ca_certs=/nowhere.pem")

    with pytest.raises(SettingsError, match="PREFIXWAY_REDIS_URL: its TLS files cannot be read"):
        client_for(target, 1.0, lambda: None)
