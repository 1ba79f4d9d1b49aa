"""The registry: which flows there are, by id. It holds them strongly and keeps the bars."""

from collections.abc import Generator, ItemsView, Iterator, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import TYPE_CHECKING

from jazz_select.errors import ConfigError, DuplicateFlowError
from jazz_select.flow.checks import Subject, check_bars, check_fields
from jazz_select.values import flow_id

if TYPE_CHECKING:
    # A flow knows its registry and a registry holds flows; only the type checker needs this half of the circle.
    from jazz_select.flow.base import BaseFlow

_scope: ContextVar["FlowRegistry | None"] = ContextVar("jazz_select_scope", default=None)


class FlowRegistry(Mapping[str, "BaseFlow"]):
    """A mapping of flow id to live flow, one per scope (an agent, a test); readable like a dict.

    A leaf flow needs a description, a condition, one desired effect and `min_examples` different examples; a
    composite needs a description, one part and as many examples. With `min_examples=0`, for catalogues of bare
    tools that nobody wrote requests for, a name is enough and examples may repeat; types are still checked.

    Registering and unregistering are safe from several threads. Iterating sees the flows of the moment it began.
    """

    def __init__(self, *, min_examples: int = 5) -> None:
        if isinstance(min_examples, bool) or min_examples < 0:
            msg = f"min_examples has to be 0 or more, not {min_examples!r}"
            raise ConfigError(msg)
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
            msg = f"register takes an instance of BaseFlow, not {flow!r}"
            raise TypeError(msg)
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
