"""Model lists are read as far as they make sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.model_card import base_card, parse_models

ANSWER = {
    "data": [
        {"id": "alias", "root": "/m", "parent": None},
        {"id": "ad1", "root": "/l", "parent": "alias"},
        {"id": "Base", "x": 1},
    ]
}


def test_bases_and_adapters() -> None:
    """A parent makes an adapter; of several names of the base the first in the alphabet stands for its caches."""
    cards = parse_models(ANSWER)
    base = base_card(cards)

    assert [(card.id, card.root, card.parent) for card in cards] == [
        ("alias", "/m", None),
        ("ad1", "/l", "alias"),
        ("Base", "Base", None),
    ]
    assert base is not None
    assert base.id == "Base"
    assert base_card(reversed(cards)) == base


@pytest.mark.parametrize("answer", [None, [], {}, {"data": 3}, {"data": [3, {"id": 4}, {"id": ""}]}])
def test_nonsense_lists_nothing(answer: object) -> None:
    """No card, no error."""
    assert parse_models(answer) == ()
    assert base_card(()) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "id", "root", "parent"]), inner)
    ),
)


@given(json_values)
def test_any_json_is_survived(answer: object) -> None:
    """Every card that comes out has a name."""
    assert all(card.id for card in parse_models(answer))
