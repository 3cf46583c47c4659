"""Where a field of a JSON object stands in its text, so that it can be exchanged and all else stays as it was."""

from __future__ import annotations

import json
import re

_VALUE = json.JSONDecoder().raw_decode
_SPACE = re.compile(r"[ \t\n\r]*")


def span_of(text: str, field: str) -> tuple[int, int]:
    """Where the value of the last ``field`` of an object begins and ends; (0, 0) if there is none, or no object."""
    found = (0, 0)
    try:
        at = _after_space(text, 0)
        while text[at] in "{,":
            name, at = _VALUE(text, _after_space(text, at + 1))
            at = _after_space(text, _after_space(text, at) + 1)  # beyond the colon
            _, end = _VALUE(text, at)
            if name == field:
                found = at, end
            at = _after_space(text, end)
    except (ValueError, IndexError, RecursionError):
        return found  # what the engine will refuse, and an empty object
    return found


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
