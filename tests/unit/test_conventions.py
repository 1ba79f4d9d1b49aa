"""What a reviewer would otherwise have to remember."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Unpack, get_origin

import pytest

import jazz_select
from jazz_select import errors, ports
from tests.source import tree

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "jazz_select").rglob("*.py"))
CODE = [*LIBRARY, *sorted((ROOT / "flows").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def place(path: Path) -> str:
    """The path as this repository knows it."""
    return path.relative_to(ROOT).as_posix()


def tracked() -> list[Path]:
    """Every text that is or may become part of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


# --- modules -------------------------------------------------------------------


def test_every_module_says_what_it_is() -> None:
    assert {place(path) for path in LIBRARY} > {"jazz_select/values.py", "jazz_select/agent/agent.py"}
    assert [place(path) for path in CODE if not ast.get_docstring(tree(path))] == []


PUBLIC = {
    "agent",
    "cli",
    "client",
    "evaluation",
    "outcomes",
    "routing",
    "testing",
}  # parts whose names are imported from the part itself
FRONTS = [path for path in LIBRARY if path.name == "__init__.py" and path.parent.name != "jazz_select"]


def test_a_front_holds_a_docstring_and_nothing_else() -> None:
    inner = [path for path in FRONTS if path.parent.name not in PUBLIC]
    assert len(inner) > len(PUBLIC)
    assert [place(path) for path in inner if len(tree(path).body) != 1] == []


def test_a_public_front_holds_names_and_no_code_of_its_own() -> None:
    code = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.Try, ast.With)
    public = [path for path in FRONTS if path.parent.name in PUBLIC]
    assert len(public) == len(PUBLIC)
    assert [place(path) for path in public if any(isinstance(node, code) for node in ast.walk(tree(path)))] == []


def test_only_the_settings_read_the_environment() -> None:
    reading: list[str] = []
    for path in LIBRARY:
        nodes = list(ast.walk(tree(path)))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        imported = {
            alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module == "os"
            for alias in node.names
        }
        if (names | imported) & {"environ", "environb", "getenv", "putenv"}:
            reading.append(place(path))
    assert set(reading) <= {"jazz_select/settings.py"}


def test_all_code_is_what_the_oldest_python_reads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["tool"]["ruff"]["target-version"] == "py311"
    assert project["tool"]["pyright"]["pythonVersion"] == "3.11"
    for path in [*CODE, *TESTS]:
        ast.parse(path.read_text("utf-8"), filename=place(path), feature_version=(3, 11))


# --- the public face -----------------------------------------------------------


def without_case(name: str) -> tuple[str, str]:
    return name.casefold(), name


def exporting() -> list[str]:
    """Every module with an `__all__`."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in LIBRARY]
    texts = [path.read_text("utf-8") for path in LIBRARY]
    return [name for name, text in zip(names, texts, strict=True) if re.search(r"\b__all__ = ", text)]


@pytest.mark.parametrize("name", exporting())
def test_what_is_exported_is_sorted_and_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__), key=without_case)
    assert [export for export in module.__all__ if getattr(module, export, None) is None] == []


def test_exports_are_found_where_there_are_any() -> None:
    assert "jazz_select" in exporting()


def test_the_list_of_names_is_read_as_a_type_checker_reads_it() -> None:
    stub = ast.parse((ROOT / "jazz_select" / "__init__.pyi").read_text("utf-8"))
    homes = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(homes, key=without_case) == jazz_select.__all__
    for name, home in homes.items():
        assert getattr(importlib.import_module(str(home)), name) is getattr(jazz_select, name)


def methods(cls: type) -> dict[str, inspect.Signature]:
    """The public methods that the class itself defines, with its constructor."""
    own = {name: value for name, value in vars(cls).items() if name == "__init__" or not name.startswith("_")}
    functions = {name: getattr(value, "__func__", value) for name, value in own.items()}
    return {f"{cls.__name__}.{name}": inspect.signature(f) for name, f in functions.items() if inspect.isfunction(f)}


def public_signatures() -> dict[str, inspect.Signature]:
    """Everything that a user may call by a name of `jazz_select.__all__`."""
    found: dict[str, inspect.Signature] = {}
    for name in jazz_select.__all__:
        value: Any = getattr(jazz_select, name)
        if inspect.isclass(value):
            found.update(methods(value))
        elif callable(value):
            found[name] = inspect.signature(value)
    return found


PORTS = {
    key: signature
    for cls in vars(ports).values()
    if inspect.isclass(cls) and cls.__module__ == ports.__name__ and getattr(cls, "_is_protocol", False)
    for key, signature in methods(cls).items()
    if not key.endswith(".__init__")
}


def catch_alls(signatures: dict[str, inspect.Signature]) -> list[str]:
    """Those with `**kwargs` that nothing names: `Unpack` of a TypedDict names them all."""
    return [
        key
        for key, signature in signatures.items()
        if any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD and get_origin(parameter.annotation) is not Unpack
            for parameter in signature.parameters.values()
        )
    ]


def test_no_port_and_nothing_public_takes_whatever_comes() -> None:
    assert PORTS
    assert catch_alls(PORTS | public_signatures()) == []


POSITIONAL_OPTIONS = {"FlowMemory.recall": ["top_k", "rrf_k"]}
"""Options of ports that may be given by position. This list only shrinks."""


@pytest.mark.parametrize("key", sorted(PORTS))
def test_the_options_of_a_port_are_given_by_name(key: str) -> None:
    positional = [
        parameter.name
        for parameter in PORTS[key].parameters.values()
        if parameter.default is not inspect.Parameter.empty and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    assert positional == POSITIONAL_OPTIONS.get(key, [])


# --- errors --------------------------------------------------------------------


def drawn_tree() -> dict[str, str]:
    """Child to parent, as the docstring of `errors` draws it."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in str(errors.__doc__).splitlines():
        if match := re.match(r"^([│├└─ ]*)([A-Z]\w*Error|WrongValue|CannotDo)\b", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            if depth:
                parents[match[2]] = path[depth - 1]
    return parents


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    real = {
        cls.__name__: cls.__bases__[0].__name__
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, errors.JazzSelectError) and cls is not errors.JazzSelectError
    }
    assert drawn_tree() == real


def test_every_error_of_the_library_lives_in_errors() -> None:
    elsewhere = [
        f"{place(path)}: {node.name}"
        for path in LIBRARY
        if path.name != "errors.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    ]
    assert elsewhere == []


TAKES_A_MESSAGE = {"AgentError", "ConfigError", "FlowError", "JazzSelectError", "RouterError", "StoreError"}
"""Errors without data of their own: the roots, and two whose message says what to write instead. It only shrinks."""


def test_errors_take_data_and_build_their_message() -> None:
    classes = [node for node in tree(Path(str(errors.__file__))).body if isinstance(node, ast.ClassDef)]
    own = {cls.name: {f.name for f in cls.body if isinstance(f, ast.FunctionDef)} for cls in classes}
    assert {name for name, methods in own.items() if "__init__" not in methods} == TAKES_A_MESSAGE


PASSES = {"jazz_select/threads.py", "jazz_select/routing/executor.py"}
"""Where it is told by another way than raising: out of a thread, and past a policy that takes it for a failure."""


def catches_everything(handler: ast.ExceptHandler) -> bool:
    caught = "BaseException" if handler.type is None else ast.unparse(handler.type)
    return re.search(r"BaseException|CancelledError|KeyboardInterrupt|SystemExit", caught) is not None


def test_a_cancellation_always_passes() -> None:
    handlers = [
        (place(path), node)
        for path in LIBRARY
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert len(handlers) > len(PASSES)
    kept = {file for file, node in handlers if not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))}
    assert kept <= PASSES


# --- weight --------------------------------------------------------------------

HEAVY = [
    "anthropic",
    "fastembed",
    "httpx",
    "numpy",
    "openai",
    "pydantic",
    "pydantic_ai",
    "qdrant_client",
    "qdrant_edge",
    "rich",
    "typer",
    "wordllama",
]


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after this statement."""
    program = (
        f"{statement}\nimport sys, json\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        pytest.param("import jazz_select", [], id="the package"),
        pytest.param("import jazz_select; dir(jazz_select)", [], id="its names"),
        pytest.param("from jazz_select import JazzSelectError", [], id="an error"),
        pytest.param("import jazz_select.values", [], id="values"),
        pytest.param("import jazz_select.flow.base", ["pydantic"], id="flows"),
        pytest.param("from jazz_select.testing import ScriptedModel", ["numpy", "pydantic"], id="doubles"),
        pytest.param("from jazz_select import FlowSelector", ["numpy", "pydantic"], id="the selector"),
    ],
)
def test_importing_costs_only_what_is_used(statement: str, allowed: list[str]) -> None:
    assert loaded_by(statement) & set(HEAVY) - set(allowed) == set()


def test_importing_the_package_loads_nothing_but_the_list_of_its_names() -> None:
    program = f"import sys; before = {{*sys.modules}}; sys.path.insert(0, {str(ROOT)!r}); import jazz_select"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{program}; print(*sorted({{*sys.modules}} - before))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["jazz_select", "jazz_select.lazy"]


# --- the repository ------------------------------------------------------------

# Put together from halves, so that this file does not hold what it looks for.
FORBIDDEN = [
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "registry" + r"\.npmjs",
    "crates" + r"\.io",
    "--(extra-)?index" + "-url",
    r"(?<![\w.])/(root|work)" + "/",
    r"/(home|Users)" + r"/\w+/",
]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_file_names_a_package_registry_or_a_place_on_somebodys_machine(pattern: str) -> None:
    texts = {path: path.read_text("utf-8", errors="ignore") for path in tracked()}
    assert [place(path) for path, text in texts.items() if re.search(pattern, text)] == []


def test_the_pins_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.!+-]+", line)] == []
    names = [re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines]
    assert len(names) == len(set(names))
    assert "jazz-select" not in names


def test_everything_the_project_asks_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    ]
    names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]).lower() for line in wanted} - {"jazz-select"}
    pins = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text("utf-8").split()
    }
    assert names - pins == set()


def test_an_editable_install_makes_nothing_importable_but_the_library() -> None:
    # The clone's flows/ would be taken for those of whoever has a package of that name in mind.
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert build["dev-mode-exact"] is True
    assert build["targets"]["wheel"]["packages"] == ["jazz_select"]


def test_every_make_target_that_the_papers_name_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    papers = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / ".ci" / "run",
        ROOT / ".pre-commit-config.yaml",
    ]
    named = {
        (place(path), target)
        for path in papers
        for target in re.findall(r"(?:^|`|entry: )make ([a-z][a-z-]*)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert named
    assert {row for row in named if row[1] not in targets} == set()


@pytest.mark.parametrize("name", exporting())
def test_no_module_has_the_name_of_something_its_package_exports(name: str) -> None:
    package = importlib.import_module(name)
    modules = {each.name for each in pkgutil.iter_modules(getattr(package, "__path__", ()))}
    assert modules & set(package.__all__) == set(), "whichever is imported first would hide the other"


# --- AGENTS.md -------------------------------------------------------------------

AGENTS = (ROOT / "AGENTS.md").read_text("utf-8")


def test_every_file_that_the_paper_names_is_there() -> None:
    named = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.txt|/))`", AGENTS)) | {".ci/run", ".ci/nightly"}
    places = (ROOT, ROOT / "jazz_select", ROOT / "tests" / "unit", *(ROOT / "jazz_select").glob("*/"))
    assert len(named) > 10
    assert [name for name in named if not any((folder / name).exists() for folder in places)] == []


def test_the_tests_mirror_the_package() -> None:
    parts = {path.parent.name for path in FRONTS if path.parent.parent.name == "jazz_select"}
    assert parts <= {path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir()}


def test_warnings_are_errors_and_markers_are_known() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]
    finder = "ignore:Module already imported so cannot be rewritten; _editable_impl:pytest.PytestAssertRewriteWarning"
    assert options["filterwarnings"] == ["error", finder], (
        "and that one alone, of our own plugin installed to be edited"
    )
    assert options["strict"] is True


def test_the_doubles_of_the_standard_library_are_not_used() -> None:
    named = "unittest" + ".mock"
    assert [place(path) for path in TESTS if named in path.read_text("utf-8") and path != Path(__file__)] == []


LOOKS_AT_THE_CLOCK = {
    "tests/browser/looking.py": "a browser",
    "tests/disk.py": "a program of its own, `make disk`",
    "tests/held_up.py": "a program of its own, in `make serving`",
    "tests/index.py": "a program of its own, `make index`",
    "tests/mutants.py": "a program of its own, `make mutants`",
    "tests/postgres_server.py": "waits for a server that it has started, in `make programs`",
    "tests/serving.py": "a program of its own, `make serving`",
    "tests/tcp_proxy.py": "a network for programs, in `make programs`",
    "tests/unit/evaluation/test_side_process.py": "programs that outlive others, in `make programs`",
    "tests/unit/postgres/test_connection.py": "servers that are stopped and started, in `make programs`",
    "tests/unit/postgres/test_hostile_content.py": "a server of others, in `make programs`",
    "tests/unit/service/test_cluster_commands.py": "commands in processes of their own, in `make programs`",
    "tests/unit/service/test_failures.py": "networks that fail and come back, in `make programs`",
    "tests/unit/service/test_replicas.py": "a database that goes and comes back, in `make programs`",
    "tests/unit/service/test_serve_command.py": "the command in a process of its own, in `make programs`",
}


BY_THE_REAL_CLOCK = {
    "tests/unit/chat/test_provider_over_http.py": "a body that goes on arriving never lets a still clock go on",
    "tests/unit/chat/test_decisions_over_http.py": "as above",
}
"""Where a test may be marked `real_clock`, and why."""


def test_no_quick_test_looks_at_the_clock_of_the_machine() -> None:
    """An asynchronous test runs on the clock of `tests/clock.py`; what a thread waits for, somebody lets happen."""
    real = {f"{name}{unit}" for name in ("time", "monotonic", "perf_counter", "sleep") for unit in ("", "_ns")}
    looking: set[str] = set()
    for path in TESTS:
        for node in ast.walk(tree(path)):
            match node:
                case ast.ImportFrom(module="time", names=names) if real & {each.name for each in names}:
                    looking.add(place(path))
                case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in real:
                    looking.add(place(path))
                case _:
                    pass
    assert looking == set(LOOKS_AT_THE_CLOCK)
    marked = {place(each) for each in TESTS if "mark.real_clock" in each.read_text(encoding="utf-8")}
    assert marked - {"tests/unit/test_conventions.py"} == set(BY_THE_REAL_CLOCK)


READS_DATA = {
    "data_files.py": "the one reader of users' files",
    "errors.py": "the installer's note of where this package came from",
    "evaluation/changes/route_book.py": "what it wrote itself",
    "evaluation/changes/side_program.py": "lines of the process that started it",
    "lexicon.py": "a table of our own",
    "memory/embedders/fastembed.py": "what lies beside a model",
    "memory/embedders/minilm.py": "a table of our own",
    "memory/engines/edge.py": "what it wrote itself",
    "phrases.py": "a table of our own",
    "service/panel/runs.py": "what it wrote itself",
    "testing/doubles.py": "replies that it recorded itself",
    "texts.py": "a table of our own",
    "words.py": "a table of our own",
}


@pytest.mark.spec("013.5")
def test_files_of_users_are_read_by_one_bounded_reader() -> None:
    """A module that opens files, and reads YAML, JSON or TOML, is on the list, with what it reads."""
    reading = {"yaml.safe_load", "yaml.load", "yaml.parse", "tomllib.loads", "tomllib.load", "json.load"}
    reading |= {"json.loads", "orjson.loads", "loads", "from_json"}
    found: set[str] = set()
    for path in LIBRARY:
        calls = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
        if calls & reading and {call.rpartition(".")[2] for call in calls} & {"read_text", "read_bytes", "open"}:
            found.add(place(path).removeprefix("jazz_select/"))
    assert found == set(READS_DATA)
