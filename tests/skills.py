"""Agent Skills that tests write: a folder, its `SKILL.md`, and files beside it."""

from collections.abc import Mapping
from pathlib import Path

REFUND_BODY = """\
# Refunds

## When to use

A customer wants money back for an order that has arrived.

## Steps

1. Read references/policy.md.
2. Run scripts/total.py with the order's prices.
"""
POLICY = "Refunds are open for 30 days. Glass is never refunded."
TOTAL = "import sys\nprint(sum(float(each) for each in sys.argv[1:]))\n"


def write_skill(
    top: Path,
    name: str,
    fields: str = "",
    body: str = "# Do it\n\nAs you like.",
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write a skill with these further fields in its front matter, and return its folder."""
    folder = top / name
    folder.mkdir(parents=True, exist_ok=True)
    front = f"name: {name}\ndescription: Helps with {name}. Use it for {name}.\n" if "name:" not in fields else ""
    (folder / "SKILL.md").write_text(f"---\n{front}{fields}\n---\n\n{body}\n", "utf-8")
    for path, text in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


def write_refunds(top: Path, fields: str = "license: MIT") -> Path:
    """Write a skill with a reference and a script."""
    files = {"references/policy.md": POLICY, "scripts/total.py": TOTAL}
    return write_skill(top, "process-refunds", fields, REFUND_BODY, files)
