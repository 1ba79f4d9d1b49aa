"""What reaches the terminal: results on stdout, everything else on stderr, and no text that acts on the terminal."""

import codecs
import logging
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from jazz_select.consent import read_consent
from jazz_select.errors import ConfigError, JazzSelectError

# Control characters, lone surrogates, and marks that turn the direction of what follows.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FIELD = re.compile(r"\{([\w.@-]+)(?:\|([^}:]*))?(?::([^}]*))?\}")
_PLAIN_SIGNS = "jazz_select.plain_signs"
_SIGNS = {"✓": "*", "✗": "x", "→": ">", "…": ".", "–": "-", "“": '"', "”": '"'}
_MISUSE = 2


def _plain_signs(error: UnicodeError) -> tuple[str, int]:
    """Replace signs that an old code page lacks by letters of the same width."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SIGNS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(_PLAIN_SIGNS, _plain_signs)


def stdout() -> Console:
    """Create the console for results."""
    return Console(highlight=False)


def stderr() -> Console:
    """Create the console for errors, hints and progress."""
    return Console(stderr=True, highlight=False)


def printable(text: str, *, limit: int = 300) -> str:
    """Put `text` on one line of at most `limit` characters; replace control characters by a visible sign."""
    line = _UNPRINTABLE.sub("\ufffd", " ".join(text[: 4 * limit].split()))
    if len(line) <= limit and len(text) <= 4 * limit:
        return line
    return f"{line[:limit]}… ({len(text):,} characters)"


def styled(text: str, style: str = "", *, limit: int = 300) -> Text:
    """Style `printable` text; square brackets in it are not markup."""
    return Text(printable(text, limit=limit), style=style)


def milliseconds(seconds: float) -> str:
    """Format a time given in seconds as milliseconds, with three digits below 100 ms."""
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"  # noqa: PLR2004


def mark(*, good: bool) -> Text:
    """Return a tick, or a cross."""
    return Text("✓", style="bold green") if good else Text("✗", style="bold red")


def line(*parts: str | Text, style: str = "", limit: int = 1_000, sep: str = " ") -> Text:
    """Join the parts into one unbroken line: the terminal wraps it, and a log keeps it whole."""
    texts: list[Text] = []
    for part in parts:
        texts.append(part if isinstance(part, Text) else styled(part, style, limit=limit))
    whole = Text(no_wrap=True, overflow="ignore")
    return whole.append_text(Text(sep).join(texts))


def fill_template(template: str, row: Any, *, limit: int = 300) -> Text:
    """Replace the fields of a template by the values of a row, as in `[green]{flow}[/] of {now.requests:,}`.

    Args:
        template: Fields are keys, or attributes; what they hold is text, never markup. `{first|nothing}` says what
            stands for a value that is empty.
        row: What they are looked up in. What is not known is a dash, and several values are joined by commas.
        limit: Letters of a value that are shown.
    """
    marked = Text.from_markup(template)
    filled = Text()
    end = 0
    for field in _FIELD.finditer(marked.plain):
        name, default, form = field.groups()
        filled.append_text(marked[end : field.start()])
        value = _look_up(row, name)
        text = default if default and not value else _format_value(value, form or "")
        spans = marked[field.start() : field.end()].spans
        filled.append(printable(text, limit=limit), spans[-1].style if spans else "")
        end = field.end()
    return filled.append_text(marked[end:])


def _look_up(row: Any, path: str) -> Any:
    from jazz_select.json_values import is_object

    for name in path.split("."):
        row = row.get(name) if is_object(row) else getattr(row, name)
    return row


def _format_value(value: Any, form: str) -> str:
    if value is None:
        return "–"
    parts = [*_parts(value)]
    return format(value, form) if parts == [value] else ", ".join(map(str, parts))


def _parts(value: object) -> Iterable[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)


Column: TypeAlias = str | Callable[[Any], RenderableType]
"""What a table has of each row: a template for `filled`, or what makes a cell of it."""


def table(
    rows: Sequence[Any], columns: Mapping[str, Column], *, most: int | None = None, count: int | None = None
) -> Group:
    """Lay out rows as a table; below it stands how many more rows there are.

    Args:
        rows: As `filled` reads them.
        columns: What each has by its heading. One that begins with ">" stands to the right, and is not folded.
        most: How many are shown.
        count: How many there are, where these are not all.
    """
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for heading in columns:
        title = Text("\n".join(map(printable, heading.removeprefix(">").splitlines())))
        if heading.startswith(">"):
            shown.add_column(title, justify="right", no_wrap=True, overflow="ellipsis")
        else:
            shown.add_column(title, overflow="fold")
    for row in rows[:most]:
        cells: list[RenderableType] = []
        for column in columns.values():
            cells.append(fill_template(column, row) if isinstance(column, str) else column(row))
        shown.add_row(*cells)
    total = len(rows) if count is None else count
    if most is None or total <= most:
        return Group(shown)
    return Group(shown, line(f"… and {total - most:,} more; --json has all", style="dim"))


def facts(known: Mapping[str, object] | Iterable[tuple[str, object]], *, limit: int = 1_000) -> Table:
    """List names with their values, one line for each item of a list; empty values are left out."""
    from jazz_select.json_values import is_object

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    pairs = known.items() if is_object(known) else known
    for name, value in pairs:
        for each in _parts(value):
            if each in (None, ""):
                continue
            if not isinstance(each, Text):
                form = ".2f" if isinstance(each, float) else ""
                each = styled(_format_value(each, form), limit=limit)  # noqa: PLW2901 - the same value, for the terminal
            grid.add_row(name, each)
    return grid


def show(report: Iterable[RenderableType], console: Console | None = None) -> None:
    """Print the parts of a report below each other, by default on stdout."""
    (console or stdout()).print(Group(*report), crop=False)


def tell(
    outcome: object, shown: Iterable[RenderableType], notes: Iterable[str] = (), *, json: bool, prefix: str = ""
) -> None:
    """Print the outcome of a command: as JSON, which contains the notes, or as a report followed by the notes."""
    if json:
        emit(outcome)
        return
    show(shown)
    for note in notes:
        hint(f"{prefix}{note}")


def fail(error: BaseException, *, traceback: bool = False) -> None:
    """Print an error as one red line on stderr; with `traceback`, print its traceback first."""
    console = stderr()
    if traceback:
        console.print_exception()
    # Soft: however long, the error stays one line, which the terminal wraps and a log keeps whole.
    console.print(styled(f"Error: {error}", "bold red", limit=4_000), soft_wrap=True)


def hint(text: str) -> None:
    """Print a remark on stderr."""
    stderr().print(styled(text, "yellow"), soft_wrap=True)


def ask_yes_no(what: str, question: str) -> bool:
    """Ask the person at the terminal; return False if there is no terminal or the answer is not yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    stderr().print(styled(what, "bold", limit=20_000), soft_wrap=True)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return read_consent(sys.stdin.readline()) == ("yes", "")


def emit(value: Any) -> None:
    """Print one JSON document for `--json`, as `to_dict` of a result returns it, always with all keys.

    Keys may be added; none is renamed or removed without a major version. Times are seconds, and `null` stands for what
    is not known. What UTF-8 cannot hold is replaced.
    """
    from jazz_select.json_values import indented_json

    typer.echo(indented_json(value))


@contextmanager
def progress(title: str) -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal; yield its update function."""
    console = stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def spinner(title: str) -> AbstractContextManager[object]:
    """Show a spinner on stderr while the block runs, if stderr is a terminal."""
    return stderr().status(title)


@contextmanager
def log_to(name: str, handler: logging.Handler, *, level: int | None = None, alone: bool = False) -> Generator[None]:
    """Send a logger's lines from `level` on to a handler while the block runs; with `alone`, to no other handler."""
    logger = logging.getLogger(name)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logger.level if level is None else level)
    logger.propagate = logger.propagate and not alone
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def report_errors(*, debug: bool = False) -> Generator[None]:
    """Report an error of the block as one line on stderr, and exit with code 2.

    The library's warnings repeat what results say in full, so they are shown only with `debug`.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_PLAIN_SIGNS)  # an old code page shows "?" rather than a traceback
    log: logging.Handler = logging.StreamHandler() if debug else logging.NullHandler()
    log.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    try:
        with log_to("jazz_select", log, level=logging.DEBUG if debug else None):
            yield
    except JazzSelectError as error:
        fail(error, traceback=debug)
        raise typer.Exit(_MISUSE) from error


def write_file(file: Path, text: str, *, option: str) -> None:
    """Write what an option asked for; the folder that it is to lie in has to be there, or be one level below one."""
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{option} {file} cannot be written: {error.strerror or error}") from error
