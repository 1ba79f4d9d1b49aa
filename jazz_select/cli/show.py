"""How a selection looks: the candidates as a table, the choice marked, and below it why."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from jazz_select.cli.session import sync_command
from jazz_select.cli.terminal import mark, printable, styled
from jazz_select.values import Candidate, Decision, Reason

if TYPE_CHECKING:
    from jazz_select.selector.result import FlowSelectionResult
    from jazz_select.settings import Settings

WHY = {
    Reason.SINGLE: "one candidate was left, so nobody was asked",
    Reason.CONFIDENT: "recall was sure enough to do without the model",
    Reason.LLM: "the model chose",
    Reason.SEMANTIC: "the top candidate; no model is configured",
    Reason.FALLBACK_EMPTY: "the model said that none fits; the top candidate all the same (--on-empty top1)",
    Reason.FALLBACK_INVALID: "the model's reply could not be used; the top candidate",
    Reason.FALLBACK_ERROR: "the model failed; the top candidate",
    Reason.NONE: "nothing was chosen",
    Reason.DECIDER: "the decision model chose, with what recall knew",
    Reason.ASK: "two or three flows are left, and the user is to be asked",
    Reason.USER: "the user named it",
    Reason.UNASKED: "a model would have to choose, and was not asked",
}


def selection(
    console: Console, result: "FlowSelectionResult", *, request: str, episodes: Sequence[str], settings: "Settings"
) -> Group:
    """All of it."""
    asked = _facts()
    asked.add_row("request", styled(request, "bold") if request.strip() else Text("(blank)", style="yellow"))
    for episode in episodes:
        asked.add_row("earlier", styled(episode))
    candidates = result.decision.candidates
    offered = _table(console, result.decision) if candidates else Text("\nno candidates\n", style="yellow")
    return Group(asked, offered, _reasons(result, settings))


def arms(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The arms that found any of them, in the order in which they first occur."""
    return tuple(dict.fromkeys(arm for candidate in candidates for arm in candidate.ranks))


def milliseconds(seconds: float) -> str:
    """A time with the digits that matter."""
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"  # noqa: PLR2004


def _table(console: Console, decision: Decision) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("", justify="right", style="dim")
    table.add_column("flow", overflow="fold")
    table.add_column("fused", justify="right", no_wrap=True)
    for arm in arms(decision.candidates):
        table.add_column(Text(f"{printable(arm)}\nrank"), justify="right", no_wrap=True)
        table.add_column(Text("\nscore"), justify="right", style="dim", no_wrap=True)
    sure = any(candidate.confidence is not None for candidate in decision.candidates)
    if sure:
        table.add_column("p", justify="right", no_wrap=True)
    for position, candidate in enumerate(decision.candidates, 1):
        chosen = candidate.flow_id in decision.chosen_ids
        confidence = "" if candidate.confidence is None else f"{candidate.confidence:.2f}"
        table.add_row(
            mark(console, good=True) if chosen else "",
            str(position),
            styled(candidate.flow_name or candidate.flow_id, "bold green" if chosen else ""),
            f"{candidate.score:.4f}",
            *_per_arm(candidate, arms(decision.candidates)),
            *([confidence] if sure else []),
        )
    return table


def _per_arm(candidate: Candidate, names: Sequence[str]) -> list[str]:
    cells: list[str] = []
    for arm in names:
        rank, score = candidate.ranks.get(arm), candidate.scores.get(arm)
        cells += ["-" if rank is None else str(rank), "" if score is None else f"{score:.3f}"]
    return cells


def _reasons(result: "FlowSelectionResult", settings: "Settings") -> Table:
    decision, took = result.decision, result.decision.latency
    facts = _facts()
    facts.add_row("chosen", styled(", ".join(result.names) or "nothing", "bold green" if result.names else "yellow"))
    facts.add_row("why", styled(_why(result)))
    facts.add_row("tier", styled(f"{decision.tier.value}, reason {decision.reason.value}"))
    if decision.model or (settings.llm and decision.raw_reply is not None):
        used = decision.usage
        tokens = f", {used.input_tokens} tokens in, {used.output_tokens} out" if used else ""
        facts.add_row("model", styled(f"{decision.model or settings.llm}{tokens}"))
    if decision.raw_reply is not None:
        facts.add_row("reply", styled(decision.raw_reply))
    if decision.error:
        facts.add_row("error", styled(decision.error, "red"))
    names = {candidate.flow_id: candidate.flow_name for candidate in decision.candidates}
    for flow_id in result.unresolved_ids:
        facts.add_row("unresolved", styled(_unresolved(flow_id, names, settings), "yellow"))
    if decision.sized:
        facts.add_row("candidates", styled(decision.sized))
    if decision.in_scope is not None:
        facts.add_row("in scope", styled(f"{decision.in_scope:.2f}, P(any flow is right)"))
    if decision.recalled_by:
        facts.add_row("recalled by", styled(decision.recalled_by))
    _add_stages(facts, decision)
    for note in decision.notes:
        facts.add_row("note", styled(note, "yellow"))
    parts = f"recall {milliseconds(took.recall_s)}, choice {milliseconds(took.choose_s)}"
    facts.add_row("took", styled(f"{milliseconds(took.total_s)} ({parts})"))
    return facts


def _add_stages(facts: Table, decision: Decision) -> None:
    if decision.question:
        facts.add_row("asks", styled(decision.question.text))
    for stage in decision.stages:
        facts.add_row("stage", styled(str(stage)))


def _why(result: "FlowSelectionResult") -> str:
    passed_over = result.passed_over
    if not passed_over:
        return WHY[result.decision.reason]
    which = "which is not among the flows" if len(passed_over) == 1 else "which are not among the flows"
    return f"{WHY[result.decision.reason]}, passing over {' and '.join(passed_over)}, {which}"


def _unresolved(flow_id: str, names: dict[str, str], settings: "Settings") -> str:
    if flow_id in names:
        return f"{names[flow_id] or flow_id} is in the index, but not among the flows: run {sync_command(settings)}"
    return f"{flow_id} was not offered"


def _facts() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid
