"""Labelled requests, as `examples/requests.yaml` and `examples/eval.yaml` hold them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.flow.data import SYNTAX_ERRORS, read_text, syntax_problem, yaml_documents

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from jazz_select.flow.base import FlowRegistry


class Case(BaseModel):
    """A request, and the flows that a careful person would choose for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request: str = Field(min_length=1)
    expect: tuple[str, ...]
    """Names of flows; none where nothing fits."""
    episodes: tuple[str, ...] = ()
    """Summaries of earlier turns."""
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """What guards look at."""
    inputs: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """What the flow's tools are given to begin with, where it is run."""
    tools: tuple[str, ...] = ()
    """The tools that are to run, in order."""
    why: str = ""
    """What the case shows."""


def _problem(error: "ErrorDetails") -> str:
    given: object = error["input"]
    if error["type"] == "tuple_type" and isinstance(given, str) and len(error["loc"]) > 1:
        return f"has to be a list, even of one: [{given:.80}]"
    return error["msg"]


_CASES = TypeAdapter(tuple[Case, ...])


def read_entries(file: Path, what: str) -> object:
    """What a file of the command's own holds, read within the bounds of a file of flows; None where it is empty.

    Args:
        file: In YAML.
        what: What stands in it, in words.

    Raises:
        ConfigError: It cannot be read, or is no YAML that is read in a moment.
    """
    try:
        documents = yaml_documents(read_text(file))
    except FlowLoadError as error:
        msg = f"cannot read the {what} in {file}: {error.problem}"
        raise ConfigError(msg) from error
    except SYNTAX_ERRORS as error:
        is_yaml = isinstance(error, ValueError | RecursionError)  # and more of it than is read
        msg = f"{f'cannot read the {what} in {file}' if is_yaml else f'{file} is no YAML'}: {syntax_problem(error)}"
        raise ConfigError(msg) from error
    if len(documents) > 1:
        msg = f"cannot read the {what} in {file}: it holds {len(documents)} documents; take the lines of --- out"
        raise ConfigError(msg)
    return documents[0][0] if documents else None


def load_cases(file: Path, registry: "FlowRegistry", *, flows: str) -> tuple[Case, ...]:
    """The cases of a file, whose labels name flows of this registry, which was loaded from `flows`.

    Raises:
        ConfigError: It cannot be read, or an entry is wrong.
    """
    try:
        cases = _CASES.validate_python(read_entries(file, "requests"))
    except ValidationError as error:
        first = error.errors()[0]
        entry, *field = first["loc"] or ("",)
        where = f", entry {entry + 1}" if isinstance(entry, int) else ""
        msg = f"{file}{where}: {'.'.join(map(str, field)) or 'requests'}: {_problem(first)}"
        raise ConfigError(msg) from error
    for number, case in enumerate(cases, 1):
        for name in case.expect:
            if registry.by_name(name) is None:
                msg = (
                    f"{file}, entry {number}: expect: there is no flow named {name!r} in {flows} (--flows loads others)"
                )
                raise ConfigError(msg)
    if not cases:
        msg = f"{file} holds no requests"
        raise ConfigError(msg)
    return cases
