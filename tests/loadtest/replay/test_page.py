"""The page as a browser gets it."""

from __future__ import annotations

from html.parser import HTMLParser

from loadtest.replay.comparison import Comparison
from loadtest.replay.page import Drawn, page
from loadtest.replay.plots import draw
from tests.loadtest.replay.hand_made import CELL, OTHER, measured

COMPARISON = Comparison(
    [
        *measured("kv_aware", 1.0, 1.1, 1.2),
        *measured("rival:b", 2.0, 2.5, 2.1),
        *measured("kv_aware", 1.0, cell=OTHER),
        *measured("<i>odd&", 30.0, cell=OTHER),
    ],
    "kv_aware",
)
VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Elements that are open; fails where one is closed that is not the last."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.ids += [value or "" for name, value in attributes if name == "id"]
        self.references += [value or "" for name, value in attributes if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.remove(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    return parser


def shown(drawn: Drawn | None) -> str:
    return page(COMPARISON, drawn, command="python -m loadtest replay --out '<b>'", notes=["mind the <gap>"])


def test_it_is_whole_and_needs_nothing_else() -> None:
    """Every element is closed, nothing is fetched, no script runs, and a name is given once."""
    text = shown(draw(COMPARISON))
    found = outline(text)

    assert found.open == []
    assert found.seen.count("svg") == 3 + len(COMPARISON.cells)
    assert "script" not in found.seen
    assert "://" not in text
    assert "xlink" not in text
    assert "url(" not in text.replace("url(#", "")
    assert len(set(found.ids)) == len(found.ids)
    assert {reference.removeprefix("#") for reference in found.references} <= set(found.ids)


def test_it_shows_what_was_compared_and_how() -> None:
    """Names are text, whatever is in them."""
    words = "".join(outline(shown(None)).text)

    assert "python -m loadtest replay --out '<b>'" in words
    assert "mind the <gap>" in words
    assert "<i>odd&" in words
    assert str(CELL) in words
    assert str(OTHER) in words
    assert "kv_aware is more than 10 % behind the best with 95 % confidence: nowhere" in words


def test_without_plots_there_are_tables() -> None:
    found = outline(shown(None))

    assert found.open == []
    assert "svg" not in found.seen
    assert found.seen.count("table") == 2 + len(COMPARISON.cells)


def test_the_same_comparison_gives_the_same_bytes() -> None:
    assert shown(draw(COMPARISON)) == shown(draw(COMPARISON))
