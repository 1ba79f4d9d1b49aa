"""What cannot work is refused with its name: when the selector is put together, or when it is asked."""

from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.chat.decisions import DecisionClient
from jazz_select.chat.pydantic_ai_model import PydanticAIDecisions
from jazz_select.errors import ConfigError
from jazz_select.selector.policy import Policy
from jazz_select.testing import ScriptedDecider
from tests.unit.selector.shop import shop

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, 'top_k must be a whole number from 1, or "auto", got 0'),
    ({"top_k": -3}, "top_k"),
    ({"top_k": 2.5}, "top_k"),
    ({"top_k": True}, "top_k"),
    ({"top_k": "3"}, "top_k"),
    ({"top_k": "all"}, "or \"auto\", got 'all'"),
    ({"rrf_k": 0}, "rrf_k must be a whole number from 1, got 0"),
    ({"rrf_k": None}, "rrf_k"),
    ({"timeout_s": 0}, "timeout_s"),
    ({"timeout_s": -1.0}, "timeout_s"),
    ({"timeout_s": float("nan")}, "timeout_s"),
    ({"timeout_s": float("inf")}, "None for no limit"),
    ({"timeout_s": "20"}, "timeout_s"),
    ({"timeout_s": True}, "timeout_s"),
    (
        {"policy": "careful"},
        "policy must be a Policy, or the name of one: 'default', 'recommended' or 'cautious', got 'careful'",
    ),
    ({"policy": None}, "policy"),
    ({"policy": {"max_error": 0.01}}, "policy"),
    ({"llm": 42}, "llm"),
    ({"flow_registry": []}, "flow_registry must be a mapping"),
    ({"flow_registry": None}, "flow_registry"),
    ({"proc_mem": "index"}, "proc_mem must be a memory with"),
    ({"agent_id": None}, "agent_id must be a string"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_an_argument_that_cannot_work_is_refused(wrong: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"llm": None, "flow_registry": shop()} | wrong
    with pytest.raises(ConfigError) as refused:
        FlowSelector(**arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "right",
    [{"timeout_s": None}, {"timeout_s": 1}, {"top_k": 1, "rrf_k": 1}, {"policy": "cautious"}, {"policy": Policy()}],
)
def test_the_borders_are_inside(right: dict[str, Any]) -> None:
    FlowSelector(None, shop(), **right)


ASKED: list[tuple[dict[str, Any], str]] = [
    ({"enhanced_query": None}, "enhanced_query must be what the user wants, as a string, got None"),
    ({"enhanced_query": b"money back"}, "enhanced_query"),
    ({"enhanced_query": ["money back"]}, "enhanced_query"),
    ({"context": "abc"}, "context must be a mapping such as {'authenticated': True}, or None, got 'abc'"),
    ({"context": [("a", 1)]}, "context"),
    ({"episode_summaries": 3}, "episode_summaries must be a list of strings, or None, got 3"),
    ({"episode_summaries": ["earlier", None]}, "episode_summaries"),
    ({"enhanced_query": "", "context": 3}, "context"),
]


@pytest.mark.parametrize(("wrong", "message"), ASKED, ids=[str(wrong) for wrong, _ in ASKED])
async def test_a_request_of_the_wrong_kind_is_refused(wrong: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"enhanced_query": "money back"} | wrong
    with pytest.raises(ConfigError) as refused:
        await FlowSelector(None, shop()).select(**arguments)
    assert message in str(refused.value)


async def test_a_decision_model_is_closed_by_who_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Closing(ScriptedDecider):
        async def aclose(self) -> None:
            closed.append("the caller's")

    async def close(_: object) -> None:
        closed.append("the selector's")

    monkeypatch.setenv("SYSTEM_ONE_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SYSTEM_ONE_API_KEY", "a-key")
    monkeypatch.setattr(PydanticAIDecisions, "aclose", close)
    async with FlowSelector(None, shop(), decider=DecisionClient(Closing(), owned=True)):
        pass
    assert closed == []
    async with FlowSelector(None, shop(), decider="system-one:any"):
        pass
    assert closed == ["the selector's"]
