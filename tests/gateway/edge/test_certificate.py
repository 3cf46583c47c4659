"""Until when a certificate is good."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.certificate import expiry_s
from tests.fakes.stand_in_handler import TLS

CERTIFICATE = TLS / "certificate.pem"  # until November 2126: a year with four digits

#: Until September 2, 2081, 00:41:05 UTC.
OTHER_FORM = """
subject=/CN=x
-----BEGIN CERTIFICATE-----
MIIBbzCCARWgAwIBAgIUMcjeH2BaqjzyL2kSrv2Dhr7WWKEwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAgFw0yNjExMzAwMDQxMDVaGA8yMDgxMDkwMjAwNDEwNVow
DDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEsnvLJaNjzT
6Ny/1bCogBKMuW4WZdaSxzShKECdKCmRDG3FRWYpu9xWHA9cAtK2T4a+VnVV/SoP
nMGW68kNl++jUzBRMB0GA1UdDgQWBBTBZUsJroEp6FX5+ifhq97cdZ/6PDAfBgNV
HSMEGDAWgBTBZUsJroEp6FX5+ifhq97cdZ/6PDAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0gAMEUCIHRytekWTaT/uT37X0q1vvoye8AU07vlEq2AClPoOlva
AiEAi5LzNUYRt30U9InVgzRqiRqK05c7QJhafoXZb18Ssa0=
-----END CERTIFICATE-----
"""


@pytest.mark.parametrize(
    ("pem", "expires_s"),
    [
        (CERTIFICATE.read_text(), 4949574202),  # as openssl x509 -enddate says
        ((TLS / "other-certificate.pem").read_text(), 4949594929),
        (OTHER_FORM, 3523999265),
        (OTHER_FORM + CERTIFICATE.read_text(), 3523999265),
        (CERTIFICATE.read_text() + OTHER_FORM, 4949574202),
    ],
)
def test_the_first_certificate_counts(pem: str, expires_s: float) -> None:
    """It is the server's own. What stands around it is text for people."""
    assert expiry_s(pem) == expires_s


@pytest.mark.parametrize(("year", "expires_s"), [(b"490101000000Z", 2493072000), (b"500101000000Z", -631152000)])
def test_two_digits_of_a_year(year: bytes, expires_s: float) -> None:
    """From 1950 to 2049."""
    times = b"\x17\x0d" + year + b"\x17\x0d" + year
    fields = b"\xa0\x03\x02\x01\x02" + b"\x02\x01\x01" + b"\x30\x00" * 2 + bytes([0x30, len(times)]) + times
    certificate = bytes([0x30, len(fields) + 2, 0x30, len(fields)]) + fields

    assert expiry_s(_pem(certificate)) == expires_s


@pytest.mark.parametrize("pem", ["", "nothing", Path(TLS / "key.pem").read_text(), OTHER_FORM[:300]])
def test_what_is_no_certificate_has_no_end(pem: str) -> None:
    """It is not ours to judge it."""
    assert expiry_s(pem) is None


@given(st.binary())
def test_no_bytes_confuse_it(der: bytes) -> None:
    """An answer or none."""
    expiry_s(_pem(der))


@given(st.integers(0, 300), st.binary(max_size=4))
def test_no_damage_confuses_it(at: int, damage: bytes) -> None:
    """To a certificate that was one."""
    der = base64.b64decode("".join(OTHER_FORM.split("-----")[2].split()))
    expiry_s(_pem(der[:at] + damage + der[at + len(damage) :]))


def _pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"
