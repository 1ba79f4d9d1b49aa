"""Flows made of flows (sequential, parallel, conditional), and any flow as portable data."""

import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, count
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack, cast

from jazz_select.errors import FlowError, FlowValidationError
from jazz_select.flow.base import MOST_PARTS, BaseFlow, Flow, FlowFields, FlowPart, FlowRegistry, current_scope
from jazz_select.flow.definition import Definition
from jazz_select.flow.field_checks import Subject, check_text
from jazz_select.flow.origin import without_origin
from jazz_select.serialization import unreadable, value_of
from jazz_select.text import describe_value
from jazz_select.values import flow_id

_OWN = "_own_tools"


class _ToolsOfAll:
    """The field `tools` of a composite: its own tools, followed by those of its parts.

    Authors set its own tools as in any flow. Parts given by name can be looked up only later, so the rest is computed.
    """

    def __get__(self, flow: "CompositeFlow | None", kind: "type[CompositeFlow]") -> Sequence[str]:
        if flow is None:
            return cast("Sequence[str]", getattr(kind, _OWN))
        return tuple(dict.fromkeys(_names_in(flow.definition())))

    def __set__(self, flow: "CompositeFlow", value: Sequence[str]) -> None:
        setattr(flow, _OWN, value)


def _names_in(definition: Definition) -> Iterator[str]:
    yield from definition.tools
    for part in definition.parts:
        if part.flow is not None:
            yield from _names_in(part.flow)


class CompositeFields(FlowFields, total=False):
    """The fields of a composite."""

    flows: Sequence[FlowPart] | None


class ConditionalFields(FlowFields, total=False):
    """The fields of a conditional flow."""

    branches: Sequence[tuple[str, FlowPart]] | None
    otherwise: "FlowPart | None"


class CompositeFlow(BaseFlow):
    """The base of the three composites: parts in `flows`, and a guard that calls the parts' guards."""

    composite: ClassVar[bool] = True
    flows: Sequence[FlowPart] = ()
    """The parts: flows, the classes that declare them, or names in the same registry, looked up when used."""
    tools: Sequence[str] = cast("Any", _ToolsOfAll())
    """Its own tools and those of its parts, in this order, each once.

    Raises `FlowValidationError` if a part cannot be found.
    """
    _own_tools: Sequence[str] = ()
    _takes = tuple(CompositeFields.__annotations__)

    if TYPE_CHECKING:

        def __init__(
            self, *, registry: FlowRegistry | None = None, replace: bool = False, **fields: Unpack[CompositeFields]
        ) -> None: ...

    def __init_subclass__(cls, *, registry: FlowRegistry | None = None) -> None:
        own = vars(cls).get("tools")
        if own is not None and not hasattr(own, "__get__"):
            cls._own_tools = own
            del cls.tools
        super().__init_subclass__(registry=registry)

    @property
    def own_tools(self) -> Sequence[str]:
        """The tools it names itself, without those of its parts."""
        return self._own_tools

    def lacks(self, connected: Container[str]) -> tuple[str, ...]:
        """Return the required tools, of it or a part, that are not connected; none if it is `manual`.

        A part that cannot be found names no tools; loading reports it.
        """
        own = super().lacks(connected)
        if self.manual:
            return own
        try:
            self.definition()
            of_parts = chain.from_iterable(part.lacks(connected) for part in self.subflows)
            return tuple(dict.fromkeys((*own, *of_parts)))
        except FlowValidationError:
            return own

    @property
    def has_guard(self) -> bool:
        """Whether this flow or a part has a guard, or a part cannot be found."""
        if type(self).available is not CompositeFlow.available or "available" in self.__dict__:
            return True
        try:
            self.definition()
            return any(part.has_guard for part in self.subflows)
        except FlowValidationError:
            return True  # so that `available` is called, which says what is wrong

    def available(self, context: Mapping[str, Any]) -> bool:
        """Whether every part is available: a composite must not bypass the guard of a part.

        This includes conditionals, since their prompt shows the procedure of each branch. Override it to decide
        otherwise.

        Raises:
            FlowValidationError: A part cannot be found, or the parts form a cycle.
        """
        self.definition()
        return all(part.available(context) for part in self.subflows)

    def links(self) -> Sequence[tuple[str, FlowPart]]:
        """Return the parts in order; `when` is empty."""
        return [("", part) for part in self.flows]

    def check_parts(self, subject: Subject) -> None:
        """Refuse a composite without parts, or with a part that is not a flow, class of flow or name."""
        _check_list(subject, "flows", self.flows)
        for number, part in enumerate(self.flows):
            _check_part(subject, f"flows[{number}]", part)
        if not self.flows:
            raise subject.error("flows", "is empty; a composite needs at least one sub flow")
        self._check_classes()

    def _check_classes(self) -> None:
        # Names may be defined later. A class that declares no flow never will.
        for _, part in self.links():
            if not isinstance(part, str):
                self.resolve(part)


class SequentialFlow(CompositeFlow):
    """A composite that runs its parts in sequence."""

    type: str = "sequential"


class ParallelFlow(CompositeFlow):
    """A composite that runs its parts in parallel; none needs the result of another."""

    type: str = "parallel"


class ConditionalFlow(CompositeFlow):
    """A composite that runs one branch: the first whose condition holds, else `otherwise`."""

    type: str = "conditional"
    branches: Sequence[tuple[str, FlowPart]] = ()
    """Pairs of a condition and the flow to run if it holds."""
    otherwise: "FlowPart | None" = None
    """The flow to run if no branch fits."""
    _takes = tuple(ConditionalFields.__annotations__)

    if TYPE_CHECKING:

        def __init__(
            self, *, registry: FlowRegistry | None = None, replace: bool = False, **fields: Unpack[ConditionalFields]
        ) -> None: ...

    def links(self) -> Sequence[tuple[str, FlowPart]]:
        """Return the branches, then `otherwise` with an empty text."""
        if self.otherwise is None:
            return list(self.branches)
        return [*self.branches, ("", self.otherwise)]

    def check_parts(self, subject: Subject) -> None:
        """Refuse a conditional without branches, or with a branch that is not a pair of a text and a flow."""
        _check_list(subject, "branches", self.branches)
        if self.flows:
            raise subject.error("flows", "is for flows that run all their parts; a conditional has branches")
        if not self.branches:
            raise subject.error("branches", 'is empty; a conditional needs at least one, such as ("when …", flow)')
        for number, branch in enumerate(cast("Sequence[Any]", self.branches)):
            field = f"branches[{number}]"
            match branch:
                case [str(when), part]:
                    if not when.strip():
                        raise subject.error(field, "must say when it is taken, got a blank; or use otherwise=")
                    check_text(subject, field, when)
                    _check_part(subject, field, part)
                case _:
                    raise subject.error(field, f'must be a pair ("when …", flow), got {describe_value(branch)}')
        if self.otherwise is not None:
            _check_part(subject, "otherwise", self.otherwise)
        self._check_classes()


def _check_list(subject: Subject, field: str, value: object) -> None:
    if not isinstance(value, list | tuple):
        raise subject.error(field, f"must be a list, got {describe_value(value)}")


def _check_part(subject: Subject, field: str, part: object) -> None:
    if isinstance(part, str):
        check_text(subject, field, part)
    is_flow = isinstance(part, BaseFlow | str) or (isinstance(part, type) and issubclass(part, BaseFlow))
    if not part or not is_flow:
        shown = describe_value(cast("object", part))
        raise subject.error(field, f"must be a flow, a class of flow or a flow's name, got {shown}")


_FLOW: Final = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExtraFields:
    """The fields of a flow that are not part of its definition."""

    title: str = ""
    owner: str = ""
    optional_tools: tuple[str, ...] = ()
    manual: bool = False
    max_error: float | None = None


def flow_data(flow: BaseFlow) -> dict[str, Any]:
    """Return all fields of a flow, its parts included, and its checksum; `plain` makes JSON of it."""
    try:
        own = flow.definition()
    except FlowValidationError:  # a part has left the registry since
        own = flow.outline()
    data = {each.name: getattr(own, each.name) for each in fields(own)}
    data |= {each.name: getattr(flow, each.name) for each in fields(_ExtraFields)}
    return {**data, "checksum": own.checksum()}


def flow_of(data: object) -> BaseFlow:
    """Build a flow from `flow_data`, registered only in a registry of its own."""
    known = value_of(dict[str, Any], data, _FLOW)
    own, extra = value_of(Definition, known), value_of(_ExtraFields, known)
    try:
        with without_origin():
            flow = _make_flow(own, FlowRegistry(min_examples=0), count(1), extra)
            if own.parts:
                flow.outline()  # raises if nested too deep
    except (FlowError, RecursionError) as error:
        raise unreadable(_FLOW, str(error)) from error
    return flow


def live_flows(wanted: Iterable[tuple[str, tuple[str, str]]]) -> dict[str, BaseFlow]:
    """Return the flows of this process that are wanted, by id; each by its name, and module and name of its class.

    A class of this process that declares such a flow has precedence, then the current scope, then the default registry.
    Nothing is imported.
    """
    found: dict[str, BaseFlow] = {}
    for name, (module, qualname) in wanted:
        own_id = flow_id(name)
        live = _declared_flow(module, qualname)
        if live is None or live.name != name:
            live = _registered_flow(own_id)
        if live is not None:
            found[own_id] = live
    return found


def _declared_flow(module: str, qualname: str) -> BaseFlow | None:
    kind: Any = sys.modules.get(module)
    for part in qualname.split("."):
        kind = getattr(kind, part, None)
    if isinstance(kind, type) and issubclass(kind, BaseFlow):
        return kind.declared()
    return None


def _registered_flow(own_id: str) -> BaseFlow | None:
    for home in (current_scope(), BaseFlow.registry):
        if home is not None and own_id in home:
            return home[own_id]
    return None


_DEFINED: Final = (
    "name",
    "description",
    "condition",
    "priority",
    "desired_effects",
    "examples",
    "aliases",
    "tools",
    "steps",
)
"""The fields of a definition that every kind of flow has."""


def _make_flow(
    own: Definition, registry: FlowRegistry, counted: Iterator[int], extra: _ExtraFields = _ExtraFields()
) -> BaseFlow:
    if next(counted) > MOST_PARTS:
        raise FlowValidationError(own.name, "flows", f"has more than {MOST_PARTS} parts of parts")
    known: dict[str, Any] = {"registry": registry, "replace": True}
    known |= {name: getattr(own, name) for name in _DEFINED}
    for each in fields(extra):
        known[each.name] = getattr(extra, each.name)
    parts: list[tuple[str, FlowPart]] = []
    for part in own.parts:
        made = part.name if part.flow is None else _make_flow(part.flow, registry, counted)
        parts.append((part.when, made))
    if not parts:
        flow = Flow(**known)
    elif own.type == "conditional":
        otherwise = None
        branches = parts
        others = [part for when, part in parts if not when.strip()]
        if len(others) == 1:  # several are left among the branches, which the flow refuses with an error of its own
            otherwise = others[0]
            branches = [(when, part) for when, part in parts if when.strip()]
        flow = ConditionalFlow(**known, branches=branches, otherwise=otherwise)
    else:
        kind = ParallelFlow if own.type == "parallel" else SequentialFlow
        flow = kind(**known, flows=[part for _, part in parts])
    flow.type = own.type
    return flow
