"""A flow as XML for a prompt, grown on a tree so that any text comes out escaped. Pure."""

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

from jazz_select.flow.definition import Definition, SubflowDefinition
from jazz_select.text import clean

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
    """The XML of a flow and its sub flows.

    Args:
        definition: What to render.
        notes: Lines for developers; where they are given, comments also say what each section is for.
            None renders no comments at all. Apart from comments the XML is the same.
    """
    verbose = notes is not None
    root = _element(definition, verbose=verbose)
    for position, note in enumerate(notes or ()):
        root.insert(position, _comment(note))
    ET.indent(root, space="  " if verbose else " ")
    return ET.tostring(root, encoding="unicode")


def _element(definition: Definition, *, verbose: bool) -> ET.Element:
    node = ET.Element("flow", name=clean(definition.name), type=clean(definition.type))
    if verbose and definition.examples:
        node.append(_comment("Requests that mean this flow:\n" + "\n".join(f"- {e}" for e in definition.examples)))
    _text(node, "description", definition.description, "What the flow does." if verbose else "")
    _text(
        node,
        "condition",
        definition.condition,
        "When this flow is the right one; it decides the choice." if verbose else "",
    )
    for field, tag, purpose in _LISTS:
        items: tuple[str, ...] = getattr(definition, field)
        if not items:
            continue
        if verbose:
            node.append(_comment(purpose))
        section = ET.SubElement(node, field)
        for item in items:
            ET.SubElement(section, tag).text = clean(item)
    if definition.parts:
        if verbose:
            node.append(_comment(_PARTS.get(definition.type, "The sub flows.")))
        section = ET.SubElement(node, "subflows")
        for part in definition.parts:
            section.append(_part(part, conditional=definition.type == "conditional", verbose=verbose))
    return node


def _part(part: SubflowDefinition, *, conditional: bool, verbose: bool) -> ET.Element:
    flow = ET.Element("flow", name=clean(part.name)) if part.flow is None else _element(part.flow, verbose=verbose)
    if not conditional:
        return flow
    branch = ET.Element("branch", when=clean(part.when)) if part.when else ET.Element("otherwise")
    branch.append(flow)
    return branch


def _text(node: ET.Element, tag: str, text: str, purpose: str) -> None:
    if not text:
        return
    if purpose:
        node.append(_comment(purpose))
    ET.SubElement(node, tag).text = clean(text)


def _comment(text: str) -> "ET.Element[Any]":
    # A comment may neither contain "--" nor end with "-", and nothing in it can be escaped.
    return ET.Comment(f" {re.sub('-(?=-)', '- ', clean(text))} ")
