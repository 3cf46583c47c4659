"""Pods as servers: their names, addresses and annotations. Pure; a pod that is odd costs itself only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address

from gateway.fleet.discovery.pod_list import Pod
from gateway.fleet.discovery.polling import Found
from gateway.fleet.server_spec import ServerSpec

#: What the names of our annotations begin with.
ANNOTATION_PREFIX = "prefixway.io/"

_HTTP_PORT = "http"
_DEFAULT_PORT = 8000  # vLLM's
_OPTIONS = {"kv-events": "events", "kv-replay": "replay", "model": "model", "speed": "speed"}
_ANNOTATIONS = ("port", "scheme", *_OPTIONS)
_LONGEST_FAULT = 240


def found_in(pods: Iterable[Pod], port: str, *, odd: int = 0) -> Found:
    """A server for each pod that is there, those that are not ready held back.

    ``port``: a number, or the name of a container's port; "": the one named ``http``, else 8000. A pod's annotation
    goes before it. What is wrong with one annotation costs that only. ``odd``: entries beside them that are no pods.
    """
    faults = [f"{odd} entries are no pods"] if odd else []
    listed: dict[tuple[str, int], tuple[Pod, ServerSpec]] = {}
    for pod in pods:
        spec = _Reading(pod, faults).spec(port) if pod.is_there else None
        if spec is None:
            continue
        address = spec.origin.host, spec.origin.port
        if address in listed:
            known, _ = listed[address]
            older = min(known, pod, key=_standing)
            faults.append(f"pod {older.metadata.name}: left out, {spec.origin.netloc} is another pod's by now")
            if older is pod:
                continue
        listed[address] = pod, spec
    specs = tuple(spec for _, spec in listed.values())
    held_back = frozenset(spec.id for pod, spec in listed.values() if not pod.is_ready)
    return Found(specs, held_back, tuple(fault[:_LONGEST_FAULT] for fault in faults))


def _standing(pod: Pod) -> tuple[bool, str]:
    """Of two pods with one address the greater has it: an address is given anew before the old pod's entry is gone."""
    return pod.is_ready, pod.metadata.creation_timestamp or ""


class _Reading:
    """Of one pod; ``faults`` is told what is wrong with it."""

    def __init__(self, pod: Pod, faults: list[str]) -> None:
        self._pod = pod
        self._faults = faults
        given = pod.metadata.annotations or {}
        ours = {name.removeprefix(ANNOTATION_PREFIX): text.strip() for name, text in _beginning(given)}
        self._annotations = {name: text for name, text in ours.items() if text}

    def spec(self, wanted_port: str) -> ServerSpec | None:
        """``None``: it has no such port, or an address that is none."""
        for name in sorted(self._annotations.keys() - {*_ANNOTATIONS}):
            self._fault(f"there is no annotation {ANNOTATION_PREFIX}{name}, only {', '.join(_ANNOTATIONS)}")
        port = self._port(wanted_port)
        if port is None:
            self._fault(f"left out, no container of it has a port named {wanted_port!r}")
            return None
        host = self._pod.status.pod_ip or ""
        url = f"{self._scheme()}://{f'[{host}]' if ':' in host else host}:{port}"
        id_ = f"{self._pod.metadata.name}@{self._pod.metadata.uid}"
        options = self._options()
        try:
            ip_address(host)
            try:
                return ServerSpec.build(url, id_, options)
            except ValueError:
                return ServerSpec.build(url, id_, self._good(options, url))
        except ValueError as error:
            self._fault(f"left out, {error}")
            return None

    def _port(self, wanted: str) -> int | None:
        """``None``: it has none of that name."""
        stated = self._annotations.get("port", "")
        if stated:
            port = self._numbered(stated)
            if port is not None:
                return port
            self._fault(f"{ANNOTATION_PREFIX}port: {stated!r} is no number of a port, and no container's name for one")
        if wanted:
            return self._numbered(wanted)
        return self._pod.port_named(_HTTP_PORT) or _DEFAULT_PORT

    def _numbered(self, text: str) -> int | None:
        """A port's number, by that or by its name."""
        if text.isascii() and text.isdecimal():
            return int(text) if len(text) < 6 and 0 < int(text) < 65_536 else None
        return self._pod.port_named(text)

    def _scheme(self) -> str:
        scheme = self._annotations.get("scheme", "http")
        if scheme in ("http", "https"):
            return scheme
        self._fault(f"{ANNOTATION_PREFIX}scheme: {scheme!r} is neither http nor https")
        return "http"

    def _options(self) -> dict[str, str]:
        """As :class:`ServerSpec` names them. A port alone is that of an endpoint."""
        options = {option: self._annotations[name] for name, option in _OPTIONS.items() if name in self._annotations}
        for option in ("events", "replay"):
            text = options.get(option, "")
            if text.isascii() and text.isdecimal():
                options[option] = f"tcp://{{host}}:{text}"
        if "replay" in options and "events" not in options:
            self._fault(f"{ANNOTATION_PREFIX}kv-replay is of no use without {ANNOTATION_PREFIX}kv-events")
        return options

    def _good(self, options: Mapping[str, str], url: str) -> dict[str, str]:
        """Those that each alone are right."""
        good = dict(options)
        for name, option in _OPTIONS.items():
            try:
                if option in good:
                    ServerSpec.build(url, "", {option: good[option]})
            except ValueError as error:
                self._fault(f"{ANNOTATION_PREFIX}{name}: {error}")
                del good[option]
        return good

    def _fault(self, fault: str) -> None:
        self._faults.append(f"pod {self._pod.metadata.name}: {fault}")


def _beginning(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in annotations.items() if name.startswith(ANNOTATION_PREFIX))
