"""Conversation cases: what users say turn by turn, what a model is to answer, and what has to come of it, as YAML.

`examples/clinic/conversations.yaml` is such a file, and `docs/conversation-cases.md` tells its fields.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from jazz_select.agent.flows.open_flows import BLOCKED, FINISHED
from jazz_select.errors import ConfigError, meant
from jazz_select.evaluation.cases import read_entries
from jazz_select.evaluation.expectations import Expected, Names, Strict
from jazz_select.json_values import plain
from jazz_select.text import beginning

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from jazz_select.flow.base import BaseFlow

_WHAT: Final = "conversations"
_MOST_PROBLEMS: Final = 10
_LONGEST_ID: Final = 60
_LONGEST_PROBLEM: Final = 300
_NO_WORD: Final = re.compile(r"[\W_]+")
_APOSTROPHE: Final = re.compile("['’]")
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
            `off-` and the name of one that is called off, `yes` or `no` to the question that waits.
        script: What a model answers to all else, call by call, where no real one is asked; without `chooses` to that
            too: a text, `call: {tool: {argument: value}}` with or without a `text`, `finish: text` where the flow is
            done, `blocked: reason` with a `text` where it cannot be done, or whatever is to be sent as JSON.
        context: What the caller knows from this turn on, beside what it knew before.
        schema_: The JSON Schema of the answer (`schema` in the file).
        expect: What has to come of it.
    """

    say: str = Field(min_length=1)
    chooses: Names | None = None
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


_CASES: Final = TypeAdapter(list[ConversationCase])


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
    cases = [case for file in files for case in _read(file)]
    if not cases:
        msg = f"{source} holds no conversations; write at least one, as docs/conversation-cases.md shows"
        raise ConfigError(msg)
    problems: list[str] = []
    places: dict[str, str] = {}
    for case in cases:
        if case.name in places:
            first = places[case.name]
            problems.append(f"{case.file}: two conversations are known as {case.name!r} ({first}); give one another id")
        places.setdefault(case.name, case.file)
        problems += _unknown(case, registry, tools)
    _refuse(problems)
    return tuple(cases)


def _read(file: Path) -> Iterator[ConversationCase]:
    """The cases of one file; each that is wrong is told, not the first alone."""
    content = read_entries(file, _WHAT)
    entries: object = [cast("object", content)] if isinstance(content, dict) else content
    if not isinstance(entries, list):
        msg = f"{file}: it has to hold a list of conversations, each with title: and turns:, not {content!r:.60}"
        raise ConfigError(msg)
    found: list[ConversationCase] = []
    problems: list[str] = []
    for number, entry in enumerate(cast("list[object]", entries), 1):
        if not isinstance(entry, dict):
            problems.append(f"{file}, entry {number}: a conversation is a mapping with title: and turns:")
            continue
        given = cast("dict[object, object]", entry)
        if "request" in given and "turns" not in given:
            problems.append(f"{file}, entry {number}: it is a labelled request, which jazz-select eval reads")
            continue
        if "say" in given and "turns" not in given:
            problems.append(f"{file}, entry {number}: it is a turn; put the turns under turns:, beside a title:")
            continue
        try:
            found += _CASES.validate_python([{"file": str(file), **cast("dict[str, Any]", given)}])
        except ValidationError as error:
            where = f"{file}, entry {number}{_titled(given)}"
            problems += [f"{where}: {_problem(each)}" for each in error.errors(include_url=False)]
    _refuse(problems)
    yield from found


def _titled(given: Mapping[object, object]) -> str:
    title = given.get("title")
    return f" ({beginning(title, _LONGEST_ID)})" if isinstance(title, str) else ""


def _problem(error: "ErrorDetails") -> str:
    """Where in a conversation, and what is wrong there."""
    path = [f"{part + 1}" if isinstance(part, int) else part for part in error["loc"][1:]]
    place = ".".join(path).replace("turns.", "turn ", 1)
    msg = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        msg = "there is no such field; see docs/conversation-cases.md"
    return f"{beginning(place, _LONGEST_PROBLEM) or 'it'}: {beginning(msg, _LONGEST_PROBLEM)}"


def _unknown(
    case: ConversationCase, registry: "Mapping[str, BaseFlow] | None", tools: Collection[str] | None
) -> Iterator[str]:
    """Names in expectations that nothing has: such a check could never pass, or never fail."""
    flows = None if registry is None else [flow.name for flow in registry.values()]
    wanted = [(f"turn {number}.expect", turn.expect) for number, turn in enumerate(case.turns, 1)]
    for place, expected in (*wanted, ("expect", case.expect)):
        named = ((flows, "flow", expected.flow_names), (tools, "tool", expected.tool_names))
        for known, kind, names in named:
            for field, name in names:
                if known is not None and name not in known:
                    yield f"{case.file} ({case.name}): {place}.{field}: there is no {kind} {meant(name, list(known))}"


def _refuse(problems: list[str]) -> None:
    if problems:
        rest = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
        raise ConfigError("; ".join(problems[:_MOST_PROBLEMS]) + rest)
