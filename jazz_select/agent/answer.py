"""The end of a turn: what happened in words, and the answer in the requested schema."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jazz_select.agent.agenda import flows_without
from jazz_select.agent.chain.finalizer import finalize
from jazz_select.agent.chain.output_schema import OutputSchema, Parsed
from jazz_select.agent.chain.transcript import AssistantText, Chain, Entry, ToolRequest, ToolResult
from jazz_select.agent.conversation import InputOptions, OpenFlow, PendingCall, asked_now
from jazz_select.agent.flows.open_flows import BLOCKED, FINISHED
from jazz_select.agent.option_names import shown_labels
from jazz_select.agent.titles import Titles, shown_value
from jazz_select.agent.turn import FlowRun, TurnState, TurnStatus
from jazz_select.agent.turn_events import listener, result_of
from jazz_select.chat.client import ChatClient
from jazz_select.consent import is_courtesy
from jazz_select.days import in_full
from jazz_select.errors import ChainError, FormatError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.inputs import Input
from jazz_select.json_values import as_json, is_object, json_text, storable, storable_fields
from jazz_select.routing.question import Before
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.context_inputs import without_filled
from jazz_select.telemetry import span
from jazz_select.text import (
    as_text,
    beginning,
    fill_fields,
    in_one_line,
    in_words,
    join_paragraphs,
    join_sentences,
    json_line,
)
from jazz_select.texts import current_language, say
from jazz_select.threads import TimeBudget, current_budget
from jazz_select.values import Message, Tier
from jazz_select.words import by_spelling, folded_name

_LONGEST_VALUE: Final = 300
_LONGEST_OBJECT: Final = 60
_MOST_OFFERED: Final = 6


def run_text(run: FlowRun, titles: Titles, contact: str = "") -> str:
    """Return the user's text for a run: the model's words, the flow's `reply` filled with facts, or that it is done.

    A `reply` is a template with facts in braces, such as "{refunded_cents} cents go to {account}.". It is used if the
    flow is done and every fact is known. No other tool output is shown, because nobody marked it as meant for users; it
    is in the result's `runs`. Internal errors are in its `reason`. If the flow cannot be done here, users are sent to
    `contact`.
    """
    if run.text and not run.parts and not run.refusal:
        return run.text
    if run.status == "waiting" and not any(part.text for part in run.parts):
        # A run that waits for a yes asks for no input: what it would do is asked elsewhere.
        question = ""
        if run.asks:
            question = question_for(titles.find(run.flow), run.asks, run.choices, run.wrong, run.options)
        return question
    if run.status == "failed":
        return _failure_text(run, titles)
    if run.status == "blocked":
        return _blocked_text(run, titles, contact)
    parts = join_sentences(*(run_text(part, titles, contact) for part in run.parts))
    if run.status != "done":
        return parts
    return _filled_reply(titles.find(run.flow), run) or parts or say("done", title=titles.flow(run.flow))


def _failure_text(run: FlowRun, titles: Titles) -> str:
    name = titles.flow(run.flow)
    unfound: dict[str, None] = {}
    for part in run.all:
        unfound.update(dict.fromkeys(map(in_words, part.unfound)))
    why = ""
    if unfound:
        why = say("not_found", what=", ".join(unfound))
    texts = _unknown_outcomes([step.tool for step in run.steps if step.unknown], titles)
    effects = _effects_of(run, titles)
    if effects:
        done = titles.done_already(effects)
        texts.insert(0, f"{say('not_ended', title=name, why=why)} {done}")
    return " ".join(texts) or say("failed", title=name, why=why)


def _refusal_text(run: FlowRun, titles: Titles) -> str:
    """Return the words of what refused a flow, what is done all the same, and which of its parts are not done."""
    refusals: list[str] = []
    done: list[str] = []
    not_done: list[str] = []
    for part in run.all:
        if part.parts:
            continue
        if part.refusal:
            refusals.append(part.text)  # empty if an earlier turn has said it
        elif part.status == "blocked":
            not_done.append(part.flow)
        elif part.status == "done" and part is not run:
            done.append(run_text(part, titles))
    effects = _effects_of(run, titles)
    if effects and not done:
        done.append(titles.done_already(effects))
    # A sequence stops at what is refused: its later parts have no run at all.
    for each in run.all:
        flow = titles.find(each.flow)
        if flow is not None and flow.type == "sequential" and each.parts:
            reached = {part.flow for part in each.parts}
            not_done += [part.name for part in flow.subflows if part.name not in reached]
    if not_done:
        done.append(say("not_done_either", titles=", ".join(dict.fromkeys(map(titles.flow, not_done)))))
    return join_sentences(*refusals, *done)


def _blocked_text(run: FlowRun, titles: Titles, contact: str) -> str:
    if run.refusal:
        return _refusal_text(run, titles)
    flow = titles.find(run.flow)
    if flow is not None and flow.manual and (own := _filled_reply(flow, run)):
        return own
    name, effects = titles.flow(run.flow), _effects_of(run, titles)
    blocked_titles: dict[str, None] = {}
    for part in run.all:
        if part.status == "blocked" and not part.parts:
            blocked_titles[titles.flow(part.flow)] = None
    done = join_sentences(*(run_text(part, titles) for part in run.parts if part.status == "done"))
    if effects and not done:
        done = titles.done_already(effects)
    key = "blocked_begun" if done else "blocked"
    if blocked_titles and name not in blocked_titles:
        blocked = say(f"{key}_by", title=name, what=", ".join(blocked_titles))
    else:
        blocked = say(key, title=name)
    return join_sentences(blocked, done, _turn_to(contact))


def blocked_text(contact: str) -> str:
    """Return the text of a turn that a guard ended without words of its own."""
    return join_sentences(say("not_here"), _turn_to(contact))


def contact_of(facts: Mapping[str, Any]) -> str:
    """Return where users are referred to: the fact `support`; empty without it."""
    support = facts.get("support")
    if support is None:
        return ""
    return as_text(support)


def _turn_to(contact: str) -> str:
    contact = contact.strip()
    if not contact:
        return ""
    return say("turn_to", contact=contact)


def _effects_of(run: FlowRun, titles: Titles) -> list[str]:
    """Return the tools that changed something in a run, including those whose output could not be read."""
    unread = {step.tool for step in run.steps if step.fault == "output"}
    calls = [call for part in run.all for call in part.ran]
    effects = titles.effects(calls)
    for call in calls:
        # The call failed only after it was made: what it destroyed is gone.
        if call.final and call.tool in unread:
            effects.append(call.tool)
    return list(dict.fromkeys(effects))


def question_for(
    flow: BaseFlow | None,
    asks: Sequence[str],
    choices: Mapping[str, Sequence[Any]] | None = None,
    wrong: Mapping[str, str] | None = None,
    options: Mapping[str, InputOptions] | None = None,
) -> str:
    """Return the question for a flow's missing inputs, after what was wrong with the values given.

    An input whose value was refused is asked for alone. Days that may be meant are shown in full.
    """
    wrong = wrong or {}
    options = options or {}
    asks = [name for name in asks if name in wrong] or asks
    problems: dict[str, None] = {}
    for name, text in wrong.items():
        if name in asks:
            problems[in_one_line(text)] = None
    possible = _possible_values(choices or {})
    declared = flow.all_inputs() if flow is not None else {}
    asks_one = flow is not None and flow.asks_one
    if asks_one or any(name in declared and declared[name].question for name in asks):
        questions: list[str] = []
        for name in asked_now(flow, asks, wrong):
            questions.append(_question(name, declared.get(name), possible.get(name, ""), options.get(name)))
        return " ".join((*problems, *questions))
    inputs: list[str] = []
    for name in asks:
        in_question = in_words(name)
        if name in possible:
            in_question = say("either", input=in_question, values=possible[name])
        inputs.append(in_question)
    return " ".join((*problems, say("ask", inputs=", ".join(inputs))))


def _possible_values(choices: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the values that may be meant for each ambiguous input, as a text: "5 June or 12 June"."""
    language = current_language()
    joint = f" {say('or')} "
    texts: dict[str, str] = {}
    for name, values in choices.items():
        if values:
            texts[name] = joint.join(in_full(value, language) for value in values)
    return texts


def _question(name: str, declared: Input | None, possible: str, options: InputOptions | None) -> str:
    question = say("ask_one", input=in_words(name))
    if declared is not None and declared.question:
        question = declared.question
    is_proposed = bool(possible) and declared is not None and declared.propose is not None
    if possible and not is_proposed:
        return say("choices", question=question, values=possible)
    listed: tuple[str, ...] = ()
    if options is not None:
        listed = shown_labels(options)
    elif declared is not None:
        listed = tuple(map(str, declared.listed))
    if listed:
        question = say("choices", question=question, values=_list_values(listed))
    if is_proposed:
        return say("proposed", question=question, value=possible)
    if not listed and declared is not None and declared.example:
        return say("example", question=question, value=declared.example)
    return question


def _list_values(values: Sequence[str]) -> str:
    """Return values as a list in words; one that goes on ("…") has no "or"."""
    *first, last = values
    if not first or last == "…":
        return ", ".join(values)
    return f"{', '.join(first)} {say('or')} {last}"


def called_off_text(flow: OpenFlow, titles: Titles) -> str:
    """Say that a flow was called off, and what was already done."""
    return join_sentences(say("called_off", title=with_objects(flow, titles)), _done_already(flow, titles))


def not_done_text(pending: PendingCall) -> str:
    """Say that calls without a flow were not made, after the user's no."""
    return _not_done(pending.calls)


def _not_done(calls: Sequence[PendingCall]) -> str:
    if len(calls) == 1:
        return say("not_done", call=calls[0].display_name)
    return say("not_done", call="; ".join(call.describe({}) for call in calls))


def left_open_text(text: str) -> str:
    """Say that a part of a message was not understood."""
    return say("left_open", text=json_line(beginning(text, _LONGEST_VALUE)))


def too_late_text(pending: PendingCall, outcomes: Sequence[Before]) -> str:
    """Say that a no came too late for calls that another process has begun, and which were not made.

    Empty if none was started. `outcomes` says what became of each call.
    """
    if not any(outcomes):
        return ""
    texts: list[str] = []
    not_made: list[PendingCall] = []
    for call, outcome in zip(pending.calls, outcomes, strict=True):
        if not outcome:
            not_made.append(call)
            continue
        key = "too_late" if outcome == "done" else "too_late_perhaps"
        texts.append(say(key, call=call.display_name))
    if not_made:
        texts.append(_not_done(not_made))
    return " ".join(texts)


def repeated_question(flow: OpenFlow, state: TurnState, titles: Titles) -> str:
    """Repeat what a flow waits for; if everything is known, ask whether to go on, and name the changed steps."""
    known = {**state.request.context, **flow.answers}
    missing = [name for name in flow.asks if name not in known]
    if missing and not flow.anew:
        return question_for(titles.find(flow.name), missing, flow.choices, flow.wrong, flow.options)
    go_on = say("go_on", title=_title_among(flow, state, titles))
    if flow.anew:
        return f"{_done_already(flow, titles)} {go_on}"
    return join_sentences(_change_text(flow, titles), go_on)


def _change_text(flow: OpenFlow, titles: Titles) -> str:
    if not flow.changed:
        return ""
    to_come = say("to_come", steps=", ".join(map(titles.step, flow.changed)))
    return join_sentences(say("changed"), _done_already(flow, titles), to_come)


def _done_already(flow: OpenFlow, titles: Titles) -> str:
    return titles.done_already(titles.effects(flow.past_calls))


def filled_schema(schema: OutputSchema, runs: Sequence[FlowRun]) -> Parsed | None:
    """Fill the schema from tool outputs, field by name; None if a required field is missing or ambiguous.

    The caller's context is not used, as it is not an answer. A field with differing outputs is ambiguous.
    """
    if not schema.has_object or not runs or any(run.status != "done" for run in runs):
        return None
    outputs = _outputs_by_name(runs)
    spellings = by_spelling(outputs)
    values: dict[str, Any] = {}
    for name, (_, required) in fields(schema.json).items():
        names = [name] if name in outputs else spellings.get(folded_name(name), [])
        returned = outputs[names[0]] if len(names) == 1 else []
        if returned and all(value == returned[0] for value in returned):
            values[name] = returned[0]
        elif required:
            return None
    if not values:
        return None
    parsed = schema.check(values)
    return None if parsed.problem else parsed


def _outputs_by_name(runs: Sequence[FlowRun]) -> dict[str, list[Any]]:
    outputs: dict[str, list[Any]] = {}
    for run in runs:
        returned: list[Any] = [*(part.own for part in run.all), *(step.output for step in run.steps)]
        for output in returned:
            if is_object(output):
                for name, value in output.items():
                    outputs.setdefault(name, []).append(value)
    return outputs


def _filled_reply(flow: BaseFlow | None, run: FlowRun) -> str:
    reply: object = getattr(flow, "reply", "")
    if not isinstance(reply, str):
        return ""
    facts = {name: shown_value(value) for name, value in {**run.facts, **run.known}.items()}
    try:
        return fill_fields(reply, facts)
    except Exception:  # noqa: BLE001 - an author's template may fail in any way
        return ""


def with_timeout_text(state: TurnState, titles: Titles) -> TurnState:
    """Add to a turn's answer that the turn ran out of time: what was done, and what has an unknown outcome."""
    budget = _exceeded_budget()
    if budget is None:
        return state
    over = f"the {budget.limit} of the turn were over {budget.waited_for}"
    state = replace(state, reason=f"{over}; {state.reason}" if state.reason else over)
    if state.value is not None:
        return state  # its text is the value's
    new = [text for text in _call_outcomes(state, titles) if text not in state.text]
    late = " ".join((say("out_of_time"), *new))
    if state.status in {"waiting", "confirming"}:
        return replace(state, text=f"{late}\n\n{state.text}")
    top, last_run = state.agenda.top, state.runs[-1] if state.runs else None
    question = ""
    if top is not None and last_run is not None and top.name == last_run.flow and top.status != "active":
        question = repeated_question(top, state, titles)
    status = state.status
    is_empty = last_run is None and state.chain is None and not state.text
    if status == "done" and is_empty:
        status = "failed"
    return replace(state, status=status, text=join_paragraphs(state.text, late, question))


def done_so_far(state: TurnState, titles: Titles) -> str:
    """Say which changes this turn made, before a flow asks its next question.

    Calls of a flow whose model has told of them are left out.
    """
    # By identity: two calls with equal outputs are two calls.
    reported: set[int] = set()
    for run in state.runs[:-1]:
        if run.text:
            reported.update(map(id, run.ran))
    changes: list[str] = []
    for call in state.calls:
        tool = titles.tools.get(call.tool)
        if id(call) in reported or call.failed or tool is None or tool.reads:
            continue
        changes.append(call.tool)
    if not changes:
        return ""
    return say("done_now", tools=titles.list_titles(changes))


def _call_outcomes(state: TurnState, titles: Titles) -> list[str]:
    """Say which calls of unfinished flows and chains succeeded, and which have an unknown outcome."""
    done: list[str] = []
    doubtful: list[str] = []
    for run in state.runs:
        if run.status == "done":
            continue
        done.extend(step.tool for step in run.steps if step.status == "ok")
        doubtful.extend(step.tool for step in run.steps if step.unknown)
    entries = state.chain.entries if state.chain is not None else ()
    for entry in entries:
        if not isinstance(entry, ToolResult) or entry.tool in {FINISHED, BLOCKED}:
            continue
        if entry.ok:
            done.append(entry.tool)
        if entry.unknown:
            doubtful.append(entry.tool)
    texts = _unknown_outcomes(doubtful, titles)
    if done:
        texts.insert(0, say("done_until_then", tools=titles.list_titles(done)))
    return texts


def _only_looked_up(state: TurnState, titles: Titles) -> bool:
    """Whether nothing was done before a model was asked that gave no reply: look-ups by rule are no step of it."""
    if state.chain is None or state.chain.records or any(run.steps for run in state.runs):
        return False
    for entry in state.chain.entries:
        if not isinstance(entry, ToolResult):
            continue
        tool = titles.tools.get(entry.tool)
        if tool is None or not tool.reads:
            return False
    return True


def _unfinished_text(state: TurnState, titles: Titles) -> str:
    """Say what was done and what is left if a model reached its limit of calls, and nothing else ends the turn."""
    is_over = state.error is not None or state.pending is not None or _exceeded_budget() is not None
    run = state.runs[-1] if state.runs else None
    if not state.incomplete or is_over or (run is not None and run.status != "active"):
        return ""
    if run is not None:
        unfinished = titles.flow(run.flow)
    else:
        unfinished = json_line(beginning(state.request.message, _LONGEST_VALUE))
    return join_sentences(done_so_far(state, titles), say("unfinished", what=unfinished))


def _unknown_outcomes(tools: Iterable[str], titles: Titles) -> list[str]:
    return [say("in_doubt", tool=name) for name in dict.fromkeys(map(titles.tool, tools))]


def _exceeded_budget() -> TimeBudget | None:
    budget = current_budget()
    if budget is None or not budget.waited_for:
        return None
    return budget


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes the answers of turns; `model` fills a schema if tool outputs do not. `offers` are titles of flows."""

    model: ChatClient | None
    titles: Titles
    model_timeout_s: float | None = 30.0
    offers: Callable[[], Sequence[str]] = tuple

    async def write(self, state: TurnState) -> TurnState:
        """Return the answer of a turn in words, and in the schema if there is one."""
        state = self._in_words(_with_question(state))
        schema = state.request.schema
        if schema is None or state.status in {"waiting", "confirming", "open", "failed", "blocked"}:
            return with_timeout_text(state, self.titles)
        with span("format", "decision") as traced:
            state, tier = await self._fill_schema(state, schema)
            if traced is not None:
                traced.note({"tier": tier.value, "given": state.value is not None})
        return with_timeout_text(state, self.titles)

    def _in_words(self, state: TurnState) -> TurnState:
        status, texts, back = self._parts_of_text(state)
        is_late = _exceeded_budget() is not None
        has_broken = isinstance(state.error, ChainError)
        if has_broken and not is_late and not _only_looked_up(state, self.titles):
            outcomes = _call_outcomes(state, self.titles)
            if outcomes:
                # The model that would have said so has failed.
                texts.insert(0, " ".join((say("broken"), *outcomes)))
        if status in {"waiting", "confirming"} and not back:
            # The question stays last: it is what the user answers.
            texts = [*texts[:-1], self._queued_text(state), *texts[-1:]]
        text = join_paragraphs(state.text, *texts, back, _unfinished_text(state, self.titles))
        if not is_late and (_was_not_read(state) or (not text and has_broken)):
            # What was wished is kept, and the next message goes on with it.
            text = join_paragraphs(say("no_answer"), text)
        if not text and not is_late:
            text = self._closing_text(state, contact_of(state.request.facts))
        if has_broken and state.pending is None:
            status = "failed"
        return replace(state, status=status, text=text, reason=_reason_of(state))

    def _parts_of_text(self, state: TurnState) -> tuple[TurnStatus, list[str], str]:
        """Return the status, what is said of the flows, and to which flow the turn comes back; a way to wait each."""
        status, titles = state.status, self.titles
        contact = contact_of(state.request.facts)
        top = state.agenda.top
        if status == "handed_over":
            return status, _taken_over(state, titles, contact), ""
        texts = self._texts_of_runs(state, contact)
        back = self._back_to(state)
        if state.way.pauses:
            if state.pending is None:
                status = "waiting"
        elif back and top is not None and state.request.schema is None:
            if state.pending is not None:
                back = f"{say('back', title=titles.flow(top.name))} {state.pending.question()}"
            elif top.status != "active":
                back = f"{back} {repeated_question(top, state, titles)}"
                if status == "done":
                    status = "waiting"
        elif state.pending is not None:
            texts = [*self._texts_before_question(state, contact), state.pending.question()]
        elif top is not None and top.status != "active" and (not state.runs or not state.runs[-1].begun):
            status, texts = "waiting", [repeated_question(top, state, titles)]
        return status, texts, back

    def _texts_of_runs(self, state: TurnState, contact: str) -> list[str]:
        """Return what is said of each flow that ran. After the time limit, that itself is said of the failed ones."""
        is_late = _exceeded_budget() is not None
        texts: list[str] = []
        for run in state.runs:
            if _is_unsaid(run, self.titles) or (is_late and run.status == "failed"):
                continue
            texts.append(run_text(run, self.titles, contact))
        return texts

    def _texts_before_question(self, state: TurnState, contact: str) -> list[str]:
        """Return what is said before the question for a yes: what ended, what models said, and what was done so far."""
        ended = {"done", "blocked", "failed"}
        texts: list[str] = []
        for run in state.runs:
            if run.status in ended and not _is_unsaid(run, self.titles):
                texts.append(run_text(run, self.titles, contact))
        texts.extend(run.text for run in state.runs[:-1] if run.status == "active")
        if state.runs and state.runs[-1].status not in ended:
            texts.append(state.runs[-1].text or done_so_far(state, self.titles))
        return texts

    def _back_to(self, state: TurnState) -> str:
        """Say to which flow the turn comes back; empty if to none."""
        for flow in reversed(state.agenda.flows):
            if flow.name == state.resumed:
                return say("back", title=_title_among(flow, state, self.titles))
        return ""

    def _closing_text(self, state: TurnState, contact: str) -> str:
        """Return a text for a turn that has none of its own: what it is about, or that nothing fits."""
        if state.status == "blocked":
            return blocked_text(contact)
        top = state.agenda.top
        if state.runs:
            return say("about", title=self.titles.flow(state.runs[-1].flow))
        if top is not None:
            return say("about", title=self.titles.flow(top.name))
        if state.status == "failed":
            return join_sentences(say("broken"), _turn_to(contact))
        offers = ", ".join(self._nearest_offers(state))
        can_do = say("can_do", titles=offers) if offers else ""
        asks_nothing = is_courtesy(state.request.message) or not state.request.message.strip()
        if can_do and asks_nothing:
            return can_do
        return join_sentences(say("no_flow"), can_do)

    def _nearest_offers(self, state: TurnState) -> list[str]:
        """Return a few titles of what the agent can do; of many, those that recall found nearest."""
        offers = list(self.offers())
        if len(offers) > _MOST_OFFERED and state.selection is not None:
            places: dict[str, int] = {}
            for place, candidate in enumerate(state.selection.decision.candidates):
                places.setdefault(self.titles.flow(candidate.flow_name), place)
            offers.sort(key=lambda title: places.get(title, len(places)))
        return offers[:_MOST_OFFERED]

    def _queued_text(self, state: TurnState) -> str:
        """Say which flows of this message wait for the one on top, but for those that call it."""
        top, names = state.agenda.top, list[str]()
        # The question names the flows that it lists.
        unlisted = flows_without(state.agenda.flows[:-1], state.agenda.listed_in(state.pending))
        for open_flow in reversed(unlisted):
            if open_flow.status != "queued" or open_flow.turn != state.request.conversation.turns:
                continue
            flow = self.titles.find(open_flow.name)
            is_caller = top is not None and flow is not None and top.name in flow.calls
            if not is_caller:
                names.append(with_objects(open_flow, self.titles))
        if not names:
            return ""
        return say("to_come", steps=", ".join(names))

    async def _fill_schema(self, state: TurnState, schema: OutputSchema) -> tuple[TurnState, Tier]:
        filled = filled_schema(schema, state.runs)
        if filled is not None:
            text = json_text(filled.plain)
            return replace(state, value=filled.value, text=text), Tier.DETERMINISTIC
        chain = _transcript(state)
        if self.model is None:
            problem = "what tools returned does not fill the schema, and there is no model to put it there"
            error = FormatError(
                problem, phase="call", prompt="", attempts=0, last_text="", schema=schema.json, chain=chain
            )
            return replace(state, error=state.error or error), Tier.OPEN
        try:
            given = await finalize(
                self.model,
                chain,
                schema.model or schema.json,
                on_event=listener(),
                model_timeout_s=self.model_timeout_s,
            )
        except (FormatError, ChainError) as error:
            return replace(state, error=state.error or error, reason=state.reason or str(error)), Tier.OPEN
        incomplete = state.incomplete or given.incomplete
        return replace(state, value=given.value, text=given.text, incomplete=incomplete), Tier.GUIDED


def _taken_over(state: TurnState, titles: Titles, contact: str) -> list[str]:
    """Return what was done before a person takes over, and that one does, unless a flow said so itself."""
    texts: list[str] = []
    speaks_for_itself = False
    for run in state.runs:
        flow = titles.find(run.flow)
        own_reply = ""
        if flow is not None and flow.handover:
            if flow.manual:
                own_reply = _filled_reply(flow, run)
            if own_reply or run.status == "done":
                speaks_for_itself = True
        if run.status in {"done", "failed"} or run.refusal or own_reply:
            texts.append(run_text(run, titles, contact))
    if speaks_for_itself:
        return texts
    subject = ""
    if state.agenda.top is not None:
        subject = state.agenda.top.name
    elif state.runs:
        subject = state.runs[-1].flow
    announcement = say("handed_over", title=titles.flow(subject)) if subject else say("handed_over_now")
    return [*texts, announcement, _turn_to(contact)]


def _reason_of(state: TurnState) -> str:
    """Return why the turn ended so: what was decided, why a call waits, or what went wrong in the last flow."""
    if state.reason:
        return state.reason
    if state.pending is not None and state.pending.reason:
        return state.pending.reason
    return state.runs[-1].problem if state.runs else ""


def _was_not_read(state: TurnState) -> bool:
    """Whether the model failed that was to read the message, so that only the same question is asked again."""
    top, before = state.agenda.top, state.request.conversation.active
    failed = state.selection is not None and bool(state.selection.decision.error)
    if not failed or state.runs or state.text or state.granted is not None:
        return False
    if top is None or before is None:
        return False
    return (top.name, top.answers) == (before.name, before.answers)


def _is_unsaid(run: FlowRun, titles: Titles) -> bool:
    """Whether nothing is said of a flow that is done: it was only called, and has no words of its own."""
    flow = titles.find(run.flow)
    return flow is not None and flow.only_called and run.status == "done" and not (run.text or flow.reply)


def _title_among(flow: OpenFlow, state: TurnState, titles: Titles) -> str:
    """Return a flow's title, with what it is for where several wishes for the flow were open in this turn."""
    open_flows = (*state.request.conversation.flows, *state.agenda.flows)
    wishes = {each.key for each in open_flows if each.name == flow.name}
    if len(wishes) > 1:
        return with_objects(flow, titles)
    return titles.flow(flow.name)


def with_objects(flow: OpenFlow, titles: Titles) -> str:
    """Return a flow's title with what the user said for it, so that two wishes for the same flow are told apart.

    What flows that it calls found or asked for is no part of that, such as the code of a login.
    """
    live_flow = titles.find(flow.name)
    own = live_flow.all_inputs() if live_flow is not None and live_flow.calls else flow.answers
    objects: dict[str, None] = {}
    for name, value in flow.answers.items():
        if name in own and isinstance(value, str | int | float):
            objects[beginning(shown_value(value), _LONGEST_OBJECT)] = None
    title = titles.flow(flow.name)
    return f"{title} ({', '.join(objects)})" if objects else title


def _with_question(state: TurnState) -> TurnState:
    """Ask the question of a flow that is resumed, or ran before another wish, now, so that one yes is enough.

    With a schema there is no text for the question, so the next turn asks it.
    """
    top = state.agenda.top
    if top is None or top.pending is None or state.pending or state.status == "handed_over":
        return state
    if not state.resumed and top.name not in {run.flow for run in state.runs}:
        return state
    if state.request.schema is not None or (state.resumed and isinstance(state.error, ChainError)):
        return state
    agenda = state.agenda.with_top(top.model_copy(update={"pending": None}))
    return replace(state, agenda=agenda, pending=top.pending, status="confirming")


def _transcript(state: TurnState) -> Chain:
    """Return the turn as one chain: tool calls of flows, then the chain of a model if there is one."""
    entries = list[Entry]()
    for run in state.runs:
        for number, step in enumerate(run.steps, start=1):
            if not step.tool:
                continue
            call_id = f"{run.flow}-{number}"
            result = result_of(step, call_id)
            output = storable(as_json(step.output)) if result.ok else None
            # Models are not shown what the caller's context filled.
            arguments, _ = storable_fields(without_filled(step.arguments, step.filled))
            entries.append(ToolRequest(id=call_id, round=0, tool=step.tool, requested=step.tool, arguments=arguments))
            entries.append(replace(result, output=output))
    if state.chain is not None:
        return replace(state.chain, entries=(*entries, *state.chain.entries))
    entries.append(AssistantText(text=state.text))
    earlier = [stored.message() for stored in state.request.conversation.messages]
    request = Message(role="user", content=state.request.message)
    return Chain(messages=(*earlier, request), entries=tuple(entries), answer=state.text)
