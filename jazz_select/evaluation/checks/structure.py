"""Checks of how flows are put together: names, tools, steps, parts, branches and facts. Nothing is embedded."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter

from jazz_select.errors import DuplicateFlowError, FlowError, FlowLoadError, FlowValidationError
from jazz_select.evaluation.checks.findings import NOWHERE, Evidence, Finding, Place, Places, Spot, field_of
from jazz_select.flow.base import BaseFlow, chain_of, check_calls
from jazz_select.memory.encoder import folded_alias
from jazz_select.routing.flow_inputs import input_faults
from jazz_select.routing.schemas.assignability import NEVER, assignable
from jazz_select.routing.schemas.compatibility import Slot, outputs, ways
from jazz_select.routing.schemas.fields import fields, type_text
from jazz_select.routing.schemas.rewriting import unread_patterns
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, near, word_list
from jazz_select.words import ACTING, LOOKING, NOUNS, as_latin, stems

_LONGEST = 80
_ENTRY = re.compile(r"(\w+)\[(\d{1,9})\](.*)", re.DOTALL)


def of_faults(faults: Sequence[FlowError], places: Places) -> Iterator[Finding]:
    """Yield a finding for each flow that did not load."""
    for fault in faults:
        flows: tuple[str, ...] = ()
        if isinstance(fault, FlowLoadError):
            code, what = "unreadable-file", f"{fault.source} cannot be loaded: {fault.problem}"
            remedy = "Mend the file: until then its flows are missing."
        elif isinstance(fault, DuplicateFlowError):
            code, flows = "duplicate-name", (fault.name,)
            what = f"Two different flows are named {fault.name!r}; the first is {fault.first}."
            remedy = "Rename one of them, or take it out."
        elif isinstance(fault, FlowValidationError):
            code, flows = "invalid-flow", (fault.flow,)
            problem, _, remedy = fault.problem.partition("; ")
            what = f"{beginning(fault.flow, _LONGEST)}: {_field(fault.field)} {problem}".rstrip(".") + "."
            remedy = _sentence(remedy) or f"Correct the field {fault.field}; the flow is not there until then."
        else:
            continue
        yield Finding(code=code, flows=flows, at=places.of_fault(fault), what=what, remedy=remedy)


def _field(field: str) -> str:
    """Return a field in words: `examples[0]` is "examples entry 1"."""
    found = _ENTRY.fullmatch(field)
    if found is None:
        return field
    return f"{found[1]} entry {int(found[2]) + 1}{found[3]}"


def structure(flows: Sequence[BaseFlow], tools: Mapping[str, Tool] | None, places: Places) -> Iterator[Finding]:
    """Yield the findings about loaded flows."""
    yield from _names(flows, places)
    for flow in flows:
        yield from _parts(flow, places)
        yield from _chain(flow, places)
        yield from _calls(flow, places)
        if tools is not None:
            yield from _inputs(flow, tools, places)
            yield from _tools(flow, tools, places)
            yield from _facts(flow, tools, places)
            yield from _fit(flow, tools, places)
    yield from _find_uncalled(flows, places)
    yield from _effects(flows, tools or {}, places)
    yield from _patterns(flows, tools or {}, places)


def has_definition(flow: BaseFlow) -> bool:
    """Whether all parts of a flow exist, so that its card can be made."""
    try:
        flow.definition()
    except FlowError:
        return False
    return True


def _parts(flow: BaseFlow, places: Places) -> Iterator[Finding]:
    if not flow.composite:
        return
    try:
        flow.definition()
    except FlowValidationError as fault:
        what, _, remedy = fault.problem.partition("; ")
        yield places.finding("missing-part", Spot(flow, "flows"), f"{flow.name}: {what}.", _sentence(remedy))
        return
    if flow.type != "conditional":
        return
    seen: dict[str, int] = {}
    for number, (when, _) in enumerate(flow.links()):
        text = " ".join(when.casefold().split())
        if text and text in seen:
            what = f"Branch {number + 1} of {flow.name}, “{beginning(text, _LONGEST)}”, is never taken"
            what += f": branch {seen[text] + 1} is for the same case."
            remedy = "Say when the later branch is the right one, or take it out."
            yield places.finding("dead-branch", Spot(flow, "branches", number), what, remedy)
        seen.setdefault(text, number)


def _chain(flow: BaseFlow, places: Places) -> Iterator[Finding]:
    if not flow.chain:
        return
    try:
        chain_of(flow)
    except FlowValidationError as fault:
        problem, _, advice = fault.problem.rpartition("; ")
        what = f"The chain of {flow.name} cannot run: {problem or fault.problem}."
        remedy = _sentence(advice if problem else "") or "Correct the step, or take it out."
        yield places.finding("broken-chain", Spot(flow, "chain"), what, remedy)


def _calls(flow: BaseFlow, places: Places) -> Iterator[Finding]:
    try:
        check_calls(flow)
    except FlowValidationError as fault:
        what, _, remedy = fault.problem.partition("; ")
        field, number = field_of(fault)
        code = "broken-input" if field == "inputs" else "broken-call"
        yield places.finding(code, Spot(flow, field, number), f"{flow.name}: {what}.", _sentence(remedy))


def _inputs(flow: BaseFlow, tools: Mapping[str, Tool], places: Places) -> Iterator[Finding]:
    for fault in input_faults([flow], tools):
        problem, _, remedy = fault.problem.partition("; ")
        name = beginning(flow.inputs[fault.number].name, _LONGEST)
        what = f"{flow.name}: {fault.field} of the input {name}: {problem}."
        yield places.finding("broken-input", Spot(flow, "inputs", fault.number), what, _sentence(remedy))


def _find_uncalled(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    called: set[str] = set()
    for flow in flows:
        called.update(flow.calls)
        called.update(part.name for part in flow.parts_there())
    for flow in flows:
        if flow.only_called and flow.name not in called:
            what = f"{flow.name} runs only when it is called, and no flow calls it."
            remedy = "Name it in the `calls` of another flow, or take `only_called` out."
            yield places.finding("uncalled-flow", Spot(flow, "only_called"), what, remedy)


def _tools(flow: BaseFlow, tools: Mapping[str, Tool], places: Places) -> Iterator[Finding]:
    wanted = flow.lacks(tools)
    for number, name in enumerate(flow.own_tools):
        if name in tools:
            continue
        found = near(name, tools, cutoff=0.75)
        hint = f"Did you mean {found[0]}? " if found else ""
        if name in wanted:
            code, effect = "unknown-tool", "cannot do without it"
        elif found:
            code, effect = "misspelt-tool", "can do without it, and never gets it"
        else:
            continue
        what = f"There is no tool {beginning(name, _LONGEST)!r}; {flow.name} {effect}."
        remedy = f"{hint}Connect it, correct the name, or list it in the flow's optional_tools."
        yield places.finding(code, Spot(flow, "tools", number), what, remedy)


def _fit(flow: BaseFlow, tools: Mapping[str, Tool], places: Places) -> Iterator[Finding]:
    """Yield steps that need an input which an earlier step gives by name, but with an incompatible type."""
    try:
        steps = [tools[step] for step in chain_of(flow) if isinstance(step, str) and step in tools]
    except FlowValidationError:
        return
    earlier: defaultdict[str, list[tuple[Tool, Slot]]] = defaultdict(list)
    for tool in steps:
        for wanted in _certain_inputs(tool):
            sources = earlier.get(wanted.folded, [])
            if not sources or any(_fits(source, wanted) for _, source in sources):
                continue
            giver, source = sources[-1]  # the latest result of this name is the one that would be passed on
            slot = beginning(wanted.name, _LONGEST)
            what = (
                f"In the chain of {flow.name}, {tool.name} takes {slot} as {_type(wanted)}, and {giver.name} gives it"
            )
            what += f" as {_type(source)}: it can never be passed on."
            remedy = f"Have {giver.name} give what {tool.name} takes, or name the two differently."
            yield places.finding("unfit-chain", Spot(flow, "chain"), what, remedy)
        for output in outputs(tool):
            earlier[output.folded].append((tool, output))


def _certain_inputs(tool: Tool) -> list[Slot]:
    """Return the inputs that the first way to call a tool requires, each name once."""
    found: dict[str, Slot] = {}
    for way in ways(tool)[:1]:
        for slot in way:
            if slot.certain:
                found[slot.folded] = slot
    return list(found.values())


def _fits(source: Slot, wanted: Slot) -> bool:
    """Whether a result may be passed on as an input, for some values at least."""
    return assignable(source.schema, wanted.schema, out_root=source.root, in_root=wanted.root) != NEVER


def _type(slot: Slot) -> str:
    return beginning(type_text(slot.schema, slot.root), _LONGEST)


_FINAL = word_list("""
    cancel delete remove refund pay erase destroy terminate wipe purge charge revoke withdraw close void deactivate
    unsubscribe drop discard buy purchase sell
""")
"""Verbs of effects that are hard to undo."""


def _effects(flows: Sequence[BaseFlow], tools: Mapping[str, Tool], places: Places) -> Iterator[Finding]:
    """Yield tools whose declared effect contradicts their name, once each, at the first flow that uses them."""
    users = _first_users(flows)
    for name, tool in tools.items():
        verb = next(iter(stems(tool.operation or name)), "")
        declared = tool.destructive or tool.idempotent or bool(tool.undoes)
        if tool.read_only and verb in ACTING - LOOKING - NOUNS:
            code, what = "contradicting-effect", "is declared read-only, and its name says that it changes something"
            remedy = "Declare what it does: destructive, or nothing where it can be taken back; or rename it."
        elif verb in _FINAL and not declared and tool.read_only is None:
            code, what = "undeclared-effect", "declares no effect, and its name says that it can hardly be taken back"
            remedy = "Declare it destructive, so that it is asked about; or say idempotent, or what undoes it."
        else:
            continue
        flow = users.get(name)
        yield Finding(
            code=code,
            flows=() if flow is None else (flow.name,),
            at=_place_of_tool(flow, name, places),
            what=f"The tool {beginning(name, _LONGEST)} {what}.",
            remedy=remedy,
            evidence=(Evidence(text=name, flow="" if flow is None else flow.name),),
        )


def _patterns(flows: Sequence[BaseFlow], tools: Mapping[str, Tool], places: Places) -> Iterator[Finding]:
    """Yield the patterns of schemas that are left to the tools, once each, at the first flow that uses such a tool."""
    users = _first_users(flows)
    reasons: dict[str, str] = {}
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for name, tool in tools.items():
        for pattern, reason in unread_patterns(tool.input_schema).items():
            reasons[pattern] = reason
            owners[pattern].append(name)
    for pattern, names in owners.items():
        first, *rest = names
        flow = users.get(first)
        others = f" and {len(rest)} more" if rest else ""
        shown = beginning(pattern, _LONGEST)
        yield Finding(
            code="unread-pattern",
            flows=() if flow is None else (flow.name,),
            at=_place_of_tool(flow, first, places),
            what=f"The pattern {shown!r} of {beginning(first, _LONGEST)}{others} {reasons[pattern]}: not checked.",
            remedy="Have the tool check it, or write it without what is named here.",
            evidence=(Evidence(text=pattern, flow="" if flow is None else flow.name),),
        )


def _first_users(flows: Sequence[BaseFlow]) -> dict[str, BaseFlow]:
    """Return the first flow that uses each tool."""
    users: dict[str, BaseFlow] = {}
    for flow in flows:
        for name in flow.own_tools:
            users.setdefault(name, flow)
    return users


def _place_of_tool(flow: BaseFlow | None, name: str, places: Places) -> Place:
    """Return where a flow names a tool; nowhere without a flow."""
    if flow is None:
        return NOWHERE
    return places.locate(flow, "tools", list(flow.own_tools).index(name))


def _facts(flow: BaseFlow, tools: Mapping[str, Tool], places: Places) -> Iterator[Finding]:
    """Yield facts that a reply asks for and no tool of the flow gives, if all its tools declare their results."""
    own = [tools[name] for name in flow.own_tools if name in tools]
    if not flow.reply or flow.manual or not own or len(own) < len(flow.own_tools):
        return
    known: set[str] = set()
    for tool in own:
        results = fields(tool.output_schema or {})
        if not results:
            return
        known.update(results, fields(tool.input_schema or {}))
    try:
        asked = dict.fromkeys(name for _, name, _, _ in Formatter().parse(flow.reply) if name)
    except ValueError:
        return
    for name in asked:
        if name in known:
            continue
        found = near(name, known)
        hint = f"Did you mean {{{found[0]}}}? " if found else ""
        fact = beginning(name, _LONGEST)
        what = f"The reply of {flow.name} asks for {{{fact}}}, which none of its tools gives or takes."
        remedy = f"{hint}Name a fact that a tool of the flow gives."
        yield places.finding("unknown-fact", Spot(flow, "reply"), what, remedy)


def _names(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    """Yield ambiguous names: recall drops a name that two flows share."""
    owners_of: defaultdict[str, dict[str, Spot]] = defaultdict(dict)
    for flow in flows:
        spots = [Spot(flow, "name"), *(Spot(flow, "aliases", number) for number in range(len(flow.aliases)))]
        for spot in spots:
            owners_of[as_latin(folded_alias(spot.text))].setdefault(flow.name, spot)
    for folded, owners in owners_of.items():
        if not folded or len(owners) == 1:
            continue
        # Reported at the last of them, at an alias rather than at a name.
        spot = max(reversed(owners.values()), key=lambda each: each.number is not None)
        others = ", ".join(name for name in owners if name != spot.flow.name)
        kind = "name" if spot.number is None else "alias"
        what = f"The {kind} {beginning(spot.text, _LONGEST)!r} of {spot.flow.name} stands for {others} as well, so that"
        if len({folded_alias(each.text) for each in owners.values()}) == 1:
            what += " neither is found by it."
        else:  # spelt in letters of different scripts that look alike
            what += " who reads it takes one for the other."
        yield places.finding("ambiguous-name", spot, what, "Leave it to one of them.", flows=tuple(owners))


def _sentence(text: str) -> str:
    text = text.strip()
    if text and not text.endswith((".", "?", "!")):
        text += "."
    return text[:1].upper() + text[1:]
