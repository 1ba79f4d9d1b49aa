"""Conversation cases in YAML: messages turn by turn, scripted replies of a model, and the expected results.

`examples/clinic/conversations.yaml` is an example; `docs/conversation-cases.md` describes the fields.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from jazz_select.agent.flows.open_flows import BLOCKED, FINISHED
from jazz_select.agent.turn import TurnStatus
from jazz_select.arguments import problem_in
from jazz_select.data_files import node_at, place_of
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import read_document
from jazz_select.json_values import is_array, is_object, json_or_same, plain
from jazz_select.routing.schemas.validity import finder
from jazz_select.text import beginning, count_of, json_line, misspelt

if TYPE_CHECKING:
    from jazz_select.flow.base import BaseFlow

_SHOWN: Final = 400
_LEAST_PATTERN: Final = 3
_NONE: Final = "none"


class Strict(BaseModel):
    """A model without unknown fields, so that a misspelt expectation is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


def _as_list(given: object) -> object:
    """Return a single value as a list, and the word none as an empty one."""
    if given == _NONE:
        return []
    if isinstance(given, str | int | float | dict):
        return [cast("object", given)]
    return given


def _check_patterns(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            finder(pattern_of(text) or "")
        except ValueError as error:
            shown = beginning(text, _SHOWN)
            msg = f"{shown} is no pattern, or one that looks ahead or back; take the slashes away, or mend it"
            raise ValueError(msg) from error
    return texts


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Words = Annotated[tuple[str, ...], BeforeValidator(_as_list), AfterValidator(_check_patterns)]


class ExpectedCall(Strict):
    """An expected call of a tool; only the named arguments are compared, as in `agrees`."""

    tool: str = Field(min_length=1)
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> object:
        """Accept a name alone, or `name: {argument: value}`."""
        if isinstance(given, str):
            return {"tool": given}
        if is_object(given) and len(given) == 1 and "tool" not in given:
            ((name, arguments),) = given.items()
            # YAML reads `name:` without a value as null.
            return {"tool": name, "arguments": {} if arguments is None else arguments}
        return cast("object", given)

    def __str__(self) -> str:
        return call_line(self.tool, self.arguments)


class Expected(Strict):
    """The expected result of a turn or of a whole conversation. A field that is not set is not checked.

    Attributes:
        flows: Exactly the flows that run, in order; `none` if no flow may run.
        under_way: Exactly the flows that are open afterwards, the active one last.
        waits_for: Names of the facts that the active flow waits for, or the tool whose call waits for confirmation.
        inputs: Known inputs of the active flow; null for one that must not be known. Others are ignored.
        tools: Exactly the calls that are made, in order.
        says: Texts or `/patterns/` that the answer contains: see `is_said`.
        never_says: Texts or `/patterns/` that it must not contain.
        reason: Texts or `/patterns/` in `TurnResult.reason`, such as why a flow was handed over.
        value: The answer in the turn's schema, compared as in `agrees`.
    """

    flows: Names | None = None
    under_way: Names | None = None
    waits_for: Names | None = None
    inputs: Mapping[str, Any] | None = None
    status: TurnStatus | None = None
    tools: Annotated[tuple[ExpectedCall, ...], BeforeValidator(_as_list)] | None = None
    never_tools: Names = ()
    says: Words = ()
    never_says: Words = ()
    reason: Words = ()
    value: Any = None
    model_calls: int | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A tool call, with its arguments as plain JSON values; its status is `ok`, `failed` or `unknown`."""

    tool: str
    arguments: Mapping[str, Any]
    status: str = "ok"

    def __str__(self) -> str:
        call = call_line(self.tool, self.arguments)
        return call if self.status == "ok" else f"{call} ({self.status})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The actual result of a turn or of a whole conversation, with the fields of `Expected`."""

    flows: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: str = ""
    tools: tuple[Called, ...] = ()
    text: str = ""
    reason: str = ""
    value: Any = None
    model_calls: int = 0

    def __str__(self) -> str:
        line = f"{self.status}: {', '.join(self.flows) or 'no flow'}"
        if self.waits_for:
            line += f", waits for {', '.join(self.waits_for)}"
        if self.model_calls:
            line += f", {count_of(self.model_calls, 'question')} to the model"
        for call in self.tools:
            line += f"; {call}"
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The check of one expectation, with the expected and the actual result as text."""

    name: str
    passed: bool
    expected: str
    seen: str

    def __str__(self) -> str:
        if self.passed:
            return f"{self.name}: as expected"
        return f"{self.name}: expected {self.expected}, got {self.seen}"


def judged(wanted: Expected, seen: Seen) -> tuple[Check, ...]:
    """Return a check for each expectation, in the order of the fields. Pure."""
    return tuple(_judge_fields(wanted, seen))


def _judge_fields(wanted: Expected, seen: Seen) -> Iterator[Check]:
    yield from _judge_names(wanted, seen)
    if wanted.status is not None:
        passed = seen.status == wanted.status
        status = seen.status
        if seen.reason and not passed:
            status += f" ({beginning(seen.reason, _SHOWN)})"
        yield Check(name="status", passed=passed, expected=wanted.status, seen=status)
    yield from _judge_calls(wanted, seen)
    for name, text, no in (("says", seen.text, ""), ("reason", seen.reason, ""), ("never_says", seen.text, "no ")):
        for words in getattr(wanted, name):
            passed = is_said(words, text) is not bool(no)
            shown = json_line(beginning(text, _SHOWN))
            yield Check(name=name, passed=passed, expected=f"{no}{json_line(words)}", seen=shown)
    if wanted.inputs is not None:
        # An expected null is an input that must not be known, so a missing one counts as null.
        inputs = {name: seen.inputs.get(name) for name in wanted.inputs}
        yield _check_agreement("inputs", wanted.inputs, inputs)
    if wanted.value is not None:
        yield _check_agreement("value", wanted.value, seen.value)
    if wanted.model_calls is not None:
        passed = seen.model_calls <= wanted.model_calls
        most = f"at most {wanted.model_calls}"
        yield Check(name="model_calls", passed=passed, expected=most, seen=str(seen.model_calls))


def _judge_names(wanted: Expected, seen: Seen) -> Iterator[Check]:
    for name in ("flows", "under_way", "waits_for"):
        expected, got = getattr(wanted, name), getattr(seen, name)
        if expected is None:
            continue
        if name == "waits_for":  # facts may be asked for in any order
            passed = sorted(expected) == sorted(got)
        else:
            passed = expected == got
        yield _check_list(name, expected, got, passed=passed)


def _judge_calls(wanted: Expected, seen: Seen) -> Iterator[Check]:
    if wanted.tools is not None:
        yield _check_list("tools", wanted.tools, seen.tools, passed=agree_calls(wanted.tools, seen.tools))
    for name in wanted.never_tools:
        made = [call for call in seen.tools if call.tool == name]
        yield _check_list("never_tools", [f"no {name}"], made, passed=not made)


def is_said(words: str, text: str) -> bool:
    """Whether a text contains words, ignoring case and line breaks, or matches a pattern between slashes."""
    if (pattern := pattern_of(words)) is not None:
        return finder(pattern)(text)
    return " ".join(words.split()).casefold() in " ".join(text.split()).casefold()


def pattern_of(words: Any) -> str | None:
    """Return the pattern between the slashes of a text; None for other values."""
    if isinstance(words, str) and len(words) >= _LEAST_PATTERN and words[0] == words[-1] == "/":
        return words[1:-1]
    return None


def agree_calls(wanted: Sequence[ExpectedCall], made: Sequence[Called]) -> bool:
    """Whether exactly these calls were made, in order, each with the expected arguments."""
    if len(wanted) != len(made):
        return False
    for want, call in zip(wanted, made, strict=True):
        if want.tool != call.tool or not agrees(want.arguments, call.arguments):
            return False
    return True


def agrees(wanted: object, given: object) -> bool:
    """Whether a value is as expected.

    Mappings may have more keys than expected. Lists are compared entry by entry, and texts may match a pattern between
    slashes. Values without a JSON type, such as dates, are compared in their JSON form. The number 1 and the text "1"
    differ.
    """
    # Compare as JSON, since a file holds texts where a tool takes dates or enums.
    wanted, given = json_or_same(wanted), json_or_same(given)
    if isinstance(wanted, dict) and isinstance(given, dict):
        expected, got = cast("dict[str, object]", wanted), cast("dict[str, object]", given)
        return all(name in got and agrees(value, got[name]) for name, value in expected.items())
    if isinstance(wanted, list) and isinstance(given, list):
        entries, has = cast("list[object]", wanted), cast("list[object]", given)
        return len(entries) == len(has) and all(map(agrees, entries, has))
    if isinstance(given, str) and (pattern := pattern_of(cast("object", wanted))) is not None:
        return finder(pattern)(given)
    return isinstance(wanted, bool) == isinstance(given, bool) and wanted == given


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as one line."""
    given = [f"{name}={_json(value)}" for name, value in arguments.items()]
    return f"{tool}({', '.join(given)})"


def _check_list(name: str, wanted: Sequence[object], seen: Sequence[object], *, passed: bool) -> Check:
    return Check(name=name, passed=passed, expected=_list_line(wanted), seen=_list_line(seen))


def _list_line(values: Sequence[object]) -> str:
    return beginning(", ".join(map(str, values)) or _NONE, _SHOWN)


def _check_agreement(name: str, wanted: object, seen: object) -> Check:
    return Check(name=name, passed=agrees(wanted, seen), expected=_json(wanted), seen=_json(seen))


def _json(value: object) -> str:
    return beginning(json_line(json_or_same(value)), _SHOWN)


_WHAT: Final = "conversations"
_MOST_PROBLEMS: Final = 10
_LONGEST_ID: Final = 60
_LONGEST_PROBLEM: Final = 300
_NO_WORD: Final = re.compile(r"[\W_]+")
_APOSTROPHE: Final = re.compile("['’]")
OFF: Final = "off-"
"""Prefix of the name of a flow that is called off."""
ANSWERS: Final = ("yes", "no")
"""Answers of a model to a pending question."""
_SUFFIXES: Final = (".yaml", ".yml")


def _replies(given: object) -> object:
    if not is_array(given):
        return [_reply(given)]
    return [_reply(each) for each in given]


def _reply(given: object) -> object:
    """Return a reply as a model writes it, with the short forms of calls and of a flow's two ends expanded."""
    if is_object(given):
        reply = given
        fields = set(reply)
        if fields <= {"call", "text"} and isinstance(reply.get("call"), Mapping):
            calls = cast("Mapping[str, Any]", reply["call"])
            return _calls(reply.get("text"), [(name, arguments or {}) for name, arguments in calls.items()])
        if fields == {"finish"}:
            return _calls(reply["finish"], [(FINISHED, {})])
        if fields == {"blocked", "text"}:
            return _calls(reply["text"], [(BLOCKED, {"reason": reply["blocked"]})])
    if isinstance(given, Mapping | list):
        return json_line(plain(cast("object", given)))
    return given


def _calls(text: object, calls: Sequence[tuple[str, object]]) -> str:
    reply: dict[str, object] = {}
    if text:
        reply["text"] = text
    reply["tool_calls"] = [
        {"id": f"s{number}", "tool": tool, "arguments": arguments} for number, (tool, arguments) in enumerate(calls, 1)
    ]
    return json_line(plain(reply))


class TurnCase(Strict):
    """A user's message and the expected result.

    Attributes:
        chooses: The scripted model's answer if it is asked which flow is meant: names of flows, `none`, `off-` and the
            name of a flow that is called off, or `yes` or `no` to a pending question. A model at work on another flow
            hands the message back.
        values: The inputs of those flows that the model finds in the message, by name.
        script: The scripted model's other replies, call by call; without `chooses`, its choice too. A reply is a text,
            `call: {tool: {argument: value}}` with an optional `text`, `finish: text` for a flow that is done,
            `blocked: reason` with a `text` for one that cannot be done, or any other value, sent as JSON.
        context: Additions to the caller's context from this turn on.
        schema_: The JSON Schema of the answer (`schema` in the file).
    """

    say: str = Field(min_length=1)
    chooses: Names | None = None
    values: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    script: Annotated[tuple[str, ...], BeforeValidator(_replies)] = ()
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    schema_: Mapping[str, Any] | None = Field(default=None, alias="schema")
    expect: Expected = Expected()


def _plain_turns(given: object) -> object:
    if not is_array(given):
        return given
    turns: list[object] = []
    for each in given:  # a text alone is what the user says
        turns.append({"say": each} if isinstance(each, str) else each)
    return turns


class ConversationCase(Strict):
    """One conversation.

    Attributes:
        id: Its identifier; derived from the title by default.
        tags: Labels for playing a subset.
        facts: Facts shown to models, and not to tools (`Agent.turn(facts=)`).
        context: The caller's context of each turn, visible to guards and tools.
        state: The initial state behind the tools, passed to a tool factory that takes a `state`.
        stubs: Fixed results of tools by name; `raises: text` makes one fail. Other tools run.
        file: Its file; empty if it was made in Python.
    """

    title: str = Field(min_length=1)
    id: str = ""
    tags: Names = ()
    facts: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    state: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    stubs: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    turns: Annotated[tuple[TurnCase, ...], BeforeValidator(_plain_turns)] = Field(min_length=1)
    expect: Expected = Expected()
    file: str = ""

    @property
    def name(self) -> str:
        """The id, or one derived from the title."""
        return self.id or slug(self.title)

    @property
    def scripted(self) -> bool:
        """Whether any turn scripts the model's replies; then a turn without a script must not ask a model."""
        return any(turn.script or turn.chooses is not None for turn in self.turns)


def slug(text: str) -> str:
    """Return a text as an id: words in lower case joined by dashes, cut between words if possible."""
    words = _NO_WORD.sub("-", _APOSTROPHE.sub("", text.casefold())).strip("-")
    if len(words) <= _LONGEST_ID:
        return words or "untitled"
    return words[: _LONGEST_ID + 1].rpartition("-")[0] or words[:_LONGEST_ID]


def load_conversations(
    source: Path,
    registry: "Mapping[str, BaseFlow] | None" = None,
    *,
    tools: Collection[str] | None = None,
) -> tuple[ConversationCase, ...]:
    """Load the conversations of a file, or of all YAML files of a folder.

    Args:
        source: A file with one conversation or a list of them, or a folder of such files.
        registry: The flows; an expectation that names another is an error. None skips this check.
        tools: The names of the tools, checked likewise.

    Raises:
        ConfigError: It cannot be read, or entries are invalid. The message names file, entry and field of up to ten.
    """
    files = [source]
    if source.is_dir():
        files = sorted(file for file in source.iterdir() if file.suffix in _SUFFIXES)
    wrong: list[tuple[str, str]] = []
    read: list[tuple[ConversationCase, yaml.Node | None]] = []
    for file in files:
        read.extend(_read_cases(file, wrong))
    _refuse(wrong)
    if not read:
        raise ConfigError(f"{source} holds no conversations; write at least one, as docs/conversation-cases.md shows")
    places: dict[str, str] = {}
    for case, node in read:
        if case.name in places:
            problem = f"another one in {places[case.name]} is known as that; give one of them another id"
            wrong.append((f"{place_of(case.file, node)} ({case.name})", problem))
        places.setdefault(case.name, case.file)
        for path, problem in _unknown_names(case, registry, tools):
            where = f"{place_of(case.file, node, path)} ({case.name})"
            wrong.append((where, f"{_path_text(path)}: {problem}"))
    _refuse(wrong)
    return tuple(case for case, _ in read)


_Path = tuple[str | int, ...]
_WORDS: Final = frozenset(("say", "chooses", "says", "never_says", "reason"))
"""Fields of text, where yes and no are words; YAML reads them as true and false."""


def _read_cases(file: Path, wrong: list[tuple[str, str]]) -> "Iterator[tuple[ConversationCase, yaml.Node | None]]":
    """Yield the cases of one file with their YAML nodes, and add the problem of each invalid one to `wrong`."""
    content, node = read_document(file, _WHAT)
    if isinstance(content, dict):
        entries, nodes = [cast("object", content)], [node]
    elif content is None or isinstance(content, list):
        entries = cast("list[object]", content or [])
        nodes = [node_at(node, (place,)) for place in range(len(entries))]
    else:
        msg = f"{file}: it must hold a list of conversations, each with title: and turns:, got {content!r:.60}"
        raise ConfigError(msg)
    for number, (entry, at) in enumerate(zip(entries, nodes, strict=True), 1):
        if problem := _not_a_conversation(entry):
            wrong.append((f"{place_of(file, at)}, entry {number}", problem))
            continue
        given = cast("dict[str, Any]", _keep_words(entry, at))
        try:
            yield ConversationCase.model_validate({**given, "file": str(file)}), at
        except ValidationError as error:
            title = given.get("title")
            name = f"entry {number}"
            if isinstance(title, str):
                name += f" ({beginning(title, _LONGEST_ID)})"
            for path, problem in _problems(error):
                wrong.append((f"{place_of(file, at, path)}, {name}", problem))


def _keep_words(value: Any, node: "yaml.Node | None", *, words: bool = False) -> Any:
    """Return a value with the yes and no of text fields as they are written."""
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
        entries = cast("dict[Any, Any]", value).items()
        return {key: _keep_words(entry, node_at(node, (key,)), words=key in _WORDS) for key, entry in entries}
    if isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [_keep_words(item, node_at(node, (place,)), words=words) for place, item in items]
    if words and isinstance(value, bool) and isinstance(node, yaml.ScalarNode):
        return str(node.value)
    return cast("Any", value)


def _not_a_conversation(entry: object) -> str:
    """Return why an entry is no conversation; empty if it may be one."""
    if not isinstance(entry, dict):
        return "a conversation is a mapping with title: and turns:"
    fields = cast("dict[object, object]", entry).keys()
    if "turns" not in fields and "request" in fields:
        return "it is a labelled request, which jazz-select eval reads"
    if "turns" not in fields and "say" in fields:
        return "it is a turn; put the turns under turns:, beside a title:"
    return ""


def _problems(error: ValidationError) -> Iterator[tuple[_Path, str]]:
    found = error.errors(include_url=False)
    in_turns = any(each["loc"][:1] == ("turns",) and len(each["loc"]) > 1 for each in found)
    for each in found:
        path = each["loc"]
        if in_turns and path == ("turns",):
            continue  # "too short", a consequence of an invalid turn
        known, of = _fields_at(path)
        message = problem_in(each, known, of=of)
        more = "; see docs/conversation-cases.md" if each["type"] == "extra_forbidden" else ""
        yield path, f"{beginning(_path_text(path), _LONGEST_PROBLEM)}: {beginning(message, _LONGEST_PROBLEM)}{more}"


def _path_text(path: _Path) -> str:
    parts: list[str] = []
    for part in path:  # people count entries from 1
        parts.append(str(part + 1) if isinstance(part, int) else part)
    return ".".join(parts).replace("turns.", "turn ", 1) or "it"


def _fields_at(path: _Path) -> tuple[list[str], str]:
    """Return the valid fields at a path, and the name of the model that has them."""
    model, of = ConversationCase, "conversation"
    if path[0] == "turns":
        model, of = TurnCase, "turn"
    if "expect" in path[:-1]:
        model, of = Expected, f"{of}'s expect"
    # `file` is where a conversation comes from, and nothing that is written in it.
    names = [each.alias or name for name, each in model.model_fields.items() if name != "file"]
    return names, of


def _unknown_names(
    case: ConversationCase, registry: "Mapping[str, BaseFlow] | None", tools: Collection[str] | None
) -> Iterator[tuple[_Path, str]]:
    """Yield the names of unknown flows and tools: a check of one could never pass, or never fail."""
    flows = None if registry is None else [flow.name for flow in registry.values()]
    for path, kind, name in _names_in(case):
        known = flows if kind == "flow" else tools
        if known is not None and name not in known:
            yield path, f"there is no {kind} {misspelt(name, list(known))}"


def _names_in(case: ConversationCase) -> Iterator[tuple[_Path, str, str]]:
    """Yield path, kind (flow or tool) and name of every flow and tool that is named."""
    for name in case.stubs:
        yield ("stubs", name), "tool", name
    expected: dict[_Path, Expected] = {}
    for place, turn in enumerate(case.turns):
        path: _Path = ("turns", place)
        expected[path] = turn.expect
        for choice in turn.chooses or ():
            if choice not in ANSWERS:
                yield (*path, "chooses"), "flow", choice.removeprefix(OFF)
    expected[()] = case.expect
    for path, expect in expected.items():
        for field_name in ("flows", "under_way", "tools", "never_tools"):
            kind = "tool" if field_name.endswith("tools") else "flow"
            for entry in getattr(expect, field_name) or ():
                # An expected call has its tool's name; the other entries are names.
                yield (*path, "expect", field_name), kind, getattr(entry, "tool", entry)


def _refuse(wrong: list[tuple[str, str]]) -> None:
    """Raise a `ConfigError` if there are problems. Equal ones are named once."""
    places: dict[str, list[str]] = {}
    for where, problem in wrong:
        places.setdefault(problem, []).append(where)
    if not places:
        return
    messages: list[str] = []
    for problem, where in places.items():
        others = f" and {len(where) - 1} more" if len(where) > 1 else ""
        messages.append(f"{where[0]}{others}: {problem}")
    shown = messages[:_MOST_PROBLEMS]
    if len(messages) > _MOST_PROBLEMS:
        shown.append(f"and {len(messages) - _MOST_PROBLEMS} more")
    raise ConfigError("; ".join(shown))
