"""Runs the Python blocks of one Markdown file as a reader would: top to bottom, in one session.

    python -m tests.doc_blocks docs/tutorial.md [name-for-messages]

- ```` ```python ```` is run. `await` at the top level works, as it does in a notebook.
- ```` ```python no-run ````, or a block after a line `<!-- no-run -->`, is only compiled.
- `#> text` after a statement says what the block prints; all such lines of a block together are its whole output.
- A block with `if __name__ == "__main__":` is saved to a file and run as a script, apart from the session.
- Blocks of other languages are left alone.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import linecache
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_FENCE = re.compile(
    r"""
    ^(?P<skip> <!--\ no-run\ -->\n+ )?
    (?P<indent>\ *) (?P<fence>`{3,}) python (?P<info>[^\n`]*) \n
    (?P<code>.*?)
    ^(?P=indent) (?P=fence) \ *$
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    file: str
    line: int
    """Of the block's first line of code, from 1."""
    code: str
    runs: bool

    @property
    def source(self) -> str:
        """The code, moved down to where it stands in the file, so that tracebacks point there."""
        return "\n" * (self.line - 1) + self.code

    @property
    def is_script(self) -> bool:
        """Whether it is a whole program, for a file of its own."""
        return 'if __name__ == "__main__":' in self.code

    @property
    def expected(self) -> list[str] | None:
        """What it says that it prints; None where it says nothing."""
        lines = [match[1] for match in re.finditer(r"^ *#> ?(.*)$", self.code, re.MULTILINE)]
        return lines or None


class WrongOutputError(AssertionError):
    """A block printed something else than it says."""

    def __init__(self, block: Block, printed: list[str]) -> None:
        said, did = ("".join(f"\n  {line}" for line in lines) for lines in (block.expected or [], printed))
        super().__init__(f"{block.file}:{block.line} says it prints{said}\nand prints{did}")


def blocks(text: str, file: str) -> Iterator[Block]:
    """The Python blocks of a Markdown text."""
    for match in _FENCE.finditer(text):
        indent = len(match["indent"])
        yield Block(
            file=file,
            line=text.count("\n", 0, match.start("code")) + 1,
            code="\n".join(line[indent:] for line in match["code"].splitlines()) + "\n",
            runs=match["skip"] is None and "no-run" not in match["info"].split(),
        )


def compiled(block: Block) -> types.CodeType:
    """The block as code; a mistake is reported at its place in the Markdown file."""
    return compile(block.source, block.file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


class ScriptFailedError(AssertionError):
    """A block that is a whole program ended with an error."""

    def __init__(self, block: Block, traceback: str) -> None:
        super().__init__(f"{block.file}:{block.line} is a script that fails:\n{traceback}")


def output_of_script(block: Block) -> str:
    """What the block prints when it is saved and run, in the working directory.

    Raises:
        ScriptFailedError: It ends with an error.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "script.py")
        file.write_text(block.source, encoding="utf-8")
        done = subprocess.run([sys.executable, "-W", "error", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ScriptFailedError(block, done.stderr)
    return done.stdout


def only_code(page: Sequence[Block]) -> list[str]:
    """The file's lines with everything but code blanked, so that it reads as one Python source."""
    lines: list[str] = []
    for block in page:
        lines += ["\n"] * (block.line - 1 - len(lines))
        lines += block.code.splitlines(keepends=True)
    return lines


def run(text: str, file: str) -> None:
    """Run all blocks of a file in one namespace and one event loop.

    Raises:
        WrongOutputError: A block prints something else than it says.
        ScriptFailedError: A block that is a whole program ends with an error.
    """
    name = Path(file).stem
    module = types.ModuleType(f"{name}_page")  # not to hide a module
    module.__file__ = file
    sys.modules[module.__name__] = module
    page = list(blocks(text, file))
    lines = only_code(page)
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)  # where inspect and tracebacks look
    with asyncio.Runner() as runner:
        for block in page:
            code = compiled(block)
            if not block.runs:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                if block.is_script:
                    printed.write(output_of_script(block))
                elif code.co_flags & inspect.CO_COROUTINE:
                    runner.run(eval(code, module.__dict__))  # noqa: S307
                else:
                    exec(code, module.__dict__)  # noqa: S102
            output = printed.getvalue().splitlines()
            if block.expected is not None and output != block.expected:
                raise WrongOutputError(block, output)


if __name__ == "__main__":
    run(Path(sys.argv[1]).read_text("utf-8"), sys.argv[-1])
