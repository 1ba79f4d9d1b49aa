"""`BaseFlow`, what an author writes, and `FlowRegistry`, which holds the flows that there are.

A flow knows its registry and a registry holds flows, so they live together. A flow is declared
as a class, or built from data with `Flow(...)`.
"""

import sys
from collections.abc import (
    Collection,
    Container,
    Generator,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    ValuesView,
)
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from inspect import cleandoc
from itertools import count
from threading import RLock
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, Unpack, cast
from weakref import ref

from jazz_select.arguments import Count, checked
from jazz_select.errors import DuplicateFlowError, FlowValidationError, UnconnectedToolsError
from jazz_select.flow.definition import Definition, SubflowDefinition, render
from jazz_select.flow.field_checks import FIELDS, TOLD, Input, Subject, check_bars, check_fields, check_spelling
from jazz_select.flow.origin import Origin, is_ours, locate
from jazz_select.text import did_you_mean, titled
from jazz_select.values import FlowCard, flow_id

DEEPEST, MOST_PARTS = 24, 500
"""Levels of parts within parts, and parts in all: a prompt shows each of them, as often as it stands there."""
_scope: ContextVar["FlowRegistry | None"] = ContextVar("jazz_select_scope", default=None)


class FlowRegistry(Mapping[str, "BaseFlow"]):
    """A mapping of flow id to live flow, one per scope (an agent, a test); readable like a dict.

    A leaf flow needs a description, a condition, one desired effect and `min_examples` different examples; a
    composite needs a description, one part and as many examples. With `min_examples=0`, for catalogues of bare
    tools that nobody wrote requests for, a name is enough and examples may repeat; types are still checked.

    Registering and unregistering are safe from several threads. Iterating sees the flows of the moment it began.
    """

    @checked
    def __init__(self, *, min_examples: Count = 5) -> None:
        self.min_examples = min_examples
        self._flows: dict[str, BaseFlow] = {}
        self._version = 0
        self._lock = RLock()

    @property
    def version(self) -> int:
        """Grows with each change, so that what was derived from the registry can be kept until then."""
        return self._version

    def register(self, flow: "BaseFlow", *, replace: bool = False) -> None:
        """Add a flow.

        The same definition again (the class of the same module and qualified name, or equal content) takes the
        place of the earlier one. When this raises, the registry is as it was.

        Args:
            flow: The flow; a class registers its own instance when it is defined.
            replace: Take the place of a different flow of the same name.

        Raises:
            FlowValidationError: A field is missing or wrong.
            DuplicateFlowError: A different flow of this name is here already.
            TypeError: `flow` is a class, or no flow at all.
        """
        if isinstance(flow, type) or not hasattr(flow, "compute_checksum"):
            raise TypeError(f"register takes an instance of BaseFlow, not {flow!r}")
        subject = Subject(name=flow.label, place=flow.place)
        fields = flow.fields()
        check_fields(subject, fields)
        flow.check_parts(subject)
        check_bars(subject, fields, composite=flow.composite, min_examples=self.min_examples)
        with self._lock:
            earlier = self._flows.get(flow.id)
            if earlier is not None and not replace and not _same_definition(earlier, flow):
                raise DuplicateFlowError(flow.name, first=earlier.place, second=flow.place)
            self._flows[flow.id] = flow
            self._version += 1
        flow.joined(self)

    def unregister(self, flow: "BaseFlow | str") -> None:
        """Remove a flow, given itself or its id.

        Raises:
            KeyError: There is no such flow here.
        """
        with self._lock:
            del self._flows[flow if isinstance(flow, str) else flow.id]
            self._version += 1

    def by_name(self, name: str) -> "BaseFlow | None":
        """The flow of this name, or None."""
        return self._flows.get(flow_id(name))

    @contextmanager
    def scope(self) -> Generator["FlowRegistry", None, None]:
        """Flows and classes that are defined inside, and name no registry themselves, register here."""
        token = _scope.set(self)
        try:
            yield self
        finally:
            _scope.reset(token)

    @contextmanager
    def atomic(self) -> Generator[None, None, None]:
        """All changes made inside stay, or none if an exception leaves the block. Other threads wait."""
        with self._lock:
            before = dict(self._flows)
            try:
                yield
            except BaseException:
                self._flows = before
                self._version += 1
                raise

    def __getitem__(self, key: str) -> "BaseFlow":
        return self._flows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._flows))

    def values(self) -> ValuesView["BaseFlow"]:
        """The flows as they are now; changes made meanwhile do not disturb who goes through them."""
        return dict(self._flows).values()

    def items(self) -> ItemsView[str, "BaseFlow"]:
        """Ids and flows as they are now."""
        return dict(self._flows).items()

    def __len__(self) -> int:
        return len(self._flows)

    def __repr__(self) -> str:
        return f"<FlowRegistry of {len(self)} flows>"


def current_scope() -> FlowRegistry | None:
    """The registry whose `scope()` this code runs in, if any."""
    return _scope.get()


def _same_definition(earlier: "BaseFlow", later: "BaseFlow") -> bool:
    if earlier is later:
        return True
    first, second = type(earlier), type(later)
    # Two class objects of one qualified name: the module was reloaded, or the cell run again.
    if first is not second and first.__qualname__ == second.__qualname__:
        if first.__module__ == second.__module__:
            return True
        if earlier.origin.file and earlier.origin.file == later.origin.file:
            return True
    # A guard is no part of the content, and must not get lost on the way: neither a class's, nor one that was set on
    # the flow itself, nor that of a part.
    return (
        first.available is second.available
        and vars(earlier).get("available") is vars(later).get("available")
        and earlier.has_guard == later.has_guard
        and earlier.outline() == later.outline()
    )


class FlowFields(TypedDict, total=False):
    """The fields of a flow, as `Flow(…)` takes them; `BaseFlow` says what each means."""

    name: str | None
    description: str | None
    condition: str | None
    desired_effects: Sequence[str] | None
    examples: Sequence[str] | None
    tools: Sequence[str] | None
    steps: Sequence[str] | None
    priority: tuple[int, int] | None
    aliases: Sequence[str] | None
    title: str | None
    optional_tools: Sequence[str] | None
    manual: bool | None
    max_error: float | None
    chain: Sequence[Any] | None
    reply: str | None
    inputs: Sequence[Input] | None
    ask: Literal["one", "together"] | None
    calls: Sequence[str] | None
    handover: bool | None


FlowPart: TypeAlias = "BaseFlow | type[BaseFlow] | str"
"""A part of a composite: a flow, the class that declares one, or the name of one in the same registry."""


class BaseFlow:
    """A procedure an agent can follow, with what it takes to find it.

    Declared as a class, it registers one instance of itself:

    ```python
    class RefundOrder(BaseFlow):
        name = "refund_order"
        description = "Refund a delivered order."
        condition = "The user wants money back for an order that has arrived."
        desired_effects = ["the order is refunded"]
        examples = ["I want my money back", "refund my order", ...]  # at least five, different
    ```

    A class without a `name` of its own is a base for others and is not registered; so is a class with an
    `__init__` of its own, whose instances register themselves when it calls `super().__init__(name=..., ...)`.
    `class X(BaseFlow, registry=registry)` registers elsewhere, and so do the classes derived from it.
    Without a `description`, the class's docstring is taken.
    """

    registry: ClassVar[FlowRegistry] = FlowRegistry()
    """The default scope; on a class declared with `registry=…`, that one."""
    composite: ClassVar[bool] = False
    """True where a flow is made of others."""
    type: str = "flow"
    """`flow`, `sequential`, `parallel` or `conditional`."""

    name: str = ""
    """Unique in its registry; the id follows from it."""
    description: str = ""
    """What the flow does."""
    condition: str = ""
    """When it is the right one."""
    desired_effects: Sequence[str] = ()
    """What is true once it has run."""
    examples: Sequence[str] = ()
    """Requests in users' words."""
    tools: Sequence[str] = ()
    """Names of the tools that its steps may call."""
    steps: Sequence[str] = ()
    """The procedure itself, in order: what the agent does."""
    priority: tuple[int, int] = (0, 0)
    """Higher wins ties."""
    aliases: Sequence[str] = ()
    """Other names under which it may be asked for."""
    chain: Sequence[Any] = ()
    """The order in which its tools run, for an executor: see `jazz_select.routing.executor`."""
    reply: str = ""
    """What the user is told when the chain is done, with facts in braces."""
    title: str = ""
    """What it is called before users, such as "Refund of an order"; by default its name in words."""
    optional_tools: Sequence[str] = ()
    """Those of its tools that it can do without: an agent that lacks another of them is not made."""
    manual: bool = False
    """Whether it is a person's to do: no tool of it has to be connected, and its chain is not run."""
    inputs: Sequence[Input] = ()
    """What it takes from the user: how each is asked for, what it may be, in this order."""
    ask: Literal["one", "together"] = "one"
    """Whether what is missing of its `inputs` is asked for one at a time, or all at once."""
    calls: Sequence[str] = ()
    """Names of flows that are run before it, once a conversation, such as one that logs in."""
    handover: bool = False
    """Whether it hands over to a person: a turn in which it is done ends as `handed_over`."""
    max_error: float | None = None
    """The share of answers with this flow that may be wrong where a stage before the chat model gives them, in place of
    the selector's own: see `FlowSelector`."""

    _takes: ClassVar[Sequence[str]] = tuple(FlowFields.__annotations__)
    _origin: Origin = Origin()
    _homes: tuple["ref[FlowRegistry]", ...] = ()
    _pinned: FlowRegistry | None = None
    _declared: ClassVar["BaseFlow | None"] = None

    def __init_subclass__(cls, *, registry: FlowRegistry | None = None) -> None:
        super().__init_subclass__()
        check_spelling(cls)
        cls._declared = None
        if registry is not None:
            cls.registry = registry
        own = cls.__dict__
        if "name" in own and not hasattr(own["name"], "__get__") and is_ours(cls.__init__):
            cls._declared = cls()

    def __init__(
        self, *, registry: FlowRegistry | None = None, replace: bool = False, **fields: Unpack[FlowFields]
    ) -> None:
        """Build the flow and register it; a field that is not given, or None, keeps the class's value.

        Raises:
            FlowValidationError: A field is missing or wrong.
            DuplicateFlowError: A different flow of this name is in the registry, and `replace` is false.
            TypeError: There is no field of such a name.
        """
        for field, value in fields.items():
            if field not in self._takes:
                near = did_you_mean(field, self._takes)
                msg = f"{type(self).__name__}() got an unexpected keyword argument {field!r}{near and f'; {near}'}"
                raise TypeError(msg)
            if value is not None:
                setattr(self, field, tuple(cast("list[Any]", value)) if isinstance(value, list) else value)
        if not self.description:
            self.description = _docstring(type(self))
        self._origin = locate()
        inherited = type(self).registry
        self._pinned = registry if registry is not None else None if inherited is BaseFlow.registry else inherited
        self.home.register(self, replace=replace)
        _remember(self)

    @classmethod
    def declared(cls) -> "BaseFlow | None":
        """The flow that the class declares; None of a base for others, and of a class whose instances are made."""
        return cls._declared

    @property
    def home(self) -> FlowRegistry:
        """Where the flow registers: the registry it was given, else the scope it is asked in, else the default."""
        for registry in (self._pinned, current_scope()):
            if registry is not None:
                return registry
        return BaseFlow.registry

    @property
    def id(self) -> str:
        """`uuid5` of the name: the same in every process."""
        return flow_id(self.name)

    @property
    def origin(self) -> Origin:
        """Where the flow was defined."""
        return self._origin

    @property
    def place(self) -> str:
        """Where the flow was defined, for messages: `module.QualName (file.py:12)` or `flows.yaml (flow 2)`."""
        kind = type(self)
        subject = f"{kind.__name__}(…)" if is_ours(kind) else f"{kind.__module__}.{kind.__qualname__}"
        return self._origin.describe(subject)

    @property
    def label(self) -> str:
        """The name, or something that stands for it where it is missing or no text."""
        return self.name if isinstance(self.name, str) and self.name else f"<unnamed {type(self).__qualname__}>"  # pyright: ignore[reportUnnecessaryIsInstance]

    @property
    def display_name(self) -> str:
        """What users are told that it is called: its title, else its name in words."""
        return self.title or titled(self.name)

    @property
    def own_tools(self) -> Sequence[str]:
        """The tools that it names itself; those of a composite's parts are in its `tools` beside them."""
        return self.tools

    def all_inputs(self) -> dict[str, Input]:
        """The inputs that it and its parts declare, by name; the first one that says something of a name counts."""
        found: dict[str, Input] = {}
        for each in (*self.inputs, *(each for part in self._parts_there() for each in part.all_inputs().values())):
            found.setdefault(each.name, each)
        return found

    def _parts_there(self) -> tuple["BaseFlow", ...]:
        try:
            return self.subflows
        except FlowValidationError:
            return ()  # one has left the registry

    @property
    def asks_one(self) -> bool:
        """Whether what is missing is asked for one at a time."""
        return self.ask == "one" and bool(self.all_inputs())

    def lacks(self, connected: Container[str]) -> tuple[str, ...]:
        """The tools that it cannot do without and that are not among these; none where it is `manual`."""
        if self.manual:
            return ()
        return tuple(name for name in self.own_tools if name not in connected and name not in self.optional_tools)

    @property
    def has_guard(self) -> bool:
        """True where `available` may say no, and so has to be asked."""
        return type(self).available is not BaseFlow.available or "available" in self.__dict__

    def available(self, context: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for authors to override
        """Whether the flow may be offered in this context; asked before retrieval and again after the choice."""
        return True

    def links(self) -> Sequence[tuple[str | None, FlowPart]]:
        """The parts as written, each with the text that says when it is taken; None: by its own condition."""
        return ()

    def check_parts(self, subject: Subject) -> None:
        """Composites refuse parts that cannot work.

        Raises:
            FlowValidationError: A part is of the wrong kind, or there is none.
        """

    @property
    def subflows(self) -> tuple["BaseFlow", ...]:
        """The parts, with names looked up now.

        Raises:
            FlowValidationError: A part cannot be found.
        """
        return tuple(self.resolve(part) for _, part in self.links())

    def resolve(self, part: FlowPart) -> "BaseFlow":
        """The flow that a part of this one stands for.

        Raises:
            FlowValidationError: There is none.
        """
        if isinstance(part, BaseFlow):
            return part
        if isinstance(part, str):
            for home in reversed(self._homes):
                registry = home()
                if registry is not None and (found := registry.by_name(part)) is not None:
                    return found
            problem = f"the part {part!r} is not in the same registry; define or load it first, or correct the name"
            raise FlowValidationError(self.label, "flows", problem, place=self.place)
        if part._declared is not None:  # noqa: SLF001 - a class of this very module
            return part._declared  # noqa: SLF001
        problem = f"the class {part.__qualname__} declares no flow by itself; pass an instance of it, or its name"
        raise FlowValidationError(self.label, "flows", problem, place=self.place)

    def definition(self) -> Definition:
        """All that the flow says, with its parts looked up.

        Raises:
            FlowValidationError: A part cannot be found, or contains this flow in turn; or there are too many.
        """
        return self._define((), count())

    def outline(self) -> Definition:
        """Like `definition`, but parts given by name are left at that, since they may not be there yet."""
        counted = count(1)
        parts = tuple(
            SubflowDefinition(name=part, when=when or "")
            if isinstance(part, str)
            else self._part(when, self.resolve(part), (self,), counted)
            for when, part in self.links()
        )
        return self._with_parts(parts)

    def build_prompt(self, verbose: bool = True) -> str:  # noqa: FBT001, FBT002 - the published signature
        """The flow as XML for an agent's prompt; `verbose` adds comments for developers, and nothing else."""
        definition = self.definition()
        if not verbose:
            return render(definition)
        aliases = f"\nAliases: {', '.join(self.aliases)}" if self.aliases else ""
        origin = f"Defined by {self.place}\nId: {self.id}\nChecksum: {definition.checksum()}{aliases}"
        return render(definition, notes=[origin])

    def build_embedding_text(self) -> str:
        """All of it as one text: name (also split into words), description, condition, effects, aliases, examples."""
        return self.outline().embedding_text()

    def compute_checksum(self) -> str:
        """Changes when the definition, or that of a subflow, changes."""
        return self.definition().checksum()

    def card(self) -> FlowCard:
        """The definition as memory needs it."""
        own = self.definition()
        return FlowCard(
            id=self.id,
            name=own.name,
            type=own.type,
            description=own.description,
            condition=own.condition,
            desired_effects=own.desired_effects,
            examples=own.examples,
            aliases=own.aliases,
            tools=own.tools,
            priority=own.priority,
            text=own.embedding_text(),
            checksum=own.checksum(),
        )

    def fields(self) -> dict[str, object]:
        """The fields as the author wrote them."""
        return {each: self.own_tools if each == "tools" else getattr(self, each) for each in (*FIELDS, *TOLD, "type")}

    def joined(self, registry: FlowRegistry) -> None:
        """Called by a registry that took this flow in: part names are looked up there from now on."""
        others = (home for home in self._homes if home() is not registry and home() is not None)
        self._homes = (*others, ref(registry))

    def _define(self, path: tuple["BaseFlow", ...], counted: Iterator[int]) -> Definition:
        if any(self is above for above in path):
            circle = " → ".join(flow.name for flow in (*path[path.index(self) :], self))
            problem = f"{circle} is a circle; take one of the parts out"
            raise FlowValidationError(path[0].label, "flows", problem, place=path[0].place)
        too_deep = len(path) > DEEPEST
        if too_deep or next(counted) > MOST_PARTS:
            top = path[0] if path else self
            limit = f" in more than {DEEPEST} levels" if too_deep else f", more than {MOST_PARTS} of them"
            problem = f"has parts of parts{limit}, each counted wherever it stands; make it flatter, or several flows"
            raise FlowValidationError(top.label, "flows", problem, place=top.place)
        inner = (*path, self)
        links = ((when, self.resolve(part)) for when, part in self.links())
        return self._with_parts(tuple(self._part(when, flow, inner, counted) for when, flow in links))

    @staticmethod
    def _part(
        when: str | None, flow: "BaseFlow", path: tuple["BaseFlow", ...], counted: Iterator[int]
    ) -> SubflowDefinition:
        when = flow.condition or flow.description if when is None else when
        return SubflowDefinition(name=flow.name, when=when, flow=flow._define(path, counted))  # noqa: SLF001 - a flow like this one

    def _with_parts(self, parts: tuple[SubflowDefinition, ...]) -> Definition:
        return Definition(
            name=self.name,
            type=self.type,
            description=self.description,
            condition=self.condition,
            desired_effects=tuple(self.desired_effects),
            examples=tuple(self.examples),
            aliases=tuple(self.aliases),
            tools=tuple(self.own_tools),
            steps=tuple(self.steps),
            priority=(self.priority[0], self.priority[1]),
            parts=parts,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label!r}>"


def _docstring(kind: type[BaseFlow]) -> str:
    authored = (base.__doc__ for base in kind.__mro__ if issubclass(base, BaseFlow) and not is_ours(base))
    return next((cleandoc(text) for text in authored if text), "")


class Flow(BaseFlow):
    """A flow built from data: `Flow(name=…, description=…, condition=…, desired_effects=[…], examples=[…])`."""


def check_calls(flow: BaseFlow, path: tuple[str, ...] = ()) -> None:
    """Refuse a flow that calls one which is not there, or which calls it in turn."""
    if flow.name in path:
        circle = " → ".join((*path[path.index(flow.name) :], flow.name))
        problem = f"{circle} is a circle; take one of the calls out"
        raise FlowValidationError(path[0], "calls", problem, place=flow.place)
    for name in flow.calls:
        try:
            called = flow.resolve(name)
        except FlowValidationError:
            problem = f"the flow {name!r} is not in the same registry; define or load it first, or correct the name"
            raise FlowValidationError(flow.label, "calls", problem, place=flow.place) from None
        check_calls(called, (*path, flow.name))


def check_connected(flows: Iterable[BaseFlow], connected: Collection[str]) -> None:
    """Refuse flows that name a tool which is not there, but for `optional_tools`, and for flows that are `manual`."""
    lacking = {flow.name: names for flow in flows if (names := flow.lacks(connected))}
    if lacking:
        raise UnconnectedToolsError(lacking, connected=connected)


def flows_digest(flows: Iterable[BaseFlow]) -> str:
    """Of all that a catalogue says, whatever the order of flows and files: equal where nothing that counts changed."""
    told = sorted(f"{flow.id} {flow.compute_checksum()} {list(flow.aliases)!r}" for flow in flows)
    return sha256("\n".join(told).encode(errors="surrogatepass")).hexdigest()


_KEPT = "__jazz_select_flows__"
"""Where a module keeps its flows: they live as long as it does, and go with it though they refer to it."""


def _remember(flow: BaseFlow) -> None:
    """Note that the module being executed defined `flow`. A later flow of the same name takes its place."""
    name = flow.origin.module
    # Everything a script does happens while `__main__` is executed, and nobody loads it.
    if name and name != "__main__":
        flows = vars(sys.modules[name]).setdefault(_KEPT, [])
        flows[:] = [each for each in flows if each.name != flow.name or each.home is not flow.home]
        flows.append(flow)


def defined_in(module: ModuleType) -> list[BaseFlow]:
    """The flows that executing `module` defined, in order."""
    return list(vars(module).get(_KEPT, ()))
