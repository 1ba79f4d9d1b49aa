"""Conversation cases: what users say turn by turn, what a model is to answer, and what has to come of it, as YAML.

`examples/clinic/conversations.yaml` is such a file, and `docs/conversation-cases.md` tells its fields.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field, ValidationError

from jazz_select.agent.flows.open_prompts import BLOCKED, FINISHED
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import read_entries
from jazz_select.evaluation.talks.expectations import Expected, Names, Strict
from jazz_select.json_values import plain
from jazz_select.selector.prompt import OFF
from jazz_select.text import beginning, meant

if TYPE_CHECKING:
    from jazz_select.flow.base import BaseFlow

_WHAT: Final = "conversations"
_MOST_PROBLEMS: Final = 10
_LONGEST_ID: Final = 60
_LONGEST_PROBLEM: Final = 300
_NO_WORD: Final = re.compile(r"[\W_]+")
_APOSTROPHE: Final = re.compile("['’]")
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
    wrong: list[tuple[str, str]] = []
    places: dict[str, str] = {}
    for case in cases:
        where = f"{case.file} ({case.name})"
        if case.name in places:
            wrong.append((where, f"another one in {places[case.name]} is known as that; give one of them another id"))
        places.setdefault(case.name, case.file)
        wrong += [(where, problem) for problem in _unknown(case, registry, tools)]
    _refuse(wrong)
    return tuple(cases)


def _read(file: Path) -> list[ConversationCase]:
    """The cases of one file; each that is wrong is told, not the first alone."""
    content = read_entries(file, _WHAT)
    entries: object = [cast("object", content)] if isinstance(content, dict) else content
    if entries is not None and not isinstance(entries, list):
        msg = f"{file}: it has to hold a list of conversations, each with title: and turns:, not {content!r:.60}"
        raise ConfigError(msg)
    found: list[ConversationCase] = []
    wrong: list[tuple[str, str]] = []
    for number, entry in enumerate(cast("list[object]", entries or []), 1):
        where = f"{file}, entry {number}"
        if problem := _other(entry):
            wrong.append((where, problem))
            continue
        given = cast("dict[str, Any]", entry)
        try:
            found.append(ConversationCase.model_validate({**given, "file": str(file)}))
        except ValidationError as error:
            wrong += [(f"{where}{_titled(given)}", problem) for problem in _problems(error)]
    _refuse(wrong)
    return found


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


def _titled(given: Mapping[str, object]) -> str:
    title = given.get("title")
    return f" ({beginning(title, _LONGEST_ID)})" if isinstance(title, str) else ""


def _problems(error: ValidationError) -> Iterator[str]:
    """Where in a conversation, and what is wrong there."""
    found = error.errors(include_url=False)
    in_turns = any(each["loc"][:1] == ("turns",) and len(each["loc"]) > 1 for each in found)
    for each in found:
        if in_turns and each["loc"] == ("turns",):
            continue  # too few, since one of them is wrong
        place = ".".join(f"{part + 1}" if isinstance(part, int) else part for part in each["loc"])
        msg = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            msg = "there is no such field; see docs/conversation-cases.md"
        place = beginning(place.replace("turns.", "turn ", 1), _LONGEST_PROBLEM)
        yield f"{place or 'it'}: {msg[:1].lower()}{beginning(msg[1:], _LONGEST_PROBLEM)}"


def _unknown(
    case: ConversationCase, registry: "Mapping[str, BaseFlow] | None", tools: Collection[str] | None
) -> Iterator[str]:
    """Names in expectations that nothing has: such a check could never pass, or never fail."""
    flows = None if registry is None else [flow.name for flow in registry.values()]
    for place, kind, name in _named(case):
        known = flows if kind == "flow" else tools
        if known is not None and name not in known:
            yield f"{place}: there is no {kind} {meant(name, list(known))}"


def _named(case: ConversationCase) -> Iterator[tuple[str, str, str]]:
    """Every flow and tool that is named: where, which of the two, and its name."""
    for number, turn in enumerate(case.turns, 1):
        for each in turn.chooses or ():
            if each not in ANSWERS:
                yield f"turn {number}.chooses", "flow", each.removeprefix(OFF)
        yield from _named_in(f"turn {number}.expect", turn.expect)
    yield from _named_in("expect", case.expect)


def _named_in(place: str, expected: Expected) -> Iterator[tuple[str, str, str]]:
    yield from ((f"{place}.{field}", "flow", name) for field, name in expected.flow_names)
    yield from ((f"{place}.{field}", "tool", name) for field, name in expected.tool_names)


def _refuse(wrong: list[tuple[str, str]]) -> None:
    """What is wrong at several places in the same way is told once.

    Raises:
        ConfigError: Something is.
    """
    places: dict[str, list[str]] = {}
    for where, problem in wrong:
        places.setdefault(problem, []).append(where)
    told = [f"{_places(several)}: {problem}" for problem, several in places.items()]
    if told:
        rest = f"; and {len(told) - _MOST_PROBLEMS} more" if len(told) > _MOST_PROBLEMS else ""
        raise ConfigError("; ".join(told[:_MOST_PROBLEMS]) + rest)


def _places(several: list[str]) -> str:
    return several[0] if len(several) == 1 else f"{several[0]} and {len(several) - 1} more"
