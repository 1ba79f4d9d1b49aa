"""A model as the planner: what it is asked, and what is made of its reply."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.agent import ActionDecision, ModelPlanner, Router, TurnState
from jazz_select.agent.graph.planner import LONGEST, read_decision
from jazz_select.errors import ConfigError, ModelError, ModelTimeoutError, PlanError
from jazz_select.telemetry import Trace
from jazz_select.testing.doubles import ScriptedModel
from jazz_select.values import Message, Reply, Tier

ACTIONS = ("search", "ask_user", "finish")
SAID = '{"action": "search", "arguments": {"field": "rent"}, "reason": "why  not"}'
SEARCH = ActionDecision(action="search", arguments={"field": "rent"}, reason="why not")
BARE = ActionDecision(action="search")

READ: list[Any] = [
    pytest.param(SAID, SEARCH, id="as asked"),
    pytest.param(f"```json\n{SAID}\n```", SEARCH, id="fenced"),
    pytest.param(f"I think:\n{SAID}\nThat is best.", SEARCH, id="in prose"),
    pytest.param(json.dumps(SAID), SEARCH, id="in quotes"),
    pytest.param(f"<think>or {{'a': 1}}? {SAID.replace('rent', 'wage')}</think>{SAID}", SEARCH, id="after a thought"),
    pytest.param(f"{SAID.replace('rent', 'wage')}</think>\n{SAID}", SEARCH, id="a thought without its beginning"),
    pytest.param(
        SAID.replace("why  not", "</think>"), SEARCH.model_copy(update={"reason": "</think>"}), id="a tag in it"
    ),
    pytest.param(f"{SAID}\nOnce more: {SAID}", SEARCH, id="said twice"),
    pytest.param("{'action': 'search', 'arguments': {'field': 'rent',}, 'reason': 'why not'}", SEARCH, id="mended"),
    pytest.param('{"action": "Ask User"}', ActionDecision(action="ask_user"), id="another spelling"),
    pytest.param('{"action": "ASK-USER", "arguments": {}}', ActionDecision(action="ask_user"), id="one more"),
    pytest.param('{"action": "search", "arguments": null, "reason": 3}', BARE, id="nothing and a number"),
    pytest.param(
        '{"action": "search", "arguments": {"a": NaN}}',
        ActionDecision(action="search", arguments={"a": None}),
        id="no number",
    ),
    pytest.param(
        '{"action": "search", "reason": "\\ud800"}',
        ActionDecision(action="search", reason="\ufffd"),
        id="half a character",
    ),
]


@pytest.mark.spec("002.15")
@pytest.mark.parametrize(("text", "decision"), READ)
def test_a_sloppy_reply_is_read(text: str, decision: ActionDecision) -> None:
    assert read_decision(text, ACTIONS) == decision


NESTED = '{"a":' * 300 + "1" + "}" * 300
UNREAD: list[Any] = [
    pytest.param("", "there is no JSON object", id="empty"),
    pytest.param(None, "it is no text", id="nothing"),
    pytest.param("search", "there is no JSON object", id="a word"),
    pytest.param('{"choice": "search"}', "there is no JSON object with an action", id="no action"),
    pytest.param('{"action": "fly"}', "'fly' is none of the actions search, ask_user, finish", id="unknown"),
    pytest.param('{"action": ["search"]}', "is none of the actions", id="a list"),
    pytest.param('{"action": null}', "None is none of the actions", id="null"),
    pytest.param(
        '{"action": "search", "arguments": [1]}', "the arguments are no JSON object", id="a list of arguments"
    ),
    pytest.param(
        '{"action": "search", "arguments": "rent"}', "the arguments are no JSON object", id="a word for arguments"
    ),
    pytest.param('{"action": "search", "query": "rent"}', "an unknown key, query; arguments must", id="no arguments"),
    pytest.param('{"action": "search", "arguments": {}, "q": 1, "r": 2}', "unknown keys, q, r", id="beside arguments"),
    pytest.param('{"action": "search", "args": {"a": 1}, "params": {"a": 2}}', '"args" and "params"', id="two kinds"),
    pytest.param('{"action": "search", "tool": "finish"}', 'twice, under "tool" and "action"', id="two names"),
    pytest.param('{"action": "search", "description": "rent"}', "an unknown key, description", id="words or argument"),
    pytest.param(f'{{"action": "search", "arguments": {NESTED}}}', "its arguments cannot be kept", id="too deep"),
    pytest.param(
        f'{SAID} or {{"action": "finish"}}', "there are 2 decisions in it, and they differ", id="two decisions"
    ),
    pytest.param(SAID.ljust(LONGEST + 1), "it is longer than", id="too long"),
    pytest.param(SAID[:-20], "there is no JSON object", id="cut off"),
    pytest.param("[" * 50_000, "there is no JSON object", id="brackets"),
    pytest.param("</think>" * 8_000, "there is no JSON object", id="thoughts"),
]


@pytest.mark.spec("002.15")
@pytest.mark.parametrize(("text", "problem"), UNREAD)
def test_what_is_no_decision_is_refused_and_told(text: object, problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_decision(text, ACTIONS)
    assert problem in caught.value.problem


def test_what_was_cut_off_is_not_mended() -> None:
    broken = "{'action': 'search', 'arguments': {}}"
    assert read_decision(broken, ACTIONS) == BARE
    with pytest.raises(PlanError, match="it was cut off"):
        read_decision(broken, ACTIONS, finished=False)


@given(st.text(alphabet=st.sampled_from('{}[]":, \\action`srch<>/thk\ud800é1'), max_size=200) | st.text())
def test_no_reply_does_more_than_be_refused(text: str) -> None:
    for each in (text, f'{{"action": "search", "arguments": {text}}}', f"{SAID}{text}"):
        try:
            read = read_decision(each, ACTIONS)
        except PlanError:
            continue
        assert read.action in ACTIONS
        assert ActionDecision.model_validate_json(read.model_dump_json()) == read


# --- asking --------------------------------------------------------------------


class Plain(TurnState):
    """Knows a goal."""

    goal: str = "know the rent"


def prompt(state: Plain) -> list[Message]:
    return [Message(role="system", content="Plan."), Message(role="user", content=state.goal)]


DESCRIBED = {"search": "look it up", "ask_user": ""}


@pytest.mark.spec("002.15")
async def test_a_model_that_takes_a_schema_is_sent_it_and_the_prompt_as_it_is() -> None:
    model = ScriptedModel(SAID, takes_schema=True)
    assert await ModelPlanner(model, prompt, DESCRIBED)(Plain()) == SEARCH
    assert model.calls == [tuple(prompt(Plain()))]
    assert model.schemas == [
        {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["search", "ask_user", "finish"]},
                "arguments": {"type": "object"},
                "reason": {"type": "string"},
            },
            "required": ["action", "arguments", "reason"],
            "additionalProperties": False,
        }
    ]


async def test_any_other_model_is_told_in_the_system_prompt() -> None:
    model = ScriptedModel(SAID)
    await ModelPlanner(model, prompt, DESCRIBED)(Plain())
    (system, user), *_ = model.calls
    assert model.schemas == [None]
    assert system.content.startswith("Plan.\n\nAnswer with one JSON object, ")
    assert system.content.endswith("The actions are:\n- search: look it up\n- ask_user\n- finish: end the turn")
    assert user.content == "know the rent"


def only_user(state: Plain) -> tuple[Message, ...]:
    return (Message(role="user", content=state.goal),)


async def test_without_a_system_prompt_there_is_one() -> None:
    model = ScriptedModel(SAID)
    await ModelPlanner(model, only_user, ACTIONS)(Plain())
    assert [each.role for each in model.calls[0]] == ["system", "user"]


async def test_whatever_a_selector_takes_as_a_model_plans_too() -> None:
    async def say(messages: Sequence[Message]) -> str:
        return SAID

    assert await ModelPlanner(say, prompt, ACTIONS)(Plain()) == SEARCH


async def test_the_call_is_traced() -> None:
    with Trace() as trace:
        await ModelPlanner(ScriptedModel(SAID), prompt, ACTIONS)(Plain())
    assert [(span.kind, span.content["reply"]) for span in trace] == [("chat", SAID)]


REPLIES: list[Any] = [
    pytest.param(ModelError("m", "busy", retryable=True), "ModelError: the model m failed: busy", id="it fails"),
    pytest.param("who knows", "PlanError: the model's reply cannot be used: there is no JSON", id="prose"),
    pytest.param('{"action": "fly"}', "'fly' is none of the actions", id="an unknown action"),
    pytest.param(Reply(text='{"action": "sea', finish_reason="length"), "it was cut off", id="cut off"),
]


@pytest.mark.spec("002.15")
@pytest.mark.parametrize(("reply", "reason"), REPLIES)
async def test_what_goes_wrong_ends_the_turn_after_one_call(reply: Any, reason: str) -> None:
    model = ScriptedModel(reply, SAID)
    router = Router(Plain, guards=(), routes={}, actions={}, plan=ModelPlanner(model, prompt, ACTIONS))
    run = await router.run(Plain())
    assert run.status == "finished"
    assert run.state.decision is not None
    assert (run.state.decision.action, run.state.decision.tier) == ("finish", Tier.OPEN)
    assert reason in run.state.decision.reason
    assert len(model.calls) == 1


async def test_a_model_that_hangs_is_given_up() -> None:
    planner = ModelPlanner(ScriptedModel(SAID, delay_s=30), prompt, ACTIONS, timeout_s=0.02)
    with pytest.raises(ModelTimeoutError, match=r"no answer within 0\.02 s"):
        await planner(Plain())


async def test_a_timeout_of_the_models_own_is_told_as_it_is() -> None:
    planner = ModelPlanner(ScriptedModel(TimeoutError("theirs")), prompt, ACTIONS)
    with pytest.raises(TimeoutError, match="theirs"):
        await planner(Plain())


async def test_a_cancelled_call_is_cancelled() -> None:
    task = asyncio.create_task(ModelPlanner(ScriptedModel(SAID, delay_s=30), prompt, ACTIONS)(Plain()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


WRONG: list[Any] = [
    pytest.param({"model": None}, "a planner needs a model", id="no model"),
    pytest.param({"model": 3}, "model cannot be 3", id="a number for a model"),
    pytest.param({"actions": "search"}, "not the one text 'search'", id="a text for actions"),
    pytest.param({"timeout_s": 0}, "timeout_s", id="no time"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_cannot_work_is_refused(changes: Mapping[str, Any], message: str) -> None:
    made: dict[str, Any] = {"model": ScriptedModel(SAID), "prompt": prompt, "actions": ACTIONS, **changes}
    with pytest.raises(ConfigError, match=message):
        ModelPlanner(**made)
