"""Who may import whom: parts stand on floors, and vendors stay in their adapters."""

import ast
import re
import tomllib
from pathlib import Path

from benchmarks import house
from tests.source import tree

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "jazz_select").rglob("*.py"))
HOUSE = (ROOT / "docs" / "inside" / "house.md").read_text("utf-8")
PARTS = HOUSE.partition("## What each part owns")[2].partition("\n## ")[0]


def floors() -> dict[str, int]:
    """Each part of the package and the floor that it stands on, counted from the ground."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return {part.strip(): floor for floor, layer in enumerate(reversed(layers)) for part in layer.split("|")}


def test_imports_only_point_down_and_siblings_never_meet() -> None:
    edges = house.parts()
    own = floors()
    assert edges.keys() == own.keys()
    assert own["flow"] == own["memory"] == own["chat"]
    up = [f"{part} imports {other}" for part, others in edges.items() for other in others if own[other] >= own[part]]
    assert up == []


VENDORS = {
    "agents": {"integrations"},
    "anthropic": {"chat"},
    "fastembed": {"memory"},
    "fastmcp": {"integrations"},
    "httpx": {"chat", "client", "memory", "routing"},
    "onnxruntime": {"memory"},
    "langchain": {"integrations"},
    "langchain_core": {"integrations"},
    "langgraph": {"integrations"},
    "openai": {"chat"},
    "opentelemetry": {"otel"},
    "pydantic_ai": {"chat", "integrations"},
    "qdrant_client": {"memory"},
    "qdrant_edge": {"memory"},
    "tokenizers": {"memory"},
    "wordllama": {"memory"},
}
"""What is adapted, and the parts that may know of it."""


def imported_packages(path: Path) -> set[str]:
    """The top-level packages that a module imports anywhere: in functions, for type checkers and by name, too."""
    return {name.split(".")[0] for node in ast.walk(tree(path)) for name in imported_names(node)}


def imported_names(node: ast.AST) -> list[str]:
    """What a node imports; of `import_module("name")` the name."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            return [node.module or ""]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [name]
        case _:
            return []


def test_vendors_stay_in_their_adapters() -> None:
    found = {
        (vendor, path.relative_to(ROOT / "jazz_select").parts[0].removesuffix(".py"))
        for path in LIBRARY
        for vendor in imported_packages(path) & VENDORS.keys()
    }
    assert {"qdrant_edge", "tokenizers", "pydantic_ai"} <= {vendor for vendor, _ in found}
    assert [(vendor, part) for vendor, part in sorted(found) if part not in VENDORS[vendor]] == []


def test_the_flows_of_the_clone_are_imported_by_nothing_in_the_library() -> None:
    outside = {"flows", "examples", "benchmarks", "tests"}
    assert [str(path) for path in LIBRARY if imported_packages(path) & outside] == []


def test_the_floors_of_the_paper_are_those_of_the_contract() -> None:
    shown = {
        part.removeprefix("jazz_select/").removesuffix(".py").removesuffix("/"): int(floor)
        for names, floor in re.findall(r"^\| (`.+?`) \|.*\| (\d+) \|$", PARTS, re.MULTILINE)
        for part in re.findall(r"`([^`]+)`", names)
    }
    assert shown == floors()
