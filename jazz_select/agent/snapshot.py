"""A turn that was paused, as JSON: whoever has the same router goes on with it, in any process."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from jazz_select.agent.state import NodeRecord, StateT
from jazz_select.errors import SnapshotError

VERSION: Final = 1


class Snapshot(BaseModel):
    """Where a turn stands.

    Attributes:
        node: The node that comes next.
        state: The state, as JSON values.
        trace: What was passed so far.
        version: Of this format.
    """

    model_config = ConfigDict(frozen=True)

    node: str
    state: dict[str, Any]
    trace: tuple[NodeRecord, ...] = ()
    version: int = VERSION

    def to_json(self) -> str:
        """As a JSON text."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Snapshot":
        """Read one.

        Raises:
            SnapshotError: It is none, or of a version that is not known here.
        """
        try:
            found = cls.model_validate_json(text)
        except ValidationError as error:
            raise SnapshotError(_first(error)) from error
        if found.version != VERSION:
            problem = f"it is of version {found.version}, and this is version {VERSION}"
            raise SnapshotError(problem)
        return found

    def node_of(self, nodes: Collection[str], aliases: Mapping[str, str]) -> str:
        """The node to go on with, by its name now.

        Raises:
            SnapshotError: There is none of that name.
        """
        name = aliases.get(self.node, self.node)
        if name not in nodes:
            problem = f"there is no node {name!r}; pass aliases={{{self.node!r}: …}} if it was renamed"
            raise SnapshotError(problem, missing=(name,))
        return name

    def state_of(self, kind: type[StateT]) -> StateT:
        """The state.

        Raises:
            SnapshotError: It lacks something, or has what is not known any more.
        """
        try:
            return kind.model_validate(self.state)
        except ValidationError as error:
            missing = tuple(".".join(map(str, each["loc"])) for each in error.errors() if each["type"] == "missing")
            problem = f"its state is no {kind.__name__}: {_first(error)}"
            raise SnapshotError(problem, missing=missing) from error


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the text'}: {problem['msg']}"
