from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.stream_tap import WHOLE_BYTES, StreamTap
from gateway.fleet.outcome import Outcome
from gateway.usage import Usage

DETAILS = b'{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}'
USAGE = Usage(12, 3, 8)


def tapped(*pieces: bytes, stream: bool = True) -> StreamTap:
    tap = StreamTap(stream=stream)
    ear = tap.ear
    for piece in pieces:
        ear(piece)
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
    assert tapped(*(stream[at : at + 10] for at in range(0, len(stream), 10))).usage() == USAGE
    assert tapped(*(stream[at : at + 1] for at in range(len(stream))), stream=False).usage() == USAGE


def test_the_last_usage_wins() -> None:
    """With continuous usage statistics the final counts are the right ones; they are not summed."""
    events = [b'data: {"usage":{"prompt_tokens":12,"completion_tokens":%d}}\n\n' % n for n in range(5)]
    assert tapped(*events).usage() == Usage(12, 4, None)


def test_only_the_tail_of_a_stream_is_kept() -> None:
    """A long stream costs no memory, and its usage is found all the same."""
    for size, most in ((1000, 20_000), (250_000, 200_000)):
        tap = tapped(*[b"x" * size] * 200, b"x" * size + b'data: {"usage":%b}\n\n' % DETAILS)
        assert sum(len(piece) for piece in tap._pieces) < most
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
        b'{"prompt_tokens":1e400}',
        b'{"prompt_tokens":"1",}',
        b'{"prompt_tokens":"1" "x":2}',
        b'{"prompt_tokens":"\xff"}',
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
    tap.fault  # noqa: B018
    tap.mid_event()


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error": {"message": "EngineCore encountered an issue."}}\n\n',
        b'data:{"error":{}}\r\n\r\n',
        b'event: error\ndata: {"type": "error", "error": {"type": "api_error"}}\n\n',
    ],
)
def test_an_engines_error_event_is_a_failure(event: bytes) -> None:
    """vLLM ends a stream so, inside a 200, when its engine dies."""
    assert tapped(b"data: {}\n\n", event, b"data: [DONE]\n\n").fault is Outcome.SERVER_ERROR
    assert tapped(event, stream=False).fault is None


@pytest.mark.parametrize(
    ("code", "outcome"), [(400, Outcome.CLIENT_ERROR), (500, Outcome.SERVER_ERROR), (503, Outcome.UNAVAILABLE)]
)
def test_an_error_event_has_a_status_of_its_own(code: int, outcome: Outcome) -> None:
    """What a client got wrong may turn up when the answer has begun: that says nothing of the server."""
    event = b'data: {"error": {"message": "no", "type": "BadRequestError", "param": null, "code": %d}}\n\n' % code
    assert tapped(b"data: {}\n\n", event, b"data: [DONE]\n\n").fault is outcome


def test_words_that_look_like_an_error_event_are_words() -> None:
    """Inside a JSON string quotes are escaped and lines do not end."""
    words = json.dumps({"text": '\ndata: {"error"', "finish": '"finish_reason":"error"'}).encode()
    assert tapped(b"data: %b\n\ndata: [DONE]\n\n" % words).fault is None
    assert tapped(words, stream=False).fault is None


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_the_engine_broke_off_is_a_failure(stream: bool) -> None:
    """vLLM says so in the reason for which a choice ended, with a 200."""
    choice = b'{"choices":[{"index":0,"finish_reason":"error"}]}'
    assert tapped(b"data: %b\n\n" % choice, stream=stream).fault is Outcome.ENGINE_ERROR
    assert tapped(choice.replace(b"error", b"stop"), stream=stream).fault is None


@pytest.mark.parametrize(
    "usage",
    [
        b'{"input_tokens":12,"output_tokens":3,"input_tokens_details":{"cached_tokens":8}}',
        b'{"input_tokens":12,"input_tokens_details":{"cached_tokens":8},"output_tokens":3,"total_tokens":15}',
    ],
)
@pytest.mark.parametrize("kind", [b"completed", b"incomplete", b"failed"])
def test_responses_tell_their_usage_in_other_words(usage: bytes, kind: bytes) -> None:
    """However a response ends, its last event has it."""
    event = b'event: response.%b\ndata: {"type":"response.%b","response":{"usage":%b}}\n\n' % (kind, kind, usage)
    assert tapped(event).usage() == USAGE


@pytest.mark.parametrize(
    "usage",
    [
        b'{"input_tokens":4,"output_tokens":3,"cache_read_input_tokens":8}',
        b'{"input_tokens":0,"output_tokens":3,"cache_creation_input_tokens":4,"cache_read_input_tokens":8}',
        b'{"input_tokens":4,"output_tokens":3,"cache_creation_input_tokens":null,"cache_read_input_tokens":8}',
    ],
)
def test_messages_count_what_was_cached_apart(usage: bytes) -> None:
    """In a stream the last event but one has it; the first has another, of the beginning."""
    begun = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":12}}}\n\n'
    event = b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":%b}\n\n' % usage
    stop = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    assert tapped(begun, event, stop).usage() == USAGE
    assert tapped(b'{"content":[],"usage":%b}' % usage, stream=False).usage() == USAGE


@pytest.mark.parametrize(
    ("tail", "mid"),
    [(b"", False), (b"data: 1\n\n", False), (b"data: 1\r\n\r\n", False), (b"data: 1\n", True), (b"data: {", True)],
)
def test_the_middle_of_an_event_is_known(tail: bytes, mid: bool) -> None:
    """An event ends with an empty line."""
    assert tapped(tail).mid_event() is mid


@given(st.binary(max_size=80), st.sampled_from([b"", b"1", b'"x"', b"1e999", b"{", b"}", b",", b":"]))
def test_no_usage_object_makes_it_fail(junk: bytes, value: bytes) -> None:
    """Whatever stands where counts should."""
    body = b'{"usage": {"prompt_tokens": %b, "completion_tokens": %b, "x": {%b}}}' % (value, junk, junk)
    tapped(body, stream=False).usage()
    tapped(body).usage()
