"""Loading flows from packages, folders and files."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

from jazz_select import BaseFlow, ConditionalFlow, Flow, FlowRegistry, load_flows
from jazz_select.errors import DuplicateFlowError, FlowLoadError, FlowValidationError
from jazz_select.flow.data import read_each

_numbers = count()

CLASS = '''
from jazz_select import BaseFlow

class {title}(BaseFlow):
    """{says}"""
    name = "{name}"
    condition = "c"
    desired_effects = ["e"]
    examples = ["1", "2", "3", "4", "5"]
'''
DATA = """\
from jazz_select import Flow
Flow(name="{name}", description="{says}", condition="c", desired_effects=["e"], examples=list("12345"))
"""
YAML = """\
- name: {name}
  description: {says}
  condition: c
  desired_effects: [e]
  examples: ['1', '2', '3', '4', '5']
"""
SEQUENCE = """\
- name: {name}
  type: sequential
  description: d
  examples: ['1', '2', '3', '4', '5']
  flows: {parts}
"""


def class_of(name: str, says: str = "d") -> str:
    return CLASS.format(title=name.title().replace("_", ""), name=name, says=says)


def data_of(name: str, says: str = "d") -> str:
    return DATA.format(name=name, says=says)


def yaml_of(name: str, says: str = "d") -> str:
    return YAML.format(name=name, says=says)


def sequence_of(name: str, *parts: str) -> str:
    return SEQUENCE.format(name=name, parts=list(parts))


def names(flows: list[BaseFlow]) -> list[str]:
    return [flow.name for flow in flows]


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry()


@pytest.fixture
def default() -> Iterator[FlowRegistry]:
    """The default scope, put back as it was afterwards."""
    before = dict(BaseFlow.registry)
    yield BaseFlow.registry
    for key in set(BaseFlow.registry) - set(before):
        BaseFlow.registry.unregister(key)


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A package of a name that no other test has imported."""
    folder = tmp_path / f"pack_{next(_numbers)}"
    write(folder, {"__init__.py": "", "orders.py": class_of("refund") + data_of("cancel"), "sub/__init__.py": ""})
    write(folder, {"sub/deep.py": class_of("deep"), "more.yaml": yaml_of("seasonal"), "__main__.py": "raise OSError"})
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == folder.name]:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


# --- sources -------------------------------------------------------------------


def test_a_folder_of_python_yaml_and_json_in_alphabetical_order(tmp_path: Path, registry: FlowRegistry) -> None:
    fields = {"name": "j", "description": "d", "condition": "c", "desired_effects": ["e"], "examples": list("12345")}
    write(
        tmp_path, {"b.py": class_of("second") + data_of("third"), "a.yml": yaml_of("first"), "d/e.yaml": yaml_of("y")}
    )
    write(tmp_path, {"c.JSON": json.dumps(fields), ".hidden.yaml": "{", "notes.md": "no flow"})
    flows = load_flows(tmp_path, registry)
    assert names(flows) == ["first", "second", "third", "j", "y"]
    assert list(registry.values()) == flows
    assert flows[0].place.endswith("a.yml (flow 1)")
    assert f"{tmp_path / 'b.py'}:" in flows[1].place


def test_a_package_folder_is_imported_under_its_own_name(package: Path, registry: FlowRegistry) -> None:
    path = list(sys.path)
    flows = load_flows(str(package), registry)
    assert names(flows) == ["refund", "cancel", "deep", "seasonal"]
    assert type(flows[0]).__module__ == f"{package.name}.orders"
    assert sys.path == path
    again = load_flows(package, registry)
    assert again[:3] == flows[:3]
    assert again == list(registry.values())


def test_a_package_by_name_and_a_module_in_it(
    package: Path, registry: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [str(package.parent), *sys.path])
    assert names(load_flows(package.name, registry)) == ["refund", "cancel", "deep", "seasonal"]
    assert names(load_flows(f"{package.name}.sub.deep", registry)) == ["deep"]


def test_modules_that_were_imported_before_give_their_flows_to_another_registry(
    package: Path, default: FlowRegistry
) -> None:
    first, second = FlowRegistry(), FlowRegistry()
    flows = load_flows(package, first)
    assert set(first) == set(second) | {flow.id for flow in flows}
    again = load_flows(package, second)
    assert set(second) == set(first)
    assert again[:3] == flows[:3]
    assert not set(default) & set(first)
    load_flows(package)
    assert set(first) <= set(default)


def test_a_file_of_a_package_is_the_module_it_is_elsewhere(package: Path, registry: FlowRegistry) -> None:
    (flow,) = load_flows(package / "sub" / "deep.py", registry)
    assert type(flow).__module__ == f"{package.name}.sub.deep"
    assert names(load_flows(package / "sub", registry)) == ["deep"]


def test_flows_of_other_modules_that_the_source_imports_go_where_an_import_puts_them(
    tmp_path: Path, registry: FlowRegistry, default: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = f"foreign_{next(_numbers)}"
    write(tmp_path, {f"lib/{foreign}.py": class_of("foreign"), "flows/a.py": f"import {foreign}\n" + class_of("own")})
    monkeypatch.setattr("sys.path", [str(tmp_path / "lib"), *sys.path])
    assert names(load_flows(tmp_path / "flows", registry)) == ["own"]
    assert names(list(registry.values())) == ["own"]
    assert default.by_name("foreign") is not None


def test_a_flow_that_names_its_registry_goes_there_and_also_to_the_one_asked_for(
    tmp_path: Path, registry: FlowRegistry, default: FlowRegistry
) -> None:
    text = (
        class_of("own")
        .replace("(BaseFlow)", "(BaseFlow, registry=MINE)")
        .replace("import BaseFlow", "import BaseFlow, FlowRegistry\nMINE = FlowRegistry()")
    )
    (flow,) = load_flows(write(tmp_path, {"a.py": text}) / "a.py")
    assert type(flow).registry[flow.id] is flow
    assert flow.id not in default
    (flow,) = load_flows(tmp_path / "a.py", registry)
    assert type(flow).registry[flow.id] is registry[flow.id] is flow


def test_without_a_registry_the_scope_counts(tmp_path: Path, registry: FlowRegistry) -> None:
    with registry.scope():
        load_flows(write(tmp_path, {"a.py": class_of("own"), "b.yaml": yaml_of("data")}))
    assert names(list(registry.values())) == ["own", "data"]


def test_the_bars_are_those_of_the_registry(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "[{name: bare}]", "b.py": 'from jazz_select import Flow\nFlow(name="tool")'})
    assert names(load_flows(tmp_path, FlowRegistry(min_examples=0))) == ["bare", "tool"]


# --- loading again -------------------------------------------------------------


@pytest.mark.spec("003.17")
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("a.yaml", yaml_of("x", "old"), yaml_of("x", "new")),
        ("a.py", class_of("x", "old"), class_of("x", "new")),
        ("a.py", data_of("x", "old"), "# one line more\n" + data_of("x", "new")),
    ],
    ids=["yaml", "class", "data-in-python"],
)
def test_an_edited_file_that_is_loaded_again_replaces_its_flows(
    tmp_path: Path, registry: FlowRegistry, file: str, old: str, new: str
) -> None:
    load_flows(write(tmp_path, {file: old}), registry)
    (flow,) = load_flows(write(tmp_path, {file: new}), registry)
    assert list(registry.values()) == [flow]
    assert flow.description == "new"


@pytest.mark.spec("003.17")
@pytest.mark.parametrize(
    ("first", "second"),
    [("a.yaml", "b.yaml"), ("a.py", "b.py"), ("a.py", "b.yaml"), ("a.yaml", "b.py")],
)
def test_two_different_flows_of_one_name_name_both_files(
    tmp_path: Path, registry: FlowRegistry, first: str, second: str
) -> None:
    make = {".yaml": yaml_of, ".py": class_of}
    write(tmp_path, {first: make[Path(first).suffix]("x", "one"), second: make[Path(second).suffix]("x", "two")})
    with pytest.raises(DuplicateFlowError) as caught:
        load_flows(tmp_path, registry)
    assert first in caught.value.first
    assert second in caught.value.second
    assert not registry


def test_one_name_twice_in_one_file_names_both_entries(tmp_path: Path, registry: FlowRegistry) -> None:
    write(tmp_path, {"a.yaml": yaml_of("x", "one") + yaml_of("x", "two")})
    with pytest.raises(DuplicateFlowError, match=r"a\.yaml \(flow 1\).*a\.yaml \(flow 2\)"):
        load_flows(tmp_path, registry)


def test_a_name_that_is_taken_by_code_is_not_taken_over(tmp_path: Path, registry: FlowRegistry) -> None:
    mine = Flow(
        name="x", description="mine", condition="c", desired_effects=["e"], examples=list("12345"), registry=registry
    )
    with pytest.raises(DuplicateFlowError):
        load_flows(write(tmp_path, {"a.yaml": yaml_of("w") + yaml_of("x")}), registry)
    assert list(registry.values()) == [mine]


@pytest.mark.spec("003.17")
def test_one_file_imported_under_two_names_defines_one_flow(
    tmp_path: Path, registry: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"plain_{next(_numbers)}"
    write(tmp_path, {f"{name}.py": class_of("x") + "    def available(self, context): return False\n"})
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    load_flows(tmp_path, registry)
    with registry.scope():
        import_module(name)
    (flow,) = registry.values()
    assert type(flow).__module__ == name
    assert load_flows(name, registry) == [flow]


def test_a_file_that_no_longer_runs_leaves_what_it_defined_before(tmp_path: Path, registry: FlowRegistry) -> None:
    (flow,) = load_flows(write(tmp_path, {"a.py": class_of("x")}), registry)
    with pytest.raises(FlowLoadError):
        load_flows(write(tmp_path, {"a.py": "1 / 0"}), registry)
    assert list(registry.values()) == [flow]
    assert sys.modules[type(flow).__module__].__dict__["X"] is type(flow)


# --- composites ----------------------------------------------------------------


def test_composites_as_data(tmp_path: Path, registry: FlowRegistry) -> None:
    composite = """
- name: either
  type: conditional
  description: d
  examples: ['1', '2', '3', '4', '5']
  branches:
    - when: it is early
      flow: both
    - {when: it is late, flow: other}
  otherwise: part
"""
    write(tmp_path, {"a.yaml": composite + sequence_of("both", "part", "other"), "b.py": class_of("part")})
    write(tmp_path, {"c.yaml": yaml_of("other")})
    either = load_flows(tmp_path, registry)[0]
    assert isinstance(either, ConditionalFlow)
    assert [part.when for part in either.definition().parts] == ["it is early", "it is late", ""]
    assert [part.name for part in either.subflows] == ["both", "other", "part"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (sequence_of("s", "nowhere"), "the part 'nowhere' is not in the same registry"),
        (sequence_of("s", "t") + sequence_of("t", "s"), "s → t → s is a circle"),
    ],
    ids=["missing", "circle"],
)
def test_composites_whose_parts_do_not_work_are_not_loaded(
    tmp_path: Path, registry: FlowRegistry, text: str, words: str
) -> None:
    with pytest.raises(FlowValidationError, match=words) as caught:
        load_flows(write(tmp_path, {"a.yaml": yaml_of("fine") + text}), registry)
    assert caught.value.place.endswith("a.yaml (flow 2)")
    assert not registry


# --- what is wrong is said -----------------------------------------------------

FIELD: list[tuple[str, str, str, str]] = [
    ("no name", "- description: d", "name", "is missing"),
    ("name of a number", "- name: 12", "name", "quotes"),
    ("unknown field", yaml_of("x") + "  exmples: []", "exmples", "did you mean 'examples'"),
    ("field like no other", yaml_of("x") + "  qqq: []", "qqq", "there are name, type"),
    ("key that is no text", yaml_of("x") + "  12: []", "[12]", "keys should be strings"),
    ("a text for a list", yaml_of("x") + "  tools: one", "tools", "after a dash"),
    ("nothing for a list", yaml_of("x") + "  tools:", "tools", r"write \[\]"),
    ("a truth for a text", yaml_of("x") + "  tools: [no]", "tools[0]", "yes, no, on, off"),
    ("a mapping for a text", yaml_of("x") + "  tools: [{a: b}]", "tools[0]", "got dict"),
    ("one priority", yaml_of("x") + "  priority: [1]", "priority", "two whole numbers"),
    ("unknown type", yaml_of("x") + "  type: loop", "type", "'sequential'"),
    ("parts without a type", yaml_of("x") + "  flows: [y]", "flows", "add `type: sequential`"),
    (
        "branches of a sequence",
        sequence_of("x", "y") + "  branches: [{when: a, flow: y}]",
        "branches",
        "conditional` only",
    ),
    ("a branch of one word", yaml_of("x") + "  type: conditional\n  branches: [a]", "branches[0]", "a mapping"),
    ("a branch without a flow", yaml_of("x") + "  branches: [{when: a}]", "branches[0].flow", "is missing"),
    ("a branch with a slip", yaml_of("x") + "  branches: [{when: a, flow: b, if: c}]", "branches[0].if", "when, flow"),
    (
        "a branch misspelt",
        yaml_of("x") + "  branches: [{whn: a, flow: b}]",
        "branches[0].whn",
        "of a branch; did you mean",
    ),
    (
        "an input with a slip",
        yaml_of("x") + "  inputs: [{name: a, ask: b}]",
        "inputs[0].ask",
        "of a flow's input; there are name",
    ),
    ("an entry of text", "- just text", "name", "a flow must be a mapping"),
    ("too few examples", "- {name: x, description: d, condition: c, desired_effects: [e]}", "examples", "has 0"),
]


@pytest.mark.parametrize(
    ("text", "field", "words"), [case[1:] for case in FIELD], ids=[case[0].replace(" ", "-") for case in FIELD]
)
def test_errors_in_data_name_file_flow_and_field(
    tmp_path: Path, registry: FlowRegistry, text: str, field: str, words: str
) -> None:
    with pytest.raises(FlowValidationError, match=words) as caught:
        load_flows(write(tmp_path, {"a.yaml": yaml_of("fine") + text}), registry)
    assert caught.value.field == field
    line = r":\d+:\d+" if field.startswith("inputs[") else ""
    assert re.search(rf"a\.yaml{line} \(flow 2\)$", caught.value.place)
    assert not registry


FILES: list[tuple[str, str, bytes, str]] = [
    ("empty yaml", "a.yaml", b"", "holds no flows"),
    ("empty json", "a.json", b" ", "holds no flows"),
    ("empty list", "a.yaml", b"flows: []", "holds no flows"),
    ("nothing under flows", "a.yaml", b"flows:", "holds no flows"),
    ("a text", "a.yaml", b"hello", "a list of flows"),
    ("a mapping under flows", "a.yaml", b"flows: {a: b}", "a list of flows"),
    ("something next to flows", "a.yaml", b"flows: []\nextra: 1", "'extra'"),
    ("tools", "a.yaml", b"tools:\n- name: a\n", "holds tools and no flows; load_tools reads it"),
    ("a listing", "a.json", b'{"tools": [{"name": "a", "inputSchema": {}}]}', "holds tools and no flows"),
    ("a tab", "a.yaml", b"- name: a\n\tdescription: b", "line 2.*spaces, not tabs"),
    ("a colon", "a.yaml", b"- name: a\n  description: b: c", "line 2.*a text with a colon in it needs quotes"),
    (
        "a brace",
        "a.yaml",
        b"- name: a\n  reply: {day} is free",
        "line 2.*begins with a brace or a quote needs quotes",
    ),
    ("a mark", "a.yaml", b"- name: a\n  reply: @home", "line 2.*begins with such a mark needs quotes"),
    ("a star", "a.yaml", b"- name: a\n  reply: *new", "line 2.*begins with a star needs quotes"),
    ("a key twice", "a.yaml", b"- name: a\n  name: b", "line 1: 'name' stands twice"),
    ("a key twice in json", "a.json", b'{"name": "a", "name": "b"}', "'name' stands twice"),
    ("broken json", "a.json", b"[{", "line 1 column 3"),
    ("a python object", "a.yaml", b"- !!python/object/apply:os.getcwd []", "line 1"),
    ("not utf-8", "a.yaml", b"\xff\xfe- name", "not UTF-8"),
    ("a control character", "a.yaml", b"- name: \x00", "not allowed|unacceptable"),
    ("too deep", "a.json", b"[" * 50_000, "nested too deeply|Expecting|line 1"),
    ("other suffix", "a.toml", b"", r"\.py, \.json, \.yaml, \.yml"),
    ("no suffix", "flows", b"", "without a suffix"),
    ("raising", "a.py", b"\nraise ValueError('oh')", r"ValueError: oh \(.*a\.py:2\)"),
    ("leaving", "a.py", b"raise SystemExit(3)", "SystemExit: 3.*; put what it does as a program under `if __name__"),
    (
        "a loop",
        "a.py",
        b"raise RuntimeError('asyncio.run() cannot be called')",
        "RuntimeError.*; put what it does as a",
    ),
    ("no python", "a.py", b"x = (", "SyntaxError: .*never closed"),
    ("missing module", "a.py", b"import not_there_at_all", "'not_there_at_all'.*__init__.py"),
    ("no flow", "a.py", b"x = 1", "no flows in it"),
]


@pytest.mark.parametrize(
    ("name", "content", "words"), [case[1:] for case in FILES], ids=[case[0].replace(" ", "-") for case in FILES]
)
def test_files_that_cannot_be_loaded(
    tmp_path: Path, registry: FlowRegistry, name: str, content: bytes, words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    modules = set(sys.modules)
    with pytest.raises(FlowLoadError, match=words) as caught:
        load_flows(file, registry)
    assert name in str(caught.value)
    assert not registry
    assert {
        module for module in set(sys.modules) - modules if module.startswith("_jazz") and words != "no flows in it"
    } == set()


def test_a_file_that_vanishes_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(FlowLoadError, match="No such file"):
        list(read_each(tmp_path / "gone.yaml"))


def test_the_cause_of_a_failed_import_is_kept(tmp_path: Path) -> None:
    with pytest.raises(FlowLoadError) as caught:
        load_flows(write(tmp_path, {"a.py": "1 / 0"}), FlowRegistry())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("source", ["no_such_package", "no/such/folder", "json.nothing", "a b", "", "x."])
def test_a_source_that_is_not_there(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlowLoadError, match=r"there is no|is empty"):
        load_flows(source, FlowRegistry())


def test_an_empty_folder_and_a_package_without_flows(tmp_path: Path) -> None:
    for source in (tmp_path, "json"):
        with pytest.raises(FlowLoadError, match="there are no flows in it"):
            load_flows(source, FlowRegistry())


def test_a_package_that_fails_changes_nothing_and_can_be_loaded_once_it_is_mended(
    package: Path, registry: FlowRegistry, default: FlowRegistry
) -> None:
    before = dict(default)
    write(package, {"zz.py": f"import {package.name}_side\nraise ValueError", f"../{package.name}_side.py": ""})
    with pytest.raises(FlowLoadError, match=r"zz\.py:2"):
        load_flows(package, registry)
    assert not registry
    assert dict(default) == before
    write(package, {"zz.py": "# mended"})
    assert names(load_flows(package, registry)) == ["refund", "cancel", "deep", "seasonal"]


def test_a_flow_that_is_wrong_is_named_with_its_line(tmp_path: Path, registry: FlowRegistry) -> None:
    write(tmp_path, {"a.py": class_of("x").replace('"1", "2", ', "")})
    with pytest.raises(FlowValidationError, match="examples: has 3") as caught:
        load_flows(tmp_path, registry)
    assert caught.value.place.startswith("a.")
    assert caught.value.place.endswith("a.py:4)")


def test_another_package_of_that_name_is_not_mistaken_for_it(package: Path, tmp_path: Path) -> None:
    load_flows(package, FlowRegistry())
    other = write(tmp_path / "elsewhere" / package.name, {"__init__.py": class_of("x"), "y.py": ""})
    for source in (other, other / "y.py"):
        with pytest.raises(FlowLoadError, match="another module named"):
            load_flows(source, FlowRegistry())


def test_a_package_whose_name_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(FlowLoadError, match="rename it"):
        load_flows(write(tmp_path / "flows.v2", {"__init__.py": class_of("x")}), FlowRegistry())


# --- YAML as people write it ---------------------------------------------------

SHAPES: list[tuple[str, str]] = [
    ("a list", yaml_of("x")),
    ("under flows", "flows:\n" + yaml_of("x")),
    ("one mapping", yaml_of("x").replace("- name", "name").replace("\n  ", "\n")),
    ("with a byte order mark", "\ufeff" + yaml_of("x")),
    ("two documents", "---\n" + yaml_of("x") + "---\n"),
    ("with anchors", yaml_of("x").replace("[e]", "&e [e]") + "  steps: *e\n"),
]


@pytest.mark.parametrize("text", [case[1] for case in SHAPES], ids=[case[0].replace(" ", "-") for case in SHAPES])
def test_the_shapes_a_data_file_may_have(tmp_path: Path, registry: FlowRegistry, text: str) -> None:
    assert names(load_flows(write(tmp_path, {"a.yaml": text}) / "a.yaml", registry)) == ["x"]
