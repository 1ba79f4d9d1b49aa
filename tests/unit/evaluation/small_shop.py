"""Flows of a few words each, for tests in which meaning does not matter."""

from collections.abc import Sequence

from jazz_select import Flow, FlowRegistry

REQUESTS = {
    "refund": ["money back please", "refund my order", "i want a refund", "return and refund", "give the money back"],
    "track": ["where is my parcel", "track my order", "has it shipped", "parcel tracking", "when does it arrive"],
    "invoice": ["send the invoice", "i need a bill", "invoice copy", "receipt for taxes", "bill for my order"],
}


def add(registry: FlowRegistry, name: str, examples: Sequence[str] = ()) -> None:
    """A flow about its name; without examples of its own, with six that are told from others by the name alone."""
    said = [f"{words} {name}" for words in ("a question on the", "my", "help with", "lost", "change", "new")]
    Flow(
        name=name,
        description=f"All about {name}.",
        condition=f"The user asks for {name}.",
        desired_effects=[f"{name} is done"],
        examples=examples or said,
        registry=registry,
    )
