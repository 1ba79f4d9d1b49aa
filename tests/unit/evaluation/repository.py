"""A repository with flows in it, for whoever compares its versions."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from jazz_select.evaluation import Difference

FLOWS: Mapping[str, Sequence[str]] = {
    "refund": ["money back please", "refund my order", "i want a refund", "return and refund", "give the money back"],
    "track": ["where is my parcel", "track my order", "has it shipped", "parcel tracking", "when does it arrive"],
    "invoice": ["send the invoice", "i need a bill", "invoice copy", "receipt for taxes", "bill for my order"],
}
PYTHON = """from jazz_select import Flow

class {kind}(Flow):
    name = "{name}"
    description = "All about {name}."
    condition = "The user asks for {name}."
    desired_effects = ["{name} is done"]
    examples = {examples!r}

    def available(self, context):
        return {guard}
"""


@dataclass(frozen=True)
class Repository:
    """Its working tree."""

    folder: Path

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")
        words_of = ["git", *identity, *words]
        done = subprocess.run(words_of, cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, flows: Mapping[str, Sequence[str]] = FLOWS, file: str = "flows/all.json") -> Path:
        made = [
            {
                "name": name,
                "description": f"All about {name}.",
                "condition": f"The user asks for {name}.",
                "desired_effects": [f"{name} is done"],
                "examples": list(examples),
            }
            for name, examples in flows.items()
        ]
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(made))
        return path

    def write_python(self, name: str, *, guard: str = "True") -> Path:
        path = self.folder / "flows" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = PYTHON.format(kind=name.title(), name=name, examples=list(FLOWS[name]), guard=guard)
        path.write_text(text, "utf-8")
        return path

    def copied(self, folder: Path) -> "Repository":
        """One like it, with what comparisons kept in it."""
        return Repository(shutil.copytree(self.folder, folder, symlinks=True))

    def commit(self, message: str = "change") -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")


def repository(folder: Path) -> Repository:
    """With one commit of `FLOWS`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Repository(folder)
    made.git("init", "-q", "-b", "main")
    (folder / ".gitignore").write_text(".jazz/\n__pycache__/\n", "utf-8")
    made.write()
    made.commit("first")
    return made


@dataclass(frozen=True)
class Judged:
    """A comparison, and the repository in which it was kept."""

    repo: Repository
    found: Difference
