"""How is the package built? Its rooms, what each owns, and who imports whom, read from the code.

`python -m benchmarks.house` writes the picture and the table into docs/inside/house.md; a test compares them.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "jazz_select"
PAGE = ROOT / "docs" / "inside" / "house.md"
BEGIN, END = "<!-- made by: python -m benchmarks.house -->\n", "<!-- end -->"


def name_of(path: Path) -> str:
    """A file's name as a module."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def modules() -> dict[str, Path]:
    """Every module of the package, by its name."""
    return {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules of the package that this one imports, anywhere: in functions and for type checkers, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
            found |= inner or {node.module} & known.keys()
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known.keys()
    return found - {name_of(path)}


@cache
def graph() -> Mapping[str, set[str]]:
    """Module to the modules that it imports; read once."""
    known = modules()
    return {name: imports(path, known) for name, path in known.items()}


def parts() -> dict[str, set[str]]:
    """Part of the package (a folder or a lone module) to the parts that it imports, by their own names."""
    found: dict[str, set[str]] = {}
    for name, others in graph().items():
        part = _part(name)
        if part:
            found.setdefault(part, set()).update({_part(other) for other in others} - {part, ""})
    return found


def mermaid() -> str:
    """The parts as a flowchart, each arrow that a longer way says already left out."""
    edges = parts()
    lines = ["flowchart TD"]
    lines += [f"    {part}[{part}]" for part in sorted(edges)]
    for part in sorted(edges):
        direct = edges[part] - {far for near in edges[part] for far in _reached(near, edges)}
        lines += [f"    {part} --> {other}" for other in sorted(direct)]
    return "\n".join(lines)


def table() -> str:
    """The rooms of the package: what each says that it owns, and its modules."""
    rows = ["| Room | Owns | Modules |", "|---|---|---:|"]
    for folder in sorted({path.parent for path in modules().values()}):
        files = sorted(folder.glob("*.py"))
        said = (ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or "").splitlines()[0]
        rows.append(f"| `{folder.relative_to(ROOT).as_posix()}/` | {said} | {len(files)} |")
    return "\n".join(rows)


def block() -> str:
    """What the page shows of it."""
    return f"```mermaid\n{mermaid()}\n```\n\n{table()}\n"


def _part(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def _reached(start: str, edges: Mapping[str, set[str]]) -> Iterator[str]:
    seen, ahead = {start}, [start]
    while ahead:
        for other in edges.get(ahead.pop(), set()) - seen:
            seen.add(other)
            ahead.append(other)
            yield other


def main() -> None:
    """Write it into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{block()}{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
