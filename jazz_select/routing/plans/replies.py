"""A model's reply to calls, text, or both. Pure; no reply raises, and the work is bounded.

The three shapes are `{"tool_call": …}`, `{"tool_calls": […]}` and
`{"natural_language_response": …}`. They are read strictly first, then out of fences and
prose, then repaired. What a reply quotes, takes back or leaves unfinished is not a call; a
number, list or object that has nothing of a call in it is a text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Literal

from jazz_select.chat.call_reader import CALLING, folded_fields, is_call, read_call
from jazz_select.chat.json_reader import (
    BROKEN,
    Located,
    ends_as_json,
    locate_values,
    repair_value,
    too_large,
    unquote_reply,
)
from jazz_select.chat.reasoning import without_reasoning
from jazz_select.json_values import canonical_bytes, is_array, is_object
from jazz_select.routing.plans.plan import MOST_STEPS, Plan, PlanStep

_CALL_TAG = re.compile(r"</?tool_?calls?>", re.IGNORECASE)
_OPENED = re.compile(r"```+\w{0,15}\s*$")
_WORDED = re.compile(r"\w")
_MEANT_A_CALL = re.compile(
    r"""(?:["']|{\s*)tool_?calls?["']?\s*:"""
    r"""|["'](?:tool|tool_?name|function|function_?name|function_?call|arguments|parameters|action_?input)["']\s*:""",
    re.IGNORECASE,
)
_CALL_WORDS = ("tool", "function", "arguments", "parameters", "action")
_QUOTED = re.compile(
    r"\b(?:not|never|n['’]t|rather than|instead of|without|example|e\.g\.|such as|would have been|could have been)"
    r"[^.\n{}]{0,40}$",  # the apostrophe that models write
    re.IGNORECASE,
)
_REVISED = re.compile(
    r"\b(?:instead|correction|corrected|final|finally|actually|scratch that|revised|wait)\b", re.IGNORECASE
)
_TEXT_BESIDE = ("content", "text", "message", "response")
_MOST_FIELDS = 1_000
_BEFORE = 200
_LONGEST_FENCE = 40


def step_of(call: object) -> PlanStep:
    """Convert a call to a step; if it cannot be run, `problem` says why, and the others still run."""
    if isinstance(call, str):
        return PlanStep(tool=call)
    if not is_object(call):
        problem = f"a call must be an object with a tool and arguments, got {type(call).__name__}"
        return PlanStep(tool="", problem=problem)
    written = read_call(call)
    return PlanStep(
        tool=written.tool, arguments=written.arguments, id=written.id, after=written.after, problem=written.problem
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """What a reply says.

    Attributes:
        text: The text for the user.
        calls: The calls, in order, as written.
        note: What was set aside, or why the reply is unusable.
        alone: Whether the calls are the whole reply: no prose around them could quote or question them.
        is_data: Whether the text is JSON such as a number or a list, and resembles no call.
    """

    text: str = ""
    calls: tuple[PlanStep, ...] = ()
    note: str = ""
    alone: bool = field(default=True, compare=False)
    is_data: bool = field(default=False, compare=False)

    @property
    def kind(self) -> Literal["calls", "text", "mixed", "unreadable"]:
        """Calls, text, both (`mixed`), or nothing that can be made out."""
        if self.calls:
            return "mixed" if self.text else "calls"
        return "text" if self.text else "unreadable"

    def drop_doubtful_calls(self, is_destructive: Callable[[str], bool]) -> "ToolReply":
        """Return the reply without destructive calls that may not be meant.

        Such a call counts only if the calls are the whole reply, and only once. `is_destructive` takes a name as the
        reply has it.
        """
        seen: set[bytes] = set()
        checked: list[PlanStep] = []
        for call in self.calls:
            problem = call.problem
            if is_destructive(call.tool):
                own = canonical_bytes((call.tool, call.arguments))
                if not self.alone:
                    problem = problem or QUOTED
                elif own in seen:
                    problem = problem or TWICE
                seen.add(own)
            checked.append(replace(call, problem=problem))
        return replace(self, calls=tuple(checked))

    @property
    def plan(self) -> Plan:
        """The calls as a plan, checked."""
        return Plan.from_steps(self.calls, by_model=True)


QUOTED: Final = (
    "not run: it destroys something, and other text stands around the call; if it is meant, answer with the call alone"
)
TWICE: Final = "not run: it destroys something, and the same call stands in this reply already"


def read_tool_reply(reply: object) -> ToolReply:
    """Read a reply, as text or as the JSON value that somebody already made of it."""
    if not isinstance(reply, str):
        problem = f"a reply must be text or one of the three shapes, got {type(reply).__name__}"
        return _shape(reply) or ToolReply(note=problem)
    large = too_large(reply)
    if large:
        return ToolReply(note=f"the reply {large}")
    text, value = unquote_reply(reply.strip())
    if value is BROKEN or isinstance(value, str):
        return _in_prose(without_reasoning(text))
    whole = _shape(value)
    if whole is not None:
        return whole
    if _is_data(text, value):
        return ToolReply(text=text, is_data=True)
    return ToolReply(note="the reply is JSON, but none of the three shapes")


def _means_a_call(text: str) -> bool:
    """Tell whether a text contains a part of a call; most contain no such word, which is checked first."""
    folded = text.casefold()
    return any(word in folded for word in _CALL_WORDS) and _MEANT_A_CALL.search(text) is not None


def _is_data(text: str, value: object) -> bool:
    """Tell whether a JSON value may be an answer: it has content, and nothing of a malformed call.

    An object under another key is part of the answer unless it is a call: `{"answer": {"tool": "a hammer"}}`.
    """
    says_something = value is False or value == 0 or bool(value)
    return says_something and not (_means_a_call(text) and _may_call(value))


def _may_call(value: object) -> bool:
    if not is_object(value):
        return True
    if folded_fields(value).keys() & CALLING:
        return True
    waiting: list[object] = list(value.values())
    for _ in range(_MOST_FIELDS):
        if not waiting:
            return False
        each = waiting.pop()
        if is_object(each):
            if is_call(each) or folded_fields(each).keys() & {"toolcall", "toolcalls"}:
                return True
            waiting += each.values()
        elif is_array(each):
            waiting += each
    return True  # nobody has looked at the rest


def _in_prose(text: str) -> ToolReply:
    values = locate_values(text)
    shapes: list[tuple[Located, ToolReply]] = []
    for each in values:
        shape = _shape(each.value)
        if shape is not None:
            shapes.append((each, shape))
    is_broken = _means_a_call(_text_between(text, values))  # then the values are parts of a broken shape
    if shapes and not is_broken:
        return _read_among_text(text, shapes)
    whole = _shape(repair_value(text)) if _seems_finished(text) else None
    if whole is not None and (whole.calls or whole.text):
        start = min((place for place in map(text.find, "[{") if place >= 0), default=0)
        return replace(whole, note="the JSON was repaired", alone=not _prose(text[:start]))
    if is_broken or (_means_a_call(text) and any(_may_call(each.value) for each in values)):
        return ToolReply(note="the reply begins a call, but its JSON is broken or cut off")
    plain = text.strip()
    if not plain:
        return ToolReply(note="the reply is empty")
    return ToolReply(text=plain)


def _text_between(text: str, values: list[Located]) -> str:
    ends = (0, *(each.end for each in values))
    starts = (*(each.start for each in values), len(text))
    return "\n".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _read_among_text(text: str, shapes: list[tuple[Located, ToolReply]]) -> ToolReply:
    calls: list[PlanStep] = []
    texts: list[str] = []
    around: list[str] = []
    notes: dict[str, None] = {}
    seen: set[bytes] = set()
    end = 0
    for where, shape in shapes:
        before, end = text[end : where.start], where.end
        around.append(_prose(before))
        texts.append(around[-1])
        if shape.calls and _QUOTED.search(before[-_BEFORE:]):
            notes["a call was quoted, not made"] = None
            continue
        own = canonical_bytes(where.value)
        if own in seen:
            notes["a call was repeated"] = None
            continue
        if calls and shape.calls and _REVISED.search(before[-_BEFORE:]):
            notes["a call was taken back"] = None
            calls.clear()
        seen.add(own)
        calls.extend(shape.calls)
        texts.append(shape.text)
    around.append(_prose(text[end:]))
    texts.append(around[-1])
    return _make_reply("\n\n".join(filter(None, texts)), calls, note="; ".join(notes), alone=not any(around))


def _shape(value: object) -> ToolReply | None:
    """Return the meaning of a JSON value that is a known shape, a bare call, or a list of these."""
    if is_array(value):
        return _list_of_shapes(value)
    if not is_object(value):
        return None
    fields = folded_fields(value)
    if not fields.keys() & {"toolcall", "toolcalls", "naturallanguageresponse"}:
        if not is_call(value):
            return None
        return _make_reply("", [step_of(value)])
    calls = (*_calls(fields.get("toolcall")), *_calls(fields.get("toolcalls")))
    text = _text(fields.get("naturallanguageresponse"))
    if not text:
        beside = [fields[key] for key in _TEXT_BESIDE if isinstance(fields.get(key), str)]
        text = beside[0].strip() if beside else ""
    return _make_reply(text, calls[: MOST_STEPS + 1])


def _list_of_shapes(values: Sequence[object]) -> ToolReply | None:
    """Return the meaning of a list if each of its values has one; a list within it has none."""
    looked_at = values[: MOST_STEPS + 1]
    replies: list[ToolReply] = []
    for value in looked_at:
        reply = None if isinstance(value, list) else _shape(value)
        if reply is None:
            return None
        replies.append(reply)
    if not replies:
        return None
    calls: list[PlanStep] = []
    for reply in replies:
        calls.extend(reply.calls)
    return _make_reply("\n\n".join(reply.text for reply in replies if reply.text), calls)


def _calls(value: object) -> tuple[PlanStep, ...]:
    if value is None:
        return ()
    if is_array(value):
        return tuple(step_of(item) for item in islice(value, MOST_STEPS + 1))
    return (step_of(value),)


def _text(value: object) -> str:
    if is_object(value):
        fields = folded_fields(value)
        value = next((fields[key] for key in _TEXT_BESIDE if key in fields), None)
    return value.strip() if isinstance(value, str) else ""


def _make_reply(text: str, calls: Sequence[PlanStep], *, note: str = "", alone: bool = True) -> ToolReply:
    if not text and not calls and not note:
        note = "the reply neither calls a tool nor says anything"
    return ToolReply(text=text, calls=tuple(calls), note=note, alone=alone)


def _prose(text: str) -> str:
    """Return what a text around JSON says: without tags, fences and lone punctuation."""
    plain = _CALL_TAG.sub("", text)
    opened = _OPENED.search(plain, max(0, len(plain) - _LONGEST_FENCE))
    if opened is not None:
        plain = plain[: opened.start()]
    plain = plain.strip().lstrip("`").lstrip()
    return plain if _WORDED.search(plain) else ""


def _seems_finished(text: str) -> bool:
    """Tell whether JSON is complete: the repair of a truncated reply would run half of what was meant."""
    missing = sum(text.count(char) for char in "[{") - sum(text.count(char) for char in "]}")
    return ends_as_json(text) and missing <= 1
