"""When a certificate expires: the one field of X.509 that is of interest here, which :mod:`ssl` tells of peers only."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


def expiry_s(pem: str) -> float | None:
    """Unix time of ``notAfter`` of the first certificate of a PEM file: the server's own, the chain follows.

    ``None`` where it cannot be read.
    """
    begin = pem.find(_BEGIN)
    end = pem.find(_END, begin)
    if begin < 0 or end < 0:
        return None
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(pem[begin : end + len(_END)])).timestamp()
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> datetime:
    """RFC 5280 section 4.1: Certificate, in it TBSCertificate, in it version (if not 1), serial number, algorithm,
    issuer, and then validity: two times.
    """
    certificate = _fields(der)[0][1]
    fields = _fields(_fields(certificate)[0][1])
    validity = fields[4 if fields[0][0] == _VERSION else 3]
    if validity[0] != _SEQUENCE:
        raise ValueError("no validity")
    tag, text = _fields(validity[1])[1]
    return _time_of(tag, text.decode("ascii"))


def _time_of(tag: int, text: str) -> datetime:
    """RFC 5280 section 4.1.2.5: always UTC; two digits of a year from 50 on are of the last century."""
    if tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _fields(data: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents, one after the other, in DER (X.690 section 8.1). Raises ``ValueError`` or ``IndexError``."""
    fields = []
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size >= 0x80:  # the length of the length
            digits = size & 0x7F
            size = int.from_bytes(data[at : at + digits], "big")
            at += digits
        if at + size > len(data):
            raise ValueError("cut short")
        fields.append((tag, data[at : at + size]))
        at += size
    return fields
