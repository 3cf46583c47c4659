"""Origins are read from what people write, or refused with the reason."""

from __future__ import annotations

import pytest

from gateway.fleet.origin import Origin


@pytest.mark.parametrize(
    ("url", "origin", "normal"),
    [
        ("http://10.0.0.7:8000", Origin(False, "10.0.0.7", 8000), "http://10.0.0.7:8000"),
        ("10.0.0.7:8000", Origin(False, "10.0.0.7", 8000), "http://10.0.0.7:8000"),
        ("http://vllm.example/", Origin(False, "vllm.example", 80), "http://vllm.example:80"),
        (
            "https://vllm.example/base/",
            Origin(True, "vllm.example", 443, "/base"),
            "https://vllm.example:443/base",
        ),
        ("http://[fd00::1]:8000", Origin(False, "fd00::1", 8000), "http://[fd00::1]:8000"),
    ],
)
def test_reads_and_normalises(url: str, origin: Origin, normal: str) -> None:
    """Scheme, port and slash may be left out; IPv6 is bracketed in URLs and bare inside."""
    assert Origin.parse(url) == origin
    assert origin.url == normal


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("ftp://a:1", "scheme must be http or https"),
        ("http://a:99999", "port must be a number"),
        ("http://:8000", "needs a host"),
        ("http://user:pw123@a:1", "no user, query or fragment"),
        ("http://ho\u200bst:8000", "no host name and no IP address"),
        ("http://a b:8000", "no host name and no IP address"),
        ("http://a:8000/b c", "the path must be written as a URL has it"),
        ("http://a:8000/b\N{SNOWMAN}", "the path must be written as a URL has it"),
    ],
)
def test_a_bad_url_says_why(url: str, fault: str) -> None:
    """The message names the URL and the fault."""
    with pytest.raises(ValueError, match=fault) as caught:
        Origin.parse(url)

    assert repr(url.replace("user:pw123", "***")) in str(caught.value)
