"""Conversation cases: what users say turn by turn, what a model is to answer, and what has to come of it, as YAML.

`examples/clinic/conversations.yaml` is such a file, and `docs/cases.md` tells its fields.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from jazz_select.agent.flows.open_prompts import BLOCKED, FINISHED
from jazz_select.agent.turn import TurnStatus
from jazz_select.arguments import problem_in
from jazz_select.data_files import node_at, place_of
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import read_document
from jazz_select.json_values import json_or_same, plain
from jazz_select.routing.schemas.validity import finder
from jazz_select.text import beginning, counted, json_line, misspelt

if TYPE_CHECKING:
    from jazz_select.flow.base import BaseFlow

_SHOWN: Final = 400
_LEAST_PATTERN: Final = 3
_NONE: Final = "none"


class Strict(BaseModel):
    """A slip of the pen in a file is an error, and not a check that is never made."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


def _several(given: object) -> object:
    """A list, of one where one stands alone; the word none is a list of nothing."""
    if given == _NONE:
        return []
    return [cast("object", given)] if isinstance(given, str | int | float | dict) else given


def _checked(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            finder(pattern_of(text) or "")
        except ValueError as error:
            shown = beginning(text, _SHOWN)
            msg = f"{shown} is no pattern, or one that looks ahead or back; take the slashes away, or mend it"
            raise ValueError(msg) from error
    return texts


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Words = Annotated[tuple[str, ...], BeforeValidator(_several), AfterValidator(_checked)]


class ExpectedCall(Strict):
    """A call of a tool; of its arguments only those that are named have to agree.

    Attributes:
        tool: The tool's name.
        arguments: Values that the call's arguments have to have; mappings in them again only as far as they are told,
            lists entry by entry. A text between slashes is a pattern that is looked for in the argument's text.
    """

    tool: str = Field(min_length=1)
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> object:
        """A name alone, or `name: {argument: value}`."""
        if isinstance(given, str):
            return {"tool": given}
        if isinstance(given, Mapping) and len(pair := cast("Mapping[str, Any]", given)) == 1 and "tool" not in pair:
            ((name, arguments),) = pair.items()
            return {"tool": name, "arguments": {} if arguments is None else arguments}
        return cast("object", given)

    def __str__(self) -> str:
        return call_line(self.tool, self.arguments)


class Expected(Strict):
    """What has to come of a turn, or of a whole conversation; what is not said is not looked at.

    Attributes:
        flows: The flows that ran, exactly these, in order; none where no flow may have run.
        under_way: The flows that are open afterwards, exactly these, the active one last.
        waits_for: What the active flow waits for: names of facts; or, of a call that waits for a yes, the tool's name.
        inputs: What is known of the active flow's inputs, as far as it is told: null where it may not be known.
        status: How it ended, as of `TurnResult`.
        tools: The calls that were made, exactly these, in order.
        never_tools: Tools that may not have been called.
        says: What the text has to hold: words, whatever their case and the breaks of lines; a pattern between slashes.
        never_says: What it may not hold, likewise.
        reason: Words of why it came out so (`TurnResult.reason`), such as why a flow was handed over.
        value: What the answer in the turn's schema has to hold, compared as arguments are.
        model_calls: How often a model may be asked, at most.
    """

    flows: Names | None = None
    under_way: Names | None = None
    waits_for: Names | None = None
    inputs: Mapping[str, Any] | None = None
    status: TurnStatus | None = None
    tools: Annotated[tuple[ExpectedCall, ...], BeforeValidator(_several)] | None = None
    never_tools: Names = ()
    says: Words = ()
    never_says: Words = ()
    reason: Words = ()
    value: Any = None
    model_calls: int | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call that was made, with its arguments as plain JSON values; its status is `ok`, `failed` or `unknown`."""

    tool: str
    arguments: Mapping[str, Any]
    status: str = "ok"

    def __str__(self) -> str:
        return call_line(self.tool, self.arguments) + ("" if self.status == "ok" else f" ({self.status})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of a turn, or of a whole conversation; the fields are those of `Expected`."""

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
        """One line: how it ended, in which flows, what it waits for and what was called."""
        waits = f", waits for {', '.join(self.waits_for)}" if self.waits_for else ""
        asked = f", {counted(self.model_calls, 'question')} to the model" if self.model_calls else ""
        calls = "".join(f"; {call}" for call in self.tools)
        return f"{self.status}: {', '.join(self.flows) or 'no flow'}{waits}{asked}{calls}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was expected.

    Attributes:
        name: Which, as the file calls it.
        passed: Whether it came out so.
        expected: What was expected, as text.
        seen: What came, as text.
    """

    name: str
    passed: bool
    expected: str
    seen: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name}: {'as expected' if self.passed else f'expected {self.expected}, and it was {self.seen}'}"


def judged(wanted: Expected, seen: Seen) -> tuple[Check, ...]:
    """A check for each thing that is expected, in the order of its fields. Pure."""
    return tuple(_judged(wanted, seen))


def _judged(wanted: Expected, seen: Seen) -> Iterator[Check]:
    for name in ("flows", "under_way", "waits_for"):
        told, got = getattr(wanted, name), getattr(seen, name)
        if told is not None:
            same = sorted(told) == sorted(got) if name == "waits_for" else told == got
            yield _listed(name, told, got, passed=same)
    if wanted.status is not None:
        why = f" ({beginning(seen.reason, _SHOWN)})" if seen.reason and seen.status != wanted.status else ""
        passed = seen.status == wanted.status
        yield Check(name="status", passed=passed, expected=wanted.status, seen=f"{seen.status}{why}")
    yield from _judged_calls(wanted, seen)
    for name, text, no in (("says", seen.text, ""), ("reason", seen.reason, ""), ("never_says", seen.text, "no ")):
        for words in getattr(wanted, name):
            passed = is_said(words, text) is not bool(no)
            told = beginning(text, _SHOWN)
            yield Check(name=name, passed=passed, expected=f"{no}{json_line(words)}", seen=json_line(told))
    if wanted.inputs is not None:
        yield _agreeing("inputs", wanted.inputs, {name: seen.inputs.get(name) for name in wanted.inputs})
    if wanted.value is not None:
        yield _agreeing("value", wanted.value, seen.value)
    if wanted.model_calls is not None:
        passed = seen.model_calls <= wanted.model_calls
        most = f"at most {wanted.model_calls}"
        yield Check(name="model_calls", passed=passed, expected=most, seen=str(seen.model_calls))


def _judged_calls(wanted: Expected, seen: Seen) -> Iterator[Check]:
    if wanted.tools is not None:
        yield _listed("tools", wanted.tools, seen.tools, passed=agree_calls(wanted.tools, seen.tools))
    for name in wanted.never_tools:
        made = [call for call in seen.tools if call.tool == name]
        yield _listed("never_tools", [f"no {name}"], made, passed=not made)


def is_said(words: str, text: str) -> bool:
    """Whether words are in a text, whatever the case and the breaks of lines; between slashes they are a pattern."""
    if (pattern := pattern_of(words)) is not None:
        return finder(pattern)(text)
    return " ".join(words.split()).casefold() in " ".join(text.split()).casefold()


def pattern_of(words: Any) -> str | None:
    """The pattern between the slashes of a text; None where it is none."""
    if isinstance(words, str) and len(words) >= _LEAST_PATTERN and words[0] == words[-1] == "/":
        return words[1:-1]
    return None


def agree_calls(wanted: Sequence[ExpectedCall], made: Sequence[Called]) -> bool:
    """Whether exactly these calls were made, in order, each with the arguments that are named."""
    return len(wanted) == len(made) and all(
        want.tool == call.tool and agrees(want.arguments, call.arguments)
        for want, call in zip(wanted, made, strict=True)
    )


def agrees(wanted: object, given: object) -> bool:
    """Whether a value is as expected: mappings as far as they are told, lists entry by entry, texts also by a pattern.

    Dates and the like are compared as JSON tells them; a number and a text that tells it are two things.
    """
    wanted, given = json_or_same(wanted), json_or_same(given)
    if isinstance(wanted, dict) and isinstance(given, dict):
        told, got = cast("dict[str, object]", wanted), cast("dict[str, object]", given)
        return all(name in got and agrees(value, got[name]) for name, value in told.items())
    if isinstance(wanted, list) and isinstance(given, list):
        entries, has = cast("list[object]", wanted), cast("list[object]", given)
        return len(entries) == len(has) and all(map(agrees, entries, has))
    if isinstance(given, str) and (pattern := pattern_of(cast("object", wanted))) is not None:
        return finder(pattern)(given)
    return isinstance(wanted, bool) == isinstance(given, bool) and wanted == given


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in one line."""
    return f"{tool}({', '.join(f'{name}={_json(value)}' for name, value in arguments.items())})"


def _listed(name: str, wanted: Sequence[object], seen: Sequence[object], *, passed: bool) -> Check:
    told, got = (", ".join(map(str, each)) or _NONE for each in (wanted, seen))
    return Check(name=name, passed=passed, expected=beginning(told, _SHOWN), seen=beginning(got, _SHOWN))


def _agreeing(name: str, wanted: object, seen: object) -> Check:
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
"""What stands before the name of a flow that is called off."""
ANSWERS: Final = ("yes", "no")
"""What a model may say, beside flows, to the question that waits."""
_SUFFIXES: Final = (".yaml", ".yml")


def _replies(given: object) -> object:
    return [_reply(each) for each in (cast("list[object]", given) if isinstance(given, list) else [given])]


def _reply(given: object) -> object:
    """A reply as a model writes it; calls and the two ends of a flow have short forms."""
    if isinstance(given, Mapping):
        told = cast("Mapping[str, Any]", given)
        fields = set(told)
        if fields <= {"call", "text"} and isinstance(told.get("call"), Mapping):
            calls = cast("Mapping[str, Any]", told["call"])
            return _calls(told.get("text"), [(name, arguments or {}) for name, arguments in calls.items()])
        if fields == {"finish"}:
            return _calls(told["finish"], [(FINISHED, {})])
        if fields == {"blocked", "text"}:
            return _calls(told["text"], [(BLOCKED, {"reason": told["blocked"]})])
    if isinstance(given, Mapping | list):
        return json.dumps(plain(cast("object", given)), ensure_ascii=False)
    return given


def _calls(text: object, calls: Sequence[tuple[str, object]]) -> str:
    made = [{"id": f"s{number}", "tool": tool, "arguments": given} for number, (tool, given) in enumerate(calls, 1)]
    return json.dumps(plain({**({"text": text} if text else {}), "tool_calls": made}), ensure_ascii=False)


class TurnCase(Strict):
    """What the user says, and what has to come of it.

    Attributes:
        say: The message.
        chooses: What a model answers where it is asked which flow is meant, if it is asked: names of flows, `none`,
            `off-` and the name of one that is called off, `yes` or `no` to the question that waits. One that is at
            work on another flow hands the message back.
        values: What it finds in the message for the inputs of those flows, by name.
        script: What a model answers to all else, call by call, where no real one is asked; without `chooses` to that
            too: a text, `call: {tool: {argument: value}}` with or without a `text`, `finish: text` where the flow is
            done, `blocked: reason` with a `text` where it cannot be done, or whatever is to be sent as JSON.
        context: What the caller knows from this turn on, beside what it knew before.
        schema_: The JSON Schema of the answer (`schema` in the file).
        expect: What has to come of it.
    """

    say: str = Field(min_length=1)
    chooses: Names | None = None
    values: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    script: Annotated[tuple[str, ...], BeforeValidator(_replies)] = ()
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    schema_: Mapping[str, Any] | None = Field(default=None, alias="schema")
    expect: Expected = Expected()


def _plain_turns(given: object) -> object:
    """A turn of which nothing is expected is a text."""
    if not isinstance(given, list):
        return given
    return [{"say": each} if isinstance(each, str) else each for each in cast("list[object]", given)]


class ConversationCase(Strict):
    """One conversation.

    Attributes:
        title: What it shows.
        id: What it is known by; made of the title where it is not told.
        tags: What kind of conversation it is, to play some of them alone.
        facts: What holds in it: models are told of it, tools are not (`Agent.turn(facts=)`).
        context: What the caller knows in each turn: guards and tools see it.
        state: What is behind the tools when it begins: handed to whoever makes them, who has to take a `state`.
        stubs: What tools return in place of what they do, by name; `raises: text` where one is to fail. The others run.
        turns: What is said.
        expect: What has to come of the whole: of all texts, all calls, all flows that ran, and of how it ended.
        xfail: Why it is known to fail, where it is: then it fails no run.
        file: Where it stands; empty where it was made in Python.
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
    xfail: str = ""
    file: str = ""

    @property
    def name(self) -> str:
        """What it is known by."""
        return self.id or slug(self.title)

    @property
    def scripted(self) -> bool:
        """Whether the replies of a model are told: then no turn without a script may ask one."""
        return any(turn.script or turn.chooses is not None for turn in self.turns)


def slug(text: str) -> str:
    """A text as an id: words in lower case, joined by dashes, cut between them where it can be."""
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
    """The conversations of a file, or of all YAML files of a folder.

    Args:
        source: A file with a list of conversations, or with one; or a folder of such files.
        registry: The flows, so that expectations which name another are an error; not looked at where None.
        tools: The names of the tools, likewise.

    Raises:
        ConfigError: It cannot be read, or entries are wrong: it names file, entry and field of up to ten of them.
    """
    files = sorted(each for each in source.iterdir() if each.suffix in _SUFFIXES) if source.is_dir() else [source]
    wrong: list[tuple[str, str]] = []
    read = [each for file in files for each in _read(file, wrong)]
    _refuse(wrong)
    if not read:
        raise ConfigError(f"{source} holds no conversations; write at least one, as docs/cases.md shows")
    places: dict[str, str] = {}
    for case, node in read:
        if case.name in places:
            problem = f"another one in {places[case.name]} is known as that; give one of them another id"
            wrong.append((f"{place_of(case.file, node)} ({case.name})", problem))
        places.setdefault(case.name, case.file)
        for path, problem in _unknown(case, registry, tools):
            where = f"{place_of(case.file, node, path)} ({case.name})"
            wrong.append((where, f"{_told_path(path)}: {problem}"))
    _refuse(wrong)
    return tuple(case for case, _ in read)


_Path = tuple[str | int, ...]
_WORDS: Final = frozenset(("say", "chooses", "says", "never_says", "reason"))
"""Fields that hold words: yes and no are words there, which YAML reads as true and false."""


def _read(file: Path, wrong: list[tuple[str, str]]) -> "Iterator[tuple[ConversationCase, yaml.Node | None]]":
    """The cases of one file, each with its place; each that is wrong is told, not the first alone."""
    content, node = read_document(file, _WHAT)
    if isinstance(content, dict):
        entries, nodes = [cast("object", content)], [node]
    elif content is None or isinstance(content, list):
        entries = cast("list[object]", content or [])
        nodes = [node_at(node, (place,)) for place in range(len(entries))]
    else:
        msg = f"{file}: it has to hold a list of conversations, each with title: and turns:, not {content!r:.60}"
        raise ConfigError(msg)
    for number, (entry, at) in enumerate(zip(entries, nodes, strict=True), 1):
        if problem := _other(entry):
            wrong.append((f"{place_of(file, at)}, entry {number}", problem))
            continue
        given = cast("dict[str, Any]", _worded(entry, at))
        try:
            yield ConversationCase.model_validate({**given, "file": str(file)}), at
        except ValidationError as error:
            title = given.get("title")
            of = f", entry {number}{f' ({beginning(title, _LONGEST_ID)})' if isinstance(title, str) else ''}"
            wrong += [(f"{place_of(file, at, path)}{of}", problem) for path, problem in _problems(error)]


def _worded(value: Any, node: "yaml.Node | None", *, words: bool = False) -> Any:
    """A value with each text as it is written, where words are meant."""
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
        told = cast("dict[Any, Any]", value)
        return {key: _worded(each, node_at(node, (key,)), words=key in _WORDS) for key, each in told.items()}
    if isinstance(value, list):
        told = enumerate(cast("list[Any]", value))
        return [_worded(each, node_at(node, (place,)), words=words) for place, each in told]
    return (
        str(node.value)
        if words and isinstance(value, bool) and isinstance(node, yaml.ScalarNode)
        else cast("Any", value)
    )


def _other(entry: object) -> str:
    """What an entry is that is no conversation at all; empty where it may be one."""
    if not isinstance(entry, dict):
        return "a conversation is a mapping with title: and turns:"
    fields = cast("dict[object, object]", entry).keys()
    if "turns" not in fields and "request" in fields:
        return "it is a labelled request, which jazz-select eval reads"
    if "turns" not in fields and "say" in fields:
        return "it is a turn; put the turns under turns:, beside a title:"
    return ""


def _problems(error: ValidationError) -> Iterator[tuple[_Path, str]]:
    """Where in a conversation, and what is wrong there."""
    found = error.errors(include_url=False)
    in_turns = any(each["loc"][:1] == ("turns",) and len(each["loc"]) > 1 for each in found)
    for each in found:
        path = each["loc"]
        if in_turns and path == ("turns",):
            continue  # too few, since one of them is wrong
        known, of = _fields_at(path)
        told = problem_in(each, known, of=of)
        more = "; see docs/cases.md" if each["type"] == "extra_forbidden" else ""
        yield path, f"{beginning(_told_path(path), _LONGEST_PROBLEM)}: {beginning(told, _LONGEST_PROBLEM)}{more}"


def _told_path(path: _Path) -> str:
    told = ".".join(f"{part + 1}" if isinstance(part, int) else part for part in path)
    return told.replace("turns.", "turn ", 1) or "it"


def _fields_at(path: _Path) -> tuple[list[str], str]:
    """The fields of what stands around the end of a path, and what that is."""
    model, of = (TurnCase, "turn") if path[0] == "turns" else (ConversationCase, "conversation")
    if "expect" in path[:-1]:
        model, of = Expected, "turn's expect" if model is TurnCase else "conversation's expect"
    return [each.alias or name for name, each in model.model_fields.items() if name != "file"], of


def _unknown(
    case: ConversationCase, registry: "Mapping[str, BaseFlow] | None", tools: Collection[str] | None
) -> Iterator[tuple[_Path, str]]:
    """Names in expectations that nothing has: such a check could never pass, or never fail."""
    flows = None if registry is None else [flow.name for flow in registry.values()]
    for path, kind, name in _named(case):
        known = flows if kind == "flow" else tools
        if known is not None and name not in known:
            yield path, f"there is no {kind} {misspelt(name, list(known))}"


def _named(case: ConversationCase) -> Iterator[tuple[_Path, str, str]]:
    """Every flow and tool that is named: where, which of the two, and its name."""
    yield from ((("stubs", name), "tool", name) for name in case.stubs)
    turns: dict[_Path, TurnCase] = {("turns", place): turn for place, turn in enumerate(case.turns)}
    for path, turn in turns.items():
        chosen = (each.removeprefix(OFF) for each in turn.chooses or () if each not in ANSWERS)
        yield from (((*path, "chooses"), "flow", each) for each in chosen)
    for path, each in (turns | {(): case}).items():
        fields = {name: getattr(each.expect, name) or () for name in ("flows", "under_way", "tools", "never_tools")}
        for name, names in fields.items():
            kind = "tool" if name.endswith("tools") else "flow"
            yield from (((*path, "expect", name), kind, getattr(every, "tool", every)) for every in names)


def _refuse(wrong: list[tuple[str, str]]) -> None:
    """What is wrong at several places in the same way is told once."""
    places: dict[str, list[str]] = {}
    for where, problem in wrong:
        places.setdefault(problem, []).append(where)
    told = [
        f"{where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''}: {problem}"
        for problem, where in places.items()
    ]
    if told:
        rest = f"; and {len(told) - _MOST_PROBLEMS} more" if len(told) > _MOST_PROBLEMS else ""
        raise ConfigError("; ".join(told[:_MOST_PROBLEMS]) + rest)
