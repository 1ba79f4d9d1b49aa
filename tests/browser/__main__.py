"""The panel in a real Chromium: `python -m tests.browser`, or `make browser`.

Every page, light, dark and on a phone; by keyboard; and with a catalogue, a tool and a model that say markup. Pictures
of all pages go to `--pictures`.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.browser.chromium import chromium

HERE = Path(__file__).parent


def main() -> int:
    """See that there is a browser, and look; returns pytest's exit code."""
    missing = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"{', '.join(missing)} is missing: make browser, or pip install -e '.[browser]'\n")
        return 2
    if chromium() is None:
        sys.stderr.write("There is no Chromium on PATH: install it (Debian and Ubuntu: apt-get install chromium).\n")
        return 2
    asked = sys.argv[1:]
    where = [] if any(each.startswith("tests/") for each in asked) else [str(HERE)]
    command = [sys.executable, "-m", "pytest", "-q", "--browser", f"--confcutdir={HERE.parent}", *where, *asked]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
