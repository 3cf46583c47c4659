"""Readers of settings take what users write and say what may be written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.client_keys import parse_client_keys
from gateway.setting_values import (
    Finder,
    Listen,
    Secret,
    read_aliases,
    read_amount,
    read_api_keys,
    read_credential,
    read_duration,
    read_finder,
    read_fraction,
    read_header_names,
    read_limit,
    read_origins,
    read_pairs,
    read_positive_or_off,
    read_rates,
    read_routes,
    read_workers,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (read_amount, "0", 0),
        (read_duration, "0", 0.0),
        (read_duration, "2.5", 2.5),
        (read_fraction, "0.1", 0.1),
        (read_fraction, "1", 1.0),
        (read_limit, "off", None),
        (read_limit, "Off", None),
        (read_limit, "12", 12),
        (read_positive_or_off, "off", None),
        (read_positive_or_off, "1.5", 1.5),
        (read_api_keys, "", ()),
        (read_api_keys, "a=mellon-1 mellon-2", parse_client_keys("a=mellon-1 mellon-2")),
        (read_workers, "256", 256),
        (read_aliases, "a=m,b=m", {"a": "m", "b": "m"}),
        (read_routes, "/sleep, /a/b", ("/sleep", "/a/b")),
        (read_origins, "*", ("*",)),
        (read_origins, "HTTPS://A.org/, http://[::1]:3000", ("https://a.org", "http://[::1]:3000")),
        (read_header_names, "X-A, b", ("x-a", "b")),
        (read_credential, "s3=cret", Secret("s3=cret")),
        (read_rates, "{}", {}),
        (read_rates, '{"prefill_tokens_s": 12000, "step_s": 0.01}', {"prefill_tokens_s": 12_000.0, "step_s": 0.01}),
        (read_pairs, "", {}),
        (read_pairs, "prod=org/model-7b, small = org/s", {"prod": "org/model-7b", "small": "org/s"}),
    ],
)
def test_what_is_read(read: Callable[[str], object], text: str, value: object) -> None:
    """Numbers, limits that may be off, and pairs."""
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "fault"),
    [
        (read_amount, "-1", "0 or more"),
        (read_duration, "soon", "0 or more"),
        (read_fraction, "-1", "from 0 to 1"),
        (read_fraction, "1.1", "from 0 to 1"),
        (read_limit, "0", "above 0, or off"),
        (read_positive_or_off, "none", "above 0, or off"),
        (read_workers, "0", "from 1 to 256"),
        (read_workers, "257", "from 1 to 256"),
        (read_aliases, "a=b,b=m", "'a' stands for 'b', which is an alias"),
        (read_aliases, "a=a", "which is an alias"),
        (read_routes, "/sleep,wake_up", "'wake_up' is no path"),
        (read_routes, "/sleep?level=1", "is no path"),
        (read_routes, "/static/*", "is no path"),
        (read_routes, "/a b", "is no path"),
        (read_origins, "chat.example.com", "is no origin"),
        (read_origins, "https://a.org/chat", "is no origin"),
        (read_origins, "https://*.a.org", "is no origin"),
        (read_origins, "https://a.org https://b.org", "is no origin"),
        (read_header_names, "x session", "is no header's name"),
        (read_header_names, "x-session:", "is no header's name"),
        (read_credential, "s\u00e9same", "visible ASCII"),
        (read_credential, "a b", "without spaces"),
        (read_api_keys, "# none", "has no key"),
        (read_rates, "12000", "JSON object"),
        (read_rates, '{"calibration": 2}', "has no 'calibration'; there are prefill_tokens_s, doubling_tokens,"),
        (read_rates, '{"step_s": 0}', "step_s must be a number above 0"),
        (read_rates, '{"step_s": true}', "step_s must be"),
        (read_rates, '{"step_s": NaN}', "step_s must be"),
        (read_rates, '{"l1_tokens_s": "fast"}', "l1_tokens_s must be"),
        (read_pairs, "prod", "alias=model"),
        (read_pairs, "=model", "alias=model"),
        (read_pairs, "a=b,a=c", "'a' twice"),
    ],
)
def test_what_is_refused(read: Callable[[str], object], text: str, fault: str) -> None:
    """The message says what it may be."""
    with pytest.raises(ValueError, match=fault):
        read(text)


def test_values_that_show_themselves() -> None:
    """An address as it is written; a secret never."""
    assert str(Listen("::1", 80)) == "[::1]:80"
    assert repr(Secret("s3cret")) == "'***'"


@pytest.mark.parametrize(
    ("text", "finder"),
    [
        ("static", Finder("static")),
        ("Static", Finder("static")),
        ("dns:vllm.prod.svc.cluster.local:8000", Finder("dns", "vllm.prod.svc.cluster.local", port="8000")),
        ("dns:_http._tcp.vllm", Finder("dns", "_http._tcp.vllm")),
        ("kubernetes:prod/app=vllm:http", Finder("kubernetes", "app=vllm", "prod", "http")),
        ("kubernetes:app=vllm,model==qwen-2:8000", Finder("kubernetes", "app=vllm,model==qwen-2", "", "8000")),
        (
            "kubernetes:prod/app.kubernetes.io/name=vllm",
            Finder("kubernetes", "app.kubernetes.io/name=vllm", "prod"),
        ),
        ("kubernetes:app.kubernetes.io/name=vllm", Finder("kubernetes", "app.kubernetes.io/name=vllm")),
    ],
)
def test_a_finder_is_read_and_shown_as_it_is_written(text: str, finder: Finder) -> None:
    assert read_finder(text) == finder
    assert str(read_finder(text)) == text.replace("S", "s")


@pytest.mark.parametrize(
    "text",
    ["", "dns", "dns:", "dns:a b", "dns:a:0", "dns:a:65536", "kubernetes:", "kubernetes:prod/", "kubernetes:prod/app",
     "kubernetes:a=b:0", "kubernetes:a=b:-", "kubernetes:a=b:x:y", "consul:x", "static:x"],
)  # fmt: skip
def test_what_is_no_finder_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be static, dns:name"):
        read_finder(text)
