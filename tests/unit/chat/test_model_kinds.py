"""A decision model where a chat model is wanted, and the reverse: refused where it is given, by name and by object."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from pydantic_ai.models import infer_model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.system_one import SystemOneModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles.decision import DecisionModelProfile
from pydantic_ai.providers.system_one import SystemOneProvider

from jazz_select import Agent, FlowRegistry, FlowSelector
from jazz_select.chat.client import client_for
from jazz_select.chat.models import as_chat_model, as_decision_model
from jazz_select.chat.pydantic_ai_model import PydanticAIDecisions, PydanticAIModel
from jazz_select.errors import ConfigError
from jazz_select.questions import DecisionReply, Question
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import Message, Reply

pytestmark = pytest.mark.spec("009.1")

NAMES = ["system-one:clm-latest", "openai-decisions:gpt-6-luna", "google-decisions:gemini-decision-1", "typesafe:jev"]


def system_one() -> SystemOneModel:
    return SystemOneModel("clm-latest", provider=SystemOneProvider(base_url="http://127.0.0.1:1"))


DECIDERS: list[Any] = [
    *(pytest.param(lambda name=name: name, id=name) for name in NAMES),
    pytest.param(system_one, id="a pydantic-ai model"),
    pytest.param(lambda: WrapperModel(system_one()), id="a wrapped one"),
    pytest.param(lambda: FallbackModel(TestModel(), system_one()), id="a fallback on one"),
    pytest.param(ScriptedDecider, id="an object that decides"),
    pytest.param(lambda: as_decision_model(system_one()), id="an adapter"),
]
WRITERS: list[Any] = [
    pytest.param(lambda: "openai:gpt-5-mini", id="a name"),
    pytest.param(lambda: "groq:some-model", id="a name whose package is missing"),
    pytest.param(TestModel, id="a pydantic-ai model"),
    pytest.param(lambda: WrapperModel(TestModel()), id="a wrapped one"),
    pytest.param(lambda: ScriptedModel("x"), id="an object that writes"),
    pytest.param(lambda: writes, id="a function"),
]


async def writes(messages: object) -> str:
    return str(messages)


def selector(llm: Any) -> FlowSelector:
    return FlowSelector(llm, FlowRegistry(min_examples=0), ListMemory([]), "a")


PLACES: dict[str, Callable[[Any], object]] = {
    "llm": selector,
    "model": client_for,
    "the agent's own": lambda llm: Agent(selector(None), model=llm),
    "a guided point": ModelDecision,
}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "SYSTEM_ONE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("decider", DECIDERS)
def test_a_decision_model_is_refused_where_one_that_writes_is_wanted(decider: Callable[[], Any], place: str) -> None:
    """Before a key or a package is looked for: with a key it would be refused all the same."""
    with pytest.raises(ConfigError, match=r"it is a decision model.* Give it as decider=, and as \w+ a chat model"):
        PLACES[place](decider())


@pytest.mark.parametrize("writer", WRITERS)
def test_a_chat_model_is_refused_where_one_that_decides_is_wanted(writer: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match=r"decider cannot be .* it is a chat model, .* Give it as llm="):
        as_decision_model(writer())


def test_a_fallback_is_no_decision_model() -> None:
    with pytest.raises(ConfigError, match=r"decider cannot be a model that falls back .* give one decision model"):
        as_decision_model(FallbackModel(system_one(), system_one()))


@pytest.mark.parametrize(
    ("decider", "problem"),
    [
        pytest.param(7, "decider cannot be 7. It may be None, an object with", id="a number"),
        pytest.param(ScriptedDecider, "the class ScriptedDecider itself", id="a class"),
        pytest.param("gpt-5", "names no provider", id="a name without a provider"),
        pytest.param("nobody:gpt-5", "Unknown model: nobody:gpt-5", id="a provider that nobody knows"),
        pytest.param("system-one:clm", "set the environment variable SYSTEM_ONE_BASE_URL", id="no address"),
        pytest.param("openai-decisions:x", "set the environment variable OPENAI_API_KEY", id="no key"),
    ],
)
def test_what_is_no_model_is_told(decider: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        as_decision_model(decider)


def test_what_decides_is_taken() -> None:
    assert as_decision_model(None) is None
    own = ScriptedDecider()
    assert as_decision_model(own) is own
    for each in (system_one(), WrapperModel(system_one())):
        found = as_decision_model(each)
        assert isinstance(found, PydanticAIDecisions)
        assert (found.name, found.most_options, found.most_tokens) == ("clm-latest", None, None)


@pytest.mark.spec("020.4")
def test_a_profile_declares_what_a_local_model_takes() -> None:
    provider = SystemOneProvider(base_url="http://127.0.0.1:1")
    profile = DecisionModelProfile(decision_max_choice_options=64, context_window=8_192)
    found = as_decision_model(SystemOneModel("clm", provider=provider, profile=profile))
    assert isinstance(found, PydanticAIDecisions)
    assert (found.most_options, found.most_tokens) == (64, 8_192)


def test_one_that_can_do_both_is_both() -> None:
    class Both(ScriptedModel):
        most_options = None

        async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
            return await ScriptedDecider("a").decide(state, questions)

    both = Both("x")
    assert as_chat_model(both) is both
    assert as_decision_model(cast("Any", both)) is both


def test_the_adapters_refuse_the_other_kind_too() -> None:
    with pytest.raises(ConfigError, match="model cannot be 'clm-latest'"):
        PydanticAIModel(system_one())
    with pytest.raises(ConfigError, match="model cannot be 'test'"):
        PydanticAIDecisions(TestModel())


def test_a_name_with_a_key_is_still_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with pytest.raises(ConfigError, match="it is a decision model"):
        as_chat_model("openai-decisions:gpt-6-luna")
    with pytest.raises(ConfigError, match="it is a chat model"):
        as_decision_model("openai:gpt-5-mini")
    found = as_decision_model("openai-decisions:gpt-6-luna")
    assert found is not None
    assert found.most_options == 255
    assert infer_model("openai-decisions:gpt-6-luna").model_name == "gpt-6-luna"


def test_a_chat_model_that_falls_back_on_chat_models_is_one() -> None:
    model = as_chat_model(FallbackModel(TestModel(custom_output_text="a"), TestModel(custom_output_text="b")))
    assert model is not None
    reply = asyncio.run(model.complete([Message(role="user", content="hi")]))
    assert isinstance(reply, Reply)
    assert reply.text == "a"
