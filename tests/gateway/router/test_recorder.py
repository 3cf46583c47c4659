"""What is written down of a choice: equal numbers for equal beginnings, and nothing that could be read."""

from __future__ import annotations

import json

from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision_record import BLOCK_TOKENS, DecisionRecord
from gateway.router.prepared import Prepared
from gateway.router.recorder import Recorder
from router_strategies import Candidate
from tests.gateway.examples import MODEL, SECRET, a_pool, a_router

PROMPT = list(range(1000))


def _prepared(prompt: object = PROMPT, *, session: str = "", **fields: object) -> Prepared:
    body = json.dumps({"model": MODEL, "prompt": prompt, **fields}).encode()
    prepared = a_router(a_pool()).prepare_now(InferenceRequest.parse("completions", body, session=session))
    assert prepared is not None
    return prepared


def _record(prepared: Prepared, secret: bytes = SECRET) -> DecisionRecord:
    return Recorder(lambda: secret).record(prepared, [Candidate("a")], [], {})


def test_a_prompt_is_its_length_and_its_full_blocks() -> None:
    """1,000 tokens are 7 blocks of 128, and 104 tokens without an id."""
    record = _record(_prepared())

    assert (record.model, record.prompt_tokens, len(record.blocks)) == (MODEL, 1000, 1000 // BLOCK_TOKENS)
    assert all(0 <= block < 2**64 for block in record.blocks)


def test_equal_ids_are_equal_beginnings() -> None:
    """What differs in its fourth block shares three."""
    changed = [*PROMPT[: 3 * BLOCK_TOKENS], 7, *PROMPT[3 * BLOCK_TOKENS + 1 :]]
    one, other = _record(_prepared()).blocks, _record(_prepared(changed)).blocks

    assert one[:3] == other[:3]
    assert not set(one[3:]) & set(other[3:])


def test_what_no_cache_shares_has_no_id_in_common() -> None:
    """An adapter, a cache salt, another secret."""
    plain = set(_record(_prepared()).blocks)
    others = [_record(_prepared(model="ad1")), _record(_prepared(cache_salt="s")), _record(_prepared(), b"other")]

    assert [plain & set(other.blocks) for other in others] == [set()] * 3


def test_a_prompt_that_is_not_known_has_no_length() -> None:
    """Text without a tokenizer."""
    record = _record(_prepared("some text"))

    assert (record.prompt_tokens, record.blocks) == (None, ())


def test_a_session_is_a_keyed_number() -> None:
    """The same for the same name, another under another secret, none for none."""
    anna, again, other = (_record(_prepared(session=name)).session for name in ("anna", "anna", "otto"))

    assert anna is not None
    assert anna == again != other
    assert anna != _record(_prepared(session="anna"), b"other").session
    assert _record(_prepared()).session is None
    assert "anna" not in json.dumps(anna)
