"""A service account's files, as they are when they are asked for."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from gateway.fleet.discovery.polling import LookupFailed
from gateway.fleet.discovery.service_account import ServiceAccount
from tests.fakes.kubernetes_api import TLS


def test_what_its_folder_holds(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-1\n")
    (tmp_path / "namespace").write_text("models\n")
    account = ServiceAccount(tmp_path)
    first = account.token()
    (tmp_path / "token").write_text("secret-2")

    assert (first, account.token(), account.namespace()) == ("secret-1", "secret-2", "models")


@pytest.mark.parametrize("content", [None, b"", b" \n", b"two words", b"a\nb", "schlüssel".encode(), b"\xff"])
def test_a_token_that_no_header_carries_is_none(tmp_path: Path, content: bytes | None) -> None:
    """The fault names the file, and nothing of what it holds."""
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(LookupFailed) as failed:
        ServiceAccount(tmp_path).token()

    assert str(failed.value).startswith(f"{tmp_path}/token ")
    assert "words" not in str(failed.value)


def test_without_a_namespace_it_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(LookupFailed, match=r"namespace cannot be read: .*kubernetes:namespace/label=value"):
        ServiceAccount(tmp_path).namespace()


def test_whom_it_trusts(tmp_path: Path) -> None:
    """The cluster's authority alone; without that file whom the system trusts; a file that is none is a fault."""
    account = ServiceAccount(tmp_path)
    assert account.tls_context().verify_mode is ssl.CERT_REQUIRED
    (tmp_path / "ca.crt").write_bytes((TLS / "certificate.pem").read_bytes())
    (trusted,) = account.tls_context().get_ca_certs()
    assert trusted["subject"] == ((("commonName", "prefixway test"),),)
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(LookupFailed, match=r"ca\.crt cannot be read"):
        account.tls_context()
