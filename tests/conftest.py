"""What goes for all tests."""

from __future__ import annotations

from hypothesis import settings

# No test is judged by the clock: machines are busy, and the first text that is drawn on one takes a second.
settings.register_profile("no_clock", deadline=None)
settings.load_profile("no_clock")
