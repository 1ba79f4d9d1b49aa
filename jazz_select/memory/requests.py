"""Requests to recall: what of a message is the request, the texts that are searched for it, and its scope."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import exp
from typing import Final, TypeVar

import numpy as np

from jazz_select.arguments import Positive, checked
from jazz_select.errors import ConfigError
from jazz_select.memory.encoder import MAX_QUERY_CHARS, Lexical, TermCounts, indexable
from jazz_select.memory.fit.model import MOST_SIZED
from jazz_select.ports import FlowStore, HybridQuery, Vectors
from jazz_select.threads import compute
from jazz_select.values import AUTO, Coverage, TopK

T = TypeVar("T")
_QUOTED: Final = re.compile(r"\s{0,3}[>＞]")
_SIGNATURE: Final = re.compile(r"(?:--|—|__+)\s*")
"""The mark of a signature, alone on its line: "-- " (RFC 3676, section 4.3) and its usual misspellings."""
_FORWARDED: Final = re.compile(
    r"[-_ *>]{2,}\s*(?:"
    r"original message|forwarded message|weitergeleitete nachricht|ursprüngliche nachricht|urspr\. nachricht"
    r"|mensaje original|mensaje reenviado|message d['’]origine|message original|message transféré"
    r"|messaggio originale|messaggio inoltrato|mensagem original|mensagem encaminhada|转发的邮件|原始邮件"
    r"|転送メッセージ|元のメッセージ|исходное сообщение|пересылаемое сообщение"
    r")\s*[-_ *]*"
    r"|begin forwarded message:|anfang der weitergeleiteten nachricht:|début du message réexpédié\s?:"
    r"|inicio del mensaje reenviado:|inizio messaggio inoltrato:",
    re.IGNORECASE,
)
"""The line above a forwarded message, or above the message that is replied to."""
_ATTRIBUTION: Final = re.compile(
    r"(?:on|am|le|el|il|em|op)\b[^\n]{3,200}\b"
    r"(?:wrote|schrieb[^\n]{0,120}|a écrit|escribió|ha scritto|escreveu|schreef[^\n]{0,120})\s?[:：]"
    r"|[^\n]{3,200}(?:写道|寫道|написал\(?а?\)?|のメッセージ)\s?[:：]",
    re.IGNORECASE,
)
"""The line above quoted lines: "On Monday, Ann wrote:"."""
_HEAD: Final = re.compile(
    r"[*_]{0,2}(?:from|sent|date|to|cc|subject|von|gesendet|datum|an|betreff|de|enviado|fecha|para|asunto|envoyé|à|objet"
    r"|da|inviato|data|a|oggetto|assunto|发件人|发送时间|收件人|主题|差出人|送信日時|宛先|件名|от|дата|кому|тема)[*_]{0,2}\s?[:：]",
    re.IGNORECASE,
)
_SUBJECT: Final = re.compile(
    r"[*_]{0,2}(?:subject|betreff|asunto|objet|oggetto|assunto|主题|件名|тема)\b", re.IGNORECASE
)
_FEWEST_HEADS, _MOST_HEADS = 3, 8
"""Lines such as "From:", "Sent:" and "Subject:" that together begin a forwarded message; one alone may be a list.

One of them has to be the subject: "From: Berlin", "To: Paris" and "Date: 5 May" are a request for a ticket.
"""
_LONGEST_LINE: Final = 400
_LONGEST_MESSAGE: Final = 32_000
"""Characters that are read; a longer message is taken as it is."""


def written_now(message: str) -> str:
    """Return what the author of a message wrote now.

    Left out are lines that quote ("> …") with the line that introduces them, everything from the head of a forwarded
    message on, and everything from a signature's mark on. A message of nothing else is returned as it is.
    """
    if "\n" not in message or len(message) > _LONGEST_MESSAGE:
        return message
    lines = message.splitlines()
    kept: list[str] = []
    place = 0
    while place < len(lines):
        line, text = lines[place], lines[place].strip()
        if _FORWARDED.fullmatch(text[:_LONGEST_LINE]) or _begins_heads(lines, place):
            break
        if kept and _SIGNATURE.fullmatch(text):
            break
        introducing = _attribution_lines(lines, place)
        if _QUOTED.match(line) is None and not introducing:
            kept.append(line)
        place += introducing or 1
    written = "\n".join(kept).strip()
    return written or message


def _begins_heads(lines: list[str], place: int) -> bool:
    """Whether the head of a forwarded message begins here."""
    heads = list(takewhile(_HEAD.match, (line.strip() for line in lines[place : place + _MOST_HEADS])))
    return len(heads) >= _FEWEST_HEADS and any(map(_SUBJECT.match, heads))


def _attribution_lines(lines: list[str], place: int) -> int:
    """Return of how many lines the introduction of a quotation consists that begins here; 0 if none does.

    Mail programs break it in two. It stands before a quoted line, or at the end, where a program cut the quotation.
    """
    for count in (1, 2):
        following = [line for line in lines[place + count : place + count + 3] if line.strip()]
        if following and not _QUOTED.match(following[0]):
            continue
        text = " ".join(line.strip() for line in lines[place : place + count])
        if len(text) <= _LONGEST_LINE and _ATTRIBUTION.fullmatch(text):
            return count
    return 0


_JOINT = re.compile(
    r"(?<=[.!?;。！？；]) ?(?=\S)"
    r"|,? (?:and then|and also|and|then|also|as well as|plus|additionally|after that) "
    r"|(?:，|、)?(?:然后|并且|而且|另外|还有)",
    re.IGNORECASE,
)
"""Separators of clauses, for text without double blanks: `\\s+` would take quadratic time on many blanks."""
_MIN_WORDS = 3
_MIN_LETTERS = 4
"""Minimum length of a clause in scripts without spaces."""
MAX_CLAUSES = 6
_AT_ONCE = 4_000
"""Maximum size of texts, in bytes of UTF-8, that are encoded on the event loop; more go to a thread."""
_DICTIONARY_LETTER = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
"""A letter of kana or Han, which need a dictionary."""


def clauses(text: str) -> tuple[str, ...]:
    """Return the clauses of a request, each possibly a wish; none if there is only one, or too many.

    They are split at sentences and at words such as "and" or "then". A short clause joins the next.
    """
    parts = _parts(text)
    return parts if 1 < len(parts) <= MAX_CLAUSES else ()


def is_several(text: str) -> bool:
    """Whether a request has several clauses, without a limit of their number."""
    return len(_parts(text[:MAX_QUERY_CHARS])) > 1


def _parts(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    pending = ""
    for piece in _JOINT.split(" ".join(text.split())):
        pending = f"{pending} {piece.strip()}".strip()
        if _says_something(pending):
            parts.append(pending)
            pending = ""
    if pending and parts:
        parts[-1] = f"{parts[-1]} {pending}"
    return tuple(parts)


def _says_something(text: str) -> bool:
    words = text.split()
    return len(words) >= _MIN_WORDS or (not text.isascii() and len(text) >= _MIN_LETTERS)


_MOST_NAMING = 400
"""Words of a request that are searched for names."""


def names_in(words: str, names: Mapping[str, str], lengths: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
    """Return the ids of the flows whose name stands in a request, in order of appearance.

    A name that stands within a longer one ("order" in "cancel order") is not counted.

    Args:
        words: The request, folded as the names are (`folded_alias`).
        names: Flow ids by folded name.
        lengths: The `name_lengths` of these names.
    """
    parts = words.split()[:_MOST_NAMING]
    found: dict[str, None] = {}
    start = 0
    while start < len(parts):
        for length in lengths.get(parts[start], ()):  # the longest first
            flow_id = names.get(" ".join(parts[start : start + length]))
            if flow_id is not None:
                found[flow_id] = None
                start += length
                break
        else:
            start += 1
    return tuple(found)


_DENYING = re.compile(r"\b(?:not|no|never|dont|instead|rather)\b|n['’]t\b", re.IGNORECASE)
"""A cheap first test for a denial."""
_PART = re.compile(r"[,;] ?(?:but |and )?| but ", re.IGNORECASE)
_STOPPED = re.compile(r"[.!?;] ")
_DENIED = re.compile(
    r"(?:please |so |and |no |well )?(?:"
    r"not |no \w|instead of |rather than |(?:do not|don['’]t|dont|never) \w"
    r"|i (?:do not|don['’]t|dont) (?:want|need|mean) "
    r"|i(?:['’]m| am) not \w+ing\b|i (?:haven['’]t|have not|was not|wasn['’]t) "
    r"|(?:it|this|that|the \w+|the \w+ \w+)(?:['’]s not| (?:is|was|did|has|are|were)(?:n['’]t| not)) )",
    re.IGNORECASE,
)
_MOST_DENYING = 160
_MOST_PARTS = 3
_FEWEST_WORDS = 3
MEANT_WEIGHT = 0.5
"""Weight of the wanted part beside the whole; a higher one harms requests that only seem to deny something."""


def wanted_part(request: str) -> str:
    """Return the wanted part of "not a refund, an exchange"; empty if nothing is denied or nothing is left.

    Both arms ignore "not", so they would find a refund here. Only short sentences count, and only where the wanted
    part comes last: "I paid, but it did not arrive" denies nothing.
    """
    text = " ".join(request[: 2 * _MOST_DENYING].split())
    if len(text) > _MOST_DENYING or _STOPPED.search(text):
        return ""
    parts = [part.strip() for part in _PART.split(text) if part.strip()]
    if not 1 < len(parts) <= _MOST_PARTS:
        return ""
    wanted = [part for part in parts if not _DENIED.match(part)]
    if len(wanted) == len(parts) or not wanted or wanted[-1] is not parts[-1]:
        return ""
    text = ", ".join(wanted)
    return text if len(text.split()) >= _FEWEST_WORDS else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A query, and the part of it that was said last if the rest is context."""

    query: str
    focus: str = ""
    notes: tuple[str, ...] = ()
    """Which parts are not searched."""

    @property
    def own_text(self) -> str:
        """The part that was said last, or the whole query."""
        return self.focus or self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """The texts that are searched for a request: the whole, its context and its clauses."""

    request: str = ""
    widened: str = ""
    """The request with its context, if there is any."""
    clauses: tuple[str, ...] = ()
    meant: str = ""
    """The `wanted_part` of the request."""
    content_words: int = 0
    hollow: float = 0.0
    """Similarity to `HOLLOW` of a request with context."""
    notes: tuple[str, ...] = ()
    vectors: tuple[Vectors | None, ...] = ()
    """The vector of each of `texts` as the embedder gives it, if something was learned from a log."""

    @classmethod
    def from_query(cls, given: RecallQuery, *, lexical: Lexical) -> "EncodedRequest":
        """Clean and cut a query, and split it into clauses."""
        query, focus, notes = given.query, given.focus, given.notes
        if len(query) > MAX_QUERY_CHARS:
            notes = (*notes, f"recall read the first {MAX_QUERY_CHARS} of {len(query)} characters")
        whole = indexable(query[:MAX_QUERY_CHARS])
        request = indexable(focus[:MAX_QUERY_CHARS]) or whole
        is_widened = whole != request
        return cls(
            request=request,
            widened=whole if is_widened else "",
            clauses=clauses(request) if request else (),
            meant=wanted_part(request) if _DENYING.search(request) else "",
            content_words=lexical.content_words(request) if is_widened else 0,
            notes=notes,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that are searched: the request, its clauses, its wanted part, and the widened request last."""
        if not self.request:
            return ()
        texts = [self.request, *self.clauses]
        if self.meant:
            texts.append(self.meant)
        if self.widened:
            texts.append(self.widened)
        return tuple(texts)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class RecallScope:
    """Whose flows are searched, and how many are returned."""

    agent_id: str
    top_k: TopK
    rrf_k: Positive
    exclude: tuple[str, ...]
    coverage: Coverage

    @property
    def most(self) -> int:
        """The most candidates."""
        return MOST_SIZED if self.top_k == AUTO else self.top_k


def check_texts(texts: Sequence[object], what: str = "a query, and the focus of one,") -> None:
    """Raise for anything but text."""
    for text in texts:
        if not isinstance(text, str):
            raise ConfigError(f"{what} must be a string, got {text!r:.80}")


async def read_texts(texts: Iterable[str], read: Callable[[], T], *, slow: bool = False) -> T:
    """Return `read()`, which reads these texts; run it in a thread where it would hold up the event loop.

    That is where it is `slow`, where the texts are long, and where they need a dictionary, whose first loading takes
    seconds.
    """
    starts = [text[:MAX_QUERY_CHARS] for text in texts]
    size = sum(len(start.encode(errors="surrogatepass")) for start in starts)
    if slow or size > _AT_ONCE or any(map(_DICTIONARY_LETTER.search, starts)):
        return await compute(read)
    return read()


LONG = 1_000
"""Length from which a request is reduced to its best sentences."""
MOST_SENTENCES = 100
MOST_CHOSEN = 3
_NEARLY = 0.7
"""Minimum weight of a sentence to keep, as a share of the best one's."""
_ASKS = 1.2
"""Factor on the weight of a sentence that asks for something."""
_ASKING = re.compile(
    r"[?？]|\b(?:please|i want|i need|i would like|i'd like|can (?:you|i|we)|could (?:you|i|we)|would you|how|what"
    r"|where|when|why|which|who|help|tell me|let me know)\b",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?;]) |(?<=[。！？；])")
_SHORTEST, _LONGEST = 12, 200
"""Length of a sentence: a shorter one joins the next, a longer one is cut between words."""


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a long request, at most `MOST_SENTENCES`."""
    found: list[str] = []
    pending = ""
    for line in text.splitlines():
        for piece in _END.split(" ".join(indexable(line).split())):
            pending = f"{pending} {piece}".strip()
            if len(pending) >= _SHORTEST:
                found += _cut(pending)
                pending = ""
    if pending:
        found.append(pending)
    return tuple(found[:MOST_SENTENCES])


def _cut(text: str) -> list[str]:
    """Cut a text without sentence ends into parts of at most `_LONGEST` characters, within longer words too."""
    parts: list[str] = []
    while len(text) > _LONGEST:
        end = text.rfind(" ", 1, _LONGEST)
        if end < 0:  # one long word
            end = _LONGEST
        parts.append(text[:end])
        text = text[end:].lstrip()
    if text:
        parts.append(text)
    return parts


async def shorten_query(
    given: RecallQuery,
    scope: RecallScope,
    store: FlowStore,
    *,
    lexical: Lexical,
    terms: TermCounts | None,
) -> RecallQuery:
    """Reduce a long request to the sentences that match some flow best; as it is if no flow shares a word with it.

    A transformer takes many times as long for a mail as for a sentence, and its vector hides what the mail is about.
    """
    whole = given.own_text

    def read_sentences() -> list[tuple[str, HybridQuery]]:
        """Return each sentence with a query by its words for the one best flow."""
        asked: list[tuple[str, HybridQuery]] = []
        for text in sentences(whole[:MAX_QUERY_CHARS]):
            words = lexical.query(text)
            if terms is not None:
                words = terms.weigh_query(words)
            query = HybridQuery(agent_id=scope.agent_id, dense=None, sparse=words, depth=1, exclude=scope.exclude)
            asked.append((text, query))
        return asked

    asked = await read_texts([whole], read_sentences)
    found = iter(await store.search([query for _, query in asked if query.arms]))
    weights: list[float] = []
    for text, query in asked:
        scores = next(found).bm25.values() if query.arms else ()
        weights.append(_weight(text, query, scores))
    kept = " ".join(_best([text for text, _ in asked], weights))
    if not kept:
        return given
    notes = [f"recall looked for {len(kept)} characters of it: the sentences that are most about a flow"]
    if len(whole) > MAX_QUERY_CHARS:
        notes.insert(0, f"recall read the first {MAX_QUERY_CHARS} of {len(whole)} characters")
    if not given.focus:
        return RecallQuery(query=kept, notes=tuple(notes))
    context = given.query.removeprefix(whole).strip()
    return RecallQuery(query=f"{kept} {context}", focus=kept, notes=tuple(notes))


def _weight(text: str, query: HybridQuery, scores: Iterable[float]) -> float:
    """Return the mean score of a sentence's terms: most terms of an unrelated sentence match no flow."""
    share = max(scores, default=0.0) / len(query.sparse.indices) if query.sparse else 0.0
    return share * _ASKS if _ASKING.search(text) else share


def _best(texts: Sequence[str], weights: Sequence[float]) -> list[str]:
    """Return the sentences with the highest weights in their original order; none if all weigh nothing."""
    order = sorted(range(len(texts)), key=lambda place: -weights[place])[:MOST_CHOSEN]
    if not order or weights[order[0]] <= 0.0:
        return []
    least = _NEARLY * weights[order[0]]
    return [texts[place] for place in sorted(order) if weights[place] >= least]


HOLLOW = (
    *("yes please", "no thank you", "okay", "sure, go for it", "that's fine with me", "all right then", "do it"),
    *("please do that", "let's go with that", "I'd like that", "yeah, let's do it", "yes, that would be great"),
    *("right, exactly", "no, that's wrong", "no, something else", "not really", "maybe later", "of course", "got it"),
    *("I see", "understood", "perfect, thank you", "ok great", "sounds fine", "good idea", "agreed"),
    *("what does that mean", "what happens next", "what should I do now", "how do I do that", "how long will it be"),
    *("how much is it", "when can I expect it", "where do I find it", "why did that happen", "who can help me"),
    *("which one is it", "is that possible", "can you check that for me", "can you help me with this"),
    *("I have a question about this", "I need some help here", "something is wrong with it", "it doesn't work"),
    *("it still doesn't work", "I already did that", "I have tried that before", "I told you earlier"),
    *("we were talking about this a moment ago", "about my last message", "back to the earlier topic"),
    *("the same as last time", "the first one", "the second option", "the other one instead", "this one, not that one"),
    *("not that, the one before", "never mind, go back", "let's continue where we stopped", "please continue", "go on"),
    *("anything else I should know", "is there another way", "I changed my mind about it", "can you change that"),
    *("can you do it again", "give me the details", "give me an example", "tell me again", "I don't understand"),
    *("I'm not sure about that", "thanks, that helps", "hello, are you still there", "sorry, I was away"),
    *("one more thing about that", "wait a moment", "how does that work", "how does it go from here"),
    *("how do we proceed", "what are the next steps", "what do I need for that", "what do you mean"),
    *("what about that one", "what is the other possibility", "what would you suggest", "where were we"),
    *("when will that happen", "why not", "could you do that for me", "would you take care of that for me"),
    *("can we finish this", "can we talk about it again", "can you say more about that"),
    *("could you repeat the last part", "is there something I must do", "is it ready", "is that all", "did it work"),
    *("has that been done", "any update on that", "I want to go ahead", "I want to go on with that"),
    *("I still need it", "I am waiting for it", "I would rather have the other", "I meant the one from before"),
    *("I asked about this already", "as mentioned above", "as we discussed", "like you said", "the thing I mentioned"),
    *("that thing again", "both of them please", "all of them", "none of those", "the last one you named"),
    *("it is about the same matter", "it failed again", "please fix that", "please help me with it", "please explain"),
    *("let me know", "try again", "start over", "stop that", "hurry up please", "so what now", "and then"),
    *("and after that", "and how", "then do so"),
)
"""Requests that mean nothing without their context, in any catalogue."""
_NEAREST = 3
"""Nearest hollow texts that are averaged."""
_STEEP = 40.0
_BORDER = 0.15
_PER_CONTENT, _MOST_CONTENT = 0.04, 4
"""Clarity per content word, and the most words that count."""


def nearness(aimed: Sequence[float], hollow: Vectors) -> float:
    """Return the mean cosine of a request's vector, after the transform, with the nearest of the `hollow` texts."""
    return float(np.sort(hollow @ np.asarray(aimed, dtype=np.float32))[-_NEAREST:].mean())


def clarity(*, nearest: float, hollow: float, content_words: int) -> float:
    """Return how clear a request is without its context, from 0 to 1: nearer to a flow than to hollow texts.

    `nearest` is the cosine of the nearest flow, 0 without a dense vector; `hollow` the similarity to hollow texts.
    """
    if nearest <= 0.0:
        return 0.0
    margin = nearest - hollow + _PER_CONTENT * min(content_words, _MOST_CONTENT)
    return 1.0 / (1.0 + exp(-_STEEP * (margin - _BORDER)))
