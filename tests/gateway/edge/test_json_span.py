"""Where a field stands in a JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.json_span import span_of


@pytest.mark.parametrize(
    "text", ["", " ", "{}", "[1]", '"a"', '{"b":1}', '{"b":{"a":1}}', '{"a"', '{"a":', "[" * 100_000]
)
def test_nowhere(text: str) -> None:
    """No object, no such field in the outermost one, or the text ends first."""
    assert span_of(text, "a") == (0, 0)


names = st.sampled_from(["a", "b", 'a"', "ä", ""])
values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(names, values), max_size=5), values, st.sampled_from(["", " ", "\n\t"]))
def test_the_last_one_counts(before: list[tuple[str, Any]], value: object, space: str) -> None:
    """As parsers see it."""
    fields = [*before, ("a", value), ("b", 1)]
    text = "{" + ",".join(f"{space}{json.dumps(name)}{space}:{space}{json.dumps(v)}" for name, v in fields) + "}"
    start, end = span_of(text, "a")

    assert json.loads(text[start:end]) == json.loads(text)["a"] == value
