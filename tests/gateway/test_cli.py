"""The command line."""

from __future__ import annotations

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


def test_the_strategies_explain_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    """``prefixway serve --help`` has each file's own text."""
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = capsys.readouterr().out

    assert all(f"\n{name}\n    " in text for name in available())
    assert "cost = W + (1 + g) * x + M" in text
    assert "--workers N" in text
    assert "--worker " not in text  # between a supervisor and its workers
