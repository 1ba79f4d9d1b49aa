"""The source of modules, parsed once a process for all who look for something in it."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """What stands in this file; it is shared, so leave it as it is."""
    return ast.parse(path.read_text("utf-8"))
