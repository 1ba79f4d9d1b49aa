"""Requests to recall that cannot be put: each is refused with what was expected, before anything is looked up."""

from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError
from jazz_select.testing import HashEmbedder


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"query": None}, "must be a string, got None", id="no query"),
        pytest.param({"query": b"refund"}, "must be a string, got b'refund'", id="bytes"),
        pytest.param({"query": "refund", "focus": 7}, "must be a string, got 7", id="focus"),
        pytest.param({"query": "refund", "exclude": [1]}, "an id in exclude must be a string, got 1", id="ids"),
        pytest.param({"query": "refund", "top_k": 0}, "top_k must be a whole number", id="none wanted"),
        pytest.param({"query": "refund", "top_k": "few"}, "top_k must be a whole number", id="another word"),
        pytest.param({"query": "refund", "top_k": "auto", "coverage": 1}, "coverage must be", id="certainty"),
        pytest.param({"query": "refund", "rrf_k": True}, "rrf_k must be", id="a truth value"),
    ],
)
async def test_a_request_of_the_wrong_kind_is_refused(given: dict[str, Any], told: str) -> None:
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        with pytest.raises(ConfigError, match=told):
            await memory.recall(given.pop("query"), "support", **given)
