"""What recall would decide alone of a catalogue that is only checked: fitted as a sync fits it, without an index."""

from collections.abc import Mapping, Sequence

from threadpoolctl import threadpool_limits

from jazz_select.evaluation.cases import Case
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.encoder import Encoder, TermCounts, indexable
from jazz_select.memory.fit.fitting import Fitted, fit, shuffle_flows, signals_of
from jazz_select.memory.sync import sample_of
from jazz_select.ports import Vectors
from jazz_select.selector.forecast import AnsweredCase, Forecast, LoggedAlone, forecast
from jazz_select.selector.known_requests import KnownRequests
from jazz_select.selector.policy import Policy


def expected_alone(  # noqa: PLR0913 - what is known, by name
    flows: Sequence[BaseFlow],
    rows: Mapping[str, Vectors],
    encoder: Encoder,
    policy: Policy,
    *,
    shares_budget: bool = False,
    cases: Sequence[Case] = (),
    logged: LoggedAlone | None = None,
) -> Forecast:
    """Return what recall is expected to decide alone once these flows are synced.

    Args:
        flows: The flows of the catalogue, at least one.
        rows: The vectors of each flow's texts by flow id, of the first embedder.
        encoder: What encodes requests.
        policy: The policy of the deployment.
        shares_budget: Whether a decision model follows, which takes a part of the error budget.
        cases: Labelled requests.
        logged: What a log says was decided alone.

    Raises:
        EmbeddingError: The embedder failed.
    """
    order = shuffle_flows(flow.card() for flow in flows)
    sample = sample_of(order, encoder)
    terms = TermCounts.from_documents(map(encoder.lexical.terms, order))
    # As in a sync: BLAS threads that wait for each other make small matrices take far longer.
    with threadpool_limits(1, user_api="blas"):
        fitted = fit(order, {card.id: rows[card.id] for card in sample}, encoder.lexical, terms=terms)
    return forecast(
        fitted.model.answers,
        policy,
        flows,
        caveat=fitted.model.caveat,
        shares_budget=shares_budget,
        evidence=_answer_cases(fitted, flows, encoder, cases),
        logged=logged,
    )


def _answer_cases(
    fitted: Fitted, flows: Sequence[BaseFlow], encoder: Encoder, cases: Sequence[Case]
) -> list[AnsweredCase]:
    """Return recall's answers to the cases of one flow or none that are no example, title or alias."""
    model, catalogue = fitted.model, fitted.catalogue
    known = KnownRequests({flow.id: flow for flow in flows})
    asked: list[Case] = []
    for case in cases:
        if len(case.expect) <= 1 and not case.episodes and not known.flow_of(case.request):
            asked.append(case)
    if model.confidence is None or model.scope is None or catalogue is None or not asked:
        return []
    vectors = encoder.of_stage(0, encoder.embed([indexable(case.request) for case in asked]))
    found: list[AnsweredCase] = []
    for case, vector in zip(asked, vectors, strict=True):
        chances = model.chances(signals_of(model, catalogue, case.request, vector))
        if not chances:
            continue
        first, confidence = next(iter(chances.items()))  # the best comes first
        found.append((confidence, case.expect == (catalogue.cards[int(first)].name,)))
    return found
