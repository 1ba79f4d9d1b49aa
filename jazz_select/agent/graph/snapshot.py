"""A paused turn as JSON, to be resumed by the same router in any process."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, FailFast, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from jazz_select.agent.graph.guards import NodeRecord, StateT, TurnState
from jazz_select.errors import SnapshotError
from jazz_select.json_values import Secret, signed, unsigned
from jazz_select.serialization import check_version, not_saved, saved_value
from jazz_select.text import describe_error

VERSION: Final = 1
LONGEST_SNAPSHOT: Final = 20_000_000


class Snapshot(BaseModel):
    """The state of a paused turn.

    Attributes:
        node: The next node.
        state: The state as JSON values.
        trace: The nodes passed so far.
        version: Version of this format.
    """

    model_config = ConfigDict(frozen=True)

    node: str
    state: dict[str, Any]
    trace: Annotated[tuple[NodeRecord, ...], FailFast()] = ()
    version: int = VERSION

    @classmethod
    def take(cls, node: str, state: TurnState, trace: tuple[NodeRecord, ...]) -> "Snapshot":
        """Take a snapshot, and check that it can be read again.

        Raises:
            SnapshotError: The turn has ended, or a field of the state does not survive JSON.
        """
        if not node:
            raise SnapshotError("the turn has ended")
        values: dict[str, Any] = {}
        for name in type(state).model_fields:
            try:
                values |= state.model_dump(mode="json", include={name}, round_trip=True)
                _ = TypeAdapter(Any).dump_json(values[name])
            except (PydanticSerializationError, ValueError, TypeError) as error:
                raise SnapshotError(f"the field {name} does not go to JSON: {describe_error(error)}") from error
        snapshot = cls(node=node, state=values, trace=trace)
        read = cls.from_json(snapshot.to_json()).state_of(type(state))
        for name in type(state).model_fields:
            if not is_same(getattr(state, name), getattr(read, name)):
                problem = f"the field {name} comes back from JSON as something else: give it a type of its own"
                raise SnapshotError(problem)
        return snapshot

    def to_json(self, *, secret: Secret | None = None) -> str:
        """Return a JSON text, signed if there is a secret; the first of several secrets signs.

        Raises:
            ConfigError: A secret is empty or of the wrong type.
        """
        return signed(self.model_dump_json(), secret, "snapshot")

    @classmethod
    def from_json(cls, text: str | bytes, *, secret: Secret | None = None) -> "Snapshot":
        """Read a snapshot.

        Args:
            text: What `to_json` returned.
            secret: The secret that signed it, or several, one of which did. Other and changed texts are refused.
                Without a secret the content is trusted: keep it where users cannot write.

        Raises:
            ConfigError: A secret is empty or of the wrong type.
            SnapshotError: The text is no snapshot, of an unknown version, or not signed with this secret.
        """
        return saved_value(cls, unsigned(text, secret, "snapshot", longest=LONGEST_SNAPSHOT), VERSION)

    def node_of(self, nodes: Collection[str], aliases: Mapping[str, str]) -> str:
        """Return the next node by its current name.

        Raises:
            SnapshotError: There is no such node.
        """
        check_version(self.version, VERSION)
        name = aliases.get(self.node, self.node)
        if name not in nodes:
            problem = f"there is no node {name!r}; pass aliases={{{self.node!r}: …}} if it was renamed"
            raise SnapshotError(problem, missing=(name,))
        return name

    def last(self, state: TurnState, aliases: Mapping[str, str]) -> NodeRecord | None:
        """Return the last node passed, by its current names; None if there is none.

        Raises:
            SnapshotError: The state is not the one that this node left: the snapshot was changed.
        """
        if not self.trace:
            return None
        was = self.trace[-1]
        action = aliases.get(was.action, was.action)
        own = {"iterations": was.iteration, "route": was.route, "decision": action}
        decided = state.decision.action if state.decision else ""
        for name, value in {"iterations": state.iterations, "route": state.route, "decision": decided}.items():
            if value != own[name]:
                problem = f"{was.node} was left with {name} {own[name]!r:.80}, and its state has {value!r:.80}"
                raise SnapshotError(problem)
        return replace(was, node=aliases.get(was.node, was.node), action=action)

    def state_of(self, kind: type[StateT]) -> StateT:
        """Return the state.

        Raises:
            SnapshotError: A field is missing or unknown.
        """
        try:
            return kind.model_validate(self.state)
        except ValidationError as error:
            wrong = not_saved(error)
            raise SnapshotError(f"its state is no {kind.__name__}: {wrong.problem}", missing=wrong.missing) from error


def is_same(one: object, other: object) -> bool:
    """Whether two values are equal and of the same types throughout: 1 differs from True, and a date from its text."""
    if type(one) is not type(other):
        return isinstance(one, Mapping) and isinstance(other, Mapping) and not isinstance(one, dict) and one == other
    if isinstance(one, BaseModel):
        return all(is_same(value, vars(other)[name]) for name, value in vars(one).items())
    if isinstance(one, dict):
        left, right = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
        return left.keys() == right.keys() and all(is_same(value, right[key]) for key, value in left.items())
    if isinstance(one, list | tuple):
        left, right = cast("list[Any]", one), cast("list[Any]", other)
        return len(left) == len(right) and all(map(is_same, left, right))
    return one == other
