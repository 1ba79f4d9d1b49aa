"""What cannot work is refused when the selector is put together."""

from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.errors import ConfigError
from tests.unit.selector.shop import shop

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, "top_k is a whole number from 1, not 0"),
    ({"top_k": -3}, "top_k"),
    ({"top_k": 2.5}, "top_k"),
    ({"top_k": True}, "top_k"),
    ({"top_k": "3"}, "top_k"),
    ({"rrf_k": 0}, "rrf_k is a whole number from 1, not 0"),
    ({"rrf_k": None}, "rrf_k"),
    ({"timeout_s": 0}, "timeout_s"),
    ({"timeout_s": -1.0}, "timeout_s"),
    ({"timeout_s": float("nan")}, "timeout_s"),
    ({"timeout_s": float("inf")}, "None for no limit"),
    ({"timeout_s": "20"}, "timeout_s"),
    ({"timeout_s": True}, "timeout_s"),
    ({"on_empty": "top"}, 'on_empty is "top1" or "none", not \'top\''),
    ({"on_empty": None}, "on_empty"),
    ({"on_empty": []}, "on_empty"),
    ({"llm": 42}, "llm"),
    ({"flow_registry": []}, "flow_registry is a mapping"),
    ({"flow_registry": None}, "flow_registry"),
    ({"proc_mem": "index"}, "proc_mem needs"),
    ({"agent_id": None}, "agent_id is a string"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_an_argument_that_cannot_work_is_refused(wrong: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"llm": None, "flow_registry": shop()} | wrong
    with pytest.raises(ConfigError) as refused:
        FlowSelector(**arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "right", [{"timeout_s": None}, {"timeout_s": 1}, {"top_k": 1, "rrf_k": 1}, {"on_empty": "none"}]
)
def test_the_borders_are_inside(right: dict[str, Any]) -> None:
    FlowSelector(None, shop(), **right)
