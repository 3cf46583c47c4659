"""An epoch on its way."""

from __future__ import annotations

from gateway.shared.index.epoch_opening import EpochOpening


def test_a_piece_is_given_until_it_was_sent() -> None:
    """So that one that Redis did not take goes out again; the snapshot is taken once, when it is first asked for."""
    taken: list[str] = []
    opening = EpochOpening(7, "takeover")
    pieces = [[("SADD", "a", "1")], [("SADD", "a", "2")]]

    def take() -> object:
        taken.append("now")
        return iter(pieces)

    assert not opening.has_begun
    got = []
    for was_sent in (False, True, False, True, True):
        got.append(opening.next_piece(take))  # type: ignore[arg-type]
        if was_sent:
            opening.sent()

    assert got == [pieces[0], pieces[0], pieces[1], pieces[1], []]
    assert taken == ["now"]
    assert opening.has_begun
