"""TemplateManners: what of a prompt depends on the model's chat templates, besides their text."""

from __future__ import annotations

from typing import NamedTuple


class TemplateManners(NamedTuple):
    """``system_first``: system messages between the others are moved in front, into one. ``thinking_off``: the
    reasoning effort that a request gets which wants no thinking.
    """

    system_first: bool = False
    thinking_off: str = "none"
