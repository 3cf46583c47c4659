"""Bind addresses become addresses that can be connected to."""

from __future__ import annotations

import pytest

from gateway.fleet.event_source import checked_endpoint, connectable


@pytest.mark.parametrize(
    ("endpoint", "host", "address"),
    [
        ("tcp://*:5557", "10.0.0.7", "tcp://10.0.0.7:5557"),
        ("tcp://0.0.0.0:5557", "10.0.0.7", "tcp://10.0.0.7:5557"),
        ("tcp://[::]:5557", "fd00::1", "tcp://[fd00::1]:5557"),
        ("tcp://{host}:5557", "vllm-0.vllm", "tcp://vllm-0.vllm:5557"),
        ("tcp://10.1.1.1:5557", "10.0.0.7", "tcp://10.1.1.1:5557"),
        ("ipc:///tmp/kv", "10.0.0.7", "ipc:///tmp/kv"),
    ],
)
def test_wildcards_become_the_host(endpoint: str, host: str, address: str) -> None:
    """``*`` and any-address are the replica's own host; anything explicit stays."""
    assert connectable(endpoint, host) == address


@pytest.mark.parametrize("text", ["tcp://{host}:5557", "tcp://10.0.0.7:5557", "tcp://[fd00::1]:1", "ipc:///tmp/kv"])
def test_addresses_pass(text: str) -> None:
    """With the placeholder or without."""
    assert checked_endpoint(text) == text


@pytest.mark.parametrize(
    "text", ["tcp://{host}", "tcp://{hots}:5557", "5557", "tcp://a:0", "tcp://a:99999", "http://a:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """At start, with an example, instead of as an error every few seconds."""
    with pytest.raises(ValueError, match="is not a ZeroMQ endpoint like"):
        checked_endpoint(text)
