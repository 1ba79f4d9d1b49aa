"""A planner of small ventures: it asks, searches and calculates what a coffee stand would earn in a month.

`python -m examples.planner` runs one turn with a model that follows a script, and prints its trace and its graph.

What is certain is decided by guards and by `acquire`, without a model. What is left goes to the model, and what it
decides is put right by rewrites. Everything is a pure function of the state, so each can be tested by itself.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from examples.venture import FIELDS, RATES, Calculator, PlannerState, look_up, missing, number_in, profit
from jazz_select.agent import Action, ActionDecision, ModelPlanner, Route, Router, guard, iteration_cap
from jazz_select.chat.models import ChatCallable
from jazz_select.ports import ChatModel
from jazz_select.testing.doubles import ScriptedModel
from jazz_select.values import Message

MOST_SEARCHES = MOST_ASKS = 2
MOST_CALCULATIONS = 3
MOST_ROUNDS = 25
Updates = Mapping[str, Any]


def about(action: str, field: str, reason: str) -> ActionDecision:
    """A decision on one field."""
    return ActionDecision(action=action, arguments={"field": field}, reason=reason)


def named(decision: ActionDecision) -> str:
    """The field that a decision is about; empty where it names none that there is."""
    field = decision.arguments.get("field")
    return field if isinstance(field, str) and field in {*FIELDS, "region", "currency"} else ""


def how_to_get(state: PlannerState, field: str, reason: str) -> ActionDecision:
    """A search, else a question, else an assumption: whatever is not used up."""
    if FIELDS[field].on_web and state.searches.get(field, 0) < MOST_SEARCHES:
        return about("search", field, reason)
    return about("ask_user" if state.asks.get(field, 0) < MOST_ASKS else "reflect", field, reason)


# --- guards, in their order ----------------------------------------------------


@guard("finish_aborted")
def aborted(state: PlannerState) -> Route | None:
    """The user does not want to go on."""
    return Route("finish_aborted") if state.aborted else None


@guard("ask_region")
def needs_region(state: PlannerState) -> Route | None:
    """Nothing can be searched for without a region."""
    return None if state.region else Route("ask_region", {}, about("ask_user", "region", "every price depends on it"))


@guard("ask_currency")
def needs_currency(state: PlannerState) -> Route | None:
    """No number means anything without a currency."""
    if state.currency:
        return None
    return Route("ask_currency", {}, about("ask_user", "currency", "numbers need one"))


@guard()
def decomposed(state: PlannerState) -> Route | None:
    """Put the parts in the place of what is made of them, and the product beside the parts once all are known."""
    whole = {name: FIELDS[name].parts for name in state.fields if FIELDS[name].parts}
    done = {**state.decompositions, **whole}
    values = dict(state.values)
    for name, (one, other) in done.items():
        if one in values and other in values:
            values[name] = values[one] * values[other]
    fields = tuple(part for name in state.fields for part in (whole.get(name) or (name,)))
    return Route(updates={"fields": fields, "decompositions": done, "values": values})


@guard("finish_calc_cap")
def calculations_used_up(state: PlannerState) -> Route | None:
    """It was tried often enough."""
    spent = state.calculator.result is None and state.calculator.runs >= MOST_CALCULATIONS
    return Route("finish_calc_cap") if spent else None


@guard("finish_calc_done")
def calculated(state: PlannerState) -> Route | None:
    """There is a result."""
    return None if state.calculator.result is None else Route("finish_calc_done")


GUARDS = (
    aborted,
    iteration_cap(MOST_ROUNDS, "finish_iter_cap"),
    needs_region,
    needs_currency,
    decomposed,
    calculations_used_up,
    calculated,
)
ENDS = ("finish_aborted", "finish_iter_cap", "finish_calc_cap", "finish_calc_done")
ROUTES = {**dict.fromkeys(ENDS, "finish"), "ask_region": "ask_user", "ask_currency": "ask_user"}

# --- decisions -----------------------------------------------------------------


def acquire(state: PlannerState) -> ActionDecision | None:
    """What needs no model: a field that blocks the calculator, one that was never searched for, or the end."""
    for field, problem in state.calculator.errors.items():
        if field not in state.values:
            return how_to_get(state, field, f"the calculator is blocked: {problem}")
    wanted = missing(state)
    for field in wanted:
        if FIELDS[field].on_web and not state.searches.get(field, 0):
            return about("search", field, "it may be on the web")
    if wanted:
        return None
    return ActionDecision(action="calculate" if state.calculates else "finish", reason="all fields are collected")


def prompt(state: PlannerState) -> list[Message]:
    """What the model is told."""
    told = state.model_dump_json(include={"region", "currency", "values", "searches", "asks"})
    questions = "\n".join(f"- {name}: {FIELDS[name].question}" for name in missing(state))
    return [
        Message(role="system", content="You plan what to find out next. Name one field: {'field': name}."),
        Message(role="user", content=f"Missing:\n{questions}\n\nKnown: {told}"),
    ]


def redirect_derived(state: PlannerState, decision: ActionDecision) -> ActionDecision:
    """A field that is made of others is not looked for itself: its first missing part is."""
    parts = FIELDS[named(decision)].parts if named(decision) in FIELDS else ()
    part = next((each for each in parts if each not in state.values), "")
    return decision.model_copy(update={"arguments": {"field": part}}) if part else decision


def search_before_asking(state: PlannerState, decision: ActionDecision) -> ActionDecision:
    """Nobody is asked for what the web may know."""
    field = named(decision)
    premature = decision.action == "ask_user" and field in FIELDS and FIELDS[field].on_web
    if premature and not state.searches.get(field, 0):
        return decision.model_copy(update={"action": "search"})
    return decision


def cap_searches(state: PlannerState, decision: ActionDecision) -> ActionDecision:
    """Searched for often enough: ask, or assume where that was done often enough too."""
    field = named(decision)
    if decision.action != "search" or state.searches.get(field, 0) < MOST_SEARCHES:
        return decision
    action = "ask_user" if state.asks.get(field, 0) < MOST_ASKS else "reflect"
    return decision.model_copy(update={"action": action})


def cap_asks(state: PlannerState, decision: ActionDecision) -> ActionDecision:
    """Asked often enough: the user does not know."""
    field = named(decision)
    if decision.action != "ask_user" or state.asks.get(field, 0) < MOST_ASKS:
        return decision
    return decision.model_copy(update={"action": "finish", "reason": f"nobody knows {field}"})


def calculate_later(state: PlannerState, decision: ActionDecision) -> ActionDecision:
    """Nothing is calculated while a field is missing."""
    wanted = missing(state)
    if decision.action != "calculate" or not wanted:
        return decision
    return how_to_get(state, wanted[0], "the calculation lacks it")


REWRITES = (redirect_derived, search_before_asking, cap_searches, cap_asks, calculate_later)

# --- actions -------------------------------------------------------------------


def counted(counts: Mapping[str, int], field: str) -> dict[str, int]:
    """One more."""
    return {**counts, field: counts.get(field, 0) + 1}


def target(state: PlannerState) -> str:
    """The field that the last decision is about; without one, an action fails and the turn ends."""
    if state.decision is None or not (field := named(state.decision)):
        msg = "the decision names no field"
        raise LookupError(msg)
    return field


def search(state: PlannerState) -> Route:
    """Look a field up."""
    field = target(state)
    searches = counted(state.searches, field)
    found = look_up(field, state.region, state.currency)
    if found is None:
        return Route("nothing", {"searches": searches})
    return Route("found", {"searches": searches, "found": {field: found}})


def observe(state: PlannerState) -> Updates:
    """Take over what was found."""
    return {"values": {**state.values, **state.found}, "found": {}}


def ask_user(state: PlannerState) -> Updates:
    """Put a question. The turn pauses here."""
    field = target(state)
    question = FIELDS[field].question if field in FIELDS else f"Which {field}?"
    return {"asks": counted(state.asks, field), "question": question, "reply": ""}


def observe_user(state: PlannerState) -> Updates:
    """Take over what was answered; what cannot be used leaves the field missing."""
    field, reply = target(state), state.reply.strip()
    asked = {"question": "", "reply": ""}
    if reply.casefold() == "stop":
        return {**asked, "aborted": True}
    if field == "region":
        return {**asked, "region": reply}
    if field == "currency":
        return {**asked, "currency": reply.upper() if reply.upper() in RATES else ""}
    number = number_in(reply, state.currency)
    return asked if number is None else {**asked, "values": {**state.values, field: number}}


def calculate(state: PlannerState) -> Updates:
    """The result; a number that makes no sense is dropped, and blocks the calculator."""
    runs = state.calculator.runs + 1
    result, errors = profit(state.values)
    if not errors:
        return {"calculator": Calculator(runs=runs, result=result)}
    dropped = {*errors, *state.decompositions}
    kept = {name: value for name, value in state.values.items() if name not in dropped}
    return {"values": kept, "calculator": Calculator(errors=errors, runs=runs)}


def reflect(state: PlannerState) -> Updates:
    """Assume what nobody knows."""
    field = target(state)
    return {"values": {**state.values, field: FIELDS[field].assumed}}


ACTIONS = {
    "search": Action(run=search, then={"found": "observe", "nothing": "pre_check"}),
    "observe": Action(run=observe, planned=False),
    "calculate": Action(run=calculate),
    "ask_user": Action(run=ask_user, then="observe_user", pauses=True),
    "observe_user": Action(run=observe_user, planned=False),
    "reflect": Action(run=reflect),
}

# --- the turn ------------------------------------------------------------------


def planner(model: ChatModel | ChatCallable | str) -> Router[PlannerState]:
    """The graph; one for any number of turns."""
    can = {"search": "look a field up", "ask_user": "ask for a field", "calculate": "the profit", "reflect": "assume"}
    return Router(
        PlannerState,
        guards=GUARDS,
        routes=ROUTES,
        actions=ACTIONS,
        acquire=acquire,
        plan=ModelPlanner(model, prompt, can),
        rewrites=REWRITES,
        name="planner",
    )


SCRIPT = (
    '{"action": "ask_user", "arguments": {"field": "staff_cost"}, "reason": "the biggest cost"}',
    'Next: {"action": "ask_user", "arguments": {"field": "cups"}, "reason": "the income"}',
    '{"action": "search", "arguments": {"field": "price"}, "reason": "once more"}',
    '{"action": "ask_user", "arguments": {"field": "price"}, "reason": "the web does not know"}',
)
ANSWERS = {"region": "Tyrol", "currency": "EUR", "staff": "2", "cups": "4,000", "price": "2.8 EUR"}


async def main() -> None:
    """One turn, from the first question to the result."""
    router = planner(ScriptedModel(*SCRIPT))
    run = await router.run(PlannerState())
    while run.status == "paused" and run.state.decision:
        answer = ANSWERS[run.state.decision.arguments["field"]]
        print(f"{run.state.question} {answer}")
        run = await router.resume(run.snapshot(), {"reply": answer})
    print(f"\n{run.state.route}: {run.state.calculator.result:,.2f} {run.state.currency}\n")
    for each in run.trace:
        print(f"{each.iteration:3} {each.node:16} {each.route:17} {each.action}".rstrip())
    print(f"\n{router.mermaid()}")


if __name__ == "__main__":
    asyncio.run(main())
