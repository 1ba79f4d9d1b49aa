"""Reports of an evaluation: JUnit for build servers, Markdown for comments."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from jazz_select.evaluation.cases import NONE
from jazz_select.evaluation.judged import Judged, Measure
from jazz_select.evaluation.scores import Evaluation
from jazz_select.evaluation.tables import details_block, markdown, markdown_table, one_cell
from jazz_select.text import as_text, clean

_FLOWS, _PAIRS, _MISSES, _PROBLEMS = 10, 10, 30, 20
_OPEN = "no flow is expected, and whether one fits is for a model to say; none was asked"


def junit(evaluation: Evaluation, *, name: str = "jazz-select eval") -> str:
    """Return JUnit XML with a test for each case and a property for each measure, and one for the forecast.

    A case fails if the model's choice is wrong; without a model, if recall does not have the right flows first. It is
    skipped if none is expected and no model was asked. Entries left out of the file are errors.

    Args:
        evaluation: The evaluation.
        name: The name of the suite, such as the file's.
    """
    left_out = [each for each in evaluation.problems if not each.is_note]
    verdicts = [each.verdict for each in evaluation.judged]
    counts = {
        "name": _safe(name),
        "tests": str(len(verdicts) + len(left_out)),
        "failures": str(verdicts.count("wrong")),
        "errors": str(len(left_out)),
        "skipped": str(verdicts.count("open")),
        "time": f"{sum(map(_duration_s, evaluation.judged)):.6f}",
    }
    root = ET.Element("testsuites", {key: value for key, value in counts.items() if key != "skipped"})
    suite = ET.SubElement(root, "testsuite", counts)
    properties = ET.SubElement(suite, "properties")
    for measure, number in evaluation.measures.items():
        if number.value is not None:
            about = {"name": _safe(measure), "value": f"{number.value:.6f}"}
            ET.SubElement(properties, "property", about)
    if evaluation.forecast is not None:
        ET.SubElement(properties, "property", {"name": "decided alone", "value": _safe(str(evaluation.forecast))})
    for number, each in enumerate(evaluation.judged, 1):
        title = each.case.id or f"{number}: {each.case.request}"
        about = {"classname": _safe(name), "name": _safe(title), "time": f"{_duration_s(each):.6f}"}
        case = ET.SubElement(suite, "testcase", about)
        if each.verdict == "wrong":
            failure = ET.SubElement(case, "failure", {"message": _safe(each.says)})
            failure.text = "\n".join(map(_safe, _story(each)))
        elif each.verdict == "open":
            ET.SubElement(case, "skipped", {"message": _OPEN})
    for problem in left_out:
        title = f"entry {problem.entry}" if problem.entry else "file"
        case = ET.SubElement(suite, "testcase", {"classname": _safe(name), "name": title, "time": "0"})
        ET.SubElement(case, "error", {"message": _safe(str(problem))})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def markdown_report(evaluation: Evaluation, *, failed: Sequence[str] = ()) -> str:
    """Return Markdown with the numbers first and details folded; all texts from outside are escaped.

    Lines in `failed`, such as missed floors, are placed first.
    """
    return "\n".join(_sections(evaluation, failed))


def _sections(evaluation: Evaluation, failed: Sequence[str]) -> Iterator[str]:
    yield f"### {len(evaluation.judged):,} requests, {evaluation.flows:,} flows"
    yield ""
    for line in failed:
        yield f"- **{markdown(line)}**"
    left_out = [each for each in evaluation.problems if not each.is_note]
    for problem in left_out[:_PROBLEMS]:
        yield f"- left out: {markdown(str(problem))}"
    if len(left_out) > _PROBLEMS:
        yield f"- … and {len(left_out) - _PROBLEMS:,} more"
    yield ""
    names = [*(f"R@{depth}" for depth in evaluation.depths), "R@k", "MRR", "coverage", "size", "exact", "unasked"]
    groups: list[tuple[object, ...]] = []
    for group in evaluation.groups:
        values = [group.measures[name].value for name in names]
        groups.append((group.name, group.cases, *values))
    yield markdown_table(["", "cases", *names], groups)
    yield f"None: {markdown(none_line(evaluation))}  "
    if evaluation.choices is not None:
        yield f"Model: {markdown(choice_line(evaluation))}  "
    if evaluation.forecast is not None:
        yield f"Decided alone: {markdown(str(evaluation.forecast))}  "
    yield f"Error budget: {markdown(str(evaluation.sweep))}"
    yield ""
    worst = [each for each in evaluation.by_flow if each.recall_at_1 < 1]
    flows: list[tuple[object, ...]] = []
    for score in worst[:_FLOWS]:
        taken_by = ", ".join(f"{name} {count}" for name, count in score.taken_by)
        flows.append((score.name, score.cases, score.recall_at_1, score.coverage, taken_by))
    yield from _details_table(
        f"{len(worst):,} flows with misses", ["flow", "cases", "R@1", "coverage", "taken by"], flows
    )
    pairs = [(each.expected or NONE, each.first or NONE, each.count) for each in evaluation.confusions[:_PAIRS]]
    yield from _details_table(f"{len(evaluation.confusions):,} confusions", ["expected", "found", "cases"], pairs)
    misses = [(each.rank, each.request, each.expect, each.first) for each in evaluation.misses[:_MISSES]]
    yield from _details_table(f"{len(evaluation.misses):,} misses", ["rank", "request", "expected", "first"], misses)
    yield f"_embedder {markdown(evaluation.embedder)}_"
    yield ""


def _details_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    if rows:
        yield details_block(title, markdown_table(headers, rows))


def none_line(evaluation: Evaluation) -> str:
    """Return a sentence about the detection of out-of-scope requests."""
    none = evaluation.none
    if not none.cases:
        answered = f", and it was answered {none.answered:,} times, wrongly" if none.answered else ""
        return f"no case expects none{answered}"
    auroc = evaluation.measures["none-AUROC"]
    apart = "" if auroc.value is None else f"; P(none) separates them with AUROC {auroc.value:.3f}"
    cases = "1 case expects none" if none.cases == 1 else f"{none.cases:,} cases expect none"
    if not evaluation.model and not none.answered:
        return f'{cases}; without a model the answer is never "none"{apart}'
    precision = percent(evaluation.measures["none-precision"])
    recall = percent(evaluation.measures["none-recall"])
    f1 = "" if none.f1 is None else f", F1 {none.f1:.3f}"
    scores = f"precision {precision}, recall {recall}{f1}"
    return f"{cases}; none was answered {none.answered:,} times, {none.right:,} rightly: {scores}{apart}"


def choice_line(evaluation: Evaluation) -> str:
    """Return a sentence about the model's choices and their duration."""
    chosen = evaluation.choices
    if chosen is None:
        return "no model was asked"
    failed = f", {chosen.failed:,} calls failed" if chosen.failed else ""
    exact = (
        f"{chosen.model} chose exactly the expected flows for {chosen.exact:,} of {len(evaluation.judged):,}{failed}"
    )
    tokens = f", {chosen.input_tokens:,} tokens in and {chosen.output_tokens:,} out" if chosen.input_tokens else ""
    why = ", ".join(f"{reason} {count:,}" for reason, count in chosen.reasons.items())
    return f"{exact}; asked for {chosen.asked:,} in {chosen.calls:,} calls{tokens}; {why}"


def percent(measure: Measure) -> str:
    """Return a share as a percentage with one decimal; a dash for None."""
    return "–" if measure.value is None else f"{measure.value:.1%}"


def _story(each: Judged) -> Iterator[str]:
    yield f"request: {each.case.request}"
    for episode in each.case.episodes:
        yield f"earlier: {episode}"
    yield f"expected: {', '.join(each.case.expect) or NONE}"
    yield f"ranking: {', '.join(each.route.ranking)}"
    if each.chosen is not None:
        decision = each.chosen.decision
        line = f"chosen: {', '.join(each.chosen.names) or NONE} ({decision.reason.value})"
        if decision.error:
            line += f": {decision.error}"
        yield line
    if each.case.why:
        yield f"why: {each.case.why}"


def _duration_s(each: Judged) -> float:
    return each.route.took_s if each.chosen is None else each.chosen.decision.latency.total_s


def _safe(text: str) -> str:
    """Return one line without characters that XML forbids."""
    return clean(as_text(one_cell(text)))
