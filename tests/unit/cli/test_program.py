"""The installed program: its entry point, its weight, its streams and its end."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import jazz_select
from jazz_select.cli.terminal import fill_template, printable, show, table
from jazz_select.settings import Settings
from tests.unit.cli.conftest import Jazz

PROGRAM = [str(Path(sys.executable).with_name("jazz-select"))]


@pytest.fixture(scope="module")
def configured() -> dict[str, str]:
    """Nothing: the program runs with its defaults."""
    return {}


@pytest.mark.programs
def test_the_version() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"jazz-select {jazz_select.__version__}\n"


@pytest.mark.programs
def test_a_pipe_gets_json_and_nothing_else(shared: Jazz) -> None:
    where = ["--index", str(shared.index), "--flows", str(shared.flows)]
    done = subprocess.run([*PROGRAM, "select", "money back", *where, "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)["chosen"][0]["flow_name"] == "refund_order"
    assert done.stderr == b""


@pytest.mark.programs
def test_an_old_code_page_is_no_reason_to_fail(shared: Jazz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("COLUMNS", "80")
    where = ["--index", str(shared.index), "--flows", str(shared.flows)]
    done = subprocess.run([*PROGRAM, "select", "money back €", *where], capture_output=True, check=True)
    text = done.stdout.decode("ascii")
    assert re.search(r"\|\*\| *1\| refund_order *\|", text)
    assert "request  money back ?" in text


@pytest.mark.programs
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("command", [["sync"], ["select", "hi"]], ids=lambda args: args[0])
def test_ctrl_c_ends_it_quietly(jazz: Jazz, command: list[str]) -> None:
    # Pressed while the flows are loaded, which the flows themselves know best.
    # A shell that starts the tests in the background has told them to ignore the key.
    heed = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    press = f"{heed}os.kill(os.getpid(), signal.SIGINT)\n"
    (jazz.flows / "account.py").write_text(press, encoding="utf-8")
    jazz.index.mkdir()
    where = ["--index", str(jazz.index), "--flows", str(jazz.flows)]
    done = subprocess.run([*PROGRAM, *command, *where], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


HEAVY = {"numpy", "orjson", "pydantic_ai", "qdrant_client", "qdrant_edge", "wordllama", "yaml"}


@pytest.mark.programs
@pytest.mark.parametrize("args", [["--help"], ["select", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_next_to_nothing(args: list[str]) -> None:
    program = (
        "import sys\nfrom jazz_select.cli import app\n"
        f"try:\n    app({args!r})\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout
    assert set(done.stderr.split()) & HEAVY == set()


@pytest.mark.programs
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_progress_goes_to_a_terminal_and_results_to_stdout(jazz: Jazz) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [*PROGRAM, "sync", "--index", str(jazz.index), "--flows", str(jazz.flows), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True, timeout=30)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode(errors="ignore")
    os.close(ours)
    assert len(json.loads(done.stdout)["created"]) == 3
    assert "indexing flows" in shown


def test_the_help_names_the_variable_and_the_default_of_every_shared_option() -> None:
    source = Path(str(sys.modules["jazz_select.cli.shared_options"].__file__)).read_text("utf-8")
    told = dict(re.findall(r"\((JAZZ_\w+), default: ([^)]+)\)", source))
    real = {f"JAZZ_{name.upper()}": field.default for name, field in Settings.model_fields.items()}
    assert told
    assert told == {name: "none" if real[name] is None else str(real[name]) for name in told}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n b\tc", "a b c"),
        ("\x1b[31mred\x9b", "\ufffd[31mred\ufffd"),
        ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
        ("日本語 é 🎷", "日本語 é 🎷"),
        ("x" * 11, "xxxxxxxxxx… (11 characters)"),
        ("x" * 5_000, "xxxxxxxxxx… (5,000 characters)"),
        ("x" * 10, "x" * 10),
        (" " * 5_000, "… (5,000 characters)"),
    ],
    ids=ascii,
)
def test_what_reaches_the_terminal_is_one_harmless_line(text: str, shown: str) -> None:
    assert printable(text, limit=10) == shown


@pytest.mark.parametrize(
    ("template", "row", "shown"),
    [
        pytest.param("{flow} of {now.of:,}", {"flow": "a", "now": {"of": 1_200}}, "a of 1,200", id="keys and forms"),
        pytest.param("{share:.1%}", {"share": None}, "–", id="not known"),
        pytest.param("{other}", {}, "–", id="not there"),
        pytest.param("{first|nothing}", {"first": ""}, "nothing", id="empty, with a word for it"),
        pytest.param("{names}", {"names": ("a", "b")}, "a, b", id="several"),
        pytest.param(
            "[green]{flow}[/]", {"flow": "[red]x[/] \\ {flow} \x1b"}, "[red]x[/] \\ {flow} \ufffd", id="hostile"
        ),
    ],
)
def test_a_template_is_filled_with_texts(template: str, row: dict[str, object], shown: str) -> None:
    assert fill_template(template, row).plain == shown


def test_a_table_says_how_many_rows_it_leaves_out() -> None:
    console = Console(file=StringIO(), record=True, width=40)
    show([table([{"n": number} for number in range(5)], {"[b]what[/b]": "row {n}", ">n": "{n}"}, most=2)], console)
    lines = console.export_text().splitlines()
    assert [line.split() for line in lines if "row" in line] == [["row", "0", "0"], ["row", "1", "1"]]
    assert "[b]what[/b]" in lines[1]
    assert lines[-1] == "… and 3 more; --json has all"


def test_signs_that_a_code_page_lacks_are_letters_that_it_has() -> None:
    assert "✓ a → b – €".encode("ascii", "jazz_select.plain_signs") == b"* a > b - ?"
