"""Where Chromium is on this machine."""

import shutil
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def chromium() -> str | None:
    """Its path; None where there is none on PATH."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)
