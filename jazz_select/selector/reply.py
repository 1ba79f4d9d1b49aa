"""Reads a model's reply as ids of candidates. Pure; the only place that tolerates malformed answers.

Forms are tried from strict to tolerant: JSON, JSON inside prose, broken JSON, prose that names a candidate. Valid JSON
is taken literally. The work is bounded for every reply, and no reply raises.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, cast

from jazz_select.chat.json_reader import BROKEN, find_embedded, repair_value, unquote_reply
from jazz_select.chat.reasoning import without_reasoning
from jazz_select.json_values import is_array, is_object
from jazz_select.text import beginning, clean, json_line, nfkc
from jazz_select.values import Candidate

_ORDINAL = re.compile(r"(?:(?:flow|candidate|option|number|no\.?)\s*)?[#(\[]*([0-9]{1,4})[\s.)\]:]*", re.IGNORECASE)
_WRAPPING = " \t\r\n`'\"*<>.,;:!“”‘’«»"
_WORD = re.compile(r"[^\W_]+")
_LONGEST_MENTION = 120
# Bounds. A sound reply has a few hundred characters; a reasoning model may put pages before its array.
_WINDOW = 16_384  # characters read from either end of a reply
_ITEMS = 2_000  # values visited inside one JSON value
_IDS = 64  # ids read
_LONGEST_FOLDED = 1_000  # characters of a possible name
_ID_CHARS = 200  # characters returned of an unknown id
_FENCE = re.compile(
    r"```+(?:(?:json5?|jsonc|javascript|js|python|py|text|txt|plaintext|xml|yaml)(?![\w-]))?", re.IGNORECASE
)
# Words for "none of them", folded, where an id is expected.
_NO_ID = frozenset({"na", "nil", "none", "noneoftheabove", "noneofthese", "nothing", "null"})
_NOTHING_FITS = re.compile(
    r"\b(?:none|nothing|null|n/a)\b"
    r"|\bno\b(?:\s+[\w-]+){0,3}?\s+(?:flow|candidate|option|match|fit)\w*"
    r"|(?:\bnot\b|n['’]t\b)[^.]{0,60}\bany\b",  # models write the typographic apostrophe
    re.IGNORECASE,
)
_NONE_OF = re.compile(r"\W*(?:none of|neither)\b", re.IGNORECASE)
_DOUBT = re.compile(
    r"\b(?:no|not|none|neither|nor|never|nothing|without|cannot|except|unless)\b|n['’]t\b",
    re.IGNORECASE,
)
# What may separate names in a plain list: "1. refund_order\n2. cancel_order", "refund_order and cancel_order".
_CONNECTING = re.compile(r"(?:\b(?:and|then|also|flows?|ids?|answer|the)\b|[\W\d_])*", re.IGNORECASE)
_RATED = re.compile(r"\d\s*/\s*\d|\d\s*%|\d\.\d")  # candidates with ratings are compared, not chosen
# A denial right before an array, as in `Final: ["b"]. Not ["a"].`
_DENIED_ARRAY = re.compile(r"\b(?:not|never|rather than|instead of|except)\s*:?\s*\[", re.IGNORECASE)
_COMMA = re.compile(r"[,;\n]")
# A single word that looks like an id rather than a word of a language.
_BARE_ID = re.compile(r"(?=\w*[-_\d])[\w-]{1,100}")
# Folded keys under which an object holds its choice, the most explicit first.
_KEYS = (
    *("flowid", "id", "flowids", "ids", "chosenids", "selectedids", "chosenflows", "selectedflows"),
    *("chosen", "selected", "selection", "choice", "choices", "answer"),
    *("flowname", "flownames", "name", "names", "flow", "flows"),
    *("result", "results", "output", "candidate", "candidates", "ordinal", "number"),
)
# Keys by which an object says whether it is chosen.
_FLAGS = ("fits", "match", "matches", "matched", "ischosen", "isselected", "applies", "relevant", "suitable")
_YES = frozenset({"yes", "true", "y", "chosen", "selected", "match"})
# "chosen_flow", "best_match_id", "selected_flow_ids": matched from the start, which excludes "rejected".
_CHOICE_KEY = re.compile(r"(?:chosen|selected|best|final|picked|matching|recommended)\w*")


class Mentions:
    """The candidates in the order in which a model saw them, by all names it may use for them."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._order = tuple(candidate.flow_id for candidate in candidates)
        ids = {each: each for each in self._order}
        shown = _unambiguous((clean(flow_id), flow_id) for flow_id in self._order)
        names = _unambiguous((candidate.flow_name, candidate.flow_id) for candidate in candidates)
        self._exact = names | shown | ids
        self._folded = _unambiguous((folded_mention(key), flow_id) for key, flow_id in self._exact.items())

    def find(self, token: object) -> str | None:
        """Return the offered id for `token`, a string or a number."""
        if isinstance(token, str):
            text = token.strip(_WRAPPING)
            exact = self._exact.get(token) or self._exact.get(text)
            if exact:
                return exact
            return self._folded.get(folded_mention(text)) or self._id_at(text)
        if isinstance(token, int | float) and not isinstance(token, bool):
            return self._exact.get(str(token)) or self._id_at(str(token).removesuffix(".0"))
        return None

    def mentioned(self, text: str) -> tuple[tuple[str, ...], str]:
        """Return the ids that `text` mentions by id or name, distinct and in order, and the text without them."""
        pattern = _mention_pattern(self._exact)
        if pattern is None:
            return (), text
        found = (self._folded.get(folded_mention(match.group())) for match in pattern.finditer(text))
        return tuple(dict.fromkeys(flow_id for flow_id in found if flow_id)), pattern.sub(" ", text)

    def _id_at(self, text: str) -> str | None:
        match = _ORDINAL.fullmatch(text)
        if match is None:
            return None
        position = int(match.group(1))
        return self._order[position - 1] if 0 < position <= len(self._order) else None


def folded_mention(text: str) -> str:
    """Remove case and separators: RefundOrder and refund_order are equal. Numbers alone give ""."""
    letters = "".join(_WORD.findall(nfkc(text[:_LONGEST_FOLDED]).casefold()))
    return "" if letters.isdecimal() else letters


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return ids by key, without empty keys and keys of several ids."""
    meanings: dict[str, set[str]] = {}
    for key, flow_id in pairs:
        meanings.setdefault(key, set()).add(flow_id)
    return {key: ids.pop() for key, ids in meanings.items() if key and len(ids) == 1}


def _mention_pattern(keys: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for any of `keys` as whole words, the longest first, with any separators."""
    words = {tuple(_WORD.findall(key)) for key in keys if len(key) <= _LONGEST_MENTION and folded_mention(key)}
    if not words:
        return None
    forms = [r"[\s_-]?".join(map(re.escape, parts)) for parts in words]
    forms.sort(key=len, reverse=True)
    first = "".join({re.escape(parts[0][0]) for parts in words})  # a fast check of the first letter
    return re.compile(rf"(?<![\w-])(?=[{first}])(?:{'|'.join(forms)})(?![\w-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """A parsed reply. All but `status` and `ids` are empty unless it reads a message of a conversation.

    Attributes:
        status: `ids` were read, nothing fits (`empty`), or the reply is `unreadable`.
        ids: Distinct ids in order. Names and positions of candidates are resolved; an unknown id stays as written.
        off: The ids of the flows to call off.
        values: Input values, by input name, or by flow id and input name.
        repeated: Values of further wishes for the same flow, by flow id.
        every: The ids of the flows that are wanted for all that there are.
        unclear: Inputs with several possible values, in the form of `values`.
        confirm: The answer to the question that waits for a yes or a no.
        quote: The user's sentence that gives it.
        answer: The reply to the user, where no flow fits, or to a question about a flow that waits.
        opening: The first reply for the flow that runs first, or without a flow: text and calls, as JSON.
    """

    status: Literal["ids", "empty", "unreadable"]
    ids: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repeated: Mapping[str, tuple[Mapping[str, Any], ...]] = field(
        default_factory=dict[str, tuple[Mapping[str, Any], ...]]
    )
    every: tuple[str, ...] = ()
    unclear: Mapping[str, Any] = field(default_factory=dict[str, Any])
    confirm: Literal["", "yes", "no"] = ""
    quote: str = ""
    answer: str = ""
    opening: str = ""


_LONGEST_ANSWER: Final = 8_000
_LONGEST_OPENING: Final = 16_000
"""The longest opening, in characters: one that is longer is none, since half of a call is not made."""
_ALL: Final = "all"
"""What stands for the values of a flow that is wanted for all that there are."""
_MOST_WISHES: Final = 20
"""The most wishes for the same flow that are read from one reply."""
_PARTS: Final = frozenset({"flows", "off", "values", "unclear", "confirm", "begin"})
"""The members of the object that reads a message of a conversation."""
_EMPTY = ParsedReply(status="empty")
_UNREADABLE = ParsedReply(status="unreadable")


def read_reply(reply: object, candidates: Sequence[Candidate], *, of_message: bool = False) -> ParsedReply:
    """Parse which of `candidates`, in the order shown, a model's reply chooses. Anything but text is unreadable.

    `of_message`: the reply reads a message of a conversation, as an object with several members.
    """
    if not isinstance(reply, str):
        return _UNREADABLE
    ends = reply if len(reply) <= 2 * _WINDOW else f"{reply[:_WINDOW]}\n{reply[-_WINDOW:]}"
    text, value = unquote_reply(_FENCE.sub("\n", without_reasoning(ends)).strip())
    offered = Mentions(candidates)
    parts = _parts(text, value, offered) if of_message else None
    if parts is not None:
        return _read_parts(parts, offered)
    if value is not BROKEN:
        return _read_choice(value, offered).reply
    values = find_embedded(text)
    # `max` returns the first of equals, so the order of the values decides between them.
    choices = [_read_choice(value, offered) for value in _last_first(values, text)]
    best = max(choices, key=lambda choice: choice.trust, default=_Choice(_UNREADABLE, _Trust.NONE))
    if best.trust > _Trust.NONE:
        is_footnote = best.trust is _Trust.NUMBERED and len(values) > 1
        is_denied = _DENIED_ARRAY.search(text) is not None
        return _UNREADABLE if is_footnote or is_denied else best.reply
    mended = _read_choice(repair_value(text), offered)
    if mended.trust > _Trust.STRANGE and mended.reply.ids:  # a repair turns a lone bracket into an empty array
        return mended.reply
    prose = _read_prose(text, offered)
    return mended.reply if prose is _UNREADABLE and mended.reply.ids else prose


def _parts(text: str, value: Any, offered: Mentions) -> dict[str, Any] | None:
    """Return the object with several members that a reply is or holds; None without one.

    An object with only an `answer` counts, unless a flow has that name.
    """
    values = [value]
    if value is BROKEN:
        values = [*_last_first(find_embedded(text), text), repair_value(text)]
    for each in values:
        if not isinstance(each, dict):
            continue
        parts = cast("dict[str, Any]", each)
        answer = parts.get("answer")
        if not parts or _PARTS & parts.keys() or (isinstance(answer, str) and not offered.find(answer)):
            return parts
    return None


def _read_parts(parts: Mapping[str, Any], offered: Mentions) -> ParsedReply:
    chosen = _read_choice(parts["flows"], offered).reply.ids if "flows" in parts else ()
    off = _read_choice(parts["off"], offered).reply.ids if "off" in parts else ()
    inputs, every = _without_every(parts.get("values"), offered)
    values, repeated = _each_wish(inputs, offered)
    unclear = _by_flow(parts.get("unclear"), offered)
    confirm, quote = _read_confirm(parts.get("confirm"))
    opening = _reply_start(parts.get("begin"))
    text = parts.get("answer")
    answer = beginning(text.strip(), _LONGEST_ANSWER) if isinstance(text, str) else ""
    if not (chosen or off or values or unclear or confirm):
        return replace(_EMPTY, answer=answer, opening=opening)
    if off or unclear or confirm:
        # What becomes of these is said once it is done, in place of the model's answer.
        answer = ""
    return ParsedReply(
        status="ids",
        ids=chosen,
        off=off,
        values=values,
        repeated=repeated,
        every=every,
        unclear=unclear,
        confirm=confirm,
        quote=quote,
        answer=answer,
        opening=opening,
    )


def _read_confirm(given: Any) -> tuple[Literal["", "yes", "no"], str]:
    """Return what a model read of the answer to the open question, and the words that it quotes for that."""
    confirm = given if is_object(given) else {"is": given}
    quote = confirm.get("quote")
    if not isinstance(quote, str):
        quote = ""
    answer = str(confirm.get("is")).strip().casefold()
    if answer == "yes":
        return "yes", quote
    if answer == "no":
        return "no", quote
    return "", quote


def _reply_start(begin: object) -> str:
    """Return how a reply begins, as JSON text; empty if it does not, or at too great a length."""
    if isinstance(begin, str):
        begin = {"text": begin}
    if not isinstance(begin, dict):
        return ""
    parts = cast("dict[str, Any]", begin)
    calls = parts.get("tool_calls")
    text = parts.get("text")
    opening = text.strip() if isinstance(text, str) else ""
    if isinstance(calls, list) and calls:
        reply: dict[str, Any] = {"tool_calls": calls}
        if isinstance(text, str):
            reply["text"] = text
        opening = json_line(reply)
    return opening if len(opening) <= _LONGEST_OPENING else ""


def _without_every(inputs: object, offered: Mentions) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the input values without the flows that are wanted for all that there are, and the ids of these."""
    given = cast("dict[str, Any]", inputs if isinstance(inputs, dict) else {})
    every: dict[str, None] = {}
    others: dict[str, Any] = {}
    for name, value in given.items():
        is_all = isinstance(value, str) and value.strip().casefold() == _ALL
        flow_id = offered.find(name) if is_all else None
        if flow_id:
            every[flow_id] = None
        else:
            others[name] = value
    return others, tuple(every)


def _each_wish(
    inputs: Mapping[str, Any], offered: Mentions
) -> tuple[dict[str, Any], dict[str, tuple[Mapping[str, Any], ...]]]:
    """Return the values of the first wish for each flow, and those of further wishes for it."""
    first: dict[str, Any] = {}
    repeated: dict[str, tuple[Mapping[str, Any], ...]] = {}
    # The last of several names of a flow counts, with all of its wishes.
    for name, value in inputs.items():
        flow_id = offered.find(name) if is_array(value) else None
        wishes: list[dict[str, Any]] = []
        if flow_id:
            wishes = [cast("dict[str, Any]", wish) for wish in value if isinstance(wish, dict)]
        if not flow_id or not wishes:
            first[name] = value
            continue
        first[flow_id] = wishes[0]
        repeated.pop(flow_id, None)
        if len(wishes) > 1:
            repeated[flow_id] = tuple(wishes[1:_MOST_WISHES])
    return _by_flow(first, offered), repeated


def _by_flow(inputs: object, offered: Mentions) -> dict[str, Any]:
    """Return input values by input name, or by flow id and input name."""
    if not isinstance(inputs, dict):
        return {}
    found: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", inputs).items():
        flow_id = offered.find(name) if isinstance(value, dict) else None
        found[flow_id or name] = value
    return found


class _Trust(IntEnum):
    """How likely one of several values is the answer."""

    NONE = 0
    """It chooses nothing: a year in brackets, an unrelated object."""
    STRANGE = 1
    """It holds words, but no candidate."""
    NUMBERED = 2
    """It holds only positions, as footnotes do."""
    NAMED = 3
    """It holds a candidate's id or name, or says that nothing fits."""


class _Choice(NamedTuple):
    reply: ParsedReply
    trust: _Trust


def _last_first(values: list[Any], text: str) -> Iterable[Any]:
    """Order values by likelihood: an answer comes last after an explanation, or first before one."""
    if values and text[0] in "[{":
        return (values[0], *reversed(values[1:]))
    return reversed(values)


def _read_choice(value: Any, offered: Mentions) -> _Choice:
    ids: dict[str, None] = {}
    trust, says_none = _Trust.NONE, False
    for leaf in islice(_leaves(value, offered), _IDS):
        found = offered.find(leaf)
        if found is None and _means_none(leaf):
            says_none = True
            continue
        ids[found or beginning(str(leaf), _ID_CHARS)] = None
        trust = max(trust, _trust(leaf, found=found is not None))
    if ids:
        return _Choice(ParsedReply(status="ids", ids=tuple(ids)), trust)
    if says_none:
        return _Choice(_EMPTY, _Trust.NAMED)
    return _Choice(_UNREADABLE, _Trust.NONE)


def _trust(leaf: object, *, found: bool) -> _Trust:
    word = isinstance(leaf, str) and bool(folded_mention(leaf))
    if found:
        return _Trust.NAMED if word else _Trust.NUMBERED
    return _Trust.STRANGE if word else _Trust.NONE


def _means_none(leaf: object) -> bool:
    return leaf is None or (isinstance(leaf, str) and (not leaf.strip() or folded_mention(leaf) in _NO_ID))


def _leaves(value: Any, offered: Mentions) -> Iterator[object]:
    """Yield the strings, numbers and nulls of `value` that may name a choice, in order, at any depth."""
    stack: list[Any] = [value]
    for _ in range(_ITEMS):
        if not stack:
            return
        item = stack.pop()
        if is_array(item):
            stack.extend(reversed(item) if item else [None])
        elif isinstance(item, dict):
            stack.extend(_choice_of(cast("dict[str, Any]", item), offered))
        elif isinstance(item, str) and len(parts := _split_list(item, offered)) > 1:
            stack.extend(reversed(parts))
        elif item is not BROKEN and not isinstance(item, bool):
            yield item


def _choice_of(item: dict[str, Any], offered: Mentions) -> list[Any]:
    """Return what an object chooses, under a known key or by keys that are affirmed ({"refund_order": true}).

    Unknown keys ("rejected", "runner_up_id") and objects that say they do not fit choose nothing: what a reply refuses
    must never run.
    """
    by_key = {folded_mention(key): value for key, value in reversed(item.items())}
    if any(key in by_key and not _affirms(by_key[key]) for key in _FLAGS):
        return []
    listed = [by_key[key] for key in _KEYS if key in by_key]
    if listed:
        chosen = listed[0]
        if chosen is None or _holds_more(chosen) or offered.find(chosen):
            return [chosen]
        return [next((value for value in listed if _holds_more(value) or offered.find(value)), chosen)]
    endings = [by_key[key] for key in by_key if _CHOICE_KEY.fullmatch(key)]
    if len(endings) == 1:
        return endings
    affirmed: list[Any] = []
    for key, value in reversed(item.items()):
        if folded_mention(key) and offered.find(key) and _affirms(value):
            affirmed.append(key)
    return affirmed


def _affirms(value: object) -> bool:
    """Whether a value is true or "yes". A number is a score, not a choice."""
    return value is True or (isinstance(value, str) and folded_mention(value) in _YES)


def _holds_more(value: Any) -> bool:
    return isinstance(value, list | dict)


def _split_list(text: str, offered: Mentions) -> list[str]:
    """Split "a, b" where each part is a candidate and the whole is none; else return []."""
    if offered.find(text):
        return []
    parts = _COMMA.split(text, maxsplit=_IDS)
    return parts if all(offered.find(part) for part in parts) else []


def _read_prose(text: str, offered: Mentions) -> ParsedReply:
    """Read prose: one candidate, a plain list, or "none fits". Prose that weighs candidates is unreadable."""
    whole = offered.find(text)
    if whole:
        return ParsedReply(status="ids", ids=(whole,))
    ids, rest = offered.mentioned(text)
    if not ids:
        if _NOTHING_FITS.search(text):
            return _EMPTY
        return ParsedReply(status="ids", ids=(text,)) if _BARE_ID.fullmatch(text) else _UNREADABLE
    if _NONE_OF.match(text):
        return _EMPTY
    is_doubtful = _DOUBT.search(text) is not None or _RATED.search(rest) is not None
    is_list = len(ids) == 1 or _CONNECTING.fullmatch(rest) is not None
    if is_doubtful or not is_list:
        return _UNREADABLE
    return ParsedReply(status="ids", ids=ids)
