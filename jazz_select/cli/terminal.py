"""What reaches the terminal: results on stdout, everything else on stderr, and no text that acts on the terminal."""

import logging
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from jazz_select.errors import ConfigError, JazzSelectError

# Control characters, lone surrogates, and marks that turn the direction of what follows.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LOGGER = logging.getLogger("jazz_select")
_MISUSE = 2


def stdout() -> Console:
    """The console for results."""
    return Console(highlight=False)


def stderr() -> Console:
    """The console for errors, hints and progress."""
    return Console(stderr=True, highlight=False)


def printable(text: str, *, limit: int = 300) -> str:
    """`text` on one line, with what a terminal would obey made visible, cut at `limit` characters."""
    line = _UNPRINTABLE.sub("\ufffd", " ".join(text[: 4 * limit].split()))
    if len(line) <= limit and len(text) <= 4 * limit:
        return line
    return f"{line[:limit]}… ({len(text):,} characters)"


def styled(text: str, style: str = "", *, limit: int = 300) -> Text:
    """`printable` text in one style; square brackets in it are just brackets."""
    return Text(printable(text, limit=limit), style=style)


def milliseconds(seconds: float) -> str:
    """A time with the digits that matter."""
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"  # noqa: PLR2004


def mark(console: Console, *, good: bool) -> Text:
    """A tick or a cross, in letters that the console has."""
    fancy = console.encoding.lower().startswith("utf")
    if good:
        return Text("✓" if fancy else "*", style="bold green")
    return Text("✗" if fancy else "x", style="bold red")


def facts_grid() -> Table:
    """A grid of facts: what each is called, and what it is."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def listing(first: str, *others: str, numbers: bool = False) -> Table:
    """A table without lines; of numbers all columns but the first stand to the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, overflow="fold", justify="right" if numbers else "left")
    return table


def ruled(first: str = "", *numbers: str) -> Table:
    """A table with a line below its headings: a name that may be long, and numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def fail(error: BaseException, *, traceback: bool = False) -> None:
    """One red line, or all there is to know."""
    console = stderr()
    if traceback:
        console.print_exception()
    # Soft: however long, the error stays one line, which the terminal wraps and a log keeps whole.
    console.print(styled(f"Error: {error}", "bold red", limit=4_000), soft_wrap=True)


def hint(text: str) -> None:
    """A remark that is no result."""
    stderr().print(styled(text, "yellow"), soft_wrap=True)


def agreed(what: str, question: str) -> bool:
    """Whether the person at the terminal says yes to a question; no where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    stderr().print(styled(what, "bold", limit=20_000), soft_wrap=True)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}


def emit(value: Any) -> None:
    """`value` (dataclasses, plain JSON types) as JSON on stdout."""
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


@contextmanager
def progress(title: str) -> Generator[Callable[[int, int], None]]:
    """A bar on stderr while the block runs, gone afterwards; none where stderr is no terminal. Yields its update."""
    console = stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def waiting(title: str) -> Generator[None]:
    """A spinner on stderr while the block runs, gone afterwards; none where stderr is no terminal."""
    console = stderr()
    if not console.is_terminal:
        yield
        return
    with console.status(title):
        yield


def prepare(*, debug: bool) -> Callable[[], None]:
    """Make the streams and the log fit for a command; returns what undoes it.

    The library's warnings repeat what results say in full, so they are shown only with `debug`.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # an old code page shows "?" rather than a traceback
    handler: logging.Handler = logging.StreamHandler() if debug else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    level = _LOGGER.level
    _LOGGER.addHandler(handler)
    if debug:
        _LOGGER.setLevel(logging.DEBUG)

    def undo() -> None:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(level)

    return undo


@contextmanager
def reporting(*, debug: bool = False) -> Generator[None]:
    """The edge of a program: what goes wrong within becomes one line on stderr and exit code 2."""
    undo = prepare(debug=debug)
    try:
        yield
    except JazzSelectError as error:
        fail(error, traceback=debug)
        raise typer.Exit(_MISUSE) from error
    finally:
        undo()


def write_file(file: Path, text: str, *, option: str) -> None:
    """Write what an option asked for; the folder that it is to lie in has to be there, or be one level below one.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        msg = f"{option} {file} cannot be written: {error.strerror or error}"
        raise ConfigError(msg) from error
