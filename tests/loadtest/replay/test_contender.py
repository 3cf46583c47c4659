"""Names of strategies on a command line."""

from __future__ import annotations

import pytest

import router_strategies
from loadtest import rivals
from loadtest.replay.contender import Contender, contenders, known


def test_groups_are_all_of_their_kind() -> None:
    """And a name that is in two is compared once."""
    ours = [contender.name for contender in contenders(["ours"])]

    assert ours == list(router_strategies.available())
    assert [contender.name for contender in contenders(["rivals"])] == [f"rival:{name}" for name in rivals.available()]
    assert contenders(["round_robin", "all"])[0].name == "round_robin"
    assert sorted(contender.name for contender in contenders(["round_robin", "all"])) == sorted(known())


def test_a_name_is_read_as_the_settings_read_it() -> None:
    assert contenders(["KV-Aware"]) == [Contender("kv_aware", "kv_aware")]


def test_one_strategy_with_unlike_options() -> None:
    """Each has a label of its own; their order does not matter."""
    found = contenders(["kv_aware", "kv_aware@cached_weight=4"])

    assert found == [
        Contender("kv_aware", "kv_aware"),
        Contender("kv_aware@cached_weight=4", "kv_aware", (("cached_weight", 4),)),
    ]


def test_an_option_of_all_of_a_name() -> None:
    """What a contender says itself comes first."""
    found = contenders(["kv_aware", "kv_aware@cached_weight=4"], ["kv_aware.cached_weight=1.5"])

    assert [contender.options for contender in found] == [(("cached_weight", 1.5),), (("cached_weight", 4),)]


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["fastest"], [], "no strategy is named 'fastest'; there are kv_aware, "),
        (["rival:fastest"], [], "no rival is named 'fastest'; there are "),
        (["kv_aware@speed=9"], [], "kv_aware has no option 'speed'; it has cached_weight"),
        (["kv_aware@cached_weight"], [], "'cached_weight' is not OPTION=VALUE"),
        (["kv_aware@cached_weight="], [], "is not OPTION=VALUE"),
        (["kv_aware@cached_weight=much"], [], "kv_aware"),
        (["kv_aware"], ["cached_weight=4"], "'cached_weight=4' is not STRATEGY.OPTION=VALUE"),
        (["kv_aware"], ["round_robin.seed=4"], "round_robin, which is not compared"),
    ],
)
def test_what_there_is_not_is_said_with_what_there_is(words: list[str], options: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        contenders(words, options)
