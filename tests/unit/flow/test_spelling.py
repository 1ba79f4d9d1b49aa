"""A field that is spelt almost right is told; what is an author's own is left alone."""

from typing import Any, ClassVar

import pytest

from jazz_select import BaseFlow, ConditionalFlow, FlowRegistry, SequentialFlow
from jazz_select.errors import FlowValidationError

REFUND: dict[str, Any] = {
    "name": "refund_order",
    "description": "Refund an order.",
    "condition": "The user wants money back.",
    "desired_effects": ["the order is refunded"],
    "examples": ["send my money back", "refund please", "I want a refund", "return the payment", "get my cash back"],
}


def declare(base: type[BaseFlow] = BaseFlow, /, **attributes: Any) -> FlowRegistry:
    registry = FlowRegistry()
    type("Refund", (base,), attributes, registry=registry)
    return registry


@pytest.mark.parametrize(
    ("written", "meant", "base"),
    [
        pytest.param("example", "examples", BaseFlow, id="singular"),
        pytest.param("exmaples", "examples", BaseFlow, id="turned letters"),
        pytest.param("desired_effect", "desired_effects", BaseFlow, id="two words"),
        pytest.param("conditions", "condition", BaseFlow, id="plural"),
        pytest.param("tool", "tools", BaseFlow, id="an optional field"),
        pytest.param("names", "name", BaseFlow, id="the name"),
        pytest.param("chian", "chain", BaseFlow, id="what runs"),
        pytest.param("replay", "reply", BaseFlow, id="what is told"),
        pytest.param("titel", "title", BaseFlow, id="what users are told"),
        pytest.param("optional_tool", "optional_tools", BaseFlow, id="what it can do without"),
        pytest.param("manuel", "manual", BaseFlow, id="who does it"),
        pytest.param("flow", "flows", SequentialFlow, id="parts"),
        pytest.param("branchs", "branches", ConditionalFlow, id="branches"),
    ],
)
def test_a_field_that_is_misspelt_is_told(written: str, meant: str, base: type[BaseFlow]) -> None:
    fields = {key: value for key, value in REFUND.items() if key != meant}
    with pytest.raises(FlowValidationError, match=f"did you mean '{meant}'") as caught:
        declare(base, **fields, **{written: ["one"]})
    assert caught.value.field == written
    assert caught.value.flow == fields.get("name", "Refund")
    assert "test_spelling.py:" in caught.value.place


def test_a_base_for_others_is_read_as_well() -> None:
    with pytest.raises(FlowValidationError, match="did you mean 'tools'"):
        declare(tool=["lookup_order"])


OWN: list[Any] = [
    pytest.param({"tool": repr}, id="a method"),
    pytest.param({"tool": property(lambda self: "x")}, id="a property"),
    pytest.param({"tool": object()}, id="an object"),
    pytest.param({"_example": "x"}, id="private"),
    pytest.param({"_tools": ["x"]}, id="private, and no field has it"),
    pytest.param({"TOOLS": ["x"]}, id="a constant"),
    pytest.param({"team": "billing"}, id="another word"),
    pytest.param({"flow": "x"}, id="a part of a flow that has none"),
    pytest.param({"example": "x"}, id="beside the field itself"),
    pytest.param({"names": ["x"]}, id="beside the name"),
    pytest.param({"tool": "x", "__annotations__": {"tool": str}}, id="annotated"),
]


@pytest.mark.parametrize("own", OWN)
def test_an_attribute_of_the_author_is_left_alone(own: dict[str, Any]) -> None:
    assert declare(**REFUND, **own).by_name("refund_order") is not None


def test_what_a_base_has_may_be_set_again() -> None:
    class Tooled(BaseFlow):
        tool: ClassVar[str] = "lookup_order"

    assert declare(Tooled, **REFUND, tool="issue_refund").by_name("refund_order") is not None


@pytest.mark.parametrize(("count", "missing"), [(4, "add 1 more request in"), (3, "add 2 more requests in")])
def test_what_is_missing_is_counted(count: int, missing: str) -> None:
    with pytest.raises(FlowValidationError, match=missing):
        declare(**{**REFUND, "examples": REFUND["examples"][:count]})
