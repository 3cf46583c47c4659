"""The command line."""

from __future__ import annotations

import io
import sys

import pytest

from gateway import __version__
from gateway.cli import main
from router_strategies import available


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``prefixway --version``."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"prefixway {__version__}\n"


def test_no_command_is_an_error_with_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """argparse's own exit status 2, and what there is."""
    with pytest.raises(SystemExit) as ended:
        main([])

    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command with a line of its own."""
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out

    assert "serve" in text
    assert "demo" in text


@pytest.mark.parametrize("typed", ["sk-mellon", "sk-mellon\n", " sk-mellon\r\n"])
def test_a_key_is_hashed_from_standard_input(
    typed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `sha256sum` would, and as a file of keys takes it; the line's end is no part of it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    with pytest.raises(SystemExit) as ended:
        main(["hash-key"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == "sha256:5950331b679af7a19b18076964d76a04e5fc86514af8213608137cfe2aad1233\n"


def test_what_is_no_key_is_not_hashed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, or two words: said without repeating them."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("sk mellon\n"))
    with pytest.raises(SystemExit) as ended:
        main(["hash-key"])

    assert ended.value.code == 1
    assert "visible ASCII" in capsys.readouterr().err


def test_the_strategies_explain_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    """``prefixway serve --help`` has each file's own text."""
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = capsys.readouterr().out

    assert all(f"\n{name}\n    " in text for name in available())
    assert "cost = W + (1 + g) * x + M" in text
    assert "--workers N" in text
    assert "--worker " not in text  # between a supervisor and its workers


@pytest.mark.parametrize("turns", ["0", "-1", "x"])
def test_a_demo_has_turns(turns: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At least one."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--turns", turns])

    assert ended.value.code == 2
    assert "must be a whole number above 0" in capsys.readouterr().err
