"""Where stored responses live, and how that is learned."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.response_home import Home
from gateway.router.response_homes import ResponseHomes, response_id_in
from tests.gateway.examples import Clock

A, B = Home("a", "nick"), Home("b")


class Others:
    """A directory in memory."""

    def __init__(self) -> None:
        self.homes: dict[str, Home] = {}
        self.asked: list[str] = []

    async def find(self, response_id: str) -> Home | None:
        self.asked.append(response_id)
        return self.homes.get(response_id)

    def tell(self, response_id: str, home: Home) -> None:
        self.homes[response_id] = home


def test_what_was_learned_is_known_for_a_while() -> None:
    """Since it was last learned."""
    clock = Clock()
    homes = ResponseHomes(clock=clock, ttl_s=10)
    homes.learned("r", A)
    clock.now += 9
    assert homes.known("r") == A
    clock.now += 1
    assert homes.known("r") is None
    assert repr(homes) == "<ResponseHomes of 0 responses>"

    homes.learned("r", A)
    homes.learned("r", B)
    assert homes.known("r") == B


def test_only_the_last_ones_used_are_kept() -> None:
    """So memory is bounded."""
    homes = ResponseHomes(clock=Clock(), limit=2)
    for id_ in ("r1", "r2"):
        homes.learned(id_, A)
    homes.known("r1")
    homes.learned("r3", A)

    assert [homes.known(id_) for id_ in ("r1", "r2", "r3")] == [A, None, A]


async def test_others_are_told_and_asked() -> None:
    """Asked once, for what is not known here."""
    others = Others()
    one, two = ResponseHomes(others, clock=Clock()), ResponseHomes(others, clock=Clock())
    one.learned("r", A)

    assert [one.must_ask("r"), two.must_ask("r"), await one.find("r"), others.asked] == [False, True, A, []]
    assert [await two.find("r"), await two.find("r"), await two.find("unknown")] == [A, A, None]
    assert others.asked == ["r", "unknown"]


async def test_alone_nobody_is_asked() -> None:
    """What is not known is not known."""
    homes = ResponseHomes(clock=Clock())

    assert (homes.must_ask("r"), await homes.find("r")) == (False, None)


RESPONSE = {"id": "resp_1", "object": "response", "output": [{"id": "msg_1"}], "tools": []}
IN_OTHER_ORDER = {"object": "response", "text": 'a "id": "x" {', "count": 1.5, "none": None, **RESPONSE}


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(RESPONSE),
        json.dumps(RESPONSE, indent=2),
        json.dumps(IN_OTHER_ORDER),
        json.dumps(RESPONSE)[:20],
        f"event: response.created\ndata: {json.dumps({'response': RESPONSE, 'sequence_number': 0})}\n\n",
        f"data:{json.dumps({'type': 'response.created', 'sequence_number': 0, 'response': IN_OTHER_ORDER})}\r\n\r\n",
        'event: response.created\ndata: {"response":{"id":"resp_1","crea',
        ': ping\n\ndata: {"x": "\\"response\\":{\\"id\\":1"}\n\ndata: {"response": ' + json.dumps(RESPONSE) + "}\n\n",
    ],
)
def test_the_id_is_in_the_first_bytes(answer: str) -> None:
    """Of a plain answer or a stream's first event, however members are ordered and spaced."""
    assert response_id_in(answer.encode()) == "resp_1"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "{",
        '{"id":"resp_',
        '{"output":[{"id":"msg_1"}]}',
        '{"error":{"id":"x"}}',
        '{"id":5}',
        '{"id":""}',
        '{"text":"{\\"id\\":\\"x\\"}"}',
        'data: {"item":{"id":"msg_1"}}\n\n',
        'data: {"delta":"\\"response\\":{\\"id\\":\\"x\\"}"}\n\n',
        '{"id":"' + "x" * 257 + '"}',
        "data: [DONE]\n\n",
    ],
)
def test_another_id_is_not_taken_for_it(answer: str) -> None:
    """Items, messages, the model's own words, ids out of all bounds."""
    assert response_id_in(answer.encode()) == ""


@given(st.binary(max_size=200) | st.text('{}[]":\\idresponse, x').map(str.encode))
def test_any_bytes_are_read(answer: bytes) -> None:
    """Nothing raises."""
    response_id_in(answer)
    response_id_in(b'{"id":"' + answer)
    response_id_in(b'data: {"response": ' + answer)
