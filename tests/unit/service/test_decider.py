"""A service's agents ask the decision model that its settings name, and none that is of another kind."""

from pathlib import Path

import pytest

from jazz_select.errors import ConfigError
from jazz_select.service.opened import AgentSource, opened
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


def settings_of(folder: Path) -> Settings:
    flows = folder / "decider_flows.py"
    flows.write_text(CATALOGUE, "utf-8")
    return Settings(index=folder / "index", embedder="static", serve_state=folder, flows=str(flows))


async def test_it_hears_a_yes_in_other_words(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAZZ_DECIDER", SYSTEM_ONE.model)
    settings = settings_of(tmp_path)
    assert settings.decider == SYSTEM_ONE.model
    provider.gives = lambda labels: {label: float(label == "yes") for label in labels}
    async with opened(settings, [AgentSource(settings=settings)]) as served:
        agent = served[settings.agent_id].live.agent
        asked = await agent.turn("drop it")
        assert asked.status == "confirming", asked.reason
        turn = await agent.turn("yep that works for me", asked.conversation)
    assert turn.status == "done", turn.reason
    assert turn.notes[0] == f"the decider {SYSTEM_ONE.model} read the message as yes, at 1.00"
    assert provider.paths == [SYSTEM_ONE.path]


async def test_one_that_writes_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = settings_of(tmp_path).model_copy(update={"decider": "openai:gpt-5-mini"})
    with pytest.raises(ConfigError, match="decider cannot be 'openai:gpt-5-mini': it is a chat model"):
        async with opened(settings, [AgentSource(settings=settings)]):
            pass
