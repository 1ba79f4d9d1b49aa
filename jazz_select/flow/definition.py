"""A flow's content as a frozen value: the source of its checksum, embedding text and prompt XML."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree as ET

import orjson

from jazz_select.text import clean, in_one_line

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubflowDefinition:
    """One part of a composite."""

    name: str
    when: str = ""
    """The condition of a branch; empty for "otherwise" and in other composites."""
    flow: "Definition | None" = None
    """None if a part given by name was not looked up."""


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
        """SHA-256 over the definition as JSON, parts included."""
        return sha256(orjson.dumps(self)).hexdigest()

    def embedding_text(self) -> str:
        """All distinguishing content, one statement per line, the name also split into words."""
        name = _with_words(self.name)
        aliases = map(_with_words, self.aliases)
        lines = (name, self.description, self.condition, *self.desired_effects, *aliases, *self.examples)
        return "\n".join(line for line in lines if line.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDefinition(Definition):
    """The definition of a flow that is an Agent Skill.

    Attributes:
        instructions: What the model follows, as Markdown.
        first_section: The part of it that recall reads.
        reading: How a file of the skill is read, for the model.
        files: The paths of the files.
    """

    instructions: str = ""
    first_section: str = ""
    reading: str = ""
    files: tuple[str, ...] = ()

    def embedding_text(self) -> str:
        """All distinguishing content, and the first section of the instructions."""
        # Two arguments: the decorator makes another class for the slots, which a bare super() would not find.
        lines = (super(SkillDefinition, self).embedding_text(), self.first_section)
        return "\n".join(line for line in lines if line.strip())


def split_name(name: str) -> str:
    """Split a name: `refund_order`, `refund-order` and `RefundOrder` give "refund order" or "Refund Order"."""
    return " ".join(word for word in _WORD_BREAK.split(name) if word)


def _with_words(name: str) -> str:
    words = split_name(name)
    return name if words == name else f"{name} {words}"


_SENTENCES = (
    ("description", "What the flow does."),
    ("condition", "When this flow is the right one; it decides the choice."),
)
_LISTS = (
    ("desired_effects", "effect", "What is true once the flow has run; breaks ties between similar flows."),
    ("tools", "tool", "The tools that the steps may call."),
    ("steps", "step", "The procedure, in order."),
)
_PARTS = {
    "sequential": "The sub flows, to be run one after the other.",
    "parallel": "The sub flows, to be run side by side; none needs the result of another.",
    "conditional": "One branch is taken: the first whose `when` holds, else `otherwise`.",
}


def render(definition: Definition, *, notes: Sequence[str] | None = None) -> str:
    """Return the XML of a flow and its subflows.

    With `notes`, lines for developers, comments also explain each section; the rest of the XML is the same.
    """
    verbose = notes is not None
    root = _element(definition, verbose=verbose)
    for position, note in enumerate(notes or ()):
        root.insert(position, _comment(note))
    ET.indent(root, space="  " if verbose else " ")
    return ET.tostring(root, encoding="unicode")


def _element(definition: Definition, *, verbose: bool) -> ET.Element:
    node = ET.Element("flow", name=clean(definition.name), type=clean(definition.type))

    def add(field: str, purpose: str) -> ET.Element:
        if verbose:
            node.append(_comment(purpose))
        return ET.SubElement(node, field)

    if verbose and definition.examples:
        requests = "\n".join(f"- {example}" for example in definition.examples)
        node.append(_comment(f"Requests that mean this flow:\n{requests}"))
    for field, purpose in _SENTENCES:
        if text := getattr(definition, field):
            add(field, purpose).text = clean(text)
    for field, tag, purpose in _LISTS:
        if items := getattr(definition, field):
            section = add(field, purpose)
            for item in items:
                ET.SubElement(section, tag).text = clean(item)
    _add_skill(definition, add)
    if definition.parts:
        is_choice = definition.type == "conditional"
        section = add("subflows", _PARTS.get(definition.type, "The sub flows."))
        element_of = partial(_element, verbose=verbose)
        section.extend(_part(part, element_of, conditional=is_choice) for part in definition.parts)
    return node


def _add_skill(definition: Definition, add: Callable[[str, str], ET.Element]) -> None:
    """Add what only a skill has."""
    if not isinstance(definition, SkillDefinition):
        return
    add("instructions", "What to do, in the author's words.").text = f"\n{_indent(definition.instructions)}\n "
    if definition.files:
        section = add("files", f"The files of the skill; {definition.reading}.")
        for path in definition.files:
            ET.SubElement(section, "file").text = clean(path)


def render_followed(definition: Definition) -> str:
    """Return the flow for a model that follows it and has its tools: one line per statement, parts as XML."""
    return ET.tostring(_flow_element(replace(definition, condition="")), encoding="unicode")


def _flow_element(definition: Definition) -> ET.Element:
    node = ET.Element("flow", name=clean(definition.name))
    lines: list[str] = []
    if definition.description:
        lines.append(definition.description)
    if definition.condition:
        lines.append(f"condition: {definition.condition}")
    if definition.desired_effects:
        lines.append(f"desired effects: {'; '.join(definition.desired_effects)}")
    lines += [f"- {step}" for step in definition.steps]
    # Put each on one line, so that no text can pass for another statement.
    shown = [in_one_line(clean(line)) for line in lines]
    node.text = "\n".join(("", *shown, ""))
    if isinstance(definition, SkillDefinition):
        node.text += f"instructions:\n{_indent(definition.instructions)}\n"
        if definition.files:
            node.text += in_one_line(clean(f"files ({definition.reading}): {', '.join(definition.files)}")) + "\n"
    if definition.parts:
        node.set("type", clean(definition.type))
        is_choice = definition.type == "conditional"
        node.extend(_part(part, _flow_element, conditional=is_choice) for part in definition.parts)
        for part in node:
            part.tail = "\n"
    return node


def _indent(text: str) -> str:
    """Return Markdown line by line, each indented, so that none can pass for a heading of the prompt around it."""
    indented: list[str] = []
    for line in clean(text).split("\n"):
        bare = in_one_line(line)
        indented.append(f"  {bare}" if bare.strip() else "")
    return "\n".join(indented)


def _part(part: SubflowDefinition, element_of: Callable[[Definition], ET.Element], *, conditional: bool) -> ET.Element:
    if part.flow is None:
        flow = ET.Element("flow", name=clean(part.name))
    else:
        flow = element_of(part.flow)
    if not conditional:
        return flow
    if part.when:
        branch = ET.Element("branch", when=clean(part.when))
    else:
        branch = ET.Element("otherwise")
    branch.append(flow)
    return branch


def _comment(text: str) -> "ET.Element[Any]":
    # An XML comment may not contain "--" or end with "-", and has no escapes.
    return ET.Comment(f" {re.sub('-(?=-)', '- ', clean(text))} ")
