"""The result of a selection: its forms as data, JSON, pickle and text, and its trace."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, cast

from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import flow_data, flow_of, live_flows
from jazz_select.flow.definition import render_followed
from jazz_select.json_values import json_text, plain
from jazz_select.notebook import page_html
from jazz_select.serialization import read_json, unreadable, value_of, whole_of
from jazz_select.telemetry import Span
from jazz_select.text import beginning, in_one_line
from jazz_select.threads import run_with_timeout
from jazz_select.values import Candidate, Decision, Reason, Tier, candidates_html, flow_id

_SHOWN = 1_000
"""Characters of a fact that are told; a model's reply may be of any length."""
_WHY = {
    Reason.SINGLE: "the only candidate",
    Reason.CONFIDENT: "recall was sure enough",
    Reason.LLM: "chosen by the model",
    Reason.SEMANTIC: "the top candidate, as no model is configured",
    Reason.FALLBACK_EMPTY: "the top candidate, as the model said that none fits (on_empty is top1)",
    Reason.FALLBACK_INVALID: "the top candidate, as the model's reply could not be used",
    Reason.FALLBACK_ERROR: "the top candidate, as the model failed",
    Reason.NONE: "nothing to run",
    Reason.DECIDER: "chosen by the decision model, with what recall knew",
    Reason.ASK: "the user is to be asked which is meant",
    Reason.USER: "named by the user, who was asked",
    Reason.EXAMPLE: "the request is an example, a title or an alias of it, word for word",
    Reason.UNASKED: "a model would have to choose, and was not to be asked",
}

_LIKELIEST = {
    Reason.SEMANTIC: "the likeliest by recall, as no stage was sure enough",
    Reason.DECIDER: "the likeliest by recall and the decision model together, as no stage was sure enough",
}


def _empty_decision() -> Decision:
    return Decision(tier=Tier.OPEN, reason=Reason.NONE)


@dataclass(frozen=True, slots=True)
class FlowSelectionResult:
    """The flows for a request, ready for an agent's prompt, and how they were found.

    It can be stored as data (`to_dict`), as JSON, or pickled; its flows are stored as their definitions, without code.
    Unpickling finds the live flows of the process by their class or the default registry.
    """

    chosen_flows: list[BaseFlow] = field(default_factory=list[BaseFlow])
    """The live flows, in the order in which they should run."""
    chosen_prompts: list[str] = field(default_factory=list[str])
    """The compact XML of each chosen flow."""
    combined_prompt: str = ""
    """All of them, separated by blank lines, for the agent's system prompt."""
    unresolved_ids: list[str] = field(default_factory=list[str])
    """Ids that were chosen, or ranked first, and cannot run: stale in the index, not offered, or unknown."""
    candidates: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    """The candidates' metadata as received, best first."""
    decision: Decision = field(default_factory=_empty_decision)
    """How the choice was made."""
    logged: str = ""
    """The id of the entry in the log of outcomes, for `feedback`; empty without a log."""

    @property
    def names(self) -> list[str]:
        """The names of the chosen flows."""
        return [flow.name for flow in self.chosen_flows]

    @property
    def passed_over(self) -> list[str]:
        """The names of candidates that ranked above all chosen ones but are stale in the index."""
        chosen, stale = self.decision.chosen_ids, set(self.unresolved_ids)
        ids = [candidate.flow_id for candidate in self.decision.candidates]
        first = next((place for place, flow_id in enumerate(ids) if flow_id in chosen), 0)
        before = self.decision.candidates[:first]
        return [candidate.flow_name or candidate.flow_id for candidate in before if candidate.flow_id in stale]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with all keys in a fixed order.

        `received` is the candidates' metadata where it differs from `candidates`, else None.

        Raises:
            FlowValidationError: A nested part of a chosen flow has left its registry.
        """
        return cast("dict[str, Any]", plain(self._data()))

    def _data(self) -> dict[str, Any]:
        decision = {each.name: getattr(self.decision, each.name) for each in fields(self.decision)}
        offered = [each.as_metadata() for each in decision.pop("candidates")]
        same = offered == self.candidates
        return {
            "chosen": list(map(_chosen_data, self.chosen_flows, self.chosen_prompts)),
            "combined_prompt": self.combined_prompt,
            "unresolved_ids": self.unresolved_ids,
            "candidates": [{**each, "chosen": each["flow_id"] in self.decision.chosen_ids} for each in offered],
            "decision": decision,
            "logged": self.logged,
            "received": None if same else self.candidates,
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, registry: Mapping[str, BaseFlow] | None = None
    ) -> "FlowSelectionResult":
        """Read the data of `to_dict`.

        Args:
            data: The data.
            registry: The live flows. A chosen flow is looked up by its id; a note in the decision says where its
                definition has changed. A missing one is a `Flow` made of the data, in a registry of its own.

        Raises:
            ConfigError: The data is not a result.
        """
        what = cls.__name__
        known = whole_of(data, what)
        chosen = value_of(list[dict[str, Any]], known.get("chosen"), what)
        offered = value_of(list[Any], known.get("candidates"), what)
        decision = Decision.from_dict({**value_of(dict[str, Any], known.get("decision"), what), "candidates": offered})
        given = known.get("received")
        received = [each.as_metadata() for each in decision.candidates] if given is None else given
        flows, notes = _flows_of(chosen, registry)
        return cls(
            chosen_flows=flows,
            chosen_prompts=[value_of(str, each.get("prompt"), "flow") for each in chosen],
            combined_prompt=value_of(str, known.get("combined_prompt"), what),
            unresolved_ids=value_of(list[str], known.get("unresolved_ids"), what),
            candidates=[*value_of(list[dict[str, Any]], received, what)],
            decision=replace(decision, notes=(*decision.notes, *notes)) if notes else decision,
            logged=value_of(str, known.get("logged", ""), what),
        )

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json_text(self._data())

    @classmethod
    def from_json(cls, text: str | bytes, *, registry: Mapping[str, BaseFlow] | None = None) -> "FlowSelectionResult":
        """Read the text of `to_json`; see `from_dict`.

        Raises:
            ConfigError: The text is not a result.
        """
        return cls.from_dict(read_json(text, cls.__name__), registry=registry)

    def _repr_html_(self) -> str:
        decision = self.decision
        chosen = decision.facts_html(", ".join(self.names) or "no flow")
        return page_html(chosen, candidates_html(decision.candidates, decision.chosen_ids))

    def __reduce__(self) -> tuple[Any, ...]:
        homes = [(type(flow).__module__, type(flow).__qualname__) for flow in self.chosen_flows]
        return _unpickled, (self.to_dict(), homes)

    def __copy__(self) -> "FlowSelectionResult":
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FlowSelectionResult":
        """Copy all but the flows: a copy of a live flow would be another flow."""
        return replace(
            self,
            chosen_flows=[*self.chosen_flows],
            chosen_prompts=[*self.chosen_prompts],
            unresolved_ids=[*self.unresolved_ids],
            candidates=deepcopy(self.candidates, memo),
        )

    def explain(self) -> str:
        """Return the choice, every candidate with its ranks and scores, and all that is known: one fact per line."""
        decision = self.decision
        names = ", ".join(self.names) or "no flow"
        lines = [f"{names}: {why_of(decision)} ({decision.tier}, {decision.reason})"]
        lines += [f"passed over, as it is not in the registry: {name}" for name in self.passed_over]
        for position, candidate in enumerate(decision.candidates, start=1):
            chosen = "  <- chosen" if candidate.flow_id in decision.chosen_ids else ""
            lines.append(f"{position:>2}. {_candidate_line(candidate)}{chosen}")
        lines += [f"cannot be run: {flow_id}" for flow_id in self.unresolved_ids]
        _, *facts = decision.facts  # the first one is in the first line
        for name, fact in facts:
            text = f"{fact:.2f}" if isinstance(fact, float) else str(fact)
            if fact is not None and text:
                lines.append(f"{name}: {beginning(text, _SHOWN)}")
        return "\n".join(map(in_one_line, lines))


def why_of(decision: Decision) -> str:
    """Return the reason in words; a choice that no stage was sure of is called the likeliest."""
    if decision.stages and all(each.outcome != "decided" for each in decision.stages):
        return _LIKELIEST.get(decision.reason, _WHY[decision.reason])
    return _WHY[decision.reason]


def _chosen_data(flow: BaseFlow, prompt: str) -> dict[str, Any]:
    data = flow_data(flow)
    return {"flow_id": flow.id, "flow_name": data.pop("name"), "prompt": prompt, **data}


def _flows_of(
    chosen: list[dict[str, Any]], registry: Mapping[str, BaseFlow] | None
) -> tuple[list[BaseFlow], list[str]]:
    """Return the flows, live ones where possible, and notes on changed ones."""
    flows: list[BaseFlow] = []
    notes: list[str] = []
    for each in chosen:
        name = value_of(str, each.get("flow_name"), "flow")
        if each.get("flow_id") != flow_id(name):
            raise unreadable("flow", f"flow_id is not the id of {name!r}")
        live = None if registry is None else registry.get(flow_id(name))
        flows.append(flow_of({**each, "name": name}) if live is None else live)
        if live is not None and live.compute_checksum() != each.get("checksum"):
            notes.append(f"{name}: the flow here says something else than the one that was chosen")
    return flows, notes


def _unpickled(data: dict[str, Any], homes: list[tuple[str, str]]) -> FlowSelectionResult:
    names = [each["flow_name"] for each in data["chosen"]]
    return FlowSelectionResult.from_dict(data, registry=live_flows(zip(names, homes, strict=True)))


def _candidate_line(candidate: Candidate) -> str:
    parts = [candidate.flow_name or candidate.flow_id]
    if candidate.score or candidate.ranks:  # a flow named by the user has none
        parts.append(f"score {candidate.score:.4f}")
    for arm, rank in candidate.ranks.items():
        score = f" ({candidate.scores[arm]:.3f})" if arm in candidate.scores else ""
        parts.append(f"{arm} #{rank}{score}")
    if candidate.confidence is not None:
        parts.append(f"confidence {candidate.confidence:.2f}")
    return "  ".join(parts)


def note_selection(span: Span, request: str, result: FlowSelectionResult) -> None:
    """Note the candidates, the decision and its cost on a span."""
    decision = result.decision
    known: dict[str, Any] = {
        "tier": decision.tier.value,
        "reason": decision.reason.value,
        "chosen": result.names,
        "candidates": {each.flow_name or each.flow_id: round(each.score, 4) for each in decision.candidates},
        "confidence": decision.confidence,
        "p_none": decision.p_none,
        "unresolved": len(result.unresolved_ids) or None,
        "attempts": decision.attempts or None,
    }
    if decision.stages:
        known["stages"] = {each.name: each.outcome for each in decision.stages}
    if decision.usage is not None:
        known |= {"input_tokens": decision.usage.input_tokens, "output_tokens": decision.usage.output_tokens}
    span.note({name: value for name, value in known.items() if value not in (None, "")})
    span.hold({"request": request, "raw_reply": decision.raw_reply, "notes": list(decision.notes)})
    if decision.error:
        span.hold({"problem": decision.error})


def note_recall(span: Span, found: list[Mapping[str, Any]], reader: str = "") -> None:
    """Note the recalled candidates with their fused scores, best first, and the embedder that found them."""
    if reader:
        span.note({"recalled_by": reader})
    span.note({"candidates": {str(each.get("flow_name")): round(each.get("score") or 0.0, 4) for each in found}})


async def prompt_of(flow: BaseFlow, *, chosen: bool = False) -> str:
    """Build a flow's compact prompt; an author's own `build_prompt`, which may block, runs in a thread.

    The prompt of a `chosen` flow is for the model that follows it, and omits the condition and the names of tools.

    Raises:
        TimeoutError: An author's method is not ready within the time of the turn.
    """
    build = partial(flow.build_prompt, verbose=False)
    if type(flow).build_prompt is BaseFlow.build_prompt and "build_prompt" not in vars(flow):
        return render_followed(flow.definition()) if chosen else build()
    return cast("str", await run_with_timeout(build, limit_s=None, name="jazz-select-build_prompt"))


def nothing_found(*notes: str) -> FlowSelectionResult:
    """Return a result without flows, with these notes."""
    return FlowSelectionResult(decision=replace(_empty_decision(), notes=notes))
