"""A PodList: read whole, in part, or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.discovery.pod_list import Pod, parse_page
from gateway.fleet.discovery.polling import LookupFailed

METADATA = {"name": "a", "uid": "u"}


def _pods(*items: Any) -> tuple[list[Pod], int]:
    page = parse_page(json.dumps({"kind": "PodList", "items": items}).encode())
    return list(page.pods), page.odd


def test_a_pod_may_lack_nearly_everything() -> None:
    (pod,), odd = _pods({"metadata": METADATA, "spec": {"containers": None}, "status": {}})

    assert (pod.is_there, pod.is_ready, pod.port_named("http"), odd) == (False, False, None, 0)


def test_ports_are_found_by_name_in_any_container() -> None:
    containers = [{"ports": None}, {"ports": [{"containerPort": 1}, {"name": "http", "containerPort": 2}]}]
    (pod,), _ = _pods({"metadata": METADATA, "spec": {"containers": containers}, "status": {"podIP": "10.0.0.1"}})

    assert (pod.is_there, pod.port_named("http"), pod.port_named("https")) == (True, 2, None)


@pytest.mark.parametrize("odd", [{}, None, 7, "pod", [], {"metadata": METADATA, "spec": {}, "status": {"podIP": 7}}])
def test_an_entry_that_is_no_pod_is_counted(odd: Any) -> None:
    pods, count = _pods(odd, {"metadata": METADATA, "spec": {}, "status": {}})

    assert ([pod.metadata.name for pod in pods], count) == (["a"], 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"kind": "Status", "items": []}',
        b'{"kind": "PodList", "items": 7}',
        b"\xff",
        b"[" * 99_999,
    ],
)
def test_what_is_no_list_of_pods_is_no_empty_list(body: bytes) -> None:
    with pytest.raises(LookupFailed):
        parse_page(body)


def test_a_list_without_items_is_empty() -> None:
    """As Go writes one that has none."""
    assert parse_page(b'{"kind": "PodList", "items": null}') == ([], 0, "")


def test_where_a_list_goes_on_is_told() -> None:
    assert parse_page(b'{"kind": "PodList", "metadata": {"continue": "xyz"}, "items": []}').rest == "xyz"


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(body: bytes) -> None:
    with suppress(LookupFailed):
        parse_page(body)
