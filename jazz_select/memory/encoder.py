"""Encodes flows and requests for both arms: texts, vectors, terms, and the rarity of terms."""

import hashlib
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from math import isfinite, log
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import numpy.typing as npt

from jazz_select.errors import ConfigError, EmbeddingError
from jazz_select.memory.embedders.known_embedders import stages_of
from jazz_select.memory.engines.stored_points import SYNCED, Layout
from jazz_select.memory.text_vectors import VectorFile, embed_with_cache
from jazz_select.ports import BatchEmbedder, Embedder, FlowPoint, SparseVector, Vectors
from jazz_select.text import nfc
from jazz_select.values import FlowCard

if TYPE_CHECKING:
    import qdrant_edge as qe

MAX_QUERY_CHARS = 8_000
"""Maximum length of a request: its subject is on the first pages, and embedding takes longer with length."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？])\s*(?=\S)")
_NAME_WEIGHT, _BARE_NAME_WEIGHT = 3, 4
"""How often BM25 reads a name: of a flow with examples, and of one without."""
_SHORT_WORD, _HALF_OF_TEXT, _MOST_OF_TEXT = 3, 12.0, 3.0
"""Letters of a word that counts little; letters of new words for half of a text's worth; and the maximum worth."""
_ENOUGH = 5
"""Number of examples that place a flow. Fewer ones count less each, since their mean is unreliable."""
_FEW = 4
"""Number of examples from which stop words count: of fewer, they only show the writer's style."""
_WORD = re.compile(r"\w+")
_K, _B, _AVERAGE, _BARE_AVERAGE = 1.2, 0.75, 64.0, 40.0
"""Qdrant's defaults: saturation of frequency, weight of length, and the average length; it is less without examples."""
_BARE_PAIR = 0.3
"""Worth of a pair of words beside that of a word in a flow without examples, where no request repeats it by habit."""
_CACHED_WORDS, _LONGEST_CACHED = 1 << 14, 40
"""Number of cached words, and their maximum length: in scripts without spaces, a whole request is one word."""
_CACHED_PARTS, _LONGEST_PART = 1 << 12, 300
"""Number of cached parts of flows, and their maximum length: a fit counts each of them several times."""
_MIX = 0x9E3779B1
_TOKENS = 1 << 32
_BYTES_A_TERM = 110
_NOTED_TERMS = 1 << 16
"""Maximum number of stored term counts, the highest first: some 700 kB in a note."""


def indexable(text: str) -> str:
    """Return `text` in NFC form, with spaces for control characters and lone surrogates, which no engine accepts."""
    text = nfc(text)
    if text.isprintable():  # the common case, checked fast
        return text.strip()
    return _CONTROL.sub(" ", text).strip()


def spoken_name(name: str) -> str:
    """Return a name as words: "refund order" for `refund_order` and `refundOrder`."""
    return " ".join(_BETWEEN_WORDS.split(_CAMEL.sub(" ", name))).strip()


def folded_alias(text: str) -> str:
    """Return a name in lower-case words, equal for all its spellings."""
    return spoken_name(indexable(text)).casefold()


def folded_names(card: FlowCard) -> frozenset[str]:
    """Return the folded name, title and aliases of a flow."""
    return frozenset(filter(None, map(folded_alias, (card.name, card.title, *card.aliases))))


def dense_texts(card: FlowCard) -> tuple[str, ...]:
    """Return the texts that are embedded for a flow: up to four of its own, then its examples.

    Its own are the name with description and condition, the first sentence, and the name, so that details such as
    parameters do not dominate. Without examples, as for bare tools, its whole text comes first. The owner stands in
    one of them: in more, all tools of an owner lie near each other.
    """
    name, description = spoken_name(card.name), indexable(card.description)
    first = _SENTENCE_END.split(description, maxsplit=1)[0]
    about = f"{description} {indexable(card.condition)}".strip() if card.examples else description
    introduction = f"{name}: {about}"
    owned = f"{name}: {indexable(card.owner)}: {about}" if card.owner else introduction
    whole = introduction if card.examples else lexical_text(card)
    own = [text for text in (whole, owned, first, name) if text]
    examples = [indexable(text) for text in card.examples]
    return (*(own or [card.name]), *examples)


def own_worth(card: FlowCard) -> float:
    """Return the weight of a flow's own texts in its prototype, in examples, from 1 to 4.

    A name is worth one example; a description up to three more, by the words that the name lacks. Descriptions keep
    their weight beside examples, since users also ask in ways that no example shows.
    """
    added = {*_words(card.description), *_words(card.condition)}.difference(_words(card.name))
    letters = 0
    for word in added:
        if len(word) > _SHORT_WORD or not word.isascii():  # a short word of another script may be a whole one
            letters += len(word)
    return 1.0 + _MOST_OF_TEXT * letters / (letters + _HALF_OF_TEXT)


def _words(text: str) -> list[str]:
    return _WORD.findall(spoken_name(indexable(text)).casefold())


def prototype(card: FlowCard, rows: Vectors, *, without: int | None = None, worth: float | None = None) -> Vectors:
    """Return the unit vector of a flow: the weighted mean of its own texts and its examples.

    `rows` are the vectors of its `dense_texts`, `without` is the index of an example to leave out, `worth` its
    `own_worth` if that is known.
    """
    own, examples = rows[: len(rows) - len(card.examples)], rows[len(rows) - len(card.examples) :]
    if without is not None:
        examples = np.delete(examples, without, axis=0)
    described = unit(own.mean(axis=0, dtype=np.float32))
    if not len(examples):
        return described
    worth = own_worth(card) if worth is None else worth
    own_share = np.float32(worth / (worth + prototype_weight(len(examples))))
    asked = unit(examples.mean(axis=0, dtype=np.float32))
    return unit((own_share * described + (1 - own_share) * asked).astype(np.float32))


def prototype_weight(examples: int) -> float:
    """Return the weight of so many examples in a prototype, in examples of a flow that has enough."""
    return examples * min(1.0, examples / _ENOUGH)


def unit(vector: Vectors) -> Vectors:
    """Return a finite vector at length 1, or a zero vector as it is."""
    length = float(np.linalg.norm(vector))
    if length > 0:
        return vector / np.float32(length)
    return vector


def lexical_parts(card: FlowCard) -> tuple[str, ...]:
    """Return the texts that BM25 indexes for a flow; word pairs do not cross from one text to the next.

    The name is repeated for weight, most often without examples, and an owner as often as the name.
    """
    names = [spoken_name(card.name)]
    if card.owner:
        names.append(card.owner)
    if card.examples:
        texts = (card.description, card.condition, *card.desired_effects, *card.aliases, *card.examples)
        parts = (*names * _NAME_WEIGHT, *texts)
    else:
        parts = (*names * _BARE_NAME_WEIGHT, _without_name(card))
    return tuple(indexable(part) for part in parts)


def _without_name(card: FlowCard) -> str:
    """Return the flow's text without the line of its name: users do not say a name as it is written in code."""
    first, _, rest = card.text.partition("\n")
    if first.startswith(card.name):
        return rest
    return card.text or card.description


def lexical_text(card: FlowCard) -> str:
    """Return all of the flow's own text."""
    return indexable(card.text) or f"{spoken_name(card.name)} {indexable(card.description)}".strip()


def payload(card: FlowCard) -> dict[str, Any]:
    """Return the payload that is stored beside the vectors."""
    return {
        "flow_id": card.id,
        "flow_name": indexable(card.name),
        "flow_type": card.type,
        "description": indexable(card.description),
        "condition": indexable(card.condition),
        "desired_effects": [indexable(effect) for effect in card.desired_effects],
        "priority": list(card.priority),
    }


def rarity(flows: int, holding: int) -> float:
    """Return the inverse document frequency of BM25: ln(1 + (N - n + .5) / (n + .5)); N `flows`, n `holding`."""
    return log(1.0 + max(flows - holding + 0.5, 0.0) / (holding + 0.5))


@dataclass(frozen=True, slots=True)
class PackedArray:
    """In `Annotated`, an array that JSON holds as text: base64 of little-endian numbers of this numpy type."""

    kind: str

    def __get_pydantic_core_schema__(self, *_: object) -> Any:
        from pydantic_core import core_schema

        def decode(text: str) -> npt.NDArray[Any]:
            return np.frombuffer(b64decode(text, validate=True), dtype=self.kind).copy()

        def encode(array: npt.NDArray[Any]) -> str:
            return b64encode(array.astype(self.kind).tobytes()).decode("ascii")

        as_text = core_schema.plain_serializer_function_ser_schema(encode)
        return core_schema.no_info_plain_validator_function(decode, serialization=as_text)


@dataclass(frozen=True, kw_only=True, eq=False)
class TermCounts:
    """The document frequency of each term in a catalogue.

    Engines count per shard or segment, so that scores would differ between them. Terms of a single flow are not
    listed: an unknown term counts as one.
    """

    flows: int
    terms: Annotated[npt.NDArray[np.uint32], PackedArray("<u4")]
    """Distinct, ascending."""
    counts: Annotated[npt.NDArray[np.uint32], PackedArray("<u4")]
    """Number of flows with each of `terms`."""

    def __post_init__(self) -> None:
        """Raise ValueError for malformed counts."""
        terms, counts = self.terms, self.counts
        if type(self.flows) is not int or not 0 <= self.flows < _TOKENS:
            raise ValueError("number of flows of the counts of terms")
        if not len(counts) == len(terms) <= _NOTED_TERMS:
            raise ValueError("sizes of the counts of terms")
        if (terms[1:] <= terms[:-1]).any() or (counts > self.flows).any() or not counts.all():
            raise ValueError("counts of terms")

    @classmethod
    def from_documents(cls, documents: Iterable[Iterable[int]]) -> Self:
        """Count the distinct terms of each flow."""
        documents = [tuple(terms) for terms in documents]
        found = Counter(chain.from_iterable(documents))
        shared = [(term, count) for term, count in found.items() if count > 1]
        if len(shared) > _NOTED_TERMS:  # the most frequent ones: the others are nearly as rare as those of one flow
            shared.sort(key=lambda pair: (-pair[1], pair[0]))
            shared = shared[:_NOTED_TERMS]
        pairs = np.array(sorted(shared), dtype=np.uint32).reshape(-1, 2)
        return cls(flows=len(documents), terms=pairs[:, 0].copy(), counts=pairs[:, 1].copy())

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes, once in use."""
        return (_BYTES_A_TERM + 8) * len(self.terms)

    @cached_property
    def _rarities(self) -> dict[int, float]:
        """The inverse document frequency by term: a dict is ten times faster than the array."""
        counts = dict(zip(self.terms.tolist(), self.counts.tolist(), strict=True))
        return {term: rarity(self.flows, count) for term, count in counts.items()}

    def rarity(self, term: int) -> float:
        """Return the inverse document frequency of a term."""
        found = self._rarities.get(term)
        return rarity(self.flows, 1) if found is None else found

    def weigh_query(self, query: SparseVector | None) -> SparseVector | None:
        """Return the terms of a request, weighted by inverse document frequency."""
        if query is None:
            return None
        found, rarest = self._rarities, rarity(self.flows, 1)
        weights = [found.get(term, rarest) for term in query.indices]
        return SparseVector(indices=query.indices, values=tuple(map(mul, query.values, weights)))


class Lexical:
    """BM25 weights of texts, without the inverse document frequency (`TermCounts`).

    Unlike plain BM25, stop words of flows with examples count ("how do I" and "what is" may be the only difference),
    and pairs of neighbouring words are terms, so that word order counts; of bare tools, pairs count less. The
    multilingual tokenizer also splits scripts without spaces (Chinese, Japanese, Thai).
    """

    def __init__(self, language: str = "english") -> None:
        """Use stop words and stemming of `language`, or neither for "none".

        Raises:
            ConfigError: The engine has no such language.
        """
        self.language = language.strip().lower()
        try:
            self._all = bm25(self.language, stop_words=False)
            self._content = bm25(self.language, stop_words=True)
        except ValueError as error:
            msg = f"no such language for the lexical arm: {language!r}. Use english, german, french … or none."
            raise ConfigError(msg) from error
        lengths, terms = f"{_AVERAGE:g} or {_BARE_AVERAGE:g}", f"words and pairs, bare ones at {_BARE_PAIR:g}"
        self.identity = f"bm25(k={_K:g}, b={_B:g}, avg_len={lengths}, {terms}, multilingual, {self.language})"
        self._known = lru_cache(_CACHED_WORDS)(self._look_up)
        self._part = lru_cache(_CACHED_PARTS)(self._count_part)

    def count_terms(self, parts: Iterable[str], *, stop_words: bool) -> Counter[int]:
        """Return the term frequencies in parts of a flow; without `stop_words`, of content words without pairs."""
        counts = Counter[int]()
        for part in parts:
            count = self._part if len(part) <= _LONGEST_PART else self._count_part
            counts.update(count(part, stop_words))
        return counts

    def _count_part(self, part: str, stop_words: bool) -> Counter[int]:  # noqa: FBT001 - cached by both
        return Counter(self._terms(part, stop_words=stop_words))

    def count_card_terms(self, card: FlowCard) -> Counter[int]:
        """Return the term frequencies of a flow."""
        return self.count_terms(lexical_parts(card), stop_words=reads_stop_words(card))

    def terms(self, card: FlowCard) -> Iterable[int]:
        """Return all terms of a flow's texts, by which their rarity is counted, whether its document has them or not.

        A flow with few examples has stop words too. Were these counted where a document has them alone, a flow with
        more examples would have them as its rarest words, and take the requests of all others.
        """
        return self.count_terms(lexical_parts(card), stop_words=True)

    def document(self, card: FlowCard, counts: Counter[int] | None = None) -> SparseVector:
        """Return the weighted terms of a flow; `counts` is its `count_card_terms` if that is known."""
        counts = self.count_card_terms(card) if counts is None else counts
        length = counts.total()
        if card.examples:
            weights = {term: self.weight(count, length) for term, count in counts.items()}
        else:
            pairs = Counter[int]()
            for part in lexical_parts(card):
                pairs.update(_pairs(self._words(part)))
            weights = {pair: _BARE_PAIR * self.weight(count, length, _BARE_AVERAGE) for pair, count in pairs.items()}
            # A word last: where a pair has the same token, the word's weight stands.
            weights |= {term: self.weight(count, length, _BARE_AVERAGE) for term, count in counts.items()}
        return SparseVector(indices=tuple(weights), values=tuple(weights.values()))

    @staticmethod
    def weight(count: int, length: int, average: float = _AVERAGE) -> float:
        """Return the BM25 weight of a term of this frequency in a document of this length."""
        return count * (_K + 1) / (count + _K * (1 - _B + _B * length / average))

    def query(self, text: str) -> SparseVector | None:
        """Return each distinct term of a request with weight 1, or None without any."""
        terms = tuple(dict.fromkeys(self._terms(text, stop_words=True)))
        if not terms:
            return None
        return SparseVector(indices=terms, values=(1.0,) * len(terms))

    def content_words(self, text: str) -> int:
        """Return the number of distinct words that are no stop words."""
        return len({tokens for tokens, is_content in self._words(text) if is_content})

    def _terms(self, text: str, *, stop_words: bool) -> list[int]:
        words = self._words(text)
        terms: list[int] = []
        for tokens, is_content in words:
            if is_content or stop_words:
                terms += tokens
        if stop_words:
            terms.extend(_pairs(words))
        return terms

    def _words(self, text: str) -> list[tuple[tuple[int, ...], bool]]:
        known, look_up = self._known, self._look_up
        return [known(word) if len(word) <= _LONGEST_CACHED else look_up(word) for word in _WORD.findall(text)]

    def _look_up(self, word: str) -> tuple[tuple[int, ...], bool]:
        """Return a word's tokens (several in scripts without spaces), and whether it is no stop word."""
        return tuple(self._all.embed_query(word).indices), bool(self._content.embed_query(word).indices)


def _pairs(words: Sequence[tuple[tuple[int, ...], bool]]) -> Iterator[int]:
    """Yield a term for each two neighbouring words."""
    for (left, _), (right, _) in pairwise(words):
        if len(left) == len(right) == 1:
            yield (left[0] * _MIX + right[0]) % _TOKENS


def bm25(language: str, *, stop_words: bool) -> "qe.Bm25":
    """Return the engine's BM25 of a language; `stop_words` leaves those out.

    Raises:
        ValueError: The engine has no such language.
    """
    import qdrant_edge as qe

    tokenizer = qe.TokenizerType.Multilingual
    nothing = qe.StopwordsSet(languages=set(), custom=set())
    if language == "none":
        return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, stopwords=nothing, stemmer=qe.DisabledStemmer()))
    if stop_words:
        return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, language=language))
    return qe.Bm25(qe.Bm25Config(tokenizer=tokenizer, language=language, stopwords=nothing))


class Encoder:
    """An embedder with lexical settings: together they determine the layout of an index."""

    def __init__(self, embedder: Embedder, lexical: Lexical, vectors: VectorFile | None = None) -> None:
        """Combine them; `vectors` caches the vectors of a catalogue's texts across processes."""
        self.embedder = embedder
        self._vectors = vectors
        self.stages = stages_of(embedder)
        """The embedders of a cascade, or the only embedder; every flow has a vector of each."""
        self.dims = tuple(stage.dim for stage in self.stages)
        self.lexical = lexical
        self.layout = Layout(
            embedder=embedder.identity, dim=self.dims[0], lexical=lexical.identity, second_dim=sum(self.dims[1:])
        )

    def fingerprint(self, card: FlowCard) -> str:
        """Return a digest of the flow, of the texts that are indexed, and of how they are indexed."""
        parts = (
            self.layout.key,
            card.checksum,
            card.title,
            *lexical_parts(card),
            *dense_texts(card),
            repr(payload(card)),
        )
        return hashlib.sha256("\x1f".join(parts).encode(errors="replace")).hexdigest()[:32]

    def rows(self, cards: Sequence[FlowCard]) -> dict[str, Vectors]:
        """Return the vectors of each flow's `dense_texts` by flow id; those of several stages side by side."""
        if not cards:
            return {}
        groups = {card.id: dense_texts(card) for card in cards}
        texts: list[str] = []
        for group in groups.values():
            texts.extend(group)
        vectors = self._embed_texts(texts, self._vectors)
        ends = np.cumsum([len(group) for group in groups.values()])
        return dict(zip(groups, np.split(vectors, ends[:-1]), strict=True))

    def points(
        self, agent_id: str, cards: Sequence[FlowCard], rows: Mapping[str, Vectors], *, synced: bool = False
    ) -> list[FlowPoint]:
        """Return one point per card; `synced` marks flows of an agent that has a note."""
        mark = {SYNCED: True} if synced else {}
        points: list[FlowPoint] = []
        for card in cards:
            own = rows[card.id]
            second = None
            if len(self.stages) > 1:
                second = _nonzero_values(prototype(card, self.of_stage(1, own)))
            point = FlowPoint(
                agent_id=agent_id,
                flow_id=card.id,
                fingerprint=self.fingerprint(card),
                dense=_nonzero_values(prototype(card, self.of_stage(0, own))),
                second=second,
                sparse=self.lexical.document(card),
                payload=payload(card) | mark,
            )
            points.append(point)
        return points

    def of_stage(self, stage: int, rows: Vectors) -> Vectors:
        """Return the columns of one stage from `rows` or `embed`."""
        start = sum(self.dims[:stage])
        return rows[:, start : start + self.dims[stage]]

    def requests(self, texts: Sequence[str], stage: int = 0) -> list[Vectors | None]:
        """Return the dense vector of each request, or None if the embedder knows none of its words.

        They are one batch if the embedder takes batches.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        embedder = self.stages[stage]
        rows: list[Vectors]
        if len(texts) > 1 and isinstance(embedder, BatchEmbedder):
            shape = (len(texts), embedder.dim)
            rows = [*_call_embedder(embedder, lambda: embedder.embed_queries(texts), texts, shape)]
        else:
            rows = []
            for text in texts:
                embed = partial(embedder.embed_query, text)
                rows.append(_call_embedder(embedder, embed, [text], (embedder.dim,)))
        return [row if np.count_nonzero(row) else None for row in rows]  # three times as fast as `any`

    def embed(self, texts: Sequence[str], *, keeps: bool = False) -> Vectors:
        """Return one row per text: the vectors of all stages side by side. A process embeds no text twice.

        `keeps` caches the vectors across processes, as those of a catalogue.

        Raises:
            EmbeddingError: The embedder failed, or returned something that cannot be used.
        """
        return self._embed_texts(texts, self._vectors if keeps else None)

    def _embed_texts(self, texts: Sequence[str], file: VectorFile | None) -> Vectors:
        def embed(stage: Embedder, new: Sequence[str]) -> Vectors:
            return _call_embedder(stage, partial(stage.embed, new), new, (len(new), stage.dim))

        return np.hstack([embed_with_cache(stage, partial(embed, stage), texts, file) for stage in self.stages])


def _call_embedder(
    embedder: Embedder, embed: Callable[[], Vectors], texts: Sequence[str], shape: tuple[int, ...]
) -> Vectors:
    try:
        vectors = np.asarray(embed(), dtype=np.float32)
    except EmbeddingError:
        raise
    except Exception as error:
        raise EmbeddingError(embedder.identity, repr(error)) from error
    if vectors.shape != shape:
        raise EmbeddingError(embedder.identity, f"it must return shape {shape}, got {vectors.shape}")
    # The dot product is a fast check; `isfinite` of all numbers would take as long as embedding.
    if not isfinite(float(np.vdot(vectors, vectors))) and not np.isfinite(vectors).all():
        text = texts[int(np.argmin(np.isfinite(np.atleast_2d(vectors)).all(axis=1)))]
        raise EmbeddingError(embedder.identity, f"it returned numbers that are not finite, for {text!r:.80}")
    return vectors


def reads_stop_words(card: FlowCard) -> bool:
    """Whether stop words and pairs of this flow are indexed."""
    return len(card.examples) >= _FEW


def _nonzero_values(vector: Vectors) -> list[float] | None:
    return vector.tolist() if vector.any() else None
