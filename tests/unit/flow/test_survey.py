"""Loading all that can be loaded: as `load_flows` where nothing is wrong, and never stopped by what is."""

import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from jazz_select import FlowRegistry, load_flows
from jazz_select.errors import DuplicateFlowError, FlowLoadError, FlowValidationError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.flow_loading import survey

ROOT = Path(__file__).parents[3]
FLOW = "{name: %s, description: d, condition: c, desired_effects: [e], examples: [a b, c d, e f, g h, i j]}"


@pytest.mark.parametrize("source", ["flows", "flows/returns.py", "flows/seasonal.yaml", "examples/clinic"])
def test_what_is_in_order_is_loaded_as_ever(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    whole = FlowRegistry()
    if source == "examples/clinic":
        source = "examples/clinic/flows.yaml"
    load_flows(source, whole)
    before = len(BaseFlow.registry)
    surveyed = survey(source)
    assert surveyed.faults == ()
    assert {flow.name for flow in surveyed.registry.values()} == {flow.name for flow in whole.values()}
    assert len(BaseFlow.registry) == before


def test_a_package_is_read_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "surveyed_shop"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "broken.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    (package / "data.yaml").write_text(FLOW % "told", encoding="utf-8")
    (package / "written.py").write_text(
        dedent("""\
            from jazz_select import BaseFlow

            class Thin(BaseFlow):
                name = "thin"
                description = "d"
                condition = "c"
                desired_effects = ["e"]
                examples = ["one"]

            class Wrong(BaseFlow):
                name = "wrong"
                description = 3

            class Good(Thin):
                name = "good"
                examples = ["a b", "c d", "e f", "g h", "i j"]
            """),
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    for source in ("surveyed_shop", package, str(package)):
        surveyed = survey(source)
        assert {flow.name for flow in surveyed.registry.values()} == {"told", "thin", "good"}
        load, *wrong = surveyed.faults
        assert isinstance(load, FlowLoadError)
        told = [(each.flow, each.field) for each in wrong if isinstance(each, FlowValidationError)]
        fields = ("description", "condition", "desired_effects", "examples")
        assert told == [("thin", "examples"), *(("wrong", field) for field in fields)]
        assert "nowhere_at_all" in str(surveyed.faults[0])
    for name in [name for name in sys.modules if name.startswith("surveyed_shop")]:
        del sys.modules[name]


def test_the_first_of_two_of_one_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FLOW % "one", encoding="utf-8")
    (tmp_path / "b.yaml").write_text((FLOW % "one").replace("c d", "x y"), encoding="utf-8")
    surveyed = survey(tmp_path)
    (fault,) = surveyed.faults
    assert isinstance(fault, DuplicateFlowError)
    (flow,) = surveyed.registry.values()
    assert flow.origin.file.endswith("a.yaml")


@pytest.mark.parametrize("source", ["no_such_package_here", "no/such", "", "x.txt"])
def test_a_source_that_is_not_there_is_an_error(source: str) -> None:
    with pytest.raises(FlowLoadError):
        survey(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_would_never_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FLOW % "one", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    surveyed = survey(tmp_path)
    assert [flow.name for flow in surveyed.registry.values()] == ["one"]
    (fault,) = surveyed.faults
    assert "no plain file" in str(fault)
