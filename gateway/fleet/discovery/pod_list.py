"""Pods as Kubernetes lists them: as much of them as is of use. An entry that is no pod costs itself only.

The fields are those of https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gateway.fleet.discovery.polling import LookupFailed

_ENDED = ("Succeeded", "Failed")


class _Field(msgspec.Struct, rename="camel"):
    """Part of a pod. Go writes what is empty as ``null``, or not at all."""


class _Metadata(_Field):
    name: str
    uid: str
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _ContainerPort(_Field):
    container_port: int
    name: str | None = None


class _Container(_Field):
    ports: list[_ContainerPort] | None = None


class _Spec(_Field):
    containers: list[_Container] | None = None


class _Condition(_Field):
    type: str
    status: str


class _Status(_Field):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: list[_Condition] | None = None


class Pod(_Field):
    """As much of one as is of use."""

    metadata: _Metadata
    spec: _Spec
    status: _Status

    @property
    def is_there(self) -> bool:
        """Whether it can be asked at all: it has an address, has not ended, and was not told to."""
        status = self.status
        return bool(status.pod_ip) and status.phase not in _ENDED and not self.metadata.deletion_timestamp

    @property
    def is_ready(self) -> bool:
        """By its condition: one that lacks it has not been looked at yet."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())

    def port_named(self, name: str) -> int | None:
        """Of whichever container has it."""
        containers = self.spec.containers or ()
        ports = (port for container in containers for port in container.ports or ())
        return next((port.container_port for port in ports if port.name == name), None)


class PodPage(NamedTuple):
    """``odd``: how many entries were no pods. ``rest``: where the list goes on; "": it does not."""

    pods: Sequence[Pod]
    odd: int
    rest: str


class _ListMetadata(_Field):
    rest: str | None = msgspec.field(default=None, name="continue")


class _PodList(_Field):
    kind: str
    metadata: _ListMetadata | None = None
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_PodList)
_POD = msgspec.json.Decoder(Pod)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_page(body: bytes) -> PodPage:
    """Read a PodList. Raises :class:`LookupFailed` if it is none."""
    try:
        page = _LIST.decode(body)
    except _UNREADABLE:
        raise LookupFailed("what it answers is no list of pods") from None
    if page.kind != "PodList":
        raise LookupFailed(f"it answers with a {page.kind[:40]!r}, not with a list of pods")
    pods = [pod for item in page.items or () if (pod := _pod(item)) is not None]
    rest = page.metadata.rest if page.metadata else None
    return PodPage(pods, len(page.items or ()) - len(pods), rest or "")


def _pod(item: msgspec.Raw) -> Pod | None:
    try:
        return _POD.decode(item)
    except _UNREADABLE:
        return None
