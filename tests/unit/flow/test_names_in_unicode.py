"""A name means the same in both spellings that Unicode has for it, wherever it is written."""

from pathlib import Path
from unicodedata import normalize

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector, ProceduralMemory, SequentialFlow, sync_registry
from jazz_select.errors import DuplicateFlowError, DuplicateToolError
from jazz_select.evaluation import Case, Overlay, Version, load_cases
from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.overlay import load_overlay, taught
from jazz_select.flow.base import chain_of
from jazz_select.flow.flow_loading import load_flows
from jazz_select.outcomes import OutcomeLog
from jazz_select.routing import Tool, load_tools, resolve
from jazz_select.routing.tools.sources import toolbox_of
from jazz_select.values import flow_id
from tests.vectors import EMBEDDER

NFC, NFD = "café_öffnen", normalize("NFD", "café_öffnen")
EXAMPLES = ["open the café", "unlock it", "let me in", "is the door open", "open up please"]


def opens(registry: FlowRegistry, name: str = NFC, **fields: object) -> Flow:
    return Flow(name=name, description="Open it.", examples=EXAMPLES, registry=registry, **fields)  # pyright: ignore[reportArgumentType]


def test_a_name_has_one_form_and_one_id() -> None:
    assert flow_id(NFC) == flow_id(NFD)
    flow = opens(FlowRegistry(min_examples=0), NFD, aliases=[NFD], tools=[NFD], chain=(NFD,))
    assert (flow.name, list(flow.aliases), list(flow.tools), chain_of(flow)) == (NFC, [NFC], [NFC], (NFC,))


def test_two_flows_of_one_name_are_an_error_that_shows_both(tmp_path: Path) -> None:
    registry = FlowRegistry(min_examples=0)
    opens(registry)
    with pytest.raises(DuplicateFlowError):
        opens(registry, NFD, condition="another")
    assert registry.by_name(NFD) is registry.by_name(NFC) is not None
    for number, name in enumerate((NFC, NFD)):
        (tmp_path / f"{number}.yaml").write_text(f"name: {name}\ndescription: Number {number}.\n", "utf-8")
    with pytest.raises(DuplicateFlowError) as caught:
        load_flows(tmp_path, FlowRegistry(min_examples=0))
    assert "0.yaml" in str(caught.value)
    assert "1.yaml" in str(caught.value)


def test_parts_and_calls_are_found_in_either_spelling() -> None:
    registry = FlowRegistry(min_examples=0)
    opens(registry, NFD)
    both = SequentialFlow(name="both", description="Two.", flows=[NFC, NFD], registry=registry)
    assert [part.name for part in both.subflows] == [NFC, NFC]
    assert list(opens(registry, "later", calls=[NFD]).calls) == [NFC]


def test_tools_of_one_name_are_one() -> None:
    assert Tool(name=NFD).name == NFC
    with pytest.raises(DuplicateToolError):
        toolbox_of([Tool(name=NFC), Tool(name=NFD)])
    assert resolve(NFD, [Tool(name=NFC)]).stage == "exact"


def test_tools_of_a_file_and_of_a_flow_meet(tmp_path: Path) -> None:
    (tmp_path / "tools.yaml").write_text(f"- name: {NFD}\n  description: Open it.\n", "utf-8")
    registry = FlowRegistry(min_examples=0)
    opens(registry, tools=[NFC])
    found = check(registry, tools=tmp_path / "tools.yaml", embedder=EMBEDDER, min_examples=0)
    assert list(load_tools(tmp_path / "tools.yaml")) == [NFC]
    assert "unknown-tool" not in {each.code for each in found.found}


def test_cases_and_what_was_learned_name_the_flow(tmp_path: Path) -> None:
    registry = FlowRegistry(min_examples=0)
    opens(registry)
    (tmp_path / "cases.yaml").write_text(f"- request: open\n  expect: {NFD}\n", "utf-8")
    assert load_cases(tmp_path / "cases.yaml", registry)[0].expect == (NFC,)
    assert Case(request="x", expect=(NFC, NFD)).expect == (NFC,)
    learned = Version(number=1, at="", examples={NFD: {normalize("NFD", "öffne das Café"): "a"}})
    Overlay(live=1, versions=(learned,)).save(tmp_path / "learned.yaml")
    read = load_overlay(tmp_path / "learned.yaml").version("live")
    flow = taught(registry, read).registry.by_name(NFC)
    assert flow is not None
    assert len(flow.examples) == len(EXAMPLES) + 1
    again = Version(number=1, at="", examples={NFC: {normalize("NFD", EXAMPLES[0]): "a"}})
    assert len(taught(registry, again).registry[flow.id].examples) == len(EXAMPLES), "the flow has it already"


async def test_a_request_and_a_correction_in_either_spelling_mean_the_flow(tmp_path: Path) -> None:
    registry = FlowRegistry(min_examples=0)
    opens(registry, NFD)
    Flow(name="close", description="Close the shop.", examples=["close it", "shut the shop"], registry=registry)
    with OutcomeLog(tmp_path / "log.db") as log:
        async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
            await sync_registry(memory, "a", registry)
            selector = FlowSelector(None, registry, memory, "a", log=log)
            results = [await selector.select(normalize(form, EXAMPLES[0])) for form in ("NFC", "NFD")]
            assert [result.names for result in results] == [[NFC], [NFC]]
            assert results[0].candidates[0]["score"] == results[1].candidates[0]["score"]
            await selector.feedback(results[0], right=NFD)
            kept = log.get(results[0].logged)
    assert kept is not None
    assert kept.right == (NFC,)
