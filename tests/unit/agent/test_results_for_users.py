"""What tools return is told to a user by a flow's reply, a schema or a model, and by nothing else."""

import asyncio
from typing import Any

import pytest

from jazz_select.agent import TurnResult
from jazz_select.errors import ModelError
from jazz_select.routing import CHOOSE, Tool
from jazz_select.testing import ScriptedModel
from tests.unit.agent.turns import agent_of, obj, shop_of

RECORD = {"patient_id": "P-77", "internal_note": "difficult", "api_token": "sk-123", "name": "Ada"}
REPLY = "Good day, {name}."
SCHEMA = obj(name="string")


def look() -> dict[str, str]:
    return RECORD


async def told(chain: tuple[Any, ...], reply: str, *, model: Any = None, **options: Any) -> TurnResult:
    registry = shop_of(("look_up", ()))
    found = registry.by_name("look_up")
    assert found is not None
    vars(found).update(tools=("look",), chain=chain, reply=reply)
    return await agent_of(registry, [look], "look_up", model=model, **options).turn("look up")


TOLD = [
    pytest.param(("look",), "", None, {}, "done", "Look up is done.", id="no reply"),
    pytest.param(("look", CHOOSE), "", None, {}, "open", "This is about: Look up.", id="no reply, and open"),
    pytest.param(("look",), "{nothing_of_it}", None, {}, "done", "Look up is done.", id="a reply that lacks a fact"),
    pytest.param(("look",), REPLY, None, {}, "done", "Good day, Ada.", id="a reply"),
    pytest.param(("look",), "", None, {"schema": SCHEMA}, "done", '{"name":"Ada"}', id="a schema"),
    pytest.param(
        (),
        "",
        ScriptedModel('{"tool_call": {"tool": "finish_procedure"}}', "You are Ada."),
        {},
        "done",
        "You are Ada.",
        id="a model",
    ),
]


@pytest.mark.spec("005.7")
@pytest.mark.parametrize(("chain", "reply", "model", "options", "status", "text"), TOLD)
async def test_a_raw_output_is_never_told(
    chain: tuple[Any, ...], reply: str, model: Any, options: dict[str, Any], status: str, text: str
) -> None:
    result = await told(chain, reply, model=model, **options)
    assert (result.status, result.text) == (status, text)
    assert not [each for name, each in RECORD.items() if name != "name" and each in result.text]
    if chain:
        assert result.runs[0].known == RECORD, "it stays in the result"


async def test_a_model_that_formats_sees_what_tools_were_called_with_but_for_what_the_caller_knows() -> None:
    def book(room: str, session_token: str) -> dict[str, str]:
        return {"booked": "yes"}

    model = ScriptedModel('["book_it"]', '{"place": "R12"}')
    agent = agent_of(shop_of(("book_it", ("book",))), [book], "book_it", model=model, schema=obj(place="string"))
    result = await agent.turn("book it", context={"session_token": "sk-123"})
    assert result.status == "waiting"
    done = await agent.turn("R12", result.conversation, context={"session_token": "sk-123"})
    assert (done.value, done.runs[0].steps[0].arguments["session_token"]) == ({"place": "R12"}, "sk-123")
    prompt = "\n".join(message.content for message in model.calls[-1])
    assert '[tool call 0/book_it-1] book {"room": "R12"}' in prompt
    every = "\n".join(message.content for asked in model.calls for message in asked)
    assert "sk-123" not in every
    assert "session" not in every


async def hangs_up(**_: Any) -> None:
    raise asyncio.CancelledError  # of the tool's own: it began, and its outcome is unknown


def pays(**_: Any) -> dict[str, bool]:
    return {"paid": True}


def raises(**_: Any) -> None:
    msg = "the backend says 503"
    raise RuntimeError(msg)


def unreadable(**_: Any) -> object:
    return object()


UNHEARD = "Cancel was started, and its outcome is unknown: it may have been done."
NO_ANSWER = "I cannot answer right now because something that I need does not answer. Please ask again in a moment."
HALF = "Stop was started but could not be finished. Already done: Pay."
FAILING = [
    pytest.param(("cancel",), {"cancel": raises}, "Stop could not be done.", id="it raised"),
    pytest.param(("cancel",), {"cancel": hangs_up}, UNHEARD, id="its outcome is unknown"),
    pytest.param(("pay", "cancel"), {"pay": pays, "cancel": raises}, HALF, id="after something was destroyed"),
    pytest.param(("pay", "cancel"), {"pay": pays, "cancel": hangs_up}, f"{HALF} {UNHEARD}", id="both"),
    pytest.param(("pay",), {"pay": unreadable}, HALF, id="it ran, and returned what is no JSON"),
]


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(("chain", "functions", "text"), FAILING)
async def test_of_what_failed_users_are_told_what_was_done_and_what_nobody_knows(
    chain: tuple[str, ...], functions: dict[str, Any], text: str
) -> None:
    tools = [Tool(name=name, function=function, destructive=True) for name, function in functions.items()]
    result = await agent_of(shop_of(("stop", chain)), tools, "stop").turn("stop")
    assert (result.status, result.text) == ("failed", text)


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("function", "text"),
    [
        pytest.param(pays, "Done so far: Pay.", id="it was done"),
        pytest.param(hangs_up, UNHEARD.replace("Cancel", "Pay"), id="its outcome is unknown"),
        pytest.param(raises, NO_ANSWER, id="it raised"),
    ],
)
async def test_what_was_done_before_a_model_failed_is_told_though_no_model_says_it(function: Any, text: str) -> None:
    model = ScriptedModel('{"tool_call": {"tool": "pay"}}', ModelError("m", "gone", retryable=False))
    tool = Tool(name="pay", function=function, destructive=True)
    registry = shop_of(("stop", ()))
    found = registry.by_name("stop")
    assert found is not None
    vars(found).update(tools=("pay",))
    result = await agent_of(registry, [tool], "stop", model=model).turn("stop")
    assert result.status == "failed"
    assert result.text == (text if text == NO_ANSWER else f"This could not be finished. {text}")
