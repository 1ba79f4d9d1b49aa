"""Flows as authors write them: declared, with an `__init__`, and from data."""

import inspect
from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest

from jazz_select import BaseFlow, Flow, FlowRegistry
from jazz_select.errors import FlowValidationError

REQUESTS = ("send my money back", "refund please", "I want a refund", "return the payment", "get my cash back")


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry()


def flow(registry: FlowRegistry, name: str = "refund_order", **changes: Any) -> Flow:
    fields: dict[str, Any] = {
        "description": "Refund an order.",
        "condition": "The user wants money back.",
        "desired_effects": ["the order is refunded"],
        "examples": REQUESTS,
        **changes,
    }
    return Flow(name=name, **fields, registry=registry)


def test_a_declared_class_registers_one_instance_of_itself(registry: FlowRegistry) -> None:
    class RefundOrder(BaseFlow, registry=registry):
        name = "refund_order"
        description = "Refund an order."
        condition = "The user wants money back."
        desired_effects = ("the order is refunded",)
        examples = REQUESTS

    (only,) = registry.values()
    assert type(only) is RefundOrder
    assert RefundOrder.registry is registry
    assert only.id not in BaseFlow.registry


def test_without_a_description_the_docstring_is_it(registry: FlowRegistry) -> None:
    class Refund(BaseFlow, registry=registry):
        """Refund an order.

        And say so.
        """

        name = "refund_order"
        condition = "The user wants money back."
        desired_effects = ("the order is refunded",)
        examples = REQUESTS

    class Again(Refund):
        name = "refund_again"

    class Other(Refund):
        """Refund another way."""

        name = "refund_other"

    assert [type(f) for f in registry.values()] == [Refund, Again, Other]
    assert [f.description for f in registry.values()] == [
        "Refund an order.\n\nAnd say so.",
        "Refund an order.\n\nAnd say so.",
        "Refund another way.",
    ]


def test_a_base_for_others_is_not_registered_and_hands_its_registry_down(registry: FlowRegistry) -> None:
    class Support(BaseFlow, registry=registry):
        condition = "The user wants money back."
        desired_effects = ("the order is refunded",)
        examples = REQUESTS

    assert not registry

    class Refund(Support):
        name = "refund_order"
        description = "Refund an order."

    class Abstract(Refund):
        pass

    assert Abstract.name == "refund_order"
    assert [type(f) for f in registry.values()] == [Refund]


def test_an_author_may_write_an_init_and_each_instance_registers_itself(registry: FlowRegistry) -> None:
    class Lookup(BaseFlow):
        name = "never_by_itself"

        def __init__(self, thing: str) -> None:
            super().__init__(
                name=f"lookup_{thing}",
                description=f"Look up {thing}.",
                condition=f"The user asks for {thing}.",
                desired_effects=["known"],
                examples=[f"{thing} {n}" for n in range(5)],
                registry=registry,
            )

    line = inspect.currentframe()
    assert line is not None
    orders, users = Lookup("orders"), Lookup("users")
    assert list(registry.values()) == [orders, users]
    assert orders.place.endswith(f"test_base.py:{line.f_lineno - 2})")


def test_it_shows_kind_and_name(registry: FlowRegistry) -> None:
    assert repr(flow(registry)) == "<Flow 'refund_order'>"


@pytest.mark.spec("003.17")
@pytest.mark.parametrize("name", ["refund_order", "Erstattung größer", "退款", "a.b/c"])
def test_the_id_is_uuid5_of_the_name(registry: FlowRegistry, name: str) -> None:
    assert flow(registry, name).id == str(uuid5(NAMESPACE_DNS, name))


def test_the_place_names_class_file_and_line(registry: FlowRegistry) -> None:
    here = inspect.currentframe()
    assert here is not None
    made = flow(registry)
    assert "test_base.py:" in made.place
    assert made.place.startswith("Flow(…) (")

    class Refund(BaseFlow, registry=registry):
        """Refund."""

        name = "other"
        condition = "c"
        desired_effects = ("e",)
        examples = REQUESTS

    place = registry[registry_id(registry, "other")].place
    assert Refund.__qualname__ in place
    assert place.startswith(Refund.__module__)


def registry_id(registry: FlowRegistry, name: str) -> str:
    found = registry.by_name(name)
    assert found is not None
    return found.id


class Guarded(BaseFlow):
    """For those who are signed in."""

    condition = "c"
    desired_effects = ("e",)
    examples = REQUESTS

    def available(self, context: Mapping[str, Any]) -> bool:
        return bool(context.get("signed_in"))


def test_a_guard_is_optional_and_known_without_asking_it(registry: FlowRegistry) -> None:
    guarded = Guarded(name="guarded", registry=registry)
    plain = flow(registry)
    assert (plain.has_guard, plain.available({})) == (False, True)
    assert (guarded.has_guard, guarded.available({}), guarded.available({"signed_in": True})) == (True, False, True)


def test_the_card_is_the_definition(registry: FlowRegistry) -> None:
    made = flow(registry, tools=["pay"], aliases=["moneyBack"], priority=(2, 1), steps=["look", "pay"])
    card = made.card()
    assert (card.id, card.name, card.type) == (made.id, "refund_order", "flow")
    assert (card.examples, card.tools, card.priority) == (REQUESTS, ("pay",), (2, 1))
    assert card.text == made.build_embedding_text()
    assert card.checksum == made.compute_checksum()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("refund_order", "refund order"),
        ("RefundOrder", "Refund Order"),
        ("refund-order.v2", "refund order v2"),
        ("parseHTMLPage", "parse HTML Page"),
    ],
)
def test_the_embedding_text_holds_everything_and_the_name_in_words(
    registry: FlowRegistry, name: str, words: str
) -> None:
    text = flow(registry, name, aliases=["money_back"]).build_embedding_text()
    assert text.splitlines()[0] == f"{name} {words}"
    for part in ("Refund an order.", "wants money back", "is refunded", "money_back money back", *REQUESTS):
        assert part in text


CHANGES: list[tuple[str, Any]] = [
    ("description", "Other."),
    ("condition", "Other."),
    ("desired_effects", ["other"]),
    ("examples", REQUESTS[::-1]),
    ("tools", ["pay"]),
    ("steps", ["pay"]),
    ("aliases", ["pay"]),
    ("priority", (0, 1)),
]


@pytest.mark.spec("003.14")
@pytest.mark.parametrize(("field", "value"), CHANGES, ids=[field for field, _ in CHANGES])
def test_any_change_changes_the_checksum(field: str, value: Any) -> None:
    before, after = flow(FlowRegistry()), flow(FlowRegistry(), **{field: value})
    assert before.compute_checksum() == flow(FlowRegistry()).compute_checksum()
    assert after.compute_checksum() != before.compute_checksum()


def test_a_flow_that_was_edited_in_place_has_another_checksum(registry: FlowRegistry) -> None:
    made = flow(registry)
    before = made.compute_checksum()
    made.description = "Changed."
    assert made.compute_checksum() != before


def test_the_field_at_fault_is_data_of_the_error(registry: FlowRegistry) -> None:
    with pytest.raises(FlowValidationError) as caught:
        flow(registry, description="")
    assert (caught.value.flow, caught.value.field) == ("refund_order", "description")
    assert "test_base.py" in caught.value.place
