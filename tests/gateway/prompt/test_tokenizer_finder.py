"""Where tokenizers are looked for, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.prompt.tokenizer_files import TokenizerNotFound
from gateway.prompt.tokenizer_finder import TokenizerFinder
from gateway.prompt.tokenizer_hub import HubName


class ShelfHub:
    """A hub with folders by name: some in the cache, some to be downloaded."""

    def __init__(self, cached: Mapping[str, Path], online: Mapping[str, Path]) -> None:
        self._shelves = {"cached": cached, "online": online}
        self.asked: list[tuple[str, HubName]] = []

    def cached(self, name: HubName) -> Path:
        return self._take("cached", name)

    def download(self, name: HubName) -> Path:
        return self._take("online", name)

    def _take(self, shelf: str, name: HubName) -> Path:
        self.asked.append((shelf, name))
        try:
            return self._shelves[shelf][name.repository]
        except KeyError:
            raise TokenizerNotFound(f"{name.repository} is not {shelf}") from None


def folder(path: Path) -> Path:
    path.mkdir()
    (path / "tokenizer.json").touch()
    return path


def found(finder: TokenizerFinder, model: str, root: str) -> tuple[str, Path]:
    step, files = finder.find(model, root)
    return step, files.tokenizer_json.parent


def test_auto_takes_the_root_s_path_first(tmp_path: Path) -> None:
    """A replica on the same disk: nothing is asked of the hub."""
    hub = ShelfHub({}, {})

    assert found(TokenizerFinder("auto", hub), "m", str(folder(tmp_path / "m"))) == ("root", tmp_path / "m")
    assert hub.asked == []


def test_auto_then_asks_cache_and_hub_for_root_and_name(tmp_path: Path) -> None:
    """The cache for both names before any download."""
    hub = ShelfHub({}, {"served/name": folder(tmp_path / "x")})

    assert found(TokenizerFinder("auto", hub), "served/name", "Org/Model") == ("download", tmp_path / "x")
    assert [(shelf, name.repository) for shelf, name in hub.asked] == [
        ("cached", "Org/Model"),
        ("cached", "served/name"),
        ("online", "Org/Model"),
        ("online", "served/name"),
    ]


def test_auto_is_found_in_the_cache(tmp_path: Path) -> None:
    """An unreadable root does not end the search."""
    hub = ShelfHub({"Org/Model": folder(tmp_path / "x")}, {})

    assert found(TokenizerFinder("", hub), "Org/Model", "/no/such/path") == ("hub_cache", tmp_path / "x")


def test_one_place_for_all_models(tmp_path: Path) -> None:
    """A folder or a file; then nothing else is tried."""
    place = folder(tmp_path / "m")

    for spec in (str(place), str(place / "tokenizer.json")):
        assert found(TokenizerFinder(spec, None), "any", "/root") == ("setting", place)
    with pytest.raises(TokenizerNotFound, match="setting"):
        TokenizerFinder(str(tmp_path / "no"), None).find("any", str(place))


def test_places_by_model(tmp_path: Path) -> None:
    """Named models get theirs, the others follow auto; a model's name may hold an equals sign."""
    one, two, root = (folder(tmp_path / name) for name in ("one", "two", "root"))
    finder = TokenizerFinder(f" a={one} , b/c=d={two}", None)

    assert found(finder, "a", str(root)) == ("setting", one)
    assert found(finder, "b/c=d", str(root)) == ("setting", two)
    assert found(finder, "other", str(root)) == ("root", root)


def test_a_place_can_be_a_pinned_name_on_the_hub(tmp_path: Path) -> None:
    """name@revision, cache first."""
    hub = ShelfHub({"Org/Model": folder(tmp_path / "x")}, {})

    assert found(TokenizerFinder("m=Org/Model@v1", hub), "m", "") == ("hub_cache", tmp_path / "x")
    assert hub.asked == [("cached", HubName("Org/Model", "v1"))]


def test_says_why_nothing_was_found() -> None:
    """Each step with its reason, or that there was none."""
    with pytest.raises(TokenizerNotFound, match=r"root: .*hub_cache: .*download: Org/M is not online"):
        TokenizerFinder("auto", ShelfHub({}, {})).find("Org/M", "/no/such/path")
    with pytest.raises(TokenizerNotFound, match="nowhere to look"):
        TokenizerFinder("auto", None).find("Org/M", "Org/M")


@pytest.mark.parametrize("spec", ["m=", "=path", "m=a,m=b", "a,b"])
def test_a_setting_that_says_nothing_is_refused(spec: str) -> None:
    """When the gateway starts, not when the first request comes."""
    with pytest.raises(ValueError, match="tokenizer setting"):
        TokenizerFinder(spec, None)


@pytest.mark.parametrize("path", ["/a/b", "./a", "a/b/c", "../x/y", "https://x/y", ""])
def test_paths_are_no_hub_names(path: str) -> None:
    """So nothing odd is ever asked of the hub."""
    assert HubName.parse(path) is None
