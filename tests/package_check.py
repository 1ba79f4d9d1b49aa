"""Build the wheel and the sdist, check both as an index would, and try the wheel in an environment of its own.

`python -m tests.package_check [FOLDER]` writes into FOLDER, `dist` by default. It ends with an error at the first
thing that does not hold. `make package` runs it.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
_NOT_SHIPPED: Final = ("__pycache__", ".pyc")


def main(folder: Path) -> None:
    """Build into this folder, check what was built, and try it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    _run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)])
    wheel = _the_only(folder, "*.whl")
    sdist = _the_only(folder, "*.tar.gz")
    _run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory() as empty:
        try_wheel(wheel, Path(empty))
    sys.stdout.write(f"{wheel.name} and {sdist.name} are ready to publish\n")


def check_contents(wheel: Path, sdist: Path) -> None:
    """Compare what was built with the files of the package.

    Raises:
        SystemExit: A file is missing, or one is there that is not of the package.
    """
    package = ROOT / "jazz_select"
    wanted = {each.relative_to(ROOT).as_posix() for each in package.rglob("*") if each.is_file()}
    wanted = {name for name in wanted if not any(part in name for part in _NOT_SHIPPED)}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    if in_wheel != wanted:
        raise SystemExit(f"the wheel differs from the package in: {sorted(in_wheel ^ wanted)}")
    if missing := wanted - in_sdist:
        raise SystemExit(f"the sdist lacks: {sorted(missing)}")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment, and run the first program of the documentation there."""
    venv.create(folder / "env", with_pip=True)
    bin_folder = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    python = str(bin_folder / "python")
    _run([python, "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel)])
    _run([python, "-m", "pip", "check"])
    _run([str(bin_folder / "jazz-select"), "--version"])
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    found = re.search(r"^```python\n(.+?)^```", page, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit("docs/index.md has no Python program")
    program = folder / "support.py"
    program.write_text(found[1], "utf-8")
    printed = _run([python, str(program)], folder=folder)
    expected = re.findall(r"^ *#> (.+)$", found[1], re.MULTILINE)
    if printed.splitlines() != expected:
        raise SystemExit(f"the first program of the documentation printed {printed!r}, expected {expected}")


def _run(command: Sequence[str], *, folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _the_only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} holds {len(found)} files {pattern}, not one")
    return found[0]


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "dist"))
