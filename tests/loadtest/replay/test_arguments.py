"""What the command line may say."""

from __future__ import annotations

import argparse

import pytest

from loadtest.replay.arguments import Part, add_replay_arguments


def read(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_replay_arguments(parser)
    return parser.parse_args(words)


def test_lists_are_in_the_order_given_and_say_things_once() -> None:
    arguments = read("--replicas", "8,4,8", "--load", "0.5, 0.7", "--trace", "conversation,a.jsonl")

    assert (arguments.replicas, arguments.load) == ([8, 4], [0.5, 0.7])
    assert arguments.trace == ["conversation", "a.jsonl"]


def test_so_many_replicas_and_a_number() -> None:
    arguments = read("--slow", "2x0.6,1x0.5", "--join", "1@0.5", "--leave", "2@0")

    assert arguments.slow == [Part(2, 0.6), Part(1, 0.5)]
    assert (arguments.join, arguments.leave) == ([Part(1, 0.5)], [Part(2, 0.0)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replicas", "0"], "'0' is not a whole number of at least 1"),
        (["--replicas", "two"], "'two' is not a whole number of at least 1"),
        (["--replicas", ","], "names nothing"),
        (["--load", "nan"], "'nan' is not a number of at least 0.01"),
        (["--load", "inf"], "'inf' is not a number"),
        (["--streamed", "1.5"], "'1.5' is not a number from 0 to 1"),
        (["--slow", "2"], "'2' is not like 2x0.5"),
        (["--slow", "2x0"], "'0' is not a number of at least 0.01"),
        (["--join", "1@2"], "'2' is not a number from 0 to 1"),
        (["--seeds", "2.5"], "'2.5' is not a whole number"),
    ],
)
def test_a_wrong_argument_is_told_what_it_may_be(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*words)

    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """It names every generated trace."""
    with pytest.raises(SystemExit):
        read("--help")

    said = capsys.readouterr().out
    assert "python -m loadtest replay --trace conversation,agentic" in said
    assert all(kind in said for kind in ("hot_shift", "documents"))
