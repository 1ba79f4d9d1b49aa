"""What a flow says, as a frozen value: comparable, and the source of checksum and embedding text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import orjson

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubflowDefinition:
    """One part of a composite."""

    name: str
    when: str = ""
    """When this branch of a conditional is taken; empty for "otherwise", and in the other composites."""
    flow: "Definition | None" = None
    """None where a part that was given by name was not looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A flow's definition, with those of its parts."""

    name: str
    type: str
    description: str
    condition: str
    desired_effects: tuple[str, ...]
    examples: tuple[str, ...]
    aliases: tuple[str, ...]
    tools: tuple[str, ...]
    steps: tuple[str, ...]
    priority: tuple[int, int]
    parts: tuple[SubflowDefinition, ...] = ()

    def checksum(self) -> str:
        """SHA-256 over the definition as JSON, fields in their order; any change, also in a part, changes it."""
        return sha256(orjson.dumps(self)).hexdigest()

    def embedding_text(self) -> str:
        """All that tells this flow from another, one statement per line, the name also split into words."""
        words = split_name(self.name)
        name = self.name if words == self.name else f"{self.name} {words}"
        aliases = (f"{alias} {split_name(alias)}" if split_name(alias) != alias else alias for alias in self.aliases)
        lines = (name, self.description, self.condition, *self.desired_effects, *aliases, *self.examples)
        return "\n".join(line for line in lines if line.strip())


class Defined(Protocol):
    """What has a definition: every flow."""

    @property
    def id(self) -> str:
        """Follows from its name."""
        ...

    @property
    def aliases(self) -> Sequence[str]:
        """Other names that it goes by."""
        ...

    def compute_checksum(self) -> str:
        """Changes when what it says does."""
        ...


def digest_of(flows: Iterable[Defined]) -> str:
    """Of all that a catalogue says, whatever the order of flows and files: equal where nothing that counts changed.

    Raises:
        FlowValidationError: A part of a composite cannot be found.
    """
    told = sorted(f"{flow.id} {flow.compute_checksum()} {list(flow.aliases)!r}" for flow in flows)
    return sha256("\n".join(told).encode(errors="surrogatepass")).hexdigest()


def split_name(name: str) -> str:
    """`refund_order`, `refund-order` and `RefundOrder` as words: "refund order", "refund order", "Refund Order"."""
    return " ".join(word for word in _WORD_BREAK.split(name) if word)
