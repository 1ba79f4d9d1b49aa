"""A service's agents ask the decision model that its settings name, and none that is of another kind."""

from pathlib import Path

import pytest
import yaml

from jazz_select.errors import ConfigError
from jazz_select.service.agents import AgentSource, load_agents
from jazz_select.service.opened import open_service
from jazz_select.settings import Settings
from tests.unit.chat.decision_protocols import SYSTEM_ONE
from tests.unit.chat.loopback import Provider

pytestmark = pytest.mark.spec("009.1")

CATALOGUE = """
from jazz_select import Flow, tool_from_function

dropped = []


class Drop(Flow):
    name = "drop_it"
    description = "Drops what the user has."
    condition = "the user wants it dropped"
    desired_effects = ["it is dropped"]
    examples = ["drop it", "drop what I have", "let it be dropped", "get rid of it", "away with it"]
    tools = ["drop"]
    chain = ["drop"]


def drop() -> str:
    "Drop it."
    return "dropped"


TOOLS = [tool_from_function(drop, destructive=True)]
"""

OTHER = """

class Sing(Flow):
    name = "sing_it"
    description = "Sings what the user likes."
    condition = "the user wants to hear a song"
    desired_effects = ["it is sung"]
    examples = ["sing it", "sing what I like", "let it be sung", "a song for me", "what about a tune"]
"""


def settings_of(folder: Path, catalogue: str = CATALOGUE) -> Settings:
    flows = folder / "decider_flows.py"
    flows.write_text(catalogue, "utf-8")
    return Settings(index=folder / "index", embedder="static", serve_state=folder, flows=str(flows))


async def test_it_hears_a_yes_in_other_words(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAZZ_DECIDER", SYSTEM_ONE.model)
    settings = settings_of(tmp_path)
    assert settings.decider == SYSTEM_ONE.model
    provider.gives = lambda labels: {label: float(label == "yes") for label in labels}
    async with open_service(settings, [AgentSource(settings=settings)]) as served:
        agent = served[settings.agent_id].live.agent
        asked = await agent.turn("drop it")
        assert asked.status == "confirming", asked.reason
        turn = await agent.turn("Yes please. I do not need a receipt.", asked.conversation)
    assert turn.status == "done", turn.reason
    assert turn.notes[0] == f"the decider {SYSTEM_ONE.model} read the message as yes, at 1.00"
    assert {*provider.paths} == {SYSTEM_ONE.path}


@pytest.mark.spec("009.2")
@pytest.mark.parametrize("max_error", [None, 0.01])
async def test_it_is_asked_which_flow_fits_with_a_budget_and_without(
    tmp_path: Path, provider: Provider, max_error: float | None
) -> None:
    changes = {"decider": SYSTEM_ONE.model, "max_error": max_error}
    settings = settings_of(tmp_path, CATALOGUE + OTHER).model_copy(update=changes)
    provider.gives = lambda labels: {label: float(label == "none") for label in labels}
    async with open_service(settings, [AgentSource(settings=settings)]) as served:
        selected = await served[settings.agent_id].live.selector.select("what is there to be had")
        turn = await served[settings.agent_id].live.agent.turn("what is there to be had")
    assert "decider" in [each.name for each in selected.decision.stages]
    assert turn.selection is not None
    assert "decider" in [each.name for each in turn.selection.decision.stages]


@pytest.mark.spec("009.2")
async def test_each_of_several_agents_has_its_own(tmp_path: Path, provider: Provider) -> None:
    base = settings_of(tmp_path, CATALOGUE + OTHER).model_copy(update={"decider": "system-one:other", "ask_user": True})
    (tmp_path / "agents.yaml").write_text(
        yaml.safe_dump(
            {
                "agents": {
                    name: {"flows": "decider_flows.py", "key_sha256": digit * 64, **own}
                    for name, digit, own in (
                        ("asks", "a", {"decider": SYSTEM_ONE.model, "max_error": 0.2, "ask_user": False}),
                        ("asks_none", "b", {"decider": "none"}),
                    )
                }
            }
        ),
        "utf-8",
    )
    sources = load_agents(tmp_path / "agents.yaml", base)
    told = [(each.settings.decider, each.settings.max_error, each.settings.ask_user) for each in sources]
    assert told == [(SYSTEM_ONE.model, 0.2, False), (None, None, True)]
    provider.gives = lambda labels: {label: float(label == "none") for label in labels}
    async with open_service(base, sources) as served:
        for name in ("asks", "asks_none"):
            await served[name].live.selector.select("what is there to be had")
            assert provider.paths == [SYSTEM_ONE.path]


@pytest.mark.parametrize(
    "wrong", [{"max_error": 2}, {"max_error": "few"}, {"ask_user": "often"}, {"decider": 7}], ids=str
)
def test_an_entry_that_cannot_work_is_refused_by_its_name(tmp_path: Path, wrong: dict[str, object]) -> None:
    agents = {"agents": {"a": {"flows": "decider_flows.py", "key_sha256": "a" * 64, **wrong}}}
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump(agents), "utf-8")
    with pytest.raises(ConfigError, match=rf"agents\.a\.{next(iter(wrong))}"):
        load_agents(tmp_path / "agents.yaml", settings_of(tmp_path))


async def test_one_that_writes_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = settings_of(tmp_path).model_copy(update={"decider": "openai:gpt-5-mini"})
    with pytest.raises(ConfigError, match="decider cannot be 'openai:gpt-5-mini': it is a chat model"):
        async with open_service(settings, [AgentSource(settings=settings)]):
            pass
