"""Asking chat models: whatever the caller has becomes a `jazz_select.ports.ChatModel`, and one client asks it.

`models.as_chat_model` makes a `ChatModel` of an object, an async function, a model string or a pydantic-ai `Model`.
`client.ChatClient` asks it within a deadline; nothing else in the package does. `json_reader` parses replies.

To write an adapter, give an object one method, and let `check_chat_model` check it; there is no base class and nothing
to register:

```python
from collections.abc import Sequence

from jazz_select.errors import ModelError
from jazz_select.testing import check_chat_model
from jazz_select.values import Message, Reply


class HouseModel:
    async def complete(self, messages: Sequence[Message]) -> Reply:
        try:
            text = await ask_the_house([(m.role, m.content) for m in messages])
        except ConnectionError as error:
            raise ModelError("house", str(error), retryable=True) from error
        return Reply(text=text, model="house")


async def test_contract() -> None:
    await check_chat_model(HouseModel())
```

A model that accepts a JSON schema sets `takes_schema = True` and takes one: `complete(messages, *, schema=None)`.
`PROVIDER_CASES` are what its provider may do: run a server that acts them out, and pass the model to
`check_provider_case`.

Raise `ModelError` for the provider's failures, with the provider's own error as its cause; let your own bugs and
`asyncio.CancelledError` through.
"""
