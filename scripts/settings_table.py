"""Write the README's table of settings from ``Settings``; with --check only say whether it is current."""

from __future__ import annotations

from gateway.settings import Settings
from scripts.written_page import WrittenPage

PAGE = WrittenPage("README.md", "scripts/settings_table.py", {"settings": Settings.table})

if __name__ == "__main__":
    PAGE.main()
