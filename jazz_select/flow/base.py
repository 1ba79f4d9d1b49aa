"""`BaseFlow`, what an author writes, its chain, and `FlowRegistry`, which holds flows. Each refers to the other."""

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
from copy import deepcopy
from dataclasses import dataclass, field, fields
from hashlib import sha256
from inspect import cleandoc, getattr_static
from itertools import count
from threading import RLock
from types import ModuleType
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypedDict, Unpack, cast
from weakref import ref

from jazz_select.arguments import Count, checked
from jazz_select.errors import DuplicateFlowError, FlowValidationError, ToolError, UnconnectedToolsError, raise_all
from jazz_select.flow.definition import Definition, SubflowDefinition, render
from jazz_select.flow.field_checks import (
    FIELDS,
    OPERATIONAL,
    Subject,
    bar_faults,
    check_spelling,
    dependency_fault,
    field_faults,
)
from jazz_select.flow.inputs import Input
from jazz_select.flow.origin import Origin, is_ours, locate
from jazz_select.json_values import is_array, is_object
from jazz_select.text import beginning, did_you_mean, nfc, titled, unknown_field
from jazz_select.threads import set_in
from jazz_select.values import FlowCard, flow_id

DEEPEST, MOST_PARTS = 24, 500
"""The most levels of nested parts, and the most parts in all. A prompt shows a part wherever it occurs."""
_scope: ContextVar["FlowRegistry | None"] = ContextVar("jazz_select_scope", default=None)


class FlowRegistry(Mapping[str, "BaseFlow"]):
    """A mapping of flow id to live flow, one per scope (an agent, a test); readable like a dict.

    A leaf flow needs a description, a condition, one desired effect and `min_examples` different examples; a composite
    needs a description, one part and as many examples. With `min_examples=0`, for catalogues of bare tools without
    written requests, a name is enough and examples may repeat; types are still checked.

    Thread-safe. Iteration uses a snapshot.
    """

    @checked
    def __init__(self, *, min_examples: Count = 5) -> None:
        self.min_examples = min_examples
        self._flows: dict[str, BaseFlow] = {}
        self._version = 0
        self._lock = RLock()

    @property
    def version(self) -> int:
        """A counter that every change raises. Use it as the key of what is derived from the registry."""
        return self._version

    def register(self, flow: "BaseFlow", *, replace: bool = False) -> None:
        """Add a flow. If this raises, the registry is unchanged.

        The same definition again (a class of the same module and qualified name, or equal content) replaces the earlier
        one.

        Args:
            flow: The flow. A class registers its own instance when it is defined.
            replace: Replace a different flow of the same name.

        Raises:
            FlowValidationError: A field is missing or wrong.
            DuplicateFlowError: A different flow of this name is registered already.
            TypeError: `flow` is not a flow instance.
        """
        if isinstance(flow, type) or not hasattr(flow, "compute_checksum"):
            raise TypeError(f"register must be given an instance of BaseFlow, got {flow!r}")
        subject = Subject(name=flow.label, place=flow.place)
        fields = flow.fields()
        faults = field_faults(subject, fields)
        try:
            flow.check_parts(subject)
        except FlowValidationError as error:
            faults.append(error)
        wrong = [each.field for each in faults]
        least = self.min_examples if flow.examples_wanted else 0
        faults += bar_faults(subject, fields, composite=flow.composite, min_examples=least, wrong=wrong)
        depends = not faults and any(each.needs for each in flow.inputs)
        if depends and not flow.calls:  # what it calls may not be registered yet: `check_calls` looks then
            fault = dependency_fault(subject, flow.inputs, steps_named(flow))
            if fault is not None:
                faults.append(fault)
        raise_all(faults)
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
            KeyError: It is not registered here.
        """
        with self._lock:
            del self._flows[flow if isinstance(flow, str) else flow.id]
            self._version += 1

    def by_name(self, name: str) -> "BaseFlow | None":
        """Return the flow of this name, or None."""
        return self._flows.get(flow_id(name))

    @property
    def examples_needed(self) -> int:
        """How many examples a flow needs to be registered here without an error."""
        return self.min_examples

    def refuse(self, error: Exception) -> None:
        """Raise what is wrong with a flow that is being defined; a registry that surveys keeps it instead."""
        raise error

    @contextmanager
    def scope(self) -> Generator["FlowRegistry", None, None]:
        """Register here the flows and classes that the block defines without a registry of their own."""
        with set_in(_scope, self):
            yield self

    @contextmanager
    def atomic(self) -> Generator[None, None, None]:
        """Undo all changes of the block if an exception leaves it. Other threads wait."""
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
        """Return a snapshot of the flows."""
        return dict(self._flows).values()

    def items(self) -> ItemsView[str, "BaseFlow"]:
        """Return a snapshot of ids and flows."""
        return dict(self._flows).items()

    def __len__(self) -> int:
        return len(self._flows)

    def __copy__(self) -> "FlowRegistry":
        """Return a registry with the same flows."""
        made = FlowRegistry(min_examples=self.min_examples)
        made._flows = dict(self._flows)
        for flow in made._flows.values():
            flow.joined(made)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> "FlowRegistry":
        """Return a registry with copies of the flows, which look up their parts there."""
        made = FlowRegistry(min_examples=self.min_examples)
        memo[id(self)] = made
        made._flows = deepcopy(dict(self._flows), memo)
        for flow in made._flows.values():
            flow.joined(made)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the lock."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read back what was pickled."""
        vars(self).update(state)
        self._lock = RLock()
        for flow in self._flows.values():
            flow.joined(self)

    def __repr__(self) -> str:
        return f"<FlowRegistry of {len(self)} flows>"


def current_scope() -> FlowRegistry | None:
    """Return the registry whose `scope()` this code runs in, if any."""
    return _scope.get()


def _same_definition(earlier: "BaseFlow", later: "BaseFlow") -> bool:
    if earlier is later:
        return True
    first, second = type(earlier), type(later)
    # Two classes of one qualified name: the module was reloaded, or the notebook cell run again.
    if first is not second and first.__qualname__ == second.__qualname__:
        if first.__module__ == second.__module__:
            return True
        if earlier.origin.file and earlier.origin.file == later.origin.file:
            return True
    # Guards are not part of the outline. Compare those of the class, of the flow itself and of its parts.
    return (
        first.available is second.available
        and vars(earlier).get("available") is vars(later).get("available")
        and earlier.has_guard == later.has_guard
        and earlier.outline() == later.outline()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedDecisionPoint:
    """A position in a flow where the next tool is a choice among a few.

    Attributes:
        after_step: The step or tool before the choice.
        candidate_tools: Names of the candidates, best first.
        decision_prompt: The prompt, used unchanged; None to generate one from metadata.
        context_fields: The fields of the context that are shown; by default the last step's outputs.
        fallback_tool: The tool that runs if the choice fails; it need not be a candidate.
        when: For a candidate, the fields and values that decide for it, such as
            `{"create_return": {"eligibility": "returnable"}}`. Nobody is asked where all of them hold for one candidate
            and for no other. The fields are looked for in all that is known.
    """

    after_step: str
    candidate_tools: Sequence[str]
    decision_prompt: str | None = None
    context_fields: Sequence[str] = ()
    fallback_tool: str | None = None
    when: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def __post_init__(self) -> None:
        """Check what can be checked without the tools."""
        for name in ("after_step", "decision_prompt", "fallback_tool"):
            text: object = getattr(self, name)
            if not isinstance(text, str) and (text is not None or name == "after_step"):
                raise ToolError(str(self.after_step), f"{name} must be a text, got {text!r:.80}")
        if not self.after_step.strip():
            raise ToolError(self.after_step, "after_step must name the step before the decision point, got a blank")
        for name in ("candidate_tools", "context_fields"):
            names = self._checked_names(name)
            if len(set(names)) != len(names):
                raise ToolError(self.after_step, f"{name} names something twice: {', '.join(names)}")
            object.__setattr__(self, name, list(map(nfc, names)))
        object.__setattr__(self, "when", self._checked_when(self.when))
        object.__setattr__(self, "after_step", nfc(self.after_step))
        object.__setattr__(self, "fallback_tool", self.fallback_tool and nfc(self.fallback_tool))
        if self.after_step in self.candidate_tools:
            raise ToolError(self.after_step, "a tool never follows itself: take it out of candidate_tools")

    @property
    def possible_tools(self) -> tuple[str, ...]:
        """Names of the tools that may run here: the candidates, then the fallback."""
        names = dict.fromkeys(self.candidate_tools)
        if self.fallback_tool:
            names[self.fallback_tool] = None
        return tuple(names)

    def _checked_names(self, field: str) -> list[str]:
        given: object = getattr(self, field)
        if isinstance(given, Collection) and not isinstance(given, str):
            names = list(cast("Collection[object]", given))
            if all(isinstance(each, str) and each for each in names):
                return cast("list[str]", names)
        raise ToolError(self.after_step, f"{field} must be a list of names, got {given!r:.80}")

    def _checked_when(self, given: object) -> dict[str, dict[str, Any]]:
        """Return the conditions by candidate, or raise for what is none."""
        what = "when must give each candidate the fields that decide for it, by name"
        if not is_object(given):
            raise ToolError(self.after_step, f"{what}, got {given!r:.80}")
        found: dict[str, dict[str, Any]] = {}
        for name, wanted in given.items():
            if not isinstance(cast("object", name), str) or nfc(name) not in self.candidate_tools:
                raise ToolError(self.after_step, f"when names {name!r:.80}, which is not among candidate_tools")
            if not is_object(wanted) or not wanted:
                raise ToolError(self.after_step, f"{what}, got {wanted!r:.80} for {name}")
            if not all(isinstance(cast("object", each), str) and each for each in wanted):
                raise ToolError(self.after_step, f"{what}, got {wanted!r:.80} for {name}")
            found[nfc(name)] = dict(wanted)
        return found

    def decided_by(self, known: Mapping[str, Any], candidates: Collection[str]) -> str:
        """Return the candidate for which all its fields hold, if there is just one; else ""."""
        decided: list[str] = []
        for name, wanted in self.when.items():
            holds = all(each in known and known[each] == value for each, value in wanted.items())
            if holds and name in candidates:
                decided.append(name)
        return decided[0] if len(decided) == 1 else ""


class Choose:
    """A step that is left open on purpose: whatever fits what is there then."""


_NAMES = ("name", "aliases", "tools", "_own_tools", "optional_tools", "calls")
_OF_REGISTRIES = frozenset({"_homes", "_pinned"})
"""Attributes that belong to the registries a flow is in, and are shared by its copies."""
CHOOSE = Choose()
Step = str | GuidedDecisionPoint | Choose
_LONGEST_NAME = 80


class FlowFields(TypedDict, total=False):
    """The fields of a flow, as `Flow(…)` takes them; see `BaseFlow`."""

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
    owner: str | None
    optional_tools: Sequence[str] | None
    manual: bool | None
    max_error: float | None
    chain: Sequence[Any] | None
    reply: str | None
    inputs: Sequence[Input] | None
    ask: Literal["one", "together"] | None
    calls: Sequence[str] | None
    handover: bool | None
    only_called: bool | None


FlowPart: TypeAlias = "BaseFlow | type[BaseFlow] | str"
"""A part of a composite: a flow, the class that declares one, or the name of a flow in the same registry."""


class BaseFlow:
    """A procedure an agent can follow, and how to find it.

    Declared as a class, it registers one instance of itself:

    ```python
    class RefundOrder(BaseFlow):
        name = "refund_order"
        description = "Refund a delivered order."
        condition = "The user wants money back for an order that has arrived."
        desired_effects = ["the order is refunded"]
        examples = ["I want my money back", "refund my order", ...]  # at least five, different
    ```

    A class without its own `name` is a base class and is not registered. A class with its own `__init__` is not
    registered either; its instances are, when it calls `super().__init__(name=..., ...)`. `class X(BaseFlow,
    registry=registry)` registers itself and its subclasses there. The class's docstring is the default `description`.
    """

    registry: ClassVar[FlowRegistry] = FlowRegistry()
    """The default scope, or the one of `class X(BaseFlow, registry=…)`."""
    composite: ClassVar[bool] = False
    """Whether the flow is made of other flows."""
    examples_wanted: ClassVar[bool] = True
    """Whether a registry asks for a condition, an effect and examples; what others publish comes without."""
    takes_open_tools: bool | None = None
    """Whether a model that follows it may also use the tools that are there where no flow fits; None: if it names no
    tools of its own."""
    type: str = "flow"
    """`flow`, `sequential`, `parallel` or `conditional`."""

    name: str = ""
    """Unique in its registry; the id is derived from it."""
    description: str = ""
    """What the flow does."""
    condition: str = ""
    """When it is the right flow."""
    desired_effects: Sequence[str] = ()
    """What is true once it has run."""
    examples: Sequence[str] = ()
    """Requests in users' words."""
    tools: Sequence[str] = ()
    """Names of the tools that its steps may call."""
    steps: Sequence[str] = ()
    """The procedure, in order: what the agent does."""
    priority: tuple[int, int] = (0, 0)
    """Higher wins ties."""
    aliases: Sequence[str] = ()
    """Other names for it."""
    chain: Sequence[Any] = ()
    """The order in which an executor runs its tools: see `chain_of`."""
    reply: str = ""
    """The reply to the user when the chain is done, with facts in braces."""
    title: str = ""
    """Its name for users, such as "Refund of an order"; by default `name` in words."""
    owner: str = ""
    """The team or person who looks after it. The panel groups by it."""
    optional_tools: Sequence[str] = ()
    """The tools it works without. If another of its tools is missing, the agent cannot be made."""
    manual: bool = False
    """Whether a person carries it out: its tools need not be connected, and its chain does not run."""
    inputs: Sequence[Input] = ()
    """What it needs from the user, in the order in which to ask."""
    ask: Literal["one", "together"] = "one"
    """Whether to ask for missing `inputs` one at a time or all at once."""
    calls: Sequence[str] = ()
    """Names of flows to run before it, once a conversation, such as a login."""
    handover: bool = False
    """Whether it hands over to a person: a turn that completes it ends as `handed_over`."""
    only_called: bool = False
    """Whether it runs only when another flow `calls` it or has it as a part: it is not indexed, recalled or offered."""
    max_error: float | None = None
    """The allowed share of wrong answers with this flow from the stages before the chat model. Overrides the
    selector's: see `FlowSelector`."""

    _takes: ClassVar[Sequence[str]] = tuple(FlowFields.__annotations__)
    _origin: Origin = Origin()
    _homes: tuple["ref[FlowRegistry]", ...] = ()
    _pinned: FlowRegistry | None = None
    _declared: ClassVar["BaseFlow | None"] = None

    def __init_subclass__(cls, *, registry: FlowRegistry | None = None) -> None:
        super().__init_subclass__()
        cls._declared = None
        if registry is not None:
            cls.registry = registry
        try:
            check_spelling(cls)
        except FlowValidationError as error:
            _defining_in(cls.registry).refuse(error)
        own = cls.__dict__
        if "name" in own and not hasattr(own["name"], "__get__") and is_ours(cls.__init__):
            cls._declared = cls()

    def __init__(
        self, *, registry: FlowRegistry | None = None, replace: bool = False, **fields: Unpack[FlowFields]
    ) -> None:
        """Build and register the flow. A field that is missing or None keeps the class's value.

        Raises:
            FlowValidationError: A field is missing or wrong.
            DuplicateFlowError: A different flow of this name is in the registry, and `replace` is false.
            TypeError: There is no such field.
        """
        for name, value in fields.items():
            if name not in self._takes:
                msg = f"{type(self).__name__}() got an unexpected keyword argument {name!r}"
                if advice := did_you_mean(name, self._takes):
                    msg += f"; {advice}"
                _defining_in(type(self).registry).refuse(TypeError(msg))
            elif value is not None:
                setattr(self, name, tuple(value) if is_array(value) else value)
        if not self.description:
            self.description = _docstring(type(self))
        self._normalize_names()
        self._origin = locate()
        inherited = type(self).registry
        if registry is not None:
            self._pinned = registry
        elif inherited is not BaseFlow.registry:  # the default one gives way to the current scope: see `home`
            self._pinned = inherited
        self.home.register(self, replace=replace)
        _remember(self)

    def _normalize_names(self) -> None:
        """Bring the names that it has, and those that it refers to, into NFC form, in which they are compared."""
        for name in _NAMES:
            value: object = getattr_static(self, name, None)
            if hasattr(value, "__get__"):
                continue  # it is computed, perhaps from parts that are not there yet
            normalized = _normalize(value)
            if normalized != value:
                setattr(self, name, normalized)

    def __copy__(self) -> Self:
        """Return a flow with the same attributes, in no further registry."""
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a flow with copies of the attributes, in no further registry; part names mean what they meant."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            vars(made)[name] = value if name in _OF_REGISTRIES else _copy_value(value, memo)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the registries, so that a flow read back is in none."""
        return {name: value for name, value in vars(self).items() if name not in _OF_REGISTRIES}

    @classmethod
    def declared(cls) -> "BaseFlow | None":
        """Return the flow that the class declares; None for a base class and for a class with its own `__init__`."""
        return cls._declared

    @property
    def home(self) -> FlowRegistry:
        """The registry it belongs to: its own, else the current scope, else the default."""
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
        """The name, or a placeholder if it is missing or not a string."""
        if isinstance(self.name, str) and self.name:  # pyright: ignore[reportUnnecessaryIsInstance] - of authors
            return self.name
        return f"<unnamed {type(self).__qualname__}>"

    @property
    def display_name(self) -> str:
        """Its name for users: the title, else the name in words."""
        return self.title or titled(self.name)

    @property
    def own_tools(self) -> Sequence[str]:
        """The tools it names itself, without those of its parts."""
        return self.tools

    def all_inputs(self) -> dict[str, Input]:
        """Return the inputs that it and its parts declare, by name; the first declaration of a name wins."""
        found: dict[str, Input] = {}
        for each in self.inputs:
            found.setdefault(each.name, each)
        for part in self.parts_there():
            for name, each in part.all_inputs().items():
                found.setdefault(name, each)
        return found

    def parts_there(self) -> tuple["BaseFlow", ...]:
        """Return the parts; none if one of them cannot be found."""
        try:
            return self.subflows
        except FlowValidationError:
            return ()  # a part has left the registry

    @property
    def asks_one(self) -> bool:
        """Whether to ask for missing inputs one at a time."""
        return self.ask == "one" and bool(self.all_inputs())

    def lacks(self, connected: Container[str]) -> tuple[str, ...]:
        """Return its required tools that are not connected; none if it is `manual`."""
        if self.manual:
            return ()
        return tuple(name for name in self.own_tools if name not in connected and name not in self.optional_tools)

    @property
    def has_guard(self) -> bool:
        """Whether `available` may return False, and so has to be called."""
        return type(self).available is not BaseFlow.available or "available" in self.__dict__

    def available(self, context: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for authors to override
        """Whether the flow may be offered in this context. Called before retrieval and again after the choice."""
        return True

    def links(self) -> Sequence[tuple[str, FlowPart]]:
        """The parts as written, each with the text that says when to take it; empty where they all are."""
        return ()

    def check_parts(self, subject: Subject) -> None:
        """Check the parts of a composite.

        Raises:
            FlowValidationError: A part is of the wrong kind, or there is none.
        """

    @property
    def subflows(self) -> tuple["BaseFlow", ...]:
        """Return the parts; names are looked up now.

        Raises:
            FlowValidationError: A part cannot be found.
        """
        return tuple(self.resolve(part) for _, part in self.links())

    def resolve(self, part: FlowPart) -> "BaseFlow":
        """Return the flow that a part stands for.

        Raises:
            FlowValidationError: There is none.
        """
        if isinstance(part, BaseFlow):
            return part
        if isinstance(part, str):
            for home in reversed(self._homes):  # the latest registry that it joined counts first
                registry = home()
                found = None if registry is None else registry.by_name(part)
                if found is not None:
                    return found
            problem = f"the part {part!r} is not in the same registry; define or load it first, or correct the name"
            raise _wrong(self, "flows", problem)
        if part._declared is not None:  # noqa: SLF001 - a class of this very module
            return part._declared  # noqa: SLF001
        problem = f"the class {part.__qualname__} declares no flow by itself; pass an instance of it, or its name"
        raise _wrong(self, "flows", problem)

    def definition(self) -> Definition:
        """Return the content of the flow and its parts.

        Raises:
            FlowValidationError: A part cannot be found or contains this flow, or there are too many.
        """
        return self._define((), count())

    def outline(self) -> Definition:
        """Return the definition with named parts left as names, since they may not be registered yet."""
        counted = count(1)
        parts: list[SubflowDefinition] = []
        for when, part in self.links():
            if isinstance(part, str):
                parts.append(SubflowDefinition(name=part, when=when))
            else:
                parts.append(self._part(when, self.resolve(part), (self,), counted))
        return self._with_parts(tuple(parts))

    def build_prompt(self, verbose: bool = True) -> str:  # noqa: FBT001, FBT002 - the published signature
        """Return the flow as XML for an agent's prompt; `verbose` adds comments for developers."""
        definition = self.definition()
        if not verbose:
            return render(definition)
        lines = [f"Defined by {self.place}", f"Id: {self.id}", f"Checksum: {definition.checksum()}"]
        if self.aliases:
            lines.append(f"Aliases: {', '.join(self.aliases)}")
        return render(definition, notes=["\n".join(lines)])

    def build_embedding_text(self) -> str:
        """Return one text of name (also split into words), description, condition, effects, aliases and examples."""
        return self.outline().embedding_text()

    def compute_checksum(self) -> str:
        """Return a digest of the definition, subflows included."""
        return self.definition().checksum()

    def card(self) -> FlowCard:
        """Return the definition as memory needs it."""
        own = self.definition()
        shared = {each.name: getattr(own, each.name) for each in fields(own) if each.name in FlowCard.__slots__}
        return FlowCard(id=self.id, title=self.title, text=own.embedding_text(), checksum=own.checksum(), **shared)

    def fields(self) -> dict[str, object]:
        """Return the fields as the author wrote them."""
        written: dict[str, object] = {}
        for name in (*FIELDS, *OPERATIONAL, "type"):
            # A composite's `tools` are those of its parts, too, which may not be there yet.
            written[name] = self.own_tools if name == "tools" else getattr(self, name)
        return written

    def joined(self, registry: FlowRegistry) -> None:
        """Look up part names in this registry from now on."""
        # Use a weak reference: a flow must not keep every registry alive that it was in.
        others = (home for home in self._homes if home() is not registry and home() is not None)
        self._homes = (*others, ref(registry))

    def _define(self, path: tuple["BaseFlow", ...], counted: Iterator[int]) -> Definition:
        if any(self is above for above in path):
            circle = " → ".join(flow.name for flow in (*path[path.index(self) :], self))
            problem = f"{circle} is a circle; take one of the parts out"
            raise _wrong(path[0], "flows", problem)
        limit = ""
        if len(path) > DEEPEST:
            limit = f" in more than {DEEPEST} levels"
        elif next(counted) > MOST_PARTS:
            limit = f", more than {MOST_PARTS} of them"
        if limit:
            problem = f"has parts of parts{limit}, each counted wherever it stands; make it flatter, or several flows"
            raise _wrong(path[0] if path else self, "flows", problem)
        inner = (*path, self)
        parts = [self._part(when, self.resolve(part), inner, counted) for when, part in self.links()]
        return self._with_parts(tuple(parts))

    @staticmethod
    def _part(when: str, flow: "BaseFlow", path: tuple["BaseFlow", ...], counted: Iterator[int]) -> SubflowDefinition:
        return SubflowDefinition(name=flow.name, when=when, flow=flow._define(path, counted))  # noqa: SLF001 - a flow like this one

    def _with_parts(self, parts: tuple[SubflowDefinition, ...]) -> Definition:
        content: dict[str, Any] = {}
        for name in FIELDS:
            if name != "tools":
                value: Any = getattr(self, name)
                content[name] = value if isinstance(value, str) else tuple(value)
        return Definition(type=self.type, tools=tuple(self.own_tools), parts=parts, **content)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label!r}>"


def _copy_value(value: object, memo: dict[int, Any]) -> object:
    try:
        return deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - a lock, a client, whatever an author keeps: it is shared
        return value


def _normalize(given: object) -> object:
    """Return a name, or a list of names, in NFC form; anything else as it is."""
    if isinstance(given, str):
        return nfc(given)
    # Not a subclass of these: what an author made keeps its type.
    if type(given) in {list, tuple}:
        made = [nfc(each) if isinstance(each, str) else each for each in cast("Sequence[object]", given)]
        return made if isinstance(given, list) else tuple(made)
    return given


def _docstring(kind: type[BaseFlow]) -> str:
    for base in kind.__mro__:
        if issubclass(base, BaseFlow) and not is_ours(base) and base.__doc__:
            return cleandoc(base.__doc__)
    return ""


def _defining_in(registry: FlowRegistry) -> FlowRegistry:
    """Return the registry that hears of what is wrong with a definition: the current scope, if any."""
    scope = current_scope()
    return registry if scope is None else scope


class Flow(BaseFlow):
    """A flow built from data: `Flow(name=…, description=…, condition=…, desired_effects=[…], examples=[…])`."""


def chain_of(flow: BaseFlow) -> tuple[Step, ...]:
    """Return the steps of a flow: its attribute `chain`, or none.

    ```python
    class CancelOrder(BaseFlow):
        tools = ["lookup_order", "cancel_order", "release_payment"]
        chain = ("lookup_order", GuidedDecisionPoint(after_step="lookup_order", candidate_tools=[...]), ...)
    ```

    A step is the name of a tool, a `GuidedDecisionPoint` or a mapping of its fields, `CHOOSE` or that word.

    Raises:
        FlowValidationError: An entry is no step, or names a tool that is not among the flow's `tools`.
    """
    given = cast("object", flow.chain)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _wrong(flow, "chain", f"it must be a list of steps, got {given!r:.80}")
    written = cast("Sequence[Any]", given)
    # Only where there are steps: the tools of a composite look up its parts, which may not be there yet.
    tools = dict.fromkeys(flow.own_tools) if written else {}
    return tuple(_read_step(flow, tools, f"chain[{number}]", step) for number, step in enumerate(written))


def _read_step(flow: BaseFlow, tools: Collection[str], field: str, step: Any) -> Step:
    """Return a step as a value; a tool named CHOOSE takes precedence over the keyword."""
    if isinstance(step, str):
        step = nfc(step)
    if is_object(step):
        step = _decision_point(flow, field, step)
    if isinstance(step, Choose) or (step == "CHOOSE" and step not in tools):
        return CHOOSE
    if isinstance(step, GuidedDecisionPoint):
        names = [step.after_step, *step.possible_tools]
    elif isinstance(step, str):
        names = [step]
    else:
        raise _wrong(flow, field, f"a step must be a tool's name, a GuidedDecisionPoint or CHOOSE, got {step!r:.80}")
    for name in names:
        if name not in tools:
            advice = did_you_mean(name, tools) or "add it to the flow's `tools`, or take the step out"
            raise _wrong(flow, field, f"{beginning(name, _LONGEST_NAME)!r} is not among the flow's tools; {advice}")
    return step


def _decision_point(flow: BaseFlow, field: str, given: Mapping[str, Any]) -> GuidedDecisionPoint:
    known = [each.name for each in fields(GuidedDecisionPoint)]
    for name in map(str, given):
        if name not in known:
            raise _wrong(flow, f"{field}.{name:.80}", unknown_field(name, known, of="choice between tools"))
    for name in ("after_step", "candidate_tools"):
        if name not in given:
            raise _wrong(flow, f"{field}.{name}", "is missing")
    try:
        return GuidedDecisionPoint(**given)
    except ToolError as error:
        raise _wrong(flow, field, error.problem) from error


def _wrong(flow: BaseFlow, field: str, problem: str) -> FlowValidationError:
    return FlowValidationError(flow.label, field, problem, place=flow.place)


def steps_named(flow: BaseFlow) -> tuple[str, ...]:
    """Return the tools that its chain may call, in order; none if the chain cannot run."""
    try:
        chain = chain_of(flow)
    except FlowValidationError:
        return ()
    found: list[str] = []
    for step in chain:
        if isinstance(step, GuidedDecisionPoint):
            found += step.possible_tools
        elif isinstance(step, str):
            found.append(step)
    return tuple(dict.fromkeys(found))


def called_by(flow: BaseFlow) -> list[BaseFlow]:
    """Return the flows that a flow calls, with those that these call; unknown ones are left out."""
    found: list[BaseFlow] = []
    waiting = [flow]
    while waiting:
        for name in waiting.pop().calls:
            try:
                called = flow.resolve(name)
            except FlowValidationError:
                continue
            if called not in found:
                found.append(called)
                waiting.append(called)
    return found


def check_calls(flow: BaseFlow, path: tuple[str, ...] = ()) -> None:
    """Refuse a flow whose `calls` name an unknown flow or form a cycle, and what depends on more than they give.

    A flow that is only called is no branch either: branches are selected.

    Raises:
        FlowValidationError: Something of that is so.
    """
    if flow.name in path:
        circle = " → ".join((*path[path.index(flow.name) :], flow.name))
        problem = f"{circle} is a circle; take one of the calls out"
        raise FlowValidationError(path[0], "calls", problem, place=flow.place)
    for name in flow.calls:
        try:
            called = flow.resolve(name)
        except FlowValidationError:
            problem = f"the flow {name!r} is not in the same registry; define or load it first, or correct the name"
            raise _wrong(flow, "calls", problem) from None
        check_calls(called, (*path, flow.name))
    if not path and flow.calls:
        inputs, tools = list(flow.inputs), list(steps_named(flow))
        for called in called_by(flow):
            inputs += called.all_inputs().values()
            tools += steps_named(called)
        fault = dependency_fault(Subject(name=flow.label, place=flow.place), inputs, tools)
        if fault is not None:
            raise fault
    for number, (when, part) in enumerate(flow.links()):
        if when and _is_only_called(flow, part):
            problem = "runs only when it is called, and a branch is selected; take out its `only_called`"
            raise _wrong(flow, f"branches[{number}]", f"{flow.resolve(part).name} {problem}")


def _is_only_called(flow: BaseFlow, part: FlowPart) -> bool:
    try:
        return flow.resolve(part).only_called
    except FlowValidationError:
        return False  # the part has left the registry


def check_connected(flows: Iterable[BaseFlow], connected: Collection[str]) -> None:
    """Refuse flows whose required tools are not connected."""
    unconnected: dict[str, tuple[str, ...]] = {}
    for flow in flows:
        names = flow.lacks(connected)
        if names:
            unconnected[flow.name] = names
    if unconnected:
        raise UnconnectedToolsError(unconnected, connected=connected)


def flows_digest(flows: Iterable[BaseFlow]) -> str:
    """Return a digest of a catalogue's content, independent of the order of flows and files."""
    lines = sorted(f"{flow.id} {flow.compute_checksum()} {list(flow.aliases)!r}" for flow in flows)
    return sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()


_FLOWS_OF_MODULE = "__jazz_select_flows__"
"""The module attribute that holds its flows, so that they live exactly as long as the module."""


def _remember(flow: BaseFlow) -> None:
    """Record that the module being executed defined `flow`. A later flow of the same name replaces it."""
    name = flow.origin.module
    # A script runs as `__main__`, which nobody loads.
    if name and name != "__main__":
        flows = vars(sys.modules[name]).setdefault(_FLOWS_OF_MODULE, [])
        flows[:] = [each for each in flows if each.name != flow.name or each.home is not flow.home]
        flows.append(flow)


def defined_in(module: ModuleType) -> list[BaseFlow]:
    """Return the flows that executing `module` defined, in order."""
    return list(vars(module).get(_FLOWS_OF_MODULE, ()))
