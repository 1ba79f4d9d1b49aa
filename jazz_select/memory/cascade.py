"""A cascade: a fast embedder before a better one over one index; the second reads what the first leaves unsure."""

import logging
from collections.abc import Sequence

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.asked import RecallScope, Said
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.fit.model import RecallModel
from jazz_select.memory.recall import Retriever
from jazz_select.ports import Embedder, Vectors
from jazz_select.text import in_log
from jazz_select.values import RecallResult

_log = logging.getLogger(__name__)


class CascadeEmbedder:
    """A fast embedder before a better one, over one index that holds the vectors of both.

    A memory asks `stages` by themselves: the first reads every request, and the second those where
    the confidence in the first one's answer is too low. What knows nothing of stages has the
    vectors of both end to end, whose cosine is the mean of theirs.
    """

    def __init__(self, first: Embedder, second: Embedder) -> None:
        """Ask `first` before `second`."""
        self.stages = (first, second)
        self.identity = f"cascade({first.identity}, {second.identity})"
        self.dim = first.dim + second.dim
        self.offload = first.offload or second.offload

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text."""
        return unit_rows(np.hstack([stage.embed(texts) for stage in self.stages]))

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request."""
        return unit_rows(np.hstack([stage.embed_query(text) for stage in self.stages])[np.newaxis])[0]


class StagedRetriever(Retriever):
    """A `Retriever` that asks the embedders of its encoder one after the other."""

    async def _batch(self, said: Sequence[Said], scope: RecallScope, model: RecallModel) -> list[RecallResult]:
        """What the first embedder is sure of, and for the rest what the second finds, as if it were there alone.

        Where the second fails, what the first found stands, with a note.
        """
        first, second = _names([stage.identity for stage in self._encoder.stages])
        results, why, degraded = [RecallResult() for _ in said], f"{first} is not calibrated", ()
        if model.sure is not None:
            try:
                results = await self._some(said, scope, model, strict=True)
                why = ""
            except EmbeddingError as error:
                _log.warning(
                    "embedder=<%s>, error=<%s> | the second answers all", error.embedder, in_log(error.problem)
                )
                why = f"{first} failed"
                degraded = (f"recall without {first}: {error}",)
        for result in results:
            result.stage, result.why = first, why or _told(first, result, model.sure or 0.0)
        left = [place for place, result in enumerate(results) if why or not _passes(result, model.sure)]
        try:
            fitted = model.second or RecallModel(names=model.names, caveat=model.caveat)
            read = await self._some([said[place] for place in left], scope, fitted, stage=1, strict=True)
        except EmbeddingError as error:
            _log.warning("embedder=<%s>, error=<%s> | the first answers all", error.embedder, in_log(error.problem))
            if why:
                results = await self._some(said, scope, model)
            for place in left:
                results[place].stage, results[place].why = first, f"{second} failed"
                results[place].notes = (*results[place].notes, f"recall without {second}: {error}")
            return results
        for place, result in zip(left, read, strict=True):
            result.stage, result.why, result.reread = second, results[place].why, True
            result.notes = (*result.notes, *degraded)
            results[place] = result
        return results


def _names(identities: Sequence[str]) -> list[str]:
    """The embedders by kind, such as "static"; in full where they are of one kind."""
    kinds = [identity.partition(":")[0] for identity in identities]
    return kinds if len({*kinds}) == len(kinds) else [*identities]


def _passes(result: RecallResult, sure: float | None) -> bool:
    """Whether what the first embedder of a cascade found needs no second reading."""
    confidence = result[0]["confidence"] if result else None
    return sure is not None and confidence is not None and confidence >= sure


def _told(first: str, result: RecallResult, sure: float) -> str:
    """Why the second embedder is asked, or not."""
    confidence = result[0]["confidence"] if result else None
    if confidence is None:
        return f"{first} found nothing"
    return f"{first} was {confidence:.2f} sure, and {sure:.2f} {'is enough' if confidence >= sure else 'is wanted'}"
