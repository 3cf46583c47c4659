"""Certificates that are wrong are named; new ones are shown to new clients."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from pathlib import Path

import pytest

from gateway.asgi_server import listen_socket
from gateway.edge.tls import TlsFiles
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.stand_in_handler import TLS, StandInHandler, echo, hold, serving
from tests.fakes.waiting import eventually

CERTIFICATE, KEY = TLS / "certificate.pem", TLS / "key.pem"
OTHER_CERTIFICATE, OTHER_KEY = TLS / "other-certificate.pem", TLS / "other-key.pem"


def trusting(*certificates: Path) -> ssl.SSLContext:
    """A client's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for certificate in certificates:
        context.load_verify_locations(certificate)
    return context


async def shown(port: int) -> bytes:
    """The certificate that a client gets to see."""
    async with RawClient(port, tls=trusting(CERTIFICATE, OTHER_CERTIFICATE)) as client:
        assert (await client.ask(get("/x"))).status == 200
        certificate: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate


def replace(by: Path, path: Path) -> None:
    """At once, so that nobody reads half of it."""
    shutil.copy(by, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


@pytest.mark.parametrize(
    ("certificate", "key", "fault"),
    [
        (CERTIFICATE, OTHER_KEY, "other-key.pem is not the key of the certificate in .*/certificate.pem"),
        (CERTIFICATE, CERTIFICATE, "/certificate.pem holds no private key in PEM form"),
        (KEY, KEY, "/key.pem holds no certificate in PEM form"),
        (TLS / "none.pem", KEY, "none.pem cannot be read: No such file or directory"),
        (CERTIFICATE, TLS, "tls cannot be read: Is a directory"),
        (OTHER_CERTIFICATE, TLS / "protected-key.pem", "the key in .*/protected-key.pem is protected by a password"),
    ],
)
def test_the_file_at_fault_is_named(certificate: Path, key: Path, fault: str) -> None:
    """Before anybody connects, and without asking for a password."""
    with pytest.raises(ValueError, match=fault):
        TlsFiles(certificate, key)


@pytest.mark.parametrize("shared", [False, True])
async def test_answers_are_the_same_under_tls(shared: bool) -> None:
    """Many requests on a connection, large and small; on a socket of our own or a shared one."""
    handler = StandInHandler()
    listening = listen_socket("127.0.0.1", 0) if shared else None
    async with serving(handler, tls=TlsFiles(CERTIFICATE, KEY).context, listening=listening) as server:
        async with RawClient(server.port, tls=trusting(CERTIFICATE)) as client:
            for size in (10, 1_000_000, 10):
                assert (await client.ask(post(b"x" * size))).body == b"x" * size
            assert (await client.ask(post(b"x", headers=b"connection: close\r\n"))).status == 200
            assert await client.read_to_end() == b""
        await eventually(lambda: server.connections == 0)


async def test_http_1_1_and_tls_1_2_are_what_is_spoken() -> None:
    """Nothing older, and no HTTP/2, even if the client would like it."""
    async with serving(StandInHandler(), tls=TlsFiles(CERTIFICATE, KEY).context) as server:
        modern = trusting(CERTIFICATE)
        modern.set_alpn_protocols(["h2", "http/1.1"])
        async with RawClient(server.port, tls=modern) as client:
            assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        dated = trusting(CERTIFICATE)
        dated.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="deprecated"):
            dated.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match="deprecated"):
            dated.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with RawClient(server.port, tls=dated):
                pass


@pytest.mark.parametrize("shared", [False, True])
async def test_who_does_not_speak_tls_is_turned_away(shared: bool) -> None:
    """And disturbs nobody."""
    handler = StandInHandler()
    listening = listen_socket("127.0.0.1", 0) if shared else None
    async with serving(handler, tls=TlsFiles(CERTIFICATE, KEY).context, listening=listening) as server:
        async with RawClient(server.port) as client:
            await client.send(get("/x"))
            with contextlib.suppress(ConnectionError):
                assert b"HTTP" not in await client.read_to_end()
        assert await shown(server.port)
        assert len(handler.served) == 1


async def test_a_refusal_can_be_read_under_tls() -> None:
    """Though nothing can be closed halfway there, and the client is still sending."""
    handler = StandInHandler(max_body_bytes=1000)
    async with (
        serving(handler, tls=TlsFiles(CERTIFICATE, KEY).context) as server,
        RawClient(server.port, tls=trusting(CERTIFICATE)) as client,
    ):
        request = post(b"x" * 3_000_000)
        await client.send(request[:1000])
        assert (await client.answer()).status == 413
        await client.send(request[1000:])
        assert await client.read_to_end() == b""


async def test_a_client_that_leaves_is_noticed_under_tls() -> None:
    """With a goodbye or without."""
    handler = StandInHandler(hold)
    async with serving(handler, tls=TlsFiles(CERTIFICATE, KEY).context) as server:
        for n, leave in enumerate((RawClient.close, RawClient.reset)):
            async with RawClient(server.port, tls=trusting(CERTIFICATE)) as client:
                await client.send(post(b"x"))
                await eventually(lambda n=n: len(handler.served) == n + 1)  # type: ignore[misc]
                leave(client)
                await eventually(lambda n=n: len(handler.gone) == n + 1)  # type: ignore[misc]


async def test_new_files_are_shown_to_new_clients(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those that are connected stay so. A pair that does not fit is logged once, and the old one stays."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    shutil.copy(CERTIFICATE, certificate)
    shutil.copy(KEY, key)
    files = TlsFiles(certificate, key, look_s=0.01)
    async with serving(StandInHandler(), tls=files.context) as server, asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(files.run())
        async with RawClient(server.port, tls=trusting(CERTIFICATE)) as early:
            assert await shown(server.port) == der(CERTIFICATE)
            assert (files.is_stale, files.expires_s) == (False, 4949574202)
            replace(OTHER_CERTIFICATE, certificate)
            await eventually(lambda: "the TLS certificate was not replaced" in caplog.text)
            assert await shown(server.port) == der(CERTIFICATE)
            assert (files.is_stale, files.expires_s) == (True, 4949574202)
            caplog.set_level("INFO")
            replace(OTHER_KEY, key)
            await eventually(lambda: "the TLS certificate was replaced" in caplog.text)
            assert await shown(server.port) == der(OTHER_CERTIFICATE)
            assert (files.is_stale, files.expires_s) == (False, 4949594929)
            key.unlink()
            await eventually(lambda: "key.pem cannot be read" in caplog.text)
            assert await shown(server.port) == der(OTHER_CERTIFICATE)
            assert (await early.ask(get("/x"))).status == 200
        looking.cancel()
    assert caplog.text.count("was not replaced") == 2


async def test_a_link_may_be_turned(tmp_path: Path) -> None:
    """As an orchestrator replaces what it mounts: all files at once."""
    for name, certificate, key in (("1", CERTIFICATE, KEY), ("2", OTHER_CERTIFICATE, OTHER_KEY)):
        (tmp_path / name).mkdir()
        shutil.copy(certificate, tmp_path / name / "tls.crt")
        shutil.copy(key, tmp_path / name / "tls.key")
    now = tmp_path / "now"
    now.symlink_to("1")
    files = TlsFiles(now / "tls.crt", now / "tls.key")
    async with serving(StandInHandler(echo), tls=files.context) as server:
        files.poll()
        assert await shown(server.port) == der(CERTIFICATE)
        (tmp_path / "next").symlink_to("2")
        (tmp_path / "next").rename(now)
        files.poll()
        assert await shown(server.port) == der(OTHER_CERTIFICATE)
