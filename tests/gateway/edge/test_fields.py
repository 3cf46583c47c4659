"""Header lines by their names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.fields import fields_of, names_of

HEADERS = st.lists(st.tuples(st.sampled_from([b"A", b"a", b"B", b"x-c"]), st.binary(max_size=2)), max_size=6)


def test_the_first_value_counts_whatever_the_case() -> None:
    """Names are compared without case."""
    assert fields_of([(b"A", b"1"), (b"b", b"2"), (b"a", b"3")]) == {b"a": b"1", b"b": b"2"}


@given(HEADERS)
def test_names_are_those_of_the_lines(headers: list[tuple[bytes, bytes]]) -> None:
    """One for each line, in their order."""
    assert list(names_of(headers, fields_of(headers))) == [name.lower() for name, _ in headers]


@given(HEADERS)
def test_fields_have_the_first_value_of_every_name(headers: list[tuple[bytes, bytes]]) -> None:
    """And no other names."""
    fields = fields_of(headers)
    assert fields.keys() == {name.lower() for name, _ in headers}
    for name, value in fields.items():
        assert value == next(v for n, v in headers if n.lower() == name)
