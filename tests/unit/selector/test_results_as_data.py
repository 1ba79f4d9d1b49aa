"""Results are values that travel: told as data, as JSON, pickled and copied, and read out of whatever anyone sends."""

import copy
import json
import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import (
    BaseFlow,
    ConditionalFlow,
    Flow,
    FlowRegistry,
    FlowSelectionResult,
    FlowSelector,
    ParallelFlow,
    SequentialFlow,
)
from jazz_select.errors import ConfigError, JazzSelectError, ModelTimeoutError, RemoteError, SnapshotError
from jazz_select.json_values import error_data, plain
from jazz_select.serialization import error_of
from jazz_select.telemetry import Trace
from jazz_select.testing import ScriptedModel
from jazz_select.values import Candidate, Decision, Latency, Reason, RecallResult, Reply, Tier, Usage
from tests.unit.selector.shop import CANCEL, REFUND, candidates, flow, metadata, shop

ROOT = Path(__file__).parents[3]


def pickled(value: Any) -> Any:
    """There and back."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


async def selected(registry: FlowRegistry | None = None, **changes: Any) -> FlowSelectionResult:
    """A model chose two of three."""
    model = ScriptedModel(f'["{CANCEL}", "{REFUND}"]')
    return await FlowSelector(model, registry or shop()).select("cancel it", metadata(**changes))


def all_sorts() -> FlowRegistry:
    """One flow of each kind, with all that a flow can say."""
    registry = FlowRegistry(min_examples=0)
    said = {"tools": ["pay", "post"], "steps": ["Look it up.", "Pay."], "priority": (2, -1), "aliases": ["money back"]}
    told = {"title": "A refund", "optional_tools": ["post"], "examples": ["my money", "<b>now</b>"]}
    refund = flow("refund_order", registry, **said, **told)
    cancel = flow("cancel_order", registry, manual=True)
    flow("exchange_order", registry)
    about: dict[str, Any] = {"description": "Several.", "registry": registry}
    SequentialFlow(name="one_by_one", flows=[refund, "cancel_order"], **about)
    ParallelFlow(name="side_by_side", flows=[refund, cancel], **about)
    ConditionalFlow(
        name="one_of_them",
        branches=[("it arrived", refund), ("or not", cancel)],
        otherwise="exchange_order",
        **about,
    )
    return registry


def of_flows(*flows: BaseFlow) -> FlowSelectionResult:
    """A selection of these."""
    found = [{"flow_id": each.id, "flow_name": each.name, "score": 1.0} for each in flows]
    decision = Decision(
        tier=Tier.GUIDED,
        reason=Reason.LLM,
        chosen_ids=tuple(each.id for each in flows),
        candidates=tuple(Candidate.from_metadata(each) for each in found),
    )
    prompts = [each.build_prompt(verbose=False) for each in flows]
    return FlowSelectionResult(list(flows), prompts, "\n\n".join(prompts), [], list(found), decision)


@pytest.mark.spec("008.6")
async def test_a_result_comes_back_as_it_was() -> None:
    registry = shop()
    result = await selected(registry)
    told = result.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert json.loads(result.to_json()) == told
    for back in (FlowSelectionResult.from_dict(told, registry=registry), copy.copy(result), copy.deepcopy(result)):
        assert back == result
    assert FlowSelectionResult.from_json(result.to_json(), registry=registry) == result
    assert FlowSelectionResult.from_dict(told).to_dict() == told


PUBLISHED = [
    *("flow_id", "flow_name", "flow_type", "description", "condition", "desired_effects", "score", "ranks", "scores"),
    *("confidence", "chosen"),
]
DECIDED = [
    *("tier", "reason", "chosen_ids", "raw_reply", "parsed_ids", "confidence", "model", "error", "sized", "notes"),
    *("latency", "usage"),
]


async def test_the_published_keys_come_first_and_in_their_order() -> None:
    told = (await selected()).to_dict()
    assert [*told][:5] == ["chosen", "combined_prompt", "unresolved_ids", "candidates", "decision"]
    assert [*told["chosen"][0]][:3] == ["flow_id", "flow_name", "prompt"]
    assert [*told["candidates"][0]] == PUBLISHED
    assert [*told["decision"]][: len(DECIDED)] == DECIDED
    assert [*told["decision"]["latency"]] == ["recall_s", "choose_s", "total_s"]
    assert [each["chosen"] for each in told["candidates"]] == [True, False, True]


@pytest.mark.parametrize("name", ["refund_order", "cancel_order", "one_by_one", "side_by_side", "one_of_them"])
def test_a_flow_travels_with_all_that_it_says_and_nowhere_registers(name: str) -> None:
    before = {**BaseFlow.registry}
    live = all_sorts().by_name(name)
    assert live is not None
    (back,) = FlowSelectionResult.from_dict(of_flows(live).to_dict()).chosen_flows
    assert back is not live
    assert type(back) is type(live)
    assert back.definition() == live.definition()
    assert back.compute_checksum() == live.compute_checksum()
    assert back.build_prompt(verbose=False) == live.build_prompt(verbose=False)
    assert (back.id, back.display_name, back.manual) == (live.id, live.display_name, live.manual)
    assert tuple(back.optional_tools) == tuple(live.optional_tools)
    assert {**BaseFlow.registry} == before


def test_a_flow_that_was_told_while_a_module_is_loaded_is_none_of_that_module() -> None:
    program = (
        "import types, sys, json\n"
        "from jazz_select import FlowSelectionResult\n"
        "from jazz_select.flow.base import defined_in\n"
        "from jazz_select import BaseFlow\n"
        "module = sys.modules['mine'] = types.ModuleType('mine')\n"
        "module.told = sys.stdin.read()\n"
        "exec('from jazz_select import FlowSelectionResult; FlowSelectionResult.from_json(told)', vars(module))\n"
        "print(defined_in(module), len(BaseFlow.registry))\n"
    )
    told = of_flows(*shop().values()).to_json()
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, input=told, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "0"]


async def test_a_live_flow_that_has_changed_is_taken_and_told_of() -> None:
    told = (await selected()).to_dict()
    here = shop("cancel_order")
    changed = flow("refund_order", here, condition="The user is angry.")
    result = FlowSelectionResult.from_dict(told, registry=here)
    assert result.chosen_flows == [here[CANCEL], changed]
    (note,) = result.decision.notes
    assert note == "refund_order: the flow here says something else than the one that was chosen"
    assert result.chosen_prompts == [each["prompt"] for each in told["chosen"]], "as they were told"
    some = FlowSelectionResult.from_dict(told, registry=shop("cancel_order"))
    assert [each.name for each in some.chosen_flows] == ["cancel_order", "refund_order"]
    assert not some.decision.notes


async def test_what_was_received_travels_where_it_says_more() -> None:
    registry = shop()
    result = await selected(registry, shelf=7, odd={1, 2})
    told = result.to_dict()
    assert told["received"][0]["shelf"] == 7
    back = FlowSelectionResult.from_dict(told, registry=registry)
    assert [each["shelf"] for each in back.candidates] == [7, 7, 7]
    recalled = await FlowSelector(None, registry).select("x", [each.as_metadata() for each in candidates()])
    assert recalled.to_dict()["received"] is None
    assert FlowSelectionResult.from_dict(recalled.to_dict(), registry=registry) == recalled


class Declared(BaseFlow, registry=FlowRegistry(min_examples=0)):
    """A flow of a class, in a registry of its own."""

    name = "declared_flow"

    def available(self, context: Any) -> bool:
        return True


@pytest.mark.spec("008.6")
async def test_unpickled_its_flows_are_the_live_ones_of_that_process() -> None:
    declared = Declared.declared()
    assert declared is not None
    result = of_flows(declared)
    assert pickled(result) == result
    registry = shop()
    other = await selected(registry)
    back = pickled(other)
    assert back.to_dict() == other.to_dict()
    assert back.chosen_flows[0] is not other.chosen_flows[0], "in a registry that nothing here knows of"
    with registry.scope():
        assert pickled(other) == other


def test_in_another_process_it_is_unpickled_without_the_module_of_its_flows() -> None:
    declared = Declared.declared()
    assert declared is not None
    program = (
        "import pickle, sys\n"
        "result = pickle.loads(sys.stdin.buffer.read())\n"
        "loaded = [name for name in sys.modules if 'tests' in name]\n"
        "print(result.names, type(result.chosen_flows[0]).__name__, loaded)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, input=pickle.dumps(of_flows(declared)), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "['declared_flow'] Flow []"


# --- any values ----------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
perhaps = st.none() | st.floats(0, 1)
offered = st.builds(
    Candidate,
    flow_id=texts,
    flow_name=texts,
    flow_type=texts,
    description=texts,
    condition=texts,
    desired_effects=st.lists(texts, max_size=3).map(tuple),
    score=numbers,
    ranks=st.dictionaries(texts, st.integers(1, 100), max_size=2),
    scores=st.dictionaries(texts, numbers, max_size=2),
    confidence=perhaps,
)
many = st.lists(texts, max_size=3).map(tuple)
seconds = st.floats(0, 1e6)
counts = st.integers(0, 10**9)
decisions = st.builds(
    Decision,
    tier=st.sampled_from(Tier),
    reason=st.sampled_from(Reason),
    chosen_ids=many,
    candidates=st.lists(offered, max_size=3).map(tuple),
    raw_reply=st.none() | texts,
    parsed_ids=many,
    called_off=many,
    confirmed=st.sampled_from(["", "yes", "no"]),
    confidence=perhaps,
    p_none=perhaps,
    sized=texts,
    recalled_by=texts,
    latency=st.builds(Latency, recall_s=seconds, choose_s=seconds, total_s=seconds),
    usage=st.none() | st.builds(Usage, input_tokens=counts, output_tokens=counts, cached_tokens=counts),
    model=texts,
    attempts=counts,
    error=texts,
    notes=many,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.spec("008.6")
@given(decisions)
def test_any_decision_comes_back(decision: Decision) -> None:
    told = decision.to_dict()
    assert Decision.from_dict(told) == decision
    assert Decision.from_dict(json.loads(json.dumps(told))) == decision
    assert pickled(decision) == decision


@given(decisions, texts)
def test_any_result_comes_back(decision: Decision, logged: str) -> None:
    registry = shop()
    found = [each.as_metadata() for each in decision.candidates]
    result = replace(of_flows(*registry.values()), candidates=found, decision=decision, logged=logged)
    assert FlowSelectionResult.from_json(result.to_json(), registry=registry) == result
    with registry.scope():
        assert pickled(result) == result


@given(st.lists(offered, max_size=4), many, perhaps, texts)
def test_any_recall_comes_back(found: list[Candidate], notes: tuple[str, ...], p_none: float | None, text: str) -> None:
    recalled = RecallResult(
        (each.as_metadata() for each in found), notes=notes, p_none=p_none, caveat=text, indexed=frozenset({"x"})
    )
    recalled.stage, recalled.why, recalled.beyond = text, text, notes
    for back in (RecallResult.from_dict(recalled.to_dict()), RecallResult.from_json(recalled.to_json())):
        assert back == recalled
        assert {**vars(back), "indexed": None} == {**vars(recalled), "indexed": None}
        assert back.indexed is None
    assert vars(pickled(recalled)) == vars(recalled)


@given(offered)
def test_what_recall_returns_of_a_candidate_is_all_of_it(candidate: Candidate) -> None:
    known = replace(candidate, flow_id=candidate.flow_id or "x")
    assert Candidate.from_metadata(known.as_metadata()) == known


def test_what_is_null_in_a_recall_is_not_known() -> None:
    told: dict[str, Any] = {"candidates": [], "notes": None, "caveat": None, "sized": None, "beyond": None}
    assert vars(RecallResult.from_dict(told)) == vars(RecallResult())


@pytest.mark.parametrize(
    ("field", "sent", "read"),
    [
        ("desired_effects", "one", ("one",)),
        ("desired_effects", "", ()),
        ("desired_effects", 7, ()),
        ("confidence", 1 + 1e-7, 1.0),
        ("confidence", 1.1, None),
        ("confidence", -0.1, None),
        ("confidence", "0.5", None),
    ],
)
def test_metadata_of_other_hands(field: str, sent: object, read: object) -> None:
    assert getattr(Candidate.from_metadata({"flow_name": "x", field: sent}), field) == read


def test_a_reply_that_came_to_its_limit_is_cut() -> None:
    assert [Reply(text="x", finish_reason=each).truncated for each in ("length", "stop", "")] == [True, False, False]


def test_numbers_that_json_has_not_are_no_numbers() -> None:
    candidate = Candidate(flow_id="x", score=float("nan"), confidence=float("inf"))
    assert Candidate.from_dict(candidate.to_dict()) == Candidate(flow_id="x")
    for score in (float("nan"), float("-inf")):
        assert Candidate.from_metadata({"flow_id": "x", "score": score}).score == 0.0
    with pytest.raises(OverflowError):
        Candidate.from_metadata({"flow_id": "x", "score": 10**400})


# --- what anyone may send ------------------------------------------------------


def reads(data: Any) -> None:
    """Each of them reads it, or says that it is none."""
    for kind in (FlowSelectionResult, Decision, RecallResult, Candidate):
        with suppress(ConfigError):
            kind.from_dict(data)


@given(json_values)
def test_whatever_is_sent_is_read_or_refused(data: Any) -> None:
    reads(data)


def places(value: Any) -> list[Any]:
    """The keys, or the places, of what is in it."""
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []


@given(st.data())
def test_a_result_with_anything_at_any_place_is_read_or_refused(data: st.DataObject) -> None:
    told: Any = of_flows(*all_sorts().values()).to_dict()
    at = told
    for _ in range(data.draw(st.integers(1, 5))):
        keys = places(at)
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()):
            at[key] = data.draw(json_values)
            break
        if data.draw(st.integers(0, 3)) == 0:
            del at[key]
            break
        at = at[key]
    reads(told)


ODD: dict[str, Any] = {"half of a surrogate pair": "\ud800", "a number beyond all numbers": 10**400, "a set": {1}}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_is_no_json_is_refused_wherever_it_stands(odd: Any) -> None:
    """Whatever is read can be told and shown again."""

    def everywhere(at: Any, whole: Any) -> None:
        for key in places(at):
            kept, at[key] = at[key], odd
            with pytest.raises(ConfigError):
                FlowSelectionResult.from_dict(whole)
            at[key] = kept
            everywhere(kept, whole)

    told: Any = of_flows(*all_sorts().values()).to_dict()
    told["candidates"] = [{**Candidate(flow_id="x", ranks={"dense": 1}, scores={"dense": 0.5}).to_dict()}]
    everywhere(told, told)
    with pytest.raises(ConfigError):
        RecallResult.from_dict({"candidates": [{"flow_id": "x", "ranks": {"dense": odd}}]})
    for depth in (10**400, 10**9, -1):
        with pytest.raises(ConfigError):
            Trace.from_json([{"name": "x", "kind": "turn", "depth": depth}])


def deep(levels: int, key: str = "a") -> Any:
    """That many objects, each in the one before."""
    value: Any = 1
    for _ in range(levels):
        value = {key: value}
    return value


def nested(levels: int) -> dict[str, Any]:
    """A flow of parts of parts."""
    told = of_flows(shop()[REFUND]).to_dict()["chosen"][0] | {"name": "x", "type": "sequential"}
    inner: dict[str, Any] = {**told, "parts": []}
    for _ in range(levels):
        inner = {**told, "parts": [{"name": "x", "when": "", "flow": inner}]}
    return inner


HOSTILE: dict[str, Any] = {
    "nothing": {},
    "no object": [],
    "a text": "chosen",
    "names that are no texts": {1: 2},
    "deep": deep(100_000),
    "a million candidates": {"chosen": [], "candidates": [1] * 1_000_000, "decision": {}},
    "a million parts": None,
    "parts of parts": None,
    "a flow's own id": None,
    "half of a surrogate pair": None,
}


@pytest.mark.spec("008.6")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_result_is_refused(name: str) -> None:
    told = of_flows(shop()[REFUND]).to_dict()
    own = told["chosen"][0]
    flows = {
        "a million parts": own | {"type": "parallel", "parts": [{"name": "y", "flow": own | {"name": "y"}}] * 100_000},
        "parts of parts": own | nested(200),
        "a flow's own id": own | {"flow_id": CANCEL},
        "half of a surrogate pair": own | {"description": "\ud800"},
    }
    data = told | {"chosen": [flows[name]]} if name in flows else HOSTILE[name]
    with pytest.raises(ConfigError, match="that to_dict told"):
        FlowSelectionResult.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff", "nul", '{"chosen": NaN}'])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ConfigError, match="no JSON"):
        FlowSelectionResult.from_json(text)
    with pytest.raises(ConfigError, match="no text"):
        FlowSelectionResult.from_json(7)  # pyright: ignore[reportArgumentType]


# --- values and errors ---------------------------------------------------------


class Odd:
    """Its text fails."""

    def __str__(self) -> str:
        raise RuntimeError


def test_whatever_a_value_holds_it_is_told_as_json() -> None:
    within: list[Any] = [1]
    within.append(within)
    value = {1: object(), "odd": Odd(), "big": 2**70, "half": "\ud800", "set": {"b", "a"}, "in itself": within}
    told = plain(value)
    assert json.loads(json.dumps(told)) == told
    assert (told["1"], told["set"], told["half"]) == ("[a object]", ["a", "b"], "\ufffd")
    assert "0x" not in json.dumps(told), "no address in memory"
    assert plain(deep(1_000))


@pytest.mark.parametrize("beside", ["a text", "\ud800"], ids=ascii)
def test_a_moment_is_told_the_same_whatever_stands_beside_it(beside: str) -> None:
    moment = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    told = plain({"moment": moment, "day": moment.date(), "beside": beside})
    assert (told["moment"], told["day"]) == ("2026-05-04T09:30:00+00:00", "2026-05-04")


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("take another"),
        ModelTimeoutError("m", timeout_s=3.0),
        SnapshotError("it is none", missing=("a", "b")),
        RemoteError("KeyError", "'x'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_what_it_was(error: JazzSelectError) -> None:
    for back in (
        error_of(json.loads(json.dumps(error_data(error)))),
        pickled(error),
        copy.copy(error),
    ):
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert vars(back) == vars(error)


def test_an_error_of_another_make_says_whose_it_is() -> None:
    back = error_of(error_data(ZeroDivisionError("by zero")))
    assert isinstance(back, RemoteError)
    assert (back.code, str(back)) == ("ZeroDivisionError", "ZeroDivisionError: by zero")
    assert error_of(error_data(back)).__reduce__()[1:] == back.__reduce__()[1:]


@pytest.mark.parametrize(
    "data",
    [
        *({}, [], "x", {"code": 1, "message": ""}, {"code": "ConfigError"}),
        {"code": "ConfigError", "message": "", "details": [1]},
    ],
)
def test_what_is_no_error_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match="no error that"):
        error_of(data)


@pytest.mark.parametrize("code", ["Any", "Final", "meant", "__doc__", "Exception", "SystemExit", ""])
def test_no_name_makes_an_error_of_another_class(code: str) -> None:
    found = error_of(
        {"code": code, "message": "m", "details": {"__class__": "x", "args": 1, "_x": 1, "with_traceback": 1}}
    )
    assert type(found) is RemoteError
    own = error_of({"code": "ConfigError", "message": "m", "details": {"__class__": "x", "args": 1, "_x": 1}})
    assert (type(own), vars(own)) == (ConfigError, {})


def test_a_flow_of_a_type_of_its_own_stays_one() -> None:
    registry = FlowRegistry(min_examples=0)
    own = Flow(name="playbook", registry=registry)
    own.type = "playbook"
    (back,) = FlowSelectionResult.from_dict(of_flows(own).to_dict()).chosen_flows
    assert back.compute_checksum() == own.compute_checksum()
