"""Debian's Chromium, as Playwright starts it here."""

import shutil
from typing import Final

PROGRAM: Final = shutil.which("chromium")
"""None: Chromium is not installed. On Debian: sudo apt-get install -y chromium"""
FLAGS: Final = (
    "--no-sandbox",  # which root may not have
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
