"""Every turn ends with a text that can be shown, however it ends, and in the user's language."""

from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Conversation, Route, TurnInput, guard
from jazz_select.errors import CannotDo, ModelError
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.texts import default_texts
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("019.8")


class Nothing(ListMemory):
    """A memory that finds nothing."""

    def __init__(self) -> None:
        super().__init__([])


def works() -> dict[str, str]:
    return {}


def breaks() -> dict[str, str]:
    msg = "out of order"
    raise OSError(msg)


def refuses() -> dict[str, str]:
    raise CannotDo("It is too late for that.")


@guard("closed")
def blocks(state: TurnInput) -> Route:
    return Route("closed")


@guard("closed")
def fails(state: TurnInput) -> Route:
    msg = "the guard is out of order"
    raise OSError(msg)


def agent(*, chain: Any = (), tool: Any = works, memory: Any = None, model: Any = None, **options: Any) -> Agent:
    registry = FlowRegistry(min_examples=0)
    manual = options.pop("manual", False)
    tools = ["act"] if chain or not manual else []
    Flow(name="fix", title="A repair", condition="c", tools=tools, chain=chain, manual=manual, registry=registry)
    found = memory if memory is not None else ListMemory(metadata("fix"))
    selector = FlowSelector(None, registry, found, "desk", policy=TAKE_FIRST)
    return make_agent(selector, [Tool(name="act", function=tool)], model, approval="never", **options)


ENDS: list[Any] = [
    pytest.param({"memory": Nothing()}, "open", "I found nothing here that fits this. I can help with: A repair."),
    pytest.param({}, "open", "This is about: A repair."),
    pytest.param({"chain": ("act",), "tool": breaks}, "failed", "A repair could not be done."),
    pytest.param({"chain": ("act",), "tool": refuses}, "blocked", "It is too late for that."),
    pytest.param({"manual": True}, "blocked", "A repair cannot be done here."),
    pytest.param({"guards": [blocks]}, "blocked", "I cannot help with that here."),
    pytest.param(
        {"guards": [blocks], "facts": {"support": "help@desk.example"}},
        "blocked",
        "I cannot help with that here. Please contact help@desk.example.",
    ),
    pytest.param({"chain": ("act",)}, "done", "A repair is done."),
]


@pytest.mark.parametrize(
    ("options", "status", "text"),
    ENDS,
    ids=["nothing fits", "no chain", "failed", "refused", "manual", "guard", "guard, and where to turn", "done"],
)
async def test_a_turn_ends_with_words(options: dict[str, Any], status: str, text: str) -> None:
    result = await agent(**options).turn("fix it")
    assert (result.status, result.text) == (status, text)


async def test_of_many_flows_those_that_recall_found_nearest_are_offered() -> None:
    registry = FlowRegistry(min_examples=0)
    for number in range(8):
        Flow(name=f"fix_{number}", title=f"Repair {number}", condition="c", registry=registry)
    near = ListMemory(metadata("fix_7", "fix_5"))
    made = make_agent(FlowSelector(None, registry, near, "desk"), [Tool(name="act", function=works)])
    result = await made.turn("fix it")
    offered = "Repair 7, Repair 5, Repair 0, Repair 1, Repair 2, Repair 3"
    assert result.text == f"I found nothing here that fits this. I can help with: {offered}."


DOWN = ScriptedModel(ModelError("m", "down", retryable=False))
OTHERS: list[Any] = [
    pytest.param({"guards": [fails]}, id="a guard that fails"),
    pytest.param(
        {"model": ScriptedModel(ModelError("m", "down", retryable=False)), "memory": Nothing()},
        id="a model that is down",
    ),
    pytest.param({"model": ScriptedModel("")}, id="a model that says nothing"),
    pytest.param({"model": ScriptedModel(""), "memory": Nothing()}, id="a model that answers nothing"),
    pytest.param({"schema": {"type": "object"}, "memory": Nothing()}, id="a schema, and nothing to fill it"),
]


@pytest.mark.parametrize("options", OTHERS)
async def test_and_whatever_goes_wrong(options: dict[str, Any]) -> None:
    asked = {"schema": options.pop("schema")} if "schema" in options else {}
    result = await agent(**options).turn("fix it", **asked)
    assert result.text.strip(), (result.status, result.reason)


@pytest.mark.parametrize("language", [*default_texts()])
async def test_in_the_language_of_the_user(language: str) -> None:
    texts = default_texts()[language]
    said = {
        "en": "I want to return this, please",
        "de": "Ich möchte das bitte zurückgeben",
        "fr": "Je voudrais être remboursé",
        "es": "Quiero que me devuelvan el dinero",
        "it": "Vorrei essere rimborsato",
        "ru": "Верните мне деньги",
        "ja": "返金してください",
    }
    result = await agent(memory=Nothing()).turn(said[language])
    assert result.text == f"{texts['no_flow']} {texts['can_do'].format(titles='A repair')}"


async def test_thanks_is_no_wish_that_nothing_fits() -> None:
    first = await agent(memory=Nothing()).turn("thank you")
    assert first.text == "I can help with: A repair."


async def test_a_caller_replaces_the_words() -> None:
    made = agent(memory=Nothing(), texts={"no_flow": "Sorry?", "can_do": "We do: {titles}."})
    result = await made.turn("fix it")
    assert result.text == "Sorry? We do: A repair."
    assert Conversation.from_json(result.conversation.to_json()).messages[-1].content == result.text
