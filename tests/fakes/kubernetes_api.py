"""The pods of a cluster, listed over real HTTP as a Kubernetes API server lists them.

Token, rights, label selectors (equality), pages, and answers on cue; no watches. The shapes are those of
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ and of the API server's own errors.
"""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.fakes.scripted_fake import ScriptedFake
from tests.fakes.scripted_server import RecordedRequest, Script, Wire, answer

TLS = Path(__file__).parent.parent / "data" / "tls"
TOKEN = "the-token-of-an-account"
Pod = dict[str, Any]


class _Refused(Exception):
    """An error as the API server words it."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": int(status),
        }


class KubernetesApi(ScriptedFake):
    """``async with KubernetesApi() as api``. Pods are plain JSON: :meth:`add` makes usual ones, and tests may change
    them at will (:meth:`pod`).

    ``token``: must be sent; ``None``: none is asked for, as by ``kubectl proxy``. ``may_list``: whether its account has
    the right to. ``most_per_page``: of pods, whatever a client asks for. ``cues``: what the next requests are answered
    instead. ``tls``: speaks TLS, with the certificate that :meth:`write_account` makes known.
    """

    def __init__(self, *, token: str | None = TOKEN, tls: bool = False, most_per_page: int = 500) -> None:
        self.token = token
        self.may_list = True
        self.most_per_page = most_per_page
        self.cues: deque[Script] = deque()
        self._certificate = TLS / "certificate.pem"
        self._tls = self._tls_context() if tls else None
        super().__init__(self._serve, tls=self._tls)
        self._pods: dict[tuple[str, str], Pod] = {}
        self._version = 100
        self._snapshots: dict[str, list[Pod]] = {}  # that pages are cut from

    @property
    def requests(self) -> list[RecordedRequest]:
        """All that it was asked."""
        return self._server.requests

    @property
    def connections(self) -> int:
        """How many it ever took."""
        return self._server.connections

    async def revive(self) -> None:
        """Be back, on the same port."""
        await self._server.listen()

    def write_account(self, folder: Path, *, namespace: str = "default") -> Path:
        """What a pod finds in /var/run/secrets/kubernetes.io/serviceaccount, as it is now. Returns ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(self.token or "")
        (folder / "namespace").write_text(namespace)
        (folder / "ca.crt").write_bytes(self._certificate.read_bytes())
        return folder

    def renew_certificate(self) -> None:
        """Show another certificate from now on, of another authority. Connections that are open stay."""
        self._certificate = TLS / "other-certificate.pem"
        assert self._tls is not None
        self._tls.load_cert_chain(self._certificate, TLS / "other-key.pem")

    def expire_pages(self) -> None:
        """Answer whoever asks for a further page that its list is too old."""
        self._snapshots.clear()

    # Pods

    def add(
        self,
        name: str,
        ip: str | None = "127.0.0.1",
        *,
        port: int | None = None,
        namespace: str = "default",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        ready: bool = True,
        uid: str = "",
    ) -> Pod:
        """A pod that runs, of one container. ``port``: its port named ``http``. ``ip`` ``None``: it has none yet.

        One of the same name is replaced: another UID, unless it is given.
        """
        ports = [] if port is None else [{"name": "http", "containerPort": port, "protocol": "TCP"}]
        status: Pod = {"phase": "Running" if ip else "Pending", "conditions": []}
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "10.0.0.1"}
        pod = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid or str(uuid.uuid4()),
                "labels": dict(labels if labels is not None else {"app": "vllm"}),
                "annotations": dict(annotations or {}),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:podIP": {}}}}],
            },
            "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.32.0", "ports": ports}]},
            "status": status,
        }
        self._pods[namespace, name] = pod
        self.set_ready(name, ready, namespace)
        return pod

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """Its JSON, to be changed in place."""
        return self._pods[namespace, name]

    def server_id(self, name: str, namespace: str = "default") -> str:
        """What the gateway calls it: ``name@`` and the first digits of its UID."""
        return f"{name}@{self.pod(name, namespace)['metadata']['uid'][:8]}"

    def set_ready(self, name: str, ready: bool, namespace: str = "default") -> None:
        """As its readiness probe says."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        self.pod(name, namespace)["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}, condition]
        self._version += 1

    def terminate(self, name: str, namespace: str = "default") -> None:
        """It was told to stop, and may take its time: still listed, still ready."""
        self.pod(name, namespace)["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:10:00Z",
            "deletionGracePeriodSeconds": 60,
        }
        self._version += 1

    def delete(self, name: str, namespace: str = "default") -> None:
        """It is gone."""
        del self._pods[namespace, name]
        self._version += 1

    # HTTP

    async def _serve(self, wire: Wire) -> None:
        script = self.cues.popleft() if self.cues else self.usual
        await script(wire)

    async def usual(self, wire: Wire) -> None:
        """What it answers without a cue."""
        try:
            status, body = HTTPStatus.OK, self._answer(wire.request)
        except _Refused as refused:
            status, body = refused.status, refused.body
        await wire.send(answer(json.dumps(body).encode(), status=f"{status.value} {status.phrase}"))

    def _answer(self, request: RecordedRequest) -> Pod:
        method, target, _ = request.line.decode().split(" ")
        if self.token is not None and request.values("authorization") != [f"Bearer {self.token}".encode()]:
            raise _Refused(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")
        path, _, query = target.partition("?")
        match unquote(path).split("/"):
            case ["", "api", "v1", "namespaces", namespace, "pods"] if method == "GET":
                pass
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource")
        if not self.may_list:
            user = 'User "system:serviceaccount:default:prefixway"'
            what = f'cannot list resource "pods" in API group "" in the namespace "{namespace}"'
            raise _Refused(HTTPStatus.FORBIDDEN, "Forbidden", f"pods is forbidden: {user} {what}")
        return self._page(namespace, {name: values[-1] for name, values in parse_qs(query).items()})

    def _page(self, namespace: str, query: Mapping[str, str]) -> Pod:
        if "continue" in query:
            mark = json.loads(base64.urlsafe_b64decode(query["continue"]))
            version, start = str(mark["rv"]), int(mark["start"])
            if version not in self._snapshots:
                why = "The provided continue parameter is too old to display a consistent list result."
                raise _Refused(HTTPStatus.GONE, "Expired", why)
            pods = self._snapshots[version]
        else:
            version, start, pods = str(self._version), 0, self._selected(namespace, query.get("labelSelector", ""))
        end = start + min(int(query.get("limit", "0")) or self.most_per_page, self.most_per_page)
        metadata: Pod = {"resourceVersion": version}
        if end < len(pods):
            self._snapshots[version] = pods
            mark = base64.urlsafe_b64encode(json.dumps({"rv": version, "start": end}).encode())
            metadata |= {"continue": mark.decode(), "remainingItemCount": len(pods) - end}
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": pods[start:end]}

    def _selected(self, namespace: str, selector: str) -> list[Pod]:
        wanted = dict[str, str]()
        for term in filter(None, selector.split(",")):
            label, equals, value = term.replace("==", "=").partition("=")
            if not equals or label.endswith("!"):
                raise _Refused(HTTPStatus.BAD_REQUEST, "BadRequest", f"unable to parse requirement: {term}")
            wanted[label] = value
        in_order = sorted((key, pod) for key, pod in self._pods.items() if key[0] == namespace)
        return [pod for _, pod in in_order if wanted.items() <= pod["metadata"].get("labels", {}).items()]

    def _tls_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, TLS / "key.pem")
        return context
