"""Header lines as they came, and the fields that are looked up among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Header = tuple[bytes, bytes]
Fields = Mapping[bytes, bytes]


def fields_of(headers: Sequence[Header]) -> dict[bytes, bytes]:
    """Each header's first value by its lower-case name, in the order in which the names came."""
    fields = {name.lower(): value for name, value in headers}
    if len(fields) != len(headers):
        fields |= {name.lower(): value for name, value in reversed(headers)}
    return fields


def names_of(headers: Sequence[Header], fields: Fields) -> Iterable[bytes]:
    """The lower-case name of each header: at hand, unless a name is there twice."""
    return fields if len(fields) == len(headers) else [name.lower() for name, _ in headers]
