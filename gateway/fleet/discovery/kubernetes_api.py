"""KubernetesApi: reads from a cluster's API with the rights of a service account.

Owns HTTP and what its errors mean; knows no pods.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import msgspec

from gateway import __version__
from gateway.file_watch import FileWatch
from gateway.fleet.discovery.polling import LookupFailed
from gateway.fleet.discovery.service_account import ServiceAccount
from gateway.fleet.origin import Origin

_ANSWER_S = 10.0
_MOST_ERROR_BYTES = 20_000
_LONGEST_MESSAGE = 200

#: What an answer's status means here, and what mends it.
_MENDS: Mapping[int, str] = {
    401: "the token in {token_file} is not taken: is it this cluster's?",
    403: "the service account may not: give it a Role with the verb list on the resource pods in that namespace",
    404: "that is no Kubernetes API: see PREFIXWAY_KUBERNETES_API",
    429: "it has too much to do",
}


class Gone(LookupFailed):
    """What was asked for is too old to be told (410)."""


class _Status(msgspec.Struct):
    """How the API words an error."""

    message: str = ""


class KubernetesApi:
    """``account`` is shown to nobody but an API that speaks TLS: plain HTTP is for ``kubectl proxy``, which shows its
    own. Its files are read again as they change.
    """

    def __init__(self, url: str, account: ServiceAccount, *, answer_s: float = _ANSWER_S) -> None:
        """``answer_s``: for a connection, and between two pieces of an answer.

        Raises ``ValueError`` if ``url`` is none. Such a text may hold a password: it is not repeated.
        """
        try:
            self._origin = Origin.parse(url if "://" in url else "")
        except ValueError:
            raise ValueError("must be a URL like https://10.96.0.1:443") from None
        self._account = account
        self._answer_s = answer_s
        self._ca = FileWatch(account.ca_file)
        self._http: httpx.AsyncClient | None = None

    async def get(self, path: str, query: Mapping[str, str], *, most_bytes: int) -> bytes:
        """The body of a good answer. Raises :class:`LookupFailed`; how long that may take the caller bounds."""
        token = self._account.token() if self._origin.tls else ""
        http = await self._client()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            async with http.stream("GET", self._origin.url + path, params=query, headers=headers) as answer:
                good = answer.status_code == httpx.codes.OK
                body = await _read(answer, most_bytes if good else _MOST_ERROR_BYTES)
        except httpx.ConnectError as error:  # a name that is none, nobody there, a certificate: the text tells
            raise self._failed(f"cannot be reached: {error}") from None
        except httpx.TimeoutException:
            raise self._failed("does not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(f"broke off: {type(error).__name__}") from None
        if good and body is None:
            raise self._failed(f"answers with more than {most_bytes} bytes")
        if not good or body is None:
            raise self._refused(answer.status_code, _message(body or b"", token))
        return body

    async def close(self) -> None:
        """Leave no connection open. It may be used again."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _client(self) -> httpx.AsyncClient:
        """Made anew when the certificate that it trusts changed."""
        if self._ca.changed():
            await self.close()
        if self._http is None:
            self._http = httpx.AsyncClient(
                verify=self._account.tls_context() if self._origin.tls else False,
                headers={"accept": "application/json", "user-agent": f"prefixway/{__version__}"},
                timeout=self._answer_s,
                trust_env=False,
            )
        return self._http

    def _failed(self, what: str) -> LookupFailed:
        return LookupFailed(f"{self._origin.url} {what}")

    def _refused(self, status: int, message: str) -> LookupFailed:
        said = f"answers {status}" + (f" ({message})" if message else "")
        if status == httpx.codes.GONE:
            return Gone(f"{self._origin.url} {said}")
        mend = _MENDS.get(status, "redirects are not followed" if 300 <= status < 400 else "")
        mend = mend.format(token_file=self._account.token_file)
        return self._failed(f"{said}: {mend}" if mend else said)


async def _read(answer: httpx.Response, most_bytes: int) -> bytes | None:
    """``None``: there is more."""
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > most_bytes:
            return None
    return bytes(body)


def _message(body: bytes, token: str) -> str:
    """What an error says for people, if it does: a Status of Kubernetes."""
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    shown = "".join(char for char in message if char.isprintable())
    return (shown.replace(token, "***") if token else shown)[:_LONGEST_MESSAGE]
