"""From flows and requests to what both arms read: their texts, vectors and tokens, and how rare each token is."""

import hashlib
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from math import isfinite, log
from operator import mul
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from jazz_select.errors import ConfigError, EmbeddingError
from jazz_select.memory.engines.points import SYNCED, Layout
from jazz_select.ports import Embedder, FlowPoint, SparseVector, Vectors
from jazz_select.values import FlowCard

if TYPE_CHECKING:
    import qdrant_edge as qe

MAX_QUERY_CHARS = 8_000
"""A longer request is cut: what it asks for stands in the first pages, and embedding time grows with length."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？])\s*(?=\S)")
_NAME_WEIGHT = 3
_WORD = re.compile(r"\w+")
_K, _B, _AVERAGE = 1.2, 0.75, 64.0
"""Qdrant's defaults: saturation of frequency, weight of length, and the length that counts as average."""
_CACHED_WORDS, _LONGEST_CACHED = 1 << 14, 40
"""So many words are remembered, and no longer ones: where nobody writes blanks, a whole request is one word."""
_MIX = 0x9E3779B1
_TOKENS = 1 << 32
_BYTES_A_TERM = 110
_NOTED_TERMS = 1 << 16
"""Terms whose counts are kept, those of most flows first: some 700 kB in a note. A thousand flows of five examples have
five thousand terms that are in two of them or more; what is left out where there are far more is nearly as rare."""


def printable(text: str) -> str:
    """The text without control characters and lone surrogates, which no engine takes; white space stays apart."""
    return text.strip() if text.isprintable() else _CONTROL.sub(" ", text).strip()


def spoken_name(name: str) -> str:
    """The name as words: `refund_order` and `refundOrder` are both "refund order"."""
    return " ".join(re.split(r"[\W_]+", _CAMEL.sub(" ", name))).strip()


def folded_alias(text: str) -> str:
    """What two spellings of a name have in common: its words, in lower case."""
    return spoken_name(printable(text)).casefold()


def dense_texts(card: FlowCard) -> tuple[str, ...]:
    """The texts whose mean vector stands for the flow.

    With examples: "name: description. condition" and each example, so that the
    prototype lies where requests lie. Without, as for bare tools: everything there is,
    name and description, the first sentence, and the name. Details such as parameters
    are kept, and do not drown what the tool is.
    """
    name = spoken_name(card.name)
    if card.examples:
        return tuple(printable(text) for text in (f"{name}: {card.description} {card.condition}", *card.examples))
    first = _SENTENCE_END.split(printable(card.description), maxsplit=1)[0]
    texts = (lexical_text(card), f"{name}: {printable(card.description)}", first, name)
    return tuple(text for text in texts if text) or (card.name,)


def lexical_parts(card: FlowCard) -> tuple[str, ...]:
    """The texts whose words the lexical arm indexes; word pairs do not reach from one into the next.

    The name of a flow without examples counts more than its other words: there is little else
    that a request would share with it.
    """
    name = spoken_name(card.name)
    if card.examples:
        parts = (name, card.description, card.condition, *card.desired_effects, *card.aliases, *card.examples)
    else:
        parts = (*[name] * (_NAME_WEIGHT - 1), lexical_text(card))
    return tuple(printable(part) for part in parts)


def lexical_text(card: FlowCard) -> str:
    """All of the flow's own text."""
    return printable(card.text) or f"{spoken_name(card.name)} {printable(card.description)}".strip()


def payload(card: FlowCard) -> dict[str, Any]:
    """What is stored beside the vectors and comes back with a hit."""
    return {
        "flow_id": card.id,
        "flow_name": printable(card.name),
        "flow_type": card.type,
        "description": printable(card.description),
        "condition": printable(card.condition),
        "desired_effects": [printable(effect) for effect in card.desired_effects],
        "priority": list(card.priority),
    }


def fingerprint(card: FlowCard, layout: str) -> str:
    """Changes when the flow, the text that is embedded, or the way it is embedded changes."""
    parts = (layout, card.checksum, *lexical_parts(card), *dense_texts(card), repr(payload(card)))
    return hashlib.sha256("\x1f".join(parts).encode(errors="replace")).hexdigest()[:32]


def rarity(flows: int, holding: int) -> float:
    """What a term weighs that `holding` of so many flows have: ln(1 + (N - n + .5) / (n + .5)), as in BM25's IDF."""
    return log(1.0 + max(flows - holding + 0.5, 0.0) / (holding + 0.5))


@dataclass(frozen=True, kw_only=True, eq=False)
class TermCounts:
    """How many flows of a catalogue have each term: what makes a word rare there.

    The catalogue's own, whichever engine keeps it: an engine counts what lies in one shard of it, or in one segment,
    so that the same request would be answered in another order elsewhere. Terms of one flow alone are not listed,
    since most are such: a term that is not known counts as one.
    """

    flows: int
    terms: npt.NDArray[np.uint32]
    """In ascending order, each once."""
    counts: npt.NDArray[np.uint32]
    """Of each of `terms`."""

    @classmethod
    def of(cls, documents: Iterable[Iterable[int]]) -> Self:
        """Counted from the distinct terms of each flow."""
        held = [tuple(terms) for terms in documents]
        found = Counter(chain.from_iterable(held))
        shared = sorted((-count, term) for term, count in found.items() if count > 1)[:_NOTED_TERMS]
        listed = sorted((term, -count) for count, term in shared)
        pairs = np.array(listed, dtype=np.uint32).reshape(-1, 2)
        return cls(flows=len(held), terms=pairs[:, 0].copy(), counts=pairs[:, 1].copy())

    @property
    def nbytes(self) -> int:
        """About what it takes of memory once it was used."""
        return (_BYTES_A_TERM + 8) * len(self.terms)

    @cached_property
    def _rarities(self) -> dict[int, float]:
        """What each term weighs: a look into a dict costs a tenth of one into an array."""
        return {
            term: rarity(self.flows, count)
            for term, count in zip(self.terms.tolist(), self.counts.tolist(), strict=True)
        }

    def rarity(self, term: int) -> float:
        """What this term weighs."""
        found = self._rarities.get(term)
        return rarity(self.flows, 1) if found is None else found

    def weighed(self, query: SparseVector | None) -> SparseVector | None:
        """The terms of a request, each weighing as much as it is rare."""
        if query is None:
            return None
        found, rarest = self._rarities, rarity(self.flows, 1)
        weights = [found.get(term, rarest) for term in query.indices]
        return SparseVector(indices=query.indices, values=tuple(map(mul, query.values, weights)))

    def as_note(self) -> dict[str, Any]:
        """As JSON: the numbers as base64 of little-endian 32-bit ones."""
        packed = (b64encode(each.astype("<u4").tobytes()).decode("ascii") for each in (self.terms, self.counts))
        return {"flows": self.flows, **dict(zip(("terms", "counts"), packed, strict=True))}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Self:
        """Read it back.

        Raises:
            ValueError: It is none that a sync wrote.
        """
        flows = note["flows"]
        terms, counts = (
            np.frombuffer(b64decode(note[each], validate=True), dtype="<u4").astype(np.uint32)
            for each in ("terms", "counts")
        )
        if type(flows) is not int or flows < 0 or len(terms) != len(counts) or len(terms) > _NOTED_TERMS:
            msg = "sizes of the counts of terms"
            raise ValueError(msg)
        if (terms[1:] <= terms[:-1]).any() or (counts > flows).any() or not counts.all():
            msg = "counts of terms"
            raise ValueError(msg)
        return cls(flows=flows, terms=terms, counts=counts)


class Lexical:
    """Text to BM25 weights; `TermCounts` adds how rare a word is.

    Two things differ from plain BM25. Where a flow has examples in users' words, its stop words count:
    "how do I" and "what is" tell requests apart that share every other word. And pairs of neighbouring
    words are terms of their own, so that word order is not lost.

    The multilingual tokenizer finds words where no spaces stand between them (Chinese, Japanese, Thai).
    """

    def __init__(self, language: str = "english") -> None:
        """Take stop words and stemming from `language`; "none" means neither.

        Raises:
            ConfigError: The engine has no such language.
        """
        self.language = language.strip().lower()
        try:
            self._all = _bm25(self.language, stop_words=False)
            self._content = _bm25(self.language, stop_words=True)
        except ValueError as error:
            msg = f"no such language for the lexical arm: {language!r}. Use english, german, french … or none."
            raise ConfigError(msg) from error
        self.identity = (
            f"bm25(k={_K:g}, b={_B:g}, avg_len={_AVERAGE:g}, words and pairs, multilingual, {self.language})"
        )
        self._known = lru_cache(_CACHED_WORDS)(self._look_up)

    def document(self, parts: Iterable[str], *, stop_words: bool) -> SparseVector:
        """Weights of a flow's terms: saturated by frequency, normalised by length.

        Pairs are taken within each part. Without `stop_words` only words that carry content count, and no pairs.
        """
        counts = Counter(term for part in parts for term in self._terms(part, stop_words=stop_words))
        length = sum(counts.values())
        norm = _K * (1 - _B + _B * length / _AVERAGE)
        return SparseVector(
            indices=tuple(counts), values=tuple(count * (_K + 1) / (count + norm) for count in counts.values())
        )

    def query(self, text: str) -> SparseVector | None:
        """Each distinct term of a request once, or None where no term is left."""
        terms = tuple(dict.fromkeys(self._terms(text, stop_words=True)))
        return SparseVector(indices=terms, values=(1.0,) * len(terms)) if terms else None

    def content_words(self, text: str) -> int:
        """How many different words of the text are more than stop words."""
        return len({tokens for tokens, is_content in map(self._word, _WORD.findall(text)) if is_content})

    def _terms(self, text: str, *, stop_words: bool) -> Iterator[int]:
        words = [self._word(word) for word in _WORD.findall(text)]
        for tokens, is_content in words:
            if is_content or stop_words:
                yield from tokens
        if stop_words:
            for (left, _), (right, _) in pairwise(words):
                if len(left) == len(right) == 1:
                    yield (left[0] * _MIX + right[0]) % _TOKENS

    def _word(self, word: str) -> tuple[tuple[int, ...], bool]:
        return self._known(word) if len(word) <= _LONGEST_CACHED else self._look_up(word)

    def _look_up(self, word: str) -> tuple[tuple[int, ...], bool]:
        """Its tokens (several where the script has no spaces), and whether it is more than a stop word."""
        return tuple(self._all.embed_query(word).indices), bool(self._content.embed_query(word).indices)


def _bm25(language: str, *, stop_words: bool) -> "qe.Bm25":
    import qdrant_edge as qe

    tokenizer = qe.TokenizerType.Multilingual
    nothing = qe.StopwordsSet(languages=set(), custom=set())
    if language == "none":
        return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, stopwords=nothing, stemmer=qe.DisabledStemmer()))
    if stop_words:
        return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, language=language))
    return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, language=language, stopwords=nothing))


class Encoder:
    """An embedder and the lexical settings: together they make the layout of an index."""

    def __init__(self, embedder: Embedder, lexical: Lexical) -> None:
        """Join them."""
        self.embedder = embedder
        self.lexical = lexical
        self.layout = Layout(embedder=embedder.identity, dim=embedder.dim, lexical=lexical.identity)

    def fingerprint(self, card: FlowCard) -> str:
        """Changes when the flow, its embedded text, or the layout changes."""
        return fingerprint(card, self.layout.key)

    def rows(self, cards: Sequence[FlowCard]) -> dict[str, Vectors]:
        """Flow id to the vectors of its texts; all texts go through the embedder in one call.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        texts = {card.id: dense_texts(card) for card in cards}
        vectors = self.embed([text for group in texts.values() for text in group])
        ends = np.cumsum([len(group) for group in texts.values()]).tolist()
        return {flow: vectors[end - len(group) : end] for (flow, group), end in zip(texts.items(), ends, strict=True)}

    def words(self, card: FlowCard) -> SparseVector:
        """The flow's terms, as the lexical arm indexes them."""
        return self.lexical.document(lexical_parts(card), stop_words=bool(card.examples))

    def points(
        self, agent_id: str, cards: Sequence[FlowCard], rows: Mapping[str, Vectors], *, synced: bool = False
    ) -> list[FlowPoint]:
        """One point per card, from the vectors of its texts; `synced` where a note of the agent's flows is kept."""
        mark = {SYNCED: True} if synced else {}
        return [
            FlowPoint(
                agent_id=agent_id,
                flow_id=card.id,
                fingerprint=self.fingerprint(card),
                dense=_prototype(rows[card.id]),
                sparse=self.words(card),
                payload=payload(card) | mark,
            )
            for card in cards
        ]

    def request(self, text: str) -> Vectors | None:
        """The dense vector of a request, or None where the embedder knows none of its words.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        try:
            vector = np.asarray(self.embedder.embed_query(text), dtype=np.float32)
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(self.embedder.identity, repr(error)) from error
        if vector.shape == (self.embedder.dim,) and isfinite(squared := float(vector.dot(vector))) and squared > 0.0:
            return vector  # one look at the numbers, where four would cost as much as embedding them
        self._check(vector, (self.embedder.dim,))
        return vector if vector.any() else None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        try:
            rows = np.asarray(self.embedder.embed(texts), dtype=np.float32)
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(self.embedder.identity, repr(error)) from error
        self._check(rows, (len(texts), self.embedder.dim))
        return rows

    def _check(self, vectors: Vectors, shape: tuple[int, ...]) -> None:
        if vectors.shape != shape:
            raise EmbeddingError(self.embedder.identity, f"it returned shape {vectors.shape}, not {shape}")
        if not np.isfinite(vectors).all():
            raise EmbeddingError(self.embedder.identity, "it returned numbers that are not finite")


def _prototype(rows: Vectors) -> list[float] | None:
    """The normalised mean of a flow's text vectors: where its requests are expected to lie."""
    mean = rows.mean(axis=0)
    norm = float(np.linalg.norm(mean))
    return (mean / norm).tolist() if norm > 0 else None
