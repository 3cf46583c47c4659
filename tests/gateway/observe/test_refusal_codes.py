"""Each error of ours is counted under a fixed name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from gateway.observe.refusal_codes import CODES, refusal_code

_ROOM = Path(gateway.__file__).parent
_ANSWERING = ("edge", "router", "fleet", "prompt")
_ADMIN = {"foreign_page", "redis_unavailable", "strategy_not_found"}  # of the admin port only


def test_every_code_in_the_source_is_known() -> None:
    """Of those that may answer a request on the public port. A new one belongs into ``CODES``."""
    sources = [_ROOM / "errors.py", *(path for room in _ANSWERING for path in (_ROOM / room).rglob("*.py"))]
    written = {code for path in sources for code in _codes(ast.parse(path.read_text()))}

    assert written - _ADMIN <= CODES


@pytest.mark.parametrize(
    ("code", "error", "label"),
    [
        ("no_replica", "NoReplica", "no_replica"),
        ("", "BadRequest", "bad_request"),
        ("", "HeadersTooLarge", "headers_too_large"),
        ("", "GatewayError", "gateway_error"),
        ("what a client wrote", "BadRequest", "other"),
        ("", "what a client wrote", "other"),
    ],
)
def test_labels(code: str, error: str, label: str) -> None:
    """The code, or without one the class, or ``other``."""
    assert refusal_code(code, error) == label


def _codes(tree: ast.AST) -> Iterator[str]:
    """Text given as ``code=``."""
    given = (node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "code")
    for value in given:
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
