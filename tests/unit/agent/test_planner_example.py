"""The planner of examples/planner.py: the specification of the turn, line by line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.planner import ACTIONS, GUARDS, REWRITES, ROUTES, acquire, planner
from examples.venture import Calculator, PlannerState
from jazz_select.agent import ActionDecision, Route, Router
from jazz_select.errors import RouterError, SnapshotError
from jazz_select.testing.doubles import ScriptedModel
from jazz_select.values import Tier

ROOT = Path(__file__).parents[3]
PARTS = ("rent", "wage", "staff", "cups", "price")
ALL = {"rent": 900.0, "wage": 2_400.0, "staff": 2.0, "staff_cost": 4_800.0, "cups": 4_000.0, "price": 2.8}


def state(**changes: Any) -> PlannerState:
    """A state that knows where it is, and has taken its fields apart."""
    known: dict[str, Any] = {
        "region": "Tyrol",
        "currency": "EUR",
        "fields": PARTS,
        "decompositions": {"staff_cost": ("wage", "staff")},
    }
    return PlannerState(**{**known, **changes})


def decision(action: str, field: Any = "") -> ActionDecision:
    return ActionDecision(action=action, arguments={"field": field} if field else {})


def reply(action: str, field: str = "") -> str:
    return json.dumps({"action": action, "arguments": {"field": field} if field else {}, "reason": "because"})


def without_model() -> tuple[Router[PlannerState], ScriptedModel]:
    """A router whose model fails any test that asks it."""
    model = ScriptedModel()
    return planner(model), model


SEARCHED = {"searches": dict.fromkeys(("rent", "wage", "price"), 1)}
NEEDS_MODEL = state(**SEARCHED, values={"rent": 1.0, "wage": 1.0})

# --- the graph -----------------------------------------------------------------


@pytest.mark.spec("002.1")
def test_the_graph_is_that_of_the_specification() -> None:
    router, _ = without_model()
    assert router.nodes == (
        *("pre_check", "acquire_or_plan", "search", "observe", "calculate"),
        *("ask_user", "observe_user", "reflect", "finish"),
    )
    drawn = router.mermaid()
    assert "start([START]) --> n0\n" in drawn
    assert "n8 --> stop([END])" in drawn


@pytest.mark.spec("002.19")
def test_every_edge_back_goes_to_the_guards() -> None:
    ways = {
        name: {action.then} if isinstance(action.then, str) else {*action.then.values()}
        for name, action in ACTIONS.items()
    }
    assert ways == {
        "search": {"observe", "pre_check"},
        "observe": {"pre_check"},
        "calculate": {"pre_check"},
        "ask_user": {"observe_user"},
        "observe_user": {"pre_check"},
        "reflect": {"pre_check"},
    }


@pytest.mark.spec("002.11")
def test_no_tag_of_a_guard_is_an_action() -> None:
    tags = {tag for each in GUARDS for tag in each.tags}
    assert tags == {
        *("finish_aborted", "finish_iter_cap", "finish_calc_cap", "finish_calc_done", "ask_region", "ask_currency")
    }
    assert not tags & {*ACTIONS, "finish"}
    router, _ = without_model()
    assert router.pre_check(PlannerState()).decision == ActionDecision(
        action="ask_user", arguments={"field": "region"}, reason="every price depends on it"
    )


# --- the guards ----------------------------------------------------------------

SUCCESS = Calculator(runs=1, result=1.0)
CHECKS = [
    pytest.param(
        state(aborted=True, region=""), "finish_aborted", "", id="aborted comes first", marks=pytest.mark.spec("002.3")
    ),
    pytest.param(state(iterations=25), "finish_iter_cap", "", id="a round too many", marks=pytest.mark.spec("002.4")),
    pytest.param(state(iterations=24), "continue", "", id="the last round", marks=pytest.mark.spec("002.4")),
    pytest.param(
        state(iterations=25, region=""),
        "finish_iter_cap",
        "",
        id="the cap before questions",
        marks=pytest.mark.spec("002.4"),
    ),
    pytest.param(
        state(region="", currency=""), "ask_region", "region", id="the region first", marks=pytest.mark.spec("002.5")
    ),
    pytest.param(
        state(currency=""), "ask_currency", "currency", id="then the currency", marks=pytest.mark.spec("002.6")
    ),
    pytest.param(
        state(calculator=Calculator(runs=3)),
        "finish_calc_cap",
        "",
        id="calculated too often",
        marks=pytest.mark.spec("002.7"),
    ),
    pytest.param(state(calculator=Calculator(runs=2)), "continue", "", id="once more", marks=pytest.mark.spec("002.7")),
    pytest.param(state(calculator=SUCCESS), "finish_calc_done", "", id="calculated", marks=pytest.mark.spec("002.8")),
    pytest.param(state(), "continue", "", id="goes on", marks=pytest.mark.spec("002.9")),
]


@pytest.mark.spec("002.2", "002.10", "002.22")
@pytest.mark.parametrize(("found", "tag", "asks_for"), CHECKS)
def test_the_guards_say_where_a_turn_goes_and_ask_no_model(found: PlannerState, tag: str, asks_for: str) -> None:
    router, model = without_model()
    route = router.pre_check(found)
    assert route.tag == tag
    assert route.updates["iterations"] == found.iterations + 1
    assert (route.decision.arguments["field"] if route.decision else "") == asks_for
    assert model.calls == []


@pytest.mark.spec("002.2")
async def test_every_entry_counts() -> None:
    router, model = without_model()
    run = await router.run(state(values=ALL))
    entries = [each.iteration for each in run.trace if each.node == "pre_check"]
    assert entries == [1, 2]
    assert run.state.iterations == 2
    assert model.calls == []


@pytest.mark.spec("002.20")
def test_what_is_unchanged_is_absent_from_the_updates() -> None:
    router, _ = without_model()
    assert router.pre_check(state()) == Route("continue", {"iterations": 1})
    first = router.pre_check(state(fields=("rent", "staff_cost"), decompositions={}))
    assert first.updates == {
        "iterations": 1,
        "fields": ("rent", "wage", "staff"),
        "decompositions": {"staff_cost": ("wage", "staff")},
    }
    composed = router.pre_check(state(values={"wage": 10.0, "staff": 2.0}))
    assert composed.updates == {"iterations": 1, "values": {"wage": 10.0, "staff": 2.0, "staff_cost": 20.0}}


# --- what needs no model -------------------------------------------------------

BLOCKED = Calculator(errors={"cups": "cups must be above 0"}, runs=1)
ACQUIRED = [
    pytest.param(
        state(values={"rent": 1.0}, calculator=BLOCKED),
        "ask_user",
        "cups",
        id="what blocks the calculator",
        marks=pytest.mark.spec("002.12"),
    ),
    pytest.param(
        state(values={"rent": 1.0}, calculator=BLOCKED, asks={"cups": 2}),
        "reflect",
        "cups",
        id="and was asked often enough",
        marks=pytest.mark.spec("002.12"),
    ),
    pytest.param(state(), "search", "rent", id="the first field of the web", marks=pytest.mark.spec("002.13")),
    pytest.param(state(searches={"rent": 1}), "search", "wage", id="the next one", marks=pytest.mark.spec("002.13")),
    pytest.param(state(values=ALL), "calculate", None, id="all collected", marks=pytest.mark.spec("002.14")),
    pytest.param(
        state(values=ALL, calculates=False),
        "finish",
        None,
        id="all collected, nothing to calculate",
        marks=pytest.mark.spec("002.14"),
    ),
]


@pytest.mark.parametrize(("found", "action", "field"), ACQUIRED)
async def test_what_is_certain_is_decided_without_a_model(found: PlannerState, action: str, field: str | None) -> None:
    router, model = without_model()
    run = await router.run(found, most_nodes=2)
    assert run.state.decision is not None
    assert (run.state.decision.action, run.state.decision.arguments.get("field")) == (action, field)
    assert run.state.decision.tier is Tier.DETERMINISTIC
    assert run.state.decision.reason
    assert model.calls == []
    assert acquire(found) == run.state.decision


async def test_a_number_that_makes_no_sense_blocks_the_calculator_until_it_is_mended() -> None:
    router, _ = without_model()
    run = await router.run(state(values={**ALL, "cups": 0.0}))
    assert run.status == "paused"
    assert run.state.calculator.errors == {"cups": "cups must be above 0"}
    assert run.state.question == "How many cups are sold per month?"
    run = await router.resume(run.snapshot(), {"reply": "4000"})
    assert run.state.route == "finish_calc_done"
    assert run.state.calculator == Calculator(runs=2, result=5_500.0)


async def test_who_says_stop_ends_the_turn() -> None:
    router, _ = without_model()
    run = await router.run(PlannerState())
    run = await router.resume(run.snapshot(), {"reply": "stop"})
    assert (run.status, run.state.route) == ("finished", "finish_aborted")


# --- what the model decides ----------------------------------------------------


@pytest.mark.spec("002.15")
async def test_else_the_model_is_asked_once() -> None:
    model = ScriptedModel(reply("ask_user", "staff"), takes_schema=True)
    run = await planner(model).run(NEEDS_MODEL)
    assert run.status == "paused"
    assert run.state.decision == ActionDecision(
        action="ask_user", arguments={"field": "staff"}, reason="because", tier=Tier.GUIDED
    )
    assert len(model.calls) == 1
    (schema,) = model.schemas
    assert schema is not None
    assert schema["properties"]["action"]["enum"] == ["search", "ask_user", "calculate", "reflect", "finish"]


REWRITTEN = [
    pytest.param(
        *(state(), decision("search", "staff_cost"), "search", "wage"),
        id="a derived field to its first part",
    ),
    pytest.param(
        *(state(values={"wage": 1.0}), decision("ask_user", "staff_cost"), "ask_user", "staff"),
        id="or the next one",
    ),
    pytest.param(*(state(), decision("ask_user", "rent"), "search", "rent"), id="asked too early"),
    pytest.param(*(state(searches={"rent": 1}), decision("ask_user", "rent"), "ask_user", "rent"), id="not too early"),
    pytest.param(
        *(state(searches={"rent": 2}), decision("search", "rent"), "ask_user", "rent"),
        id="search cap",
        marks=pytest.mark.spec("002.17"),
    ),
    pytest.param(
        *(state(searches={"rent": 2}, asks={"rent": 2}), decision("search", "rent"), "reflect", "rent"),
        id="search cap and ask cap",
        marks=pytest.mark.spec("002.17"),
    ),
    pytest.param(
        *(state(searches={"rent": 1}, asks={"rent": 2}), decision("ask_user", "rent"), "finish", "rent"),
        id="ask cap",
        marks=pytest.mark.spec("002.17"),
    ),
    pytest.param(
        *(state(searches={"rent": 2}, asks={"wage": 2}), decision("search", "rent"), "ask_user", "rent"),
        id="caps are for one field",
        marks=pytest.mark.spec("002.17"),
    ),
    pytest.param(*(state(), decision("calculate"), "search", "rent"), id="calculated too early"),
    pytest.param(*(state(values=ALL), decision("calculate"), "calculate", None), id="not too early to calculate"),
    pytest.param(*(state(), decision("ask_user", "nonsense"), "ask_user", "nonsense"), id="a field that is not there"),
    pytest.param(*(state(), decision("ask_user", ["rent"]), "ask_user", ["rent"]), id="a field that is no text"),
]


@pytest.mark.spec("002.16")
@pytest.mark.parametrize(("found", "given", "action", "field"), REWRITTEN)
def test_rewrites_are_pure_and_in_order(found: PlannerState, given: ActionDecision, action: str, field: object) -> None:
    before = (found.model_copy(deep=True), given.model_copy(deep=True))
    made = given
    for rewrite in REWRITES:
        made = rewrite(found, made)
    assert (made.action, made.arguments.get("field")) == (action, field)
    assert (found, given) == before


@pytest.mark.spec("002.16")
async def test_each_rewrite_is_noted_on_the_decision_in_order() -> None:
    model = ScriptedModel(reply("search", "staff_cost"))
    found = state(values={"staff": 1.0, "rent": 1.0}, searches={"wage": 2, "price": 1})
    run = await planner(model).run(found, most_nodes=2)
    assert run.state.decision is not None
    assert run.state.decision.action == "ask_user"
    assert run.state.decision.notes == ("redirect_derived: search → search", "cap_searches: search → ask_user")


async def test_a_decision_on_nothing_ends_the_turn_and_says_why() -> None:
    run = await planner(ScriptedModel(reply("ask_user", "nonsense"))).run(NEEDS_MODEL)
    assert run.status == "finished"
    assert run.state.decision is not None
    assert run.state.decision.reason == "ask_user failed: LookupError: the decision names no field"


# --- the whole turn ------------------------------------------------------------


@pytest.mark.spec("002.18")
@pytest.mark.parametrize("tag", sorted(ROUTES))
def test_a_tag_without_an_edge_is_refused_when_the_graph_is_built(tag: str) -> None:
    routes = {each: node for each, node in ROUTES.items() if each != tag}
    with pytest.raises(RouterError, match=f"the tag '{tag}' of guard .* has no edge"):
        Router(PlannerState, guards=GUARDS, routes=routes, actions=ACTIONS, plan=planned)


async def planned(_: PlannerState) -> ActionDecision:
    return decision("finish")


@pytest.mark.spec("002.23")
async def test_a_validator_is_a_node_more_and_touches_no_other() -> None:
    def no_questions(_: PlannerState, given: ActionDecision) -> ActionDecision:
        return given.model_copy(update={"action": "reflect"}) if given.action == "ask_user" else given

    made: Any = {"guards": GUARDS, "routes": ROUTES, "actions": ACTIONS, "acquire": acquire, "rewrites": REWRITES}

    async def ask_staff(_: PlannerState) -> ActionDecision:
        return decision("ask_user", "staff")

    plain: Router[PlannerState] = Router(PlannerState, plan=ask_staff, **made)
    checked: Router[PlannerState] = Router(PlannerState, plan=ask_staff, validators={"validate": no_questions}, **made)
    assert set(checked.nodes) - set(plain.nodes) == {"validate"}
    run = await checked.run(NEEDS_MODEL, most_nodes=4)
    assert [each.node for each in run.trace] == ["pre_check", "acquire_or_plan", "validate", "reflect"]
    assert run.state.decision is not None
    assert run.state.decision.notes == ("validate: ask_user → reflect",)


RESUMES = """
import asyncio, json, sys
from pathlib import Path
from examples.planner import ANSWERS, planner
from jazz_select.agent import Snapshot

async def ask_for_the_first(messages):
    field = messages[-1].content.splitlines()[1].removeprefix("- ").partition(":")[0]
    return json.dumps({"action": "ask_user", "arguments": {"field": field}})

async def go_on(snapshot):
    reply = ANSWERS[snapshot.state["decision"]["arguments"]["field"]]
    return await planner(ask_for_the_first).resume(snapshot, {"reply": reply})

async def main(file):
    run = await go_on(Snapshot.from_json(file.read_text()))
    if run.status == "paused":
        file.write_text(run.snapshot().to_json())
    print(json.dumps([run.status, [(each.node, each.iteration, each.route, each.action) for each in run.trace]]))

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.programs
@pytest.mark.spec("002.21")
async def test_resumed_in_new_processes_the_trace_is_the_same(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "resumes"}
    exec(compile(RESUMES, "resumes.py", "exec"), names)  # noqa: S102 - the very code that the processes run
    run = first = await planner(names["ask_for_the_first"]).run(PlannerState())
    while run.status == "paused":
        run = await names["go_on"](run.snapshot())
    assert run.state.calculator.result == 5_500.0

    script, file = tmp_path / "resumes.py", tmp_path / "paused.json"
    script.write_text(RESUMES, encoding="utf-8")
    file.write_text(first.snapshot().to_json(), encoding="utf-8")
    status, trace = "paused", []
    while status == "paused":
        command = [sys.executable, "-W", "error", str(script), str(file)]
        done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        status, trace = json.loads(done.stdout)
    assert trace == [[each.node, each.iteration, each.route, each.action] for each in run.trace]


@pytest.mark.spec("002.21")
async def test_a_snapshot_of_a_node_that_is_gone_needs_an_alias() -> None:
    router, _ = without_model()
    run = await router.run(PlannerState())
    old = run.snapshot().model_copy(update={"node": "hear_user"})
    with pytest.raises(SnapshotError, match="there is no node 'hear_user'") as caught:
        await router.resume(old)
    assert caught.value.missing == ("hear_user",)
    there = await router.resume(old, {"reply": "stop"}, aliases={"hear_user": "observe_user"})
    assert there.state.route == "finish_aborted"


@pytest.mark.programs
def test_the_program_prints_a_turn_its_trace_and_its_graph() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.planner"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "What does a cup cost? 2.8 EUR" in done.stdout
    assert "finish_calc_done: 5,500.00 EUR" in done.stdout
    assert " 11 pre_check        finish_calc_done  calculate" in done.stdout
    assert planner(ScriptedModel()).mermaid() in done.stdout


def test_the_picture_in_the_papers_is_that_of_the_example() -> None:
    router, _ = without_model()
    assert f"```mermaid\n{router.mermaid()}```\n" in (ROOT / "docs" / "router.md").read_text("utf-8")
