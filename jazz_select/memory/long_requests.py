"""Long requests: which sentences of a mail ask for something that the flows are about."""

import re
from collections.abc import Iterable, Sequence
from functools import partial

from jazz_select.memory.asked import Pace, Said
from jazz_select.memory.encoder import MAX_QUERY_CHARS, Lexical, TermCounts, printable
from jazz_select.ports import FlowStore, HybridQuery
from jazz_select.threads import in_thread

LONG = 1_000
"""Characters from which on a request is read by its sentences."""
MOST_SENTENCES = 100
MOST_CHOSEN = 3
_NEARLY = 0.7
"""A sentence is chosen that matches the flows at least so much as the best one does."""
_ASKS = 1.2
"""What a sentence counts that asks for something, beside one that only tells."""
_ASKING = re.compile(
    r"[?？]|\b(?:please|i want|i need|i would like|i'd like|can (?:you|i|we)|could (?:you|i|we)|would you|how|what"
    r"|where|when|why|which|who|help|tell me|let me know)\b",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?;]) |(?<=[。！？；])")
"""Of text in which no two blanks stand together."""
_SHORTEST, _LONGEST = 12, 200
"""Characters of a sentence: what is shorter joins the next, and what is longer is cut between words."""


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a long request, as they stand, at most `MOST_SENTENCES`."""
    found: list[str] = []
    pending = ""
    for line in text.splitlines():
        for piece in _END.split(" ".join(printable(line).split())):
            pending = f"{pending} {piece}".strip()
            if len(pending) >= _SHORTEST:
                found += _cut(pending)
                pending = ""
    if pending:
        found.append(pending)
    return tuple(found[:MOST_SENTENCES])


def _cut(text: str) -> list[str]:
    """What is written without an end, in parts of at most `_LONGEST` characters; a longer word is cut as well."""
    parts: list[str] = []
    while len(text) > _LONGEST:
        end = text.rfind(" ", 1, _LONGEST)
        end = end if end > 0 else _LONGEST
        parts.append(text[:end])
        text = text[end:].lstrip()
    return [*parts, text] if text else parts


class SentenceReader:
    """Reads a long request by the sentences of it that have most in common with some flow.

    To embed a whole mail takes a transformer many times as long as a sentence, and what it is about drowns in it.
    """

    def __init__(self, store: FlowStore, lexical: Lexical, pace: Pace) -> None:
        """Look words up in this store."""
        self._store = store
        self._lexical, self._pace = lexical, pace

    async def shortened(
        self, said: Said, agent_id: str, exclude: Sequence[str] = (), *, terms: TermCounts | None = None
    ) -> Said:
        """The same with what the long request asks for alone; as it is where no flow has any word of it."""
        whole = said.own
        read = partial(self._asked, whole[:MAX_QUERY_CHARS], agent_id, exclude, terms)
        ahead = self._pace.ahead([whole])
        asked = await in_thread(read) if ahead.takes_long else read()
        self._pace.read(ahead)
        found = iter(await self._store.search([query for _, query in asked if query.arms]))
        weights = [_weight(text, query, next(found).bm25.values() if query.arms else ()) for text, query in asked]
        kept = " ".join(_best([text for text, _ in asked], weights))
        if not kept:
            return said
        notes = [f"recall looked for {len(kept)} characters of it: the sentences that are most about a flow"]
        if len(whole) > MAX_QUERY_CHARS:
            notes.insert(0, f"recall read the first {MAX_QUERY_CHARS} of {len(whole)} characters")
        if not said.focus:
            return Said(query=kept, notes=tuple(notes))
        context = said.query.removeprefix(whole).strip()
        return Said(query=f"{kept} {context}", focus=kept, notes=tuple(notes))

    def _asked(
        self, text: str, agent_id: str, exclude: Sequence[str], terms: TermCounts | None
    ) -> list[tuple[str, HybridQuery]]:
        """Each sentence with a search by its words for the one flow that has most of them."""
        return [
            (
                each,
                HybridQuery(
                    agent_id=agent_id,
                    dense=None,
                    sparse=words if terms is None else terms.weighed(words),
                    depth=1,
                    exclude=tuple(exclude),
                ),
            )
            for each, words in ((each, self._lexical.query(each)) for each in sentences(text))
        ]


def _weight(text: str, query: HybridQuery, scores: Iterable[float]) -> float:
    """What a term of a sentence scores on the mean: a sentence about something else has many that no flow has."""
    share = max(scores, default=0.0) / len(query.sparse.indices) if query.sparse else 0.0
    return share * _ASKS if _ASKING.search(text) else share


def _best(texts: Sequence[str], weights: Sequence[float]) -> list[str]:
    """The sentences that weigh most, in the order in which they stand; none where nothing weighs anything."""
    order = sorted(range(len(texts)), key=lambda place: -weights[place])[:MOST_CHOSEN]
    least = _NEARLY * weights[order[0]] if order else 0.0
    return [texts[place] for place in sorted(order) if least > 0.0 and weights[place] >= least]
