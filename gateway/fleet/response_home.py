"""Home: where a stored response is kept."""

from __future__ import annotations

from typing import NamedTuple


class Home(NamedTuple):
    """``alias``: what the client that had it made called the model; "": by the model's own name."""

    server_id: str
    alias: str = ""
