"""Test doubles and port contracts for users and extenders of this library.

| Name | What it is |
|---|---|
| `ScriptedModel` | a chat model that gives scripted replies, and records its calls |
| `ScriptedDecider` | a decision model that gives scripted probabilities, and records its calls |
| `likely` | one option of a question with a probability, the rest spread over the others |
| `LIES` | invalid answers of a decision model, by name, for `ScriptedDecider` |
| `Cassette` | a chat model that replays recorded replies, by the digest of the prompt; it names a changed prompt |
| `Recorded` | one record of it |
| `ListMemory` | a procedural memory that recalls given candidates |
| `HashEmbedder` | a deterministic embedder without a model: shared words and word parts are near |
| `FailingEmbedder` | an embedder that fails on request |
| `MemoryClaims` | a claim store in memory |
| `check_chat_model` | the contract of `jazz_select.ports.ChatModel`, to run on your own adapter |
| `check_decision_model` | the contract of `jazz_select.ports.DecisionModel`, to run on your own adapter |
| `check_claim_store` | the contract of `jazz_select.ports.ClaimStore`, to run on your own |
| `check_log_store` | the contract of `jazz_select.outcomes.store.LogStore`, to run on your own |
| `check_embedder` | the contract of `jazz_select.ports.Embedder`, to run on your own adapter |
| `check_flow_store` | the contract of `jazz_select.ports.FlowStore`, to run on your own adapter |
| `check_layouts` | that a store keeps vectors of different embedders apart |
| `check_second_vectors` | that a store with two vectors a flow keeps them apart |
| `PROVIDER_CASES` | what a model's provider may do over HTTP, each a `ProviderCase` |
| `check_provider_case` | that an adapter handles such a case |
| `check_cancelling` | that a cancelled adapter passes the cancellation on and closes its connection |

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
