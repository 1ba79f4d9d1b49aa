"""Read users' files of YAML, JSON or TOML within limits, with errors that name the place."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from jazz_select.errors import DataFileError
from jazz_select.json_values import has_more_values
from jazz_select.text import beginning, describe_value

if TYPE_CHECKING:
    from yaml import SafeLoader as _YamlLoader
else:
    _YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where PyYAML has libyaml

LARGEST: Final = 4 << 20
"""The most bytes of a file."""
MOST_VALUES: Final = 100_000
"""The most keys, texts, lists and mappings in one file, counting repetitions by aliases and merge keys."""
_DEPTH: Final = 100
_LONGEST_NUMBER: Final = 100
_TOO_LONG: Final = f"it has a number of more than {_LONGEST_NUMBER} digits; put quotes around it if it is a text"
_LONGEST_PROBLEM: Final = 500
_NUMBER: Final = "+-0123456789_:."
_SYNTAX_ERRORS: Final = (ValueError, RecursionError, yaml.YAMLError)


class Document(NamedTuple):
    """One document of a file.

    Attributes:
        value: Its content.
        node: The YAML node with the positions of its parts; None for other formats.
    """

    value: Any
    node: yaml.Node | None = None


def node_at(node: yaml.Node | None, path: Iterable[str | int]) -> yaml.Node | None:
    """Return the YAML node of the longest existing prefix of a path."""
    for step in path:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
            found = next((value for key, value in pairs if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
        if found is None:
            break
        node = found
    return node


def place_of(file: Path | str, node: yaml.Node | None, path: Sequence[str | int] = ()) -> str:
    """Return the file with line and column of a part, or of a mapping's key, as editors open it."""
    found = node_at(node, path)
    around = node_at(node, path[:-1])
    if path and isinstance(around, yaml.MappingNode) and found is not around:
        found = next((key for key, value in around.value if value is found), found)
    return str(file) if found is None else f"{file}:{found.start_mark.line + 1}:{found.start_mark.column + 1}"


def read_text(file: Path, largest: int = LARGEST) -> str:
    """Return the text of a file of at most `largest` bytes.

    Raises:
        DataFileError: It is missing, too large, or not UTF-8.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(largest + 1)  # do not trust the file system's size
        _check_bytes(file, content, largest)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataFileError(str(file), f"line {line} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise DataFileError(str(file), error.strerror or str(error)) from error


def _check_bytes(file: Path, content: bytes, largest: int) -> None:
    if len(content) > largest:
        raise DataFileError(str(file), f"it is larger than {largest >> 20} MiB; split it into several files")


def documents_of(
    file: Path, text: str | None = None, *, suffix: str = "", largest: int = LARGEST, most_values: int = MOST_VALUES
) -> list[Document]:
    """Read the documents of a file, by its suffix: `.json` and `.toml` hold one, anything else is YAML.

    Args:
        file: The file.
        text: Its text, if read already.
        suffix: Overrides that of its name.
        largest: The most bytes.
        most_values: The most values.

    Raises:
        DataFileError: It cannot be read, has a syntax error, or would take too long to load.
    """
    if text is None:
        read = read_text(file, largest)
    else:
        read = text
        _check_bytes(file, text.encode(errors="replace"), largest)
    try:
        match (suffix or file.suffix).lower():
            case ".json":
                return [Document(json_value(read, most_values))] if read.strip() else []
            case ".toml":
                return [Document(tomllib.loads(read))]
            case _:
                return _yaml_documents(read)
    except _SYNTAX_ERRORS as error:
        is_syntax = isinstance(error, yaml.YAMLError | json.JSONDecodeError | tomllib.TOMLDecodeError)
        raise DataFileError(str(file), _syntax_problem(error), is_syntax=is_syntax) from error


def json_value(text: str, most_values: int = MOST_VALUES) -> object:
    """Parse JSON text.

    Raises:
        ValueError: It is invalid, has too many values, or a key occurs twice in one object.
        RecursionError: It is nested too deeply.
    """
    if has_more_values(text.encode(errors="replace"), most_values):
        raise ValueError(f"it holds more than {most_values} values; split it")
    return json.loads(text, object_pairs_hook=_unique, parse_int=_whole)


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(_TOO_LONG)
    return int(digits)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"{key!r:.80} stands twice in one mapping")
        seen[key] = value
    return seen


def _yaml_documents(text: str) -> list[Document]:
    _check_size(text)
    loader: Any = _UniqueKeys(text)
    found: list[Document] = []
    while loader.check_node():
        node = loader.get_node()
        found.append(Document(loader.construct_document(node), node))
    return found


def _check_size(text: str) -> None:
    """Refuse YAML that would take too long to load, reading it event by event.

    The fast loader recurses in C, where deep nesting ends the process. An alias counts as all that it refers to, since
    a line may stand for a million values. Long numbers in the base 60 of YAML 1.1 take quadratic time.
    """
    total = 0
    known: dict[str, int] = {}
    nodes: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=_YamlLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = nodes.pop()
            if anchor:
                known[str(anchor)] = total - before
        elif isinstance(event, yaml.AliasEvent):
            # An open anchor contains itself. An unknown one is reported when the nodes are made.
            is_open = any(anchor == event.anchor for anchor, _ in nodes)
            total += MOST_VALUES if is_open else known.get(str(event.anchor), 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            known |= {str(event.anchor): 1} if event.anchor else {}
            if len(event.value) > _LONGEST_NUMBER and not event.value.strip(_NUMBER):
                raise ValueError(_TOO_LONG)
        if len(nodes) > _DEPTH:
            raise ValueError(f"it nests lists or mappings more than {_DEPTH} deep, which no flow does")
        if total > MOST_VALUES:
            msg = f"it holds more than {MOST_VALUES} values, aliases counted as what they stand for; split it"
            raise ValueError(msg)


class _UniqueKeys(_YamlLoader):
    """A safe loader that refuses repeated keys, where YAML libraries silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()  # pyright: ignore[reportUnnecessaryIsInstance] - `!!map x`
        keys = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        counts = Counter(keys)
        repeated = next((key for key in keys if counts[key] > 1), None)
        if repeated is not None:
            problem = f"{repeated!r:.80} stands twice in one mapping; a new flow begins with a dash"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        try:
            return super().construct_object(node, deep=deep)  # pyright: ignore[reportUnknownMemberType] - as PyYAML is typed
        except (ValueError, LookupError, AttributeError, TypeError) as error:  # as PyYAML fails on `!!bool x`
            what = f"{describe_value(node.value)} is no {node.tag.rpartition(':')[2]}"
            problem = f"{what}; put quotes around it if it is a text, and take the tag off if it has one"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


_COLUMN = "; the fields of an entry begin in one column, and a text that begins with a brace or a quote needs quotes"
_MEANT = {
    "mapping values are not allowed": "; a text with a colon in it needs quotes, and a field a blank after its colon",
    "did not find expected key": _COLUMN,
    "expected <block end>": _COLUMN,
    "cannot start any token": "; a text that begins with such a mark needs quotes",
    "undefined alias": "; a text that begins with a star needs quotes",
}
"""The usual mistake behind each error text of the two YAML libraries."""


def _syntax_problem(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        problem = f"line {error.problem_mark.line + 1}: {error.problem}"
        if "\\t" in problem or " tab " in problem:
            return beginning(f"{problem}; YAML is indented with spaces, not tabs", _LONGEST_PROBLEM)
        hint = next((hint for said, hint in _MEANT.items() if said in problem), "")
        return beginning(problem, _LONGEST_PROBLEM) + hint
    return "it is nested too deeply" if isinstance(error, RecursionError) else beginning(str(error), _LONGEST_PROBLEM)
