"""Mutants: one small fault at a time in a module that matters, and the tests that must see it. `make mutants`.

Neither mutmut nor cosmic-ray: both write the fault into the sources and begin pytest anew for each mutant, a second or
two of imports each. Here pytest collects once and forks for each mutant; the fork swaps the code of one function, and
runs the tests that enter this function, the quickest first. So the bodies of functions are mutated, and not what runs
at import. What survives is printed with its place. One that no test can see is listed in `tests/mutants.toml`, with
its reason, and not counted.
"""

import argparse
import ast
import builtins
import contextlib
import difflib
import gc
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
AGENT = (
    "tests/unit/agent",
    *(f"tests/property/test_{name}.py" for name in ("approval", "approval_of_flows", "grounding")),
)
ROUTING = (
    *("tests/unit/routing", "tests/property/test_tool_names.py", "tests/unit/agent/test_claims.py"),
    "tests/property/test_schemas.py",
    *("tests/unit/agent/test_approval.py", "tests/unit/agent/test_wrong_types.py"),
)
_OF_MEMORY = (
    "recall sync deleting memorize shared_index cascade near_misses coverage_sets concurrency confidence damaged_index "
    "evidence learned_from_a_log leave_one_out offered_candidates bad_requests"
)
MEMORY = (
    *(f"tests/unit/memory/test_{name}.py" for name in _OF_MEMORY.split()),
    "tests/property/test_sync_plan.py",
)
TESTS: dict[str, tuple[str, ...]] = {
    "routing/tool_call.py": ROUTING,
    "routing/approval.py": ROUTING,
    "routing/claims.py": (*AGENT, "tests/conformance/test_claim_store.py"),
    "agent/gate.py": AGENT,
    "agent/conversation.py": AGENT,
    "agent/reading/bare_answer.py": AGENT,
    "agent/reading/grounding.py": AGENT,
    "consent.py": AGENT,
    "phrases.py": AGENT,
    "routing/decisions/decision_points.py": ROUTING,
    "routing/names/resolution.py": ROUTING,
    "routing/schemas/assignability.py": ROUTING,
    "routing/schemas/compatibility.py": ROUTING,
    "selector/reply.py": ("tests/unit/selector",),
    "selector/stage.py": ("tests/unit/selector",),
    "selector/recall_stage.py": ("tests/unit/selector",),
    "selector/decision_stage.py": ("tests/unit/selector",),
    "selector/chat_stage.py": ("tests/unit/selector",),
    "selector/user_stage.py": ("tests/unit/selector",),
    "selector/pipeline.py": ("tests/unit/selector",),
    "selector/known_requests.py": ("tests/unit/selector/test_known_requests.py",),
    "selector/asking.py": ("tests/unit/selector",),
    "memory/recall.py": MEMORY,
    "memory/sync.py": MEMORY,
    "evaluation/changes/difference.py": (
        "tests/unit/evaluation/test_difference.py",
        "tests/unit/evaluation/test_gates.py",
    ),
    "service/http/limits.py": tuple(
        f"tests/unit/service/test_{name}.py" for name in ("http_refused", "http", "key_shares")
    ),
    "chat/json_reader.py": ("tests/unit/chat/test_json_reader.py", "tests/unit/selector/test_reply.py"),
    "chat/client.py": ("tests/unit/chat/test_client.py", "tests/unit/chat/test_model_adaptation.py"),
    "flow/field_checks.py": ("tests/unit/flow", "tests/unit/agent/test_inputs.py"),
    "values.py": ("tests/unit/selector", "tests/unit/memory/test_recall.py", "tests/unit/test_notebook.py"),
}
"""The modules that matter, and the tests that are to kill their mutants."""
LONGEST_S = 60
"""Of tests, the quickest first, that one mutant is run against."""

NOTE = "_is_entered"
"""What a function calls where it is to be known which tests enter it."""
OPPOSITE: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.Break: (ast.Continue,),
    ast.Continue: (ast.Break,),
}
DROPPED: dict[type[ast.AST], str] = {ast.Call: "keywords", ast.BoolOp: "values", ast.comprehension: "ifs"}
OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}
SAYS_ONLY = (ast.JoinedStr, ast.Raise, ast.Assert)  # words, for people
FOR_CHECKERS: dict[str, type[ast.AST]] = {"cast": ast.Constant, "zip": ast.keyword}
"""What of a call is there for those who check types, or for what cannot be: a type as a text, `strict=True`."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = tuple[int, Callable[[], None]]
CACHED: type[Any] = type(cache(len))


def changed(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - a table, row by row
    """What may stand where this node stands."""
    for other in OPPOSITE.get(type(node), ()):
        yield other()
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if " " not in value:  # else it is words, for people
            yield ast.Constant(f"{value}?")
        case ast.Name(id=name) if name in OTHER_NAME:
            yield ast.Name(OTHER_NAME[name], ast.Load())
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Constant() | ast.Yield()) | ast.Expr(value=ast.Await(value=ast.Constant())):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            pass
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.If(orelse=[]):
            yield ast.Pass()
        case _:
            pass


def changes(node: ast.AST) -> Iterator[Change]:
    """Every fault that can be put into a function's body, with its line."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if (
        docstring
        or isinstance(node, SAYS_ONLY)
        or (isinstance(node, ast.Call) and ast.unparse(node).startswith("_log."))
    ):
        return
    at = getattr(node, "lineno", 0)
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield at, lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.ExceptHandler) and not isinstance(node.body[0], ast.Pass):
        yield at, lambda: setattr(node, "body", [ast.Pass()])
    dropped = DROPPED.get(type(node), "")
    passed_over: Any = FOR_CHECKERS.get(ast.unparse(node.func), ()) if isinstance(node, ast.Call) else ()
    parts = enumerate(getattr(node, dropped, ()))
    for index in [number for number, child in parts if not isinstance(child, passed_over)]:
        yield at, lambda index=index: getattr(node, dropped).pop(index)
    for name, value in ast.iter_fields(node):
        if name in {"decorator_list", "args", "returns", "annotation"} and not isinstance(node, ast.Call):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any field of any node
            if isinstance(child, ast.AST) and not isinstance(child, passed_over):
                for other in changed(child):
                    yield getattr(child, "lineno", at), lambda n=name, i=index, o=other: _put(node, n, i, o)
                yield from ((line or at, change) for line, change in changes(child))


def _put(node: ast.AST, name: str, index: int, other: ast.AST) -> None:
    value = getattr(node, name)
    if isinstance(value, list):
        value[index] = other
    else:
        setattr(node, name, other)


def functions(tree: ast.AST, outside: str = "") -> Iterator[tuple[str, Function]]:
    """The outermost functions of a module and its classes, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{outside}{node.name}.")
        elif isinstance(node, Function):
            yield f"{outside}{node.name}", node


def first_line(function: Function) -> int:
    """Where the code of a function begins: at its first decorator."""
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault: its function, and what the function's lines were and become."""

    module: str
    function: str
    first: int
    line: int
    was: str
    becomes: str
    code: CodeType

    @property
    def key(self) -> tuple[str, str, str, str]:
        """By what `tests/mutants.toml` names it."""
        return self.module, self.function, self.was, self.becomes

    def __str__(self) -> str:
        lines = [f"-{each}" for each in self.was.splitlines()] + [f"+{each}" for each in self.becomes.splitlines()]
        return "\n".join([f"jazz_select/{self.module}:{self.line} {self.function}", *(f"    {each}" for each in lines)])


def code_of(code: CodeType, name: str, first: int) -> CodeType | None:
    """The code of one function, within that of its module."""
    if (code.co_qualname, code.co_firstlineno) == (name, first):
        return code
    inside = (code_of(each, name, first) for each in code.co_consts if isinstance(each, CodeType))
    return next((each for each in inside if each is not None), None)


def mutants(module: str) -> Iterator[Mutant]:
    """All mutants of a module."""
    path = ROOT / "jazz_select" / module
    text = path.read_text(encoding="utf-8")
    for number, (name, function) in enumerate(functions(ast.parse(text))):
        whole = ast.unparse(function).splitlines()
        for index in range(sum(1 for _ in changes(function))):
            tree = ast.parse(text)
            _, altered = list(functions(tree))[number]
            line, change = list(changes(altered))[index]
            change()
            differing = list(difflib.unified_diff(whole, ast.unparse(altered).splitlines(), n=0, lineterm=""))[2:]
            was = "\n".join(each[1:].strip() for each in differing if each.startswith("-"))
            becomes = "\n".join(each[1:].strip() for each in differing if each.startswith("+"))
            try:
                made = code_of(compile(ast.fix_missing_locations(tree), path, "exec"), name, first_line(function))
            except (SyntaxError, ValueError):
                continue
            if made is not None:
                yield Mutant(
                    module=module,
                    function=name,
                    first=first_line(function),
                    line=line,
                    was=was,
                    becomes=becomes,
                    code=made,
                )


def noting(module: str) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The code of each function of a module, that notes when it is entered, with the function's place."""
    path = ROOT / "jazz_select" / module
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = list(functions(tree))
    for _, function in found:
        note = ast.parse(f"{NOTE}({module!r}, {first_line(function)})").body[0]
        function.body.insert(1 if ast.get_docstring(function) is not None else 0, note)
    whole = compile(ast.fix_missing_locations(tree), path, "exec")
    for name, function in found:
        if (code := code_of(whole, name, first_line(function))) is not None:
            yield (module, first_line(function)), code


class Forking:
    """A plugin of pytest: what it collected is run in forks, once as it is, and once for each mutant."""

    def __init__(self, modules: Sequence[str], options: argparse.Namespace) -> None:
        self.modules = modules
        self.options = options
        self.results: list[dict[str, Any]] | None = None
        self.caches: list[Any] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        import hypothesis

        house = hypothesis.settings.get_profile("house")
        hypothesis.settings.register_profile("mutants", house, database=None, derandomize=True)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for each in self.modules:
            import_module(f"jazz_select.{each.removesuffix('.py').replace('/', '.')}")
        gc.unfreeze()
        paths = {str(ROOT / "jazz_select" / each): each for each in self.modules}
        live: dict[tuple[str, int], list[FunctionType]] = {}
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in paths:
                live.setdefault((paths[each.__code__.co_filename], each.__code__.co_firstlineno), []).append(each)
            if isinstance(each, CACHED) and str(each.__module__).startswith("jazz_select."):
                self.caches.append(each)
        self.forget()
        entered = self.entered(session, live)
        self.results = self.tried(session, live, entered)
        return True

    def entered(
        self, session: pytest.Session, live: dict[tuple[str, int], list[FunctionType]]
    ) -> dict[tuple[str, int], list[int]]:
        """Which tests pass as it is and enter a function, the quickest first."""
        with tempfile.NamedTemporaryFile() as file:

            def watch() -> None:
                found: list[tuple[float, int, list[tuple[str, int]]]] = []
                seen: set[tuple[str, int]] = set()

                def note(module: str, first: int) -> None:
                    seen.add((module, first))

                setattr(builtins, NOTE, note)
                self.swap(live)
                for number, item in enumerate(session.items):
                    after = next(iter(session.items[number + 1 : number + 2]), None)
                    seen.clear()
                    self.forget()
                    before, begun_s = session.testsfailed, time.perf_counter()
                    run(session, item, after)
                    if session.testsfailed == before:
                        found.append((time.perf_counter() - begun_s, number, sorted(seen)))
                Path(file.name).write_text(json.dumps(found), encoding="utf-8")

            with self.turn():
                forked(watch, limit_s=1200)
            found = json.loads(file.read())
        entered: dict[tuple[str, int], list[int]] = {}
        spent: Counter[tuple[str, int]] = Counter()
        for took, number, places in sorted(found, key=lambda each: each[0]):
            for place in map(tuple, places):
                if spent[place] <= LONGEST_S:
                    entered.setdefault(place, []).append(number)
                    spent[place] += took
        return entered

    def forget(self) -> None:
        """What was kept of earlier calls is found anew, so that whoever needs a function enters it."""
        for each in self.caches:
            each.cache_clear()

    def swap(self, live: dict[tuple[str, int], list[FunctionType]]) -> None:
        """From now on each function notes that it is entered."""
        for place, code in (each for module in self.modules for each in noting(module)):
            for function in live.get(place, []):
                if function.__code__.co_freevars == code.co_freevars:
                    function.__code__ = code

    def tried(
        self,
        session: pytest.Session,
        live: dict[tuple[str, int], list[FunctionType]],
        entered: dict[tuple[str, int], list[int]],
    ) -> list[dict[str, Any]]:
        """What became of a sample of each module's mutants, as far as the time goes."""
        listed = {(each["module"], each["function"], each["was"], each["becomes"]) for each in equivalents()}
        drawn: list[tuple[Mutant, int]] = []
        for module in self.modules:
            every = list(mutants(module))
            gone = {each for each in listed if each[0] == module} - {each.key for each in every}
            if gone:
                sys.exit(f"no mutants any more, mend tests/mutants.toml: {sorted(gone)}")
            made = [each for each in every if functions_of(each, live)]
            sample = random.Random(f"{self.options.seed} {module}").sample(made, min(self.options.sample, len(made)))
            drawn += [(each, len(made)) for each in sample]
        random.Random(self.options.seed).shuffle(drawn)

        def part(mine: list[tuple[Mutant, int]], into: Path) -> None:
            with into.open("w", encoding="utf-8") as file:
                for mutant, of in mine:
                    numbers = entered.get((mutant.module, mutant.first), [])
                    if mutant.key in listed:
                        became, by = "equivalent", ""
                    else:
                        with self.turn():
                            limit_s = min(LONGEST_S * 3, self.options.until - time.time())
                            became, by = seen_by(session, functions_of(mutant, live), mutant.code, numbers, limit_s)
                        if time.time() > self.options.until:
                            break
                    shown = {name: value for name, value in vars(mutant).items() if name != "code"}
                    said = {"of": of, "tests": len(numbers), "became": became, "by": by, "says": str(mutant)}
                    file.write(f"{json.dumps(shown | said)}\n")

        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / str(number) for number in range(self.options.workers)]
            parts = [partial(part, drawn[number :: len(files)], file) for number, file in enumerate(files)]
            if {ended(pid, limit_s=math.inf) for pid in [begun(each) for each in parts]} != {"survived"}:
                sys.exit("a worker broke off")
            results = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        return sorted(results, key=lambda each: (self.modules.index(each["module"]), each["line"]))

    @contextlib.contextmanager
    def turn(self) -> Generator[None]:
        """As many processes work at once as there are bytes in the pipe, of however many rooms they are."""
        take, give = self.options.turns
        held = os.read(take, 1)
        try:
            yield
        finally:
            os.write(give, held)


def seen_by(
    session: pytest.Session, swapped: list[FunctionType], code: CodeType, numbers: list[int], limit_s: float
) -> tuple[str, str]:
    """What became of a mutant, and which test it was.

    A test that fails once and passes when it is run again by itself saw a loaded machine, and no mutant.
    """
    with mmap(-1, 4) as running, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

        def attempt(numbers: list[int]) -> None:
            session.config._tmp_path_factory._basetemp = Path(folder)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - of a fork that is killed, nothing is left
            for each in swapped:
                each.__code__ = code
            for number, after in pairwise([*numbers, None]):
                if number is not None:
                    running[:4] = number.to_bytes(4, "big")
                    run(session, session.items[number], None if after is None else session.items[after])
                if session.testsfailed:
                    os._exit(1)

        while numbers:
            became = forked(partial(attempt, numbers), limit_s=limit_s)
            if became == "survived":
                break
            last = int.from_bytes(running[:4], "big")
            if became == "timed out" or forked(partial(attempt, [last]), limit_s=limit_s) != "survived":
                return became, session.items[last].nodeid
            numbers = numbers[numbers.index(last) + 1 :]
    return "survived", ""


def functions_of(mutant: Mutant, live: dict[tuple[str, int], list[FunctionType]]) -> list[FunctionType]:
    """The functions whose code a mutant replaces, as far as one can stand for the other."""
    found = live.get((mutant.module, mutant.first), [])
    free = mutant.code.co_freevars
    return [
        each for each in found if each.__code__.co_qualname == mutant.function and each.__code__.co_freevars == free
    ]


def run(session: pytest.Session, item: pytest.Item, after: pytest.Item | None) -> None:
    """Run one test, as pytest does."""
    session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def forked(do: Callable[[], None], *, limit_s: float) -> str:
    """What became of a mutant: `survived` where it ended well, `killed`, or `timed out`."""
    return ended(begun(do), limit_s=limit_s)


def begun(do: Callable[[], None]) -> int:
    """The number of a fork that does this, and ends."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    try:
        do()
    except BaseException:  # noqa: BLE001 - the fork ends here, whatever it was
        os._exit(1)
    os._exit(0)


def ended(pid: int, *, limit_s: float) -> str:
    """How a fork ended, that was given so long."""
    end = time.monotonic() + limit_s
    became = ""
    while not became:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            became = "survived" if status == 0 else "killed"
        elif time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            became = "timed out"
        else:
            time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it left running
    return became


def equivalents() -> list[dict[str, str]]:
    """The mutants that no test can see, each with its reason."""
    return tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))["mutant"]


def served(modules: Sequence[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """What became of the mutants of modules that have the same tests, tried in a process of their own."""
    with tempfile.NamedTemporaryFile() as file:
        command = [sys.executable, "-m", "tests.mutants", "--into", file.name, "--sample", str(options.sample)]
        command += ["--seed", str(options.seed), *(f"--module={each}" for each in modules)]
        command += ["--workers", str(options.workers), "--until", str(options.until)]
        command += ["--turns", *map(str, options.turns)]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, pass_fds=options.turns)
        text = file.read()
    if not text:
        sys.exit(f"{', '.join(modules)}: the tests could not be run\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return json.loads(text)


def say(line: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Try the mutants, and print the table and the survivors."""
    options = parsed_options()
    modules: list[str] = options.module or list(TESTS)
    wanted = {Path("jazz_select") / module for module in modules}
    for module in modules:
        wanted.update(map(Path, TESTS[module]))
    gone = sorted(str(path) for path in wanted if not (ROOT / path).exists())
    if gone:
        sys.exit(f"gone, mend the table TESTS in tests/mutants.py: {', '.join(gone)}")
    if options.into is not None:
        plugin = Forking(modules, options)
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS[modules[0]]], plugins=[plugin])
        if plugin.results is None:  # it broke off, and pytest has said why
            return 1
        options.into.write_text(json.dumps(plugin.results), encoding="utf-8")
        return 0
    # Modules with the same tests share a process, which collects these once.
    rooms: dict[Any, list[str]] = {}
    for module in modules:
        rooms.setdefault(TESTS[module], []).append(module)
    options.until = time.time() + options.minutes * 60
    options.turns = os.pipe()
    os.write(options.turns[1], bytes(options.workers))
    results: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.workers) as pool:
        for room in pool.map(partial(served, options=options), rooms.values()):
            results.extend(room)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print_results(results, modules)
    return 0


def print_results(results: Sequence[Mapping[str, Any]], modules: Sequence[str]) -> None:
    """Print the mutants that survived, and a table by module."""
    for each in results:
        if each["became"] == "survived":
            say(each["says"] + ("" if each["tests"] else "\n    no test enters it") + "\n")
    say(f"{'module':40} {'all':>6} {'tried':>6} {'killed':>6} {'late':>6} {'lived':>6} {'equal':>6} {'score':>6}")
    for module in modules:
        say(table_row(module, [each for each in results if each["module"] == module]))
    say(table_row("together", results))


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("--module", action="append", choices=TESTS, help="this module; again for more (default: all)")
    parser.add_argument(
        "--sample", type=int, default=24, help="mutants a module, drawn by chance (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=15, help="which are drawn (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes at once (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further mutant after (default: none)")
    parser.add_argument("--json", type=Path, help="a file for what became of each mutant")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def table_row(name: str, results: Sequence[Mapping[str, Any]]) -> str:
    """What became of these mutants: how many there are, how many were tried, and the share that a test saw."""
    became = Counter(each["became"] for each in results)
    dead = became["killed"] + became["timed out"]
    counted = dead + became["survived"]
    sizes = {each["module"]: each["of"] for each in results}
    kinds = [became[kind] for kind in ("killed", "timed out", "survived", "equivalent")]
    figures = " ".join(f"{figure:6}" for figure in (sum(sizes.values()), len(results), *kinds))
    return f"{name:40} {figures} {dead / counted if counted else 1:6.0%}"


if __name__ == "__main__":
    sys.exit(main())
