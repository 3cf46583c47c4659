"""TlsFiles: the certificate that clients are shown, from two PEM files that may be replaced at any time."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from gateway.edge.certificate import expiry_s
from gateway.file_watch import FileWatch

_log = logging.getLogger(__name__)

_LOOK_S = 5.0


class TlsFiles:
    """``context`` is for a listening socket, and always shows the newest pair of files that fits.

    ``is_stale``: the files as they are now cannot be used. ``expires_s``: when the certificate shown expires, in Unix
    time, where that can be read. Raises ``ValueError`` that names the file at fault.
    """

    def __init__(self, cert: Path, key: Path, *, look_s: float = _LOOK_S) -> None:
        """``look_s``: how often :meth:`run` looks whether the files have changed."""
        self._cert = cert
        self._key = key
        self._look_s = look_s
        self._watch = FileWatch(cert, key)
        self._newest = _context_of(cert, key)
        self.is_stale = False
        self.expires_s = _expiry_of(cert)
        self.context = _context_of(cert, key)
        # Loading into a context in use would, in a failure between the two files, leave it with half a pair.
        self.context.sni_callback = self._show_newest

    async def run(self) -> None:
        """Read the files again whenever they change. What cannot be used is logged, and the old pair stays."""
        while True:
            await asyncio.sleep(self._look_s)
            self.poll()

    def poll(self) -> None:
        """Read the files again if they have changed."""
        if not self._watch.changed():
            return
        try:
            self._newest = _context_of(self._cert, self._key)
        except ValueError as error:
            self.is_stale = True
            _log.error("the TLS certificate was not replaced: %s", error)
        else:
            self.is_stale = False
            self.expires_s = _expiry_of(self._cert)
            _log.info("the TLS certificate was replaced")

    def _show_newest(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _server_name: str | None, _context: ssl.SSLContext
    ) -> None:
        """For every handshake, also without a server name."""
        connection.context = self._newest


def _expiry_of(cert: Path) -> float | None:
    try:
        return expiry_s(cert.read_text("latin-1"))
    except OSError:  # it has just been replaced; that will be looked at
        return None


def _context_of(cert: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or later, HTTP/1.1 only. Raises ``ValueError`` that names the file at fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _check_readable(cert)
    _check_readable(key)
    _check_certificate(cert)
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError(f"{key} is not the key of the certificate in {cert}") from error
        raise ValueError(f"{key} holds no private key in PEM form") from error
    except _ProtectedKeyError as error:
        raise ValueError(f"the key in {key} is protected by a password") from error
    return context


def _check_readable(path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _check_certificate(path: Path) -> None:
    """OpenSSL does not say which of the two files it could not use."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        raise ValueError(f"{path} holds no certificate in PEM form") from error


class _ProtectedKeyError(Exception):
    pass


def _refuse_password() -> str:
    """Without this OpenSSL would ask whoever sits at the terminal."""
    raise _ProtectedKeyError
