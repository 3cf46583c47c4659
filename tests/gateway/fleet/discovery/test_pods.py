"""Pods: who is listed, under which name and address, with which options, and what odd ones cost."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.discovery.pod_list import parse_page
from gateway.fleet.discovery.pods import found_in
from gateway.fleet.discovery.polling import Found, LookupFailed

UID = "6f1c2d3e-0000-4000-8000-000000000000"


def _pod(name: str = "vllm-0", ip: str | None = "10.0.0.7", *, ports: Any = (), **annotations: str) -> dict[str, Any]:
    notes = {f"prefixway.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": {"name": name, "uid": UID, "annotations": {**notes, "other.io/port": "1"}},
        "spec": {"containers": [{"name": "side"}, {"name": "vllm", "ports": list(ports)}]},
        "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _named(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _found(*pods: Any, port: str = "") -> Found:
    page = parse_page(json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).encode())
    return found_in(page.pods, port, odd=page.odd)


def _urls(found: Found) -> list[str]:
    return [spec.origin.url for spec in found.specs]


def test_a_pod_is_a_server_named_after_it_and_its_uid() -> None:
    found = _found(_pod())

    assert [(spec.id, spec.origin.url) for spec in found.specs] == [("vllm-0@6f1c2d3e", "http://10.0.0.7:8000")]
    assert (set(found.held_back), list(found.faults)) == (set(), [])


@pytest.mark.parametrize(
    "changes",
    [
        {"status": {"podIP": None}},
        {"status": {"podIP": ""}},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
)
def test_one_without_an_address_or_at_its_end_is_not_there(changes: dict[str, dict[str, Any]]) -> None:
    gone = _pod("gone")
    for part, values in changes.items():
        gone[part] |= values
    found = _found(gone, _pod("stays"))

    assert [spec.id for spec in found.specs] == ["stays@6f1c2d3e"]
    assert not found.faults


@pytest.mark.parametrize(
    "conditions", [None, [], [{"type": "Ready", "status": "False"}], [{"type": "Ready", "status": "Unknown"}]]
)
def test_one_that_is_not_ready_is_held_back(conditions: Any) -> None:
    pod = _pod()
    pod["status"]["conditions"] = conditions
    found = _found(pod)

    assert [spec.id for spec in found.specs] == list(found.held_back) == ["vllm-0@6f1c2d3e"]


@pytest.mark.parametrize(
    ("port", "annotation", "url"),
    [
        ("", "", "http://10.0.0.7:8000"),
        ("9000", "", "http://10.0.0.7:9000"),
        ("api", "", "http://10.0.0.7:8100"),
        ("9000", "7000", "http://10.0.0.7:7000"),
        ("9000", "api", "http://10.0.0.7:8100"),
        ("9000", "0", "http://10.0.0.7:9000"),
        ("9000", "99999999", "http://10.0.0.7:9000"),
        ("9000", "nope", "http://10.0.0.7:9000"),
    ],
)
def test_the_port_is_the_pods_own_word_or_the_settings_or_vllms(port: str, annotation: str, url: str) -> None:
    """Numbers and names of containers' ports alike; an annotation that is none is told, and costs itself only."""
    found = _found(_pod(ports=[_named("api", 8100)], port=annotation), port=port)

    assert _urls(found) == [url]
    assert len(found.faults) == (annotation in ("0", "99999999", "nope"))


def test_the_port_named_http_is_the_default() -> None:
    assert _urls(_found(_pod(ports=[_named("metrics", 1), _named("http", 8200)]))) == ["http://10.0.0.7:8200"]


def test_a_pod_without_the_port_of_that_name_is_left_out() -> None:
    """And told, so that nobody looks for it in vain."""
    found = _found(_pod("a", ports=[_named("api", 8100)]), _pod("b", "10.0.0.8"), port="api")

    assert _urls(found) == ["http://10.0.0.7:8100"]
    assert found.faults == ("pod b: left out, no container of it has a port named 'api'",)


def test_ipv6_addresses_stand_in_brackets() -> None:
    (spec,) = _found(_pod(ip="fd00::1", kv_events="5557")).specs
    source = spec.event_source(0)

    assert spec.origin.url == "http://[fd00::1]:8000"
    assert source is not None
    assert source.endpoint == "tcp://[fd00::1]:5557"


def test_annotations_say_what_a_list_of_replicas_would() -> None:
    pod = _pod(kv_events="5557", kv_replay="tcp://*:5657", model=" m ", speed="0.5", scheme="https")
    (spec,) = _found(pod).specs
    source = spec.event_source(1)

    assert (spec.origin.url, spec.model, spec.speed) == ("https://10.0.0.7:8000", "m", 0.5)
    assert source is not None
    assert (source.endpoint, source.replay_endpoint) == ("tcp://10.0.0.7:5558", "tcp://10.0.0.7:5658")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kv_events", "70000"),
        ("kv_events", "udp://{host}:1"),
        ("kv_replay", "5657"),  # without kv-events
        ("speed", "fast"),
        ("speed", "0"),
        ("scheme", "ftp"),
        ("sped", "1"),
    ],
)
def test_a_bad_annotation_costs_itself_only(name: str, value: str) -> None:
    """The pod is used, with the others that it has."""
    found = _found(_pod(**{name: value, "model": "m"}))
    (spec,), (fault,) = found.specs, found.faults

    assert (spec.model, spec.speed, spec.event_source(0), spec.origin.tls) == ("m", 1.0, None, False)
    assert fault.startswith("pod vllm-0: ")
    assert f"prefixway.io/{name.replace('_', '-')}" in fault


def test_an_annotation_of_any_length_makes_a_short_fault() -> None:
    (fault,) = _found(_pod(speed="x" * 200_000)).faults

    assert len(fault) < 300


@pytest.mark.parametrize(
    "odd",
    [{}, None, 7, "pod", [], {"metadata": {"uid": UID}, "spec": {}, "status": {}}, _pod(ip=7) | {"status": 1}],  # type: ignore[arg-type]
)
def test_what_is_no_pod_costs_itself_only(odd: Any) -> None:
    found = _found(odd, _pod())

    assert _urls(found) == ["http://10.0.0.7:8000"]
    assert found.faults == ("1 entries are no pods",)


def test_a_pod_with_a_name_or_an_address_that_is_none_is_left_out() -> None:
    found = _found(_pod("a b"), _pod(ip="10.0.0.7/8"), _pod("c"))

    assert [spec.id for spec in found.specs] == ["c@6f1c2d3e"]
    assert [fault.split(",")[0] for fault in found.faults] == ["pod a b: left out", "pod vllm-0: left out"]


def test_pods_on_one_host_are_told_apart_by_their_ports() -> None:
    """With hostNetwork."""
    found = _found(_pod("a", port="8000"), _pod("b", port="8001"))

    assert _urls(found) == ["http://10.0.0.7:8000", "http://10.0.0.7:8001"]


@pytest.mark.parametrize("order", [1, -1])
def test_an_address_belongs_to_who_has_it_by_now(order: int) -> None:
    """The entry of a pod that is gone can outlive its address: who is ready has it, else who is younger."""
    stale, fresh, other = _pod("stale"), _pod("fresh"), _pod("other", "10.0.0.8")
    stale["metadata"]["creationTimestamp"], fresh["metadata"]["creationTimestamp"] = "2026-01-01", "2026-01-02"
    found = _found(*[stale, fresh, other][::order])
    stale["metadata"]["creationTimestamp"] = "2026-01-03"
    stale["status"]["conditions"] = []
    again = _found(*[stale, fresh, other][::order])

    assert (
        {spec.id for spec in found.specs} == {spec.id for spec in again.specs} == {"fresh@6f1c2d3e", "other@6f1c2d3e"}
    )
    assert found.faults == ("pod stale: left out, 10.0.0.7:8000 is another pod's by now",)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["10.0.0.7", "Ready"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [f"prefixway.io/{name}" for name in ("port", "kv-events", "kv-replay", "model", "speed", "scheme")]
    ),
    st.text(max_size=12) | st.integers(-1, 99_999).map(str) | st.sampled_from(["tcp://*:1", "tcp://{host}:9", "https"]),
)


@given(st.data())
def test_any_json_is_a_list_or_none(data: st.DataObject) -> None:
    """Pods with some fields replaced by anything: what comes out are servers, or the list is refused as a whole."""
    pod = _pod()
    pod["metadata"]["annotations"] = data.draw(_ANNOTATIONS)
    for _ in range(data.draw(st.integers(0, 2))):
        part: Any = pod
        while isinstance(part, dict) and part:
            key = data.draw(st.sampled_from(sorted(part)))
            if data.draw(st.booleans()):
                part[key] = data.draw(_JSON)
                break
            part = part[key]
    items = data.draw(st.lists(st.just(pod) | _JSON, max_size=3) | _JSON)
    kind = data.draw(st.just("PodList") | _JSON)
    with suppress(LookupFailed):
        page = parse_page(json.dumps({"kind": kind, "items": items}).encode())
        for spec in found_in(page.pods, data.draw(st.sampled_from(["", "http", "80"]))).specs:
            assert spec.id.startswith(f"{pod['metadata']['name']}@")
            assert 0 < spec.origin.port < 65_536
