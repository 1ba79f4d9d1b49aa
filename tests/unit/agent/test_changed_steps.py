"""A flow whose steps its author changed while a conversation was under way: what was done is not done again."""

from typing import Any

import pytest

from jazz_select.agent import Agent, Conversation
from jazz_select.agent.turn import TurnResult
from jazz_select.routing import GuidedDecisionPoint, Tool
from tests.unit.agent.turns import agent_of, destroyer, obj, shop_of

OLD = ("find", "refund", "notify")


def tools(log: list[str]) -> list[Any]:
    def plain(name: str, **wanted: str) -> Tool:
        def run(**given: Any) -> None:
            log.append(name)

        return Tool(name=name, input_schema=obj(**wanted), function=run)

    return [plain("find"), plain("check"), plain("thank"), plain("notify", address="string"), destroyer("refund", log)]


async def gone_on(log: list[str], conversation: Conversation, chain: tuple[Any, ...], *messages: str) -> TurnResult:
    registry = shop_of(("both", ()))
    flow = registry.by_name("both")
    assert flow is not None
    vars(flow).update(tools=("find", "check", "thank", "notify", "refund"), chain=chain)
    agent = agent_of(registry, tools(log))
    results: list[TurnResult] = []
    for message in messages:
        results.append(await agent.turn(message, conversation, context={"address": "a street 1"}))
        conversation = Conversation.from_json(results[-1].conversation.to_json())
    return results[-1]


async def waiting(log: list[str], *, chain: tuple[str, ...] = OLD) -> Conversation:
    """A flow that has done all but its last step, and waits for an address, as it was saved."""
    registry = shop_of(("both", chain))
    result = await agent_of(registry, tools(log)).turn("both")
    assert (result.status, result.runs[0].done) == ("waiting", chain[:-1]), result.reason
    log.clear()
    return Conversation.from_json(result.conversation.to_json())


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("chain", "told", "ran"),
    [
        pytest.param(("find", "check", "refund", "notify"), "Check, Notify", ["check", "notify"], id="put before"),
        pytest.param(("check", "find", "refund", "notify"), "Check, Notify", ["check", "notify"], id="put first"),
        pytest.param(("find", "refund", "thank", "notify"), "Thank, Notify", ["thank", "notify"], id="put after"),
        pytest.param(("find", "refund"), "nothing more", [], id="gone"),
        pytest.param(
            ("find", "refund", "notify", "refund"),
            "Notify, Refund",
            ["notify", "refund"],
            id="again",
        ),
    ],
)
async def test_changed_steps_are_asked_about_and_a_yes_runs_those_to_come(
    chain: tuple[str, ...], told: str, ran: list[str]
) -> None:
    log: list[str] = []
    saved = await waiting(log)
    asked = await gone_on(log, saved, chain, "yes")
    assert (asked.status, log) == ("waiting", [])
    assert asked.text == (
        f"Its steps have changed since it was started. Already done: Refund. To come: {told}. Shall I go on with: Both?"
    )
    done = await gone_on(log, asked.conversation, chain, "yes")
    assert (done.status, log) == ("done", ran)


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    "chain", [OLD, ("refund", "notify"), ("notify",)], ids=["as it was", "one that was done is gone", "and another"]
)
async def test_the_same_steps_to_come_are_gone_on_with(chain: tuple[str, ...]) -> None:
    log: list[str] = []
    result = await gone_on(log, await waiting(log), chain, "yes")
    assert (result.status, log) == ("done", ["notify"])


async def test_a_no_leaves_what_was_done_as_it_is() -> None:
    log: list[str] = []
    saved = await waiting(log)
    result = await gone_on(log, saved, ("find", "check", "refund", "notify"), "yes", "no")
    assert (result.status, log) == ("done", [])
    assert result.text == "All right, nothing more will be done about: Both. Already done: Refund."


async def test_a_choice_that_waits_is_kept_for_its_own_step_alone() -> None:
    """What was chosen at a point waits for a fact; a step that was put before the point is not skipped for it."""
    log: list[str] = []
    chosen: list[str] = []
    point = GuidedDecisionPoint(after_step="refund", candidate_tools=["notify", "thank"])

    class Notifies:
        async def decide(self, context: Any, candidates: Any, prompt: Any) -> str:
            chosen.append("notify")
            return "notify"

    def agent(*chain: Any) -> Agent:
        registry = shop_of(("both", ()))
        flow = registry.by_name("both")
        assert flow is not None
        vars(flow).update(tools=("refund", "check", "notify", "thank"), chain=chain)
        made = [
            Tool(name="refund", function=refund, destructive=True),
            *(destroyer(name, log, receipt="string") for name in ("check", "thank")),
            destroyer("notify", log, receipt="string", address="string"),
        ]
        return agent_of(registry, made, decision_callback=Notifies())

    def refund() -> dict[str, str]:
        log.append("refund")
        return {"receipt": "R"}

    first = await agent("refund", point).turn("both")
    assert (first.status, first.conversation.flows[0].parts["0"].tool, log) == ("waiting", "notify", ["refund"])
    same = await agent("refund", point).turn("yes", first.conversation, context={"address": "a"})
    assert (same.status, log, chosen) == ("done", ["refund", "notify R a"], ["notify"])
    asked = await agent("refund", "check", point).turn("yes", first.conversation, context={"address": "a"})
    done = await agent("refund", "check", point).turn("yes", asked.conversation, context={"address": "a"})
    assert (asked.status, done.status, log[2:]) == ("waiting", "done", ["check R", "notify R a"])


@pytest.mark.spec("005.4")
async def test_a_flow_that_destroys_nothing_just_goes_on() -> None:
    log: list[str] = []
    saved = await waiting(log, chain=("find", "check", "notify"))
    registry = shop_of(("both", ("find", "thank", "check", "notify")))
    result = await agent_of(registry, tools(log)[:4]).turn("yes", saved, context={"address": "a"})
    assert (result.status, log) == ("done", ["thank", "notify"])
