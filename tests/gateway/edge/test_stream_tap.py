from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.stream_tap import TAIL_BYTES, WHOLE_BYTES, StreamTap
from gateway.usage import Usage

DETAILS = b'{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}'
USAGE = Usage(12, 3, 8)


def tapped(*pieces: bytes, stream: bool = True) -> StreamTap:
    tap = StreamTap(stream=stream)
    for piece in pieces:
        tap.feed(piece)
    return tap


@pytest.mark.parametrize("data", [b"data: ", b"data:"])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_usage_is_read_from_the_last_events(data: bytes, end: bytes) -> None:
    """With or without the space after ``data:``, and with either line end."""
    events = [b'{"choices":[{"text":"hi"}]}', b'{"choices":[],"usage":%b}' % DETAILS, b"[DONE]"]
    assert tapped(*(data + event + end for event in events)).usage() == USAGE


def test_usage_is_read_across_pieces() -> None:
    """Where the stream was cut does not matter."""
    stream = b'data: {"usage": %b}\n\ndata: [DONE]\n\n' % DETAILS
    assert tapped(*(stream[at : at + 1] for at in range(len(stream)))).usage() == USAGE


def test_the_last_usage_wins() -> None:
    """With continuous usage statistics the final counts are the right ones; they are not summed."""
    events = [b'data: {"usage":{"prompt_tokens":12,"completion_tokens":%d}}\n\n' % n for n in range(5)]
    assert tapped(*events).usage() == Usage(12, 4, None)


def test_only_the_tail_of_a_stream_is_kept() -> None:
    """A long stream costs no memory, and its usage is found all the same."""
    tap = tapped(*[b"x" * 1000] * 200, b'data: {"usage":%b}\n\n' % DETAILS)
    assert tap._size_bytes <= 4 * TAIL_BYTES + 2000
    assert tap.usage() == USAGE


def test_a_plain_answer_may_say_much_after_its_usage() -> None:
    """Token ids that follow the usage do not hide it."""
    body = b'{"usage":%b,"prompt_token_ids":[%b]}' % (DETAILS, b",".join([b"12345"] * 20_000))
    assert len(body) < WHOLE_BYTES
    assert tapped(body, stream=False).usage() == USAGE


def test_the_models_own_words_are_not_usage() -> None:
    """The key inside a JSON string is escaped, and is not taken."""
    words = json.dumps({"text": '"usage": {"prompt_tokens": 99}'}).encode()
    assert tapped(words, stream=False).usage() is None
    assert tapped(b'{"usage":%b,"choices":[%b]}' % (DETAILS, words), stream=False).usage() == USAGE


@pytest.mark.parametrize(
    "odd",
    [
        b"null",
        b'"12"',
        b"7",
        b"[]",
        b"{}",
        b'{"prompt_tokens":"12"}',
        b'{"prompt_tokens":null}',
        b'{"prompt_tokens":true}',
        b'{"prompt_tokens":-1}',
        b'{"prompt_tokens":1.5}',
        b'{"prompt_tokens":12',
        b'{"prompt_tokens":' + b"[" * 3000,
        b"",
    ],
)
def test_odd_usage_is_not_reported(odd: bytes) -> None:
    """Strings, nulls, negatives and halves are no token counts, and no error."""
    assert tapped(b'{"usage":' + odd, stream=False).usage() is None


@pytest.mark.parametrize("details", [b"null", b"3", b'{"cached_tokens":null}', b'{"cached_tokens":"8"}', b"{}"])
def test_unreported_cached_tokens_are_unknown_not_zero(details: bytes) -> None:
    """A server without prompt token details is told apart from one that had nothing cached."""
    usage = b'{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":%b}}' % details
    assert tapped(usage, stream=False).usage() == Usage(1, 2, None)


@given(st.lists(st.binary(max_size=60)), st.booleans())
def test_no_bytes_make_it_fail(pieces: list[bytes], stream: bool) -> None:
    """Whatever passes, it answers."""
    tap = tapped(*pieces, b'"usage":', *pieces, stream=stream)
    tap.usage()
    tap.failed()
    tap.mid_event()


def test_an_engines_error_event_is_a_failure() -> None:
    """vLLM ends a stream so, inside a 200, when its engine dies; words that look like it do not count."""
    error = b'data: {"error": {"message": "EngineCore encountered an issue."}}\n\ndata: [DONE]\n\n'
    words = json.dumps({"text": '\ndata: {"error"'}).encode()
    assert tapped(b"data: {}\n\n", error).failed()
    assert not tapped(b"data: %b\n\ndata: [DONE]\n\n" % words).failed()
    assert not tapped(error, stream=False).failed()


@pytest.mark.parametrize(
    ("tail", "mid"),
    [(b"", False), (b"data: 1\n\n", False), (b"data: 1\r\n\r\n", False), (b"data: 1\n", True), (b"data: {", True)],
)
def test_the_middle_of_an_event_is_known(tail: bytes, mid: bool) -> None:
    """An event ends with an empty line."""
    assert tapped(tail).mid_event() is mid
