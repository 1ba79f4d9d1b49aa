"""Doubles and port contracts for the tests of those who use or extend this library.

| Name | What it is |
|---|---|
| `ScriptedModel` | a chat model that gives the replies it was told to, and records what it was asked |
| `ScriptedDecider` | a decision model that gives the probabilities it was told to, and records what it was asked |
| `likely` | one option of a question with a probability, the rest spread over the others |
| `LIES` | what a bad decision model may answer, by name, for `ScriptedDecider` |
| `Cassette` | a chat model that replays what was recorded, by the digest of the prompt; a changed prompt is named |
| `Recorded` | one record of it |
| `ListMemory` | a procedural memory that recalls the candidates it was given |
| `HashEmbedder` | a deterministic embedder without a model: shared words and word parts are near |
| `FailingEmbedder` | an embedder that fails while it is told to |
| `MemoryClaims` | a store of claims that is gone with its process |
| `check_chat_model` | the contract of `jazz_select.ports.ChatModel`, to run on your own adapter |
| `check_decision_model` | the contract of `jazz_select.ports.DecisionModel`, to run on your own adapter |
| `check_claim_store` | the contract of `jazz_select.ports.ClaimStore`, to run on your own |
| `check_embedder` | the contract of `jazz_select.ports.Embedder`, to run on your own adapter |
| `check_flow_store` | the contract of `jazz_select.ports.FlowStore`, to run on your own adapter |
| `check_layouts` | that a store keeps vectors of different embedders apart |
| `check_second_vectors` | that a store of two vectors a flow asks each by itself |
| `PROVIDER_CASES` | what a model's provider may do over HTTP, each a `ProviderCase` |
| `check_provider_case` | that an adapter makes the right thing of such a case |
| `check_cancelling` | that an adapter that is cancelled passes it on and closes its connection |

```python
from jazz_select import FlowRegistry, FlowSelector
from jazz_select.testing import ListMemory, ScriptedModel


async def test_the_model_decides(registry: FlowRegistry) -> None:
    first, second = list(registry.values())[:2]
    memory = ListMemory({"flow_id": flow.id, "flow_name": flow.name} for flow in (first, second))
    model = ScriptedModel(f'["{second.id}"]')
    result = await FlowSelector(model, registry, memory, agent_id="test").select("money back")
    assert result.chosen_flows == [second]
    assert "money back" in model.calls[0][-1].content
```

Names are loaded on first use.
"""

from jazz_select.lazy import front

__getattr__, __dir__, __all__ = front(__name__)
