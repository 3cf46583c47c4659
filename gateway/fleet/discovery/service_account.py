"""ServiceAccount: what Kubernetes puts into a pod so that it can speak to the cluster's API.

https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/: a folder with a token, which is
replaced about every hour, the certificate of who signs for the API, and the pod's namespace.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path

from gateway.fleet.discovery.polling import LookupFailed

_TOKEN = re.compile(r"[!-~]+")  # what a header can carry: its fault must not be told by who would repeat the token


class ServiceAccount:
    """Files are read when they are asked for. What they hold is in no error."""

    def __init__(self, folder: Path) -> None:
        self.token_file = folder / "token"
        self.ca_file = folder / "ca.crt"
        self._namespace_file = folder / "namespace"

    def token(self) -> str:
        """As it is now. Raises :class:`LookupFailed`."""
        token = _text(self.token_file)
        if not _TOKEN.fullmatch(token):
            raise LookupFailed(f"{self.token_file} holds no token")
        return token

    def namespace(self) -> str:
        """The pod's own. Raises :class:`LookupFailed`."""
        try:
            return _text(self._namespace_file)
        except LookupFailed as failure:
            raise LookupFailed(f"{failure}; PREFIXWAY_DISCOVERY=kubernetes:namespace/label=value names one") from None

    def tls_context(self) -> ssl.SSLContext:
        """Trusts who signs for this cluster; without a ``ca.crt``, whom the system trusts. Raises as the others do."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file if self.ca_file.exists() else None)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise LookupFailed(f"{self.ca_file} cannot be read: {type(error).__name__}") from None
        # Python 3.13 refuses certificates without a key identifier, which clusters have that were made years ago
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LookupFailed(f"{file} cannot be read: {type(error).__name__}") from None
