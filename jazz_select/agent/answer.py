"""The end of a turn: what happened in words, and the answer in the requested schema."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

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
from jazz_select.text import as_text, beginning, fill_fields, in_one_line, in_words, json_line
from jazz_select.texts import current_language, say
from jazz_select.threads import TimeBudget, current_budget
from jazz_select.values import Message, Tier
from jazz_select.words import by_spelling, folded_name

_LONGEST_VALUE: Final = 300
_LONGEST_OBJECT: Final = 60
_MOST_OFFERED: Final = 6


def worded(run: FlowRun, titles: Titles, contact: str = "") -> str:
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
        flow = titles.find(run.flow)
        return question_for(flow, run.asks, run.choices, run.wrong, run.options) if run.asks else ""
    if run.status == "failed":
        return _failure_text(run, titles)
    if run.status == "blocked":
        return _refusal_text(run, titles) if run.refusal else _blocked_text(run, titles, contact)
    parts = " ".join(filter(None, (worded(part, titles, contact) for part in run.parts)))
    if run.status != "done":
        return parts
    return _filled_reply(titles.find(run.flow), run) or parts or say("done", title=titles.flow(run.flow))


def _failure_text(run: FlowRun, titles: Titles) -> str:
    name = titles.flow(run.flow)
    unfound: dict[str, None] = {}
    for part in run.all:
        unfound.update(dict.fromkeys(map(in_words, part.unfound)))
    why = say("not_found", what=", ".join(unfound)) if unfound else ""
    texts = _unknown_outcomes([step.tool for step in run.steps if step.unknown], titles)
    if ran := _ran_before(run, titles):
        done = titles.done_already(ran)
        texts.insert(0, f"{say('not_ended', title=name, why=why)} {done}")
    return " ".join(texts) or say("failed", title=name, why=why)


def _refusal_text(run: FlowRun, titles: Titles) -> str:
    """Return the words of what refused a flow, what is done all the same, and which of its parts are not done."""
    ended = [part for part in run.all if not part.parts]
    texts = [part.text for part in ended if part.refusal]  # what an earlier turn has told has none
    done = [worded(part, titles) for part in ended if part.status == "done" and part is not run]
    if (ran := _ran_before(run, titles)) and not done:
        done.append(titles.done_already(ran))
    not_done = [part.flow for part in ended if part.status == "blocked" and not part.refusal]
    for each in run.all:
        flow = titles.find(each.flow)
        if flow is not None and flow.type == "sequential" and each.parts:
            begun = {part.flow for part in each.parts}
            not_done += [part.name for part in flow.subflows if part.name not in begun]
    if not_done:
        done.append(say("not_done_either", titles=", ".join(dict.fromkeys(map(titles.flow, not_done)))))
    return " ".join(filter(None, (*texts, *done)))


def _blocked_text(run: FlowRun, titles: Titles, contact: str) -> str:
    flow = titles.find(run.flow)
    if flow is not None and flow.manual and (own := _filled_reply(flow, run)):
        return own
    name, ran = titles.flow(run.flow), _ran_before(run, titles)
    lacking = dict.fromkeys(titles.flow(part.flow) for part in run.all if part.status == "blocked" and not part.parts)
    what = "" if name in lacking else ", ".join(lacking)
    done = " ".join(filter(None, (worded(part, titles) for part in run.parts if part.status == "done")))
    if ran and not done:
        done = titles.done_already(ran)
    key = "blocked_begun" if done else "blocked"
    blocked = say(f"{key}_by", title=name, what=what) if what else say(key, title=name)
    return " ".join(filter(None, (blocked, done, _turn_to(contact))))


def blocked_text(contact: str) -> str:
    """Return the text of a turn that a guard ended without words of its own."""
    return " ".join(filter(None, (say("not_here"), _turn_to(contact))))


def contact_of(facts: Mapping[str, Any]) -> str:
    """Return where users are referred to: the fact `support`; empty without it."""
    support = facts.get("support")
    return "" if support is None else as_text(support)


def _turn_to(contact: str) -> str:
    return say("turn_to", contact=contact.strip()) if contact.strip() else ""


def _ran_before(run: FlowRun, titles: Titles) -> list[str]:
    """Return the tools that changed something in a run, including those whose output could not be read."""
    unread = {step.tool for step in run.steps if step.fault == "output"}
    ran = [each for part in run.all for each in part.ran]
    destroyed = (each.tool for each in ran if each.final and each.tool in unread)
    return list(dict.fromkeys((*titles.effects(ran), *destroyed)))


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
    problems = list(dict.fromkeys(in_one_line(text) for name, text in wrong.items() if name in asks))
    meant = _meant_values(choices or {})
    declared = flow.all_inputs() if flow is not None else {}
    asks_one = flow is not None and flow.asks_one
    if asks_one or any(name in declared and declared[name].question for name in asks):
        questions: list[str] = []
        for name in asked_now(flow, asks, wrong):
            questions.append(_question(name, declared.get(name), meant.get(name, ""), options.get(name)))
        return " ".join((*problems, *questions))
    inputs: list[str] = []
    for name in asks:
        in_question = in_words(name)
        if name in meant:
            in_question = say("either", input=in_question, values=meant[name])
        inputs.append(in_question)
    return " ".join((*problems, say("ask", inputs=", ".join(inputs))))


def _meant_values(choices: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the values that may be meant for each ambiguous input, as a text: "5 June or 12 June"."""
    language = current_language()
    joint = f" {say('or')} "
    meant: dict[str, str] = {}
    for name, values in choices.items():
        if values:
            meant[name] = joint.join(in_full(value, language) for value in values)
    return meant


def _question(name: str, declared: Input | None, meant: str, options: InputOptions | None) -> str:
    asked = declared.question if declared is not None else ""
    question = asked or say("ask_one", input=in_words(name))
    is_proposed = bool(meant) and declared is not None and declared.propose is not None
    if meant and not is_proposed:
        return say("choices", question=question, values=meant)
    listed = tuple(map(str, declared.listed)) if declared is not None else ()
    if options is not None:
        listed = shown_labels(options)
    if listed:
        *first, last = listed
        values = f"{', '.join(first)} {say('or')} {last}" if first else last
        if last == "…":
            values = ", ".join(listed)
        question = say("choices", question=question, values=values)
    if is_proposed:
        return say("proposed", question=question, value=meant)
    if listed:
        return question
    return say("example", question=question, value=declared.example) if declared and declared.example else question


def called_off(flow: OpenFlow, titles: Titles) -> str:
    """Say that a flow was called off, and what was already done."""
    return " ".join(filter(None, (say("called_off", title=with_objects(flow, titles)), _done_already(flow, titles))))


def left_undone(pending: PendingCall) -> str:
    """Say that calls without a flow were not made, after the user's no."""
    return _not_done(pending.calls)


def _not_done(calls: Sequence[PendingCall]) -> str:
    named = [each.display_name if len(calls) == 1 else each.describe({}) for each in calls]
    return say("not_done", call="; ".join(named))


def left_open(text: str) -> str:
    """Say that a part of a message was not understood."""
    return say("left_open", text=json_line(beginning(text, _LONGEST_VALUE)))


def too_late_text(pending: PendingCall, became: Sequence[Before]) -> str:
    """Say that a no came too late for calls that another process has begun, and which were not made.

    Empty if none was begun. `became` says what became of each call.
    """
    if not any(became):
        return ""
    texts: list[str] = []
    not_begun: list[PendingCall] = []
    for call, end in zip(pending.calls, became, strict=True):
        if not end:
            not_begun.append(call)
            continue
        key = "too_late" if end == "done" else "too_late_perhaps"
        texts.append(say(key, call=call.display_name))
    if not_begun:
        texts.append(_not_done(not_begun))
    return " ".join(texts)


def repeated_question(flow: OpenFlow, state: TurnState, titles: Titles) -> str:
    """Repeat what a flow waits for; if everything is known, ask whether to go on, and name the changed steps."""
    known = state.request.context
    left = [name for name in flow.asks if name not in known and name not in flow.answers]
    if left and not flow.anew:
        return question_for(titles.find(flow.name), left, flow.choices, flow.wrong, flow.options)
    if flow.anew:
        return f"{_done_already(flow, titles)} {say('go_on', title=_title_among(flow, state, titles))}"
    return " ".join(filter(None, (_change_text(flow, titles), say("go_on", title=_title_among(flow, state, titles)))))


def _change_text(flow: OpenFlow, titles: Titles) -> str:
    if not flow.changed:
        return ""
    to_come = say("to_come", steps=", ".join(map(titles.step, flow.changed)))
    return " ".join(filter(None, (say("changed"), _done_already(flow, titles), to_come)))


def _done_already(flow: OpenFlow, titles: Titles) -> str:
    return titles.done_already(titles.effects(flow.past_calls))


def filled_schema(schema: OutputSchema, runs: Sequence[FlowRun]) -> Parsed | None:
    """Fill the schema from tool outputs, field by name; None if a required field is missing or ambiguous.

    The caller's context is not used, as it is not an answer. A field with differing outputs is ambiguous.
    """
    if not schema.has_object or not runs or any(run.status != "done" for run in runs):
        return None
    given = _outputs(runs)
    alike = by_spelling(given)
    found: dict[str, Any] = {}
    for name, (_, required) in fields(schema.json).items():
        same = [name] if name in given else alike.get(folded_name(name), [])
        if len(same) == 1 and all(value == given[same[0]][0] for value in given[same[0]]):
            found[name] = given[same[0]][0]
        elif required:
            return None
    read = schema.check(found) if found else Parsed(problem="nothing of it is known")
    return None if read.problem else read


def _outputs(runs: Sequence[FlowRun]) -> dict[str, list[Any]]:
    given: dict[str, list[Any]] = {}
    for run in runs:
        returned: list[Any] = [*(part.own for part in run.all), *(step.output for step in run.steps)]
        for output in returned:
            if is_object(output):
                for name, value in output.items():
                    given.setdefault(name, []).append(value)
    return given


def _filled_reply(flow: BaseFlow | None, run: FlowRun) -> str:
    reply: object = getattr(flow, "reply", "")
    if not isinstance(reply, str):
        return ""
    facts = {name: shown_value(value) for name, value in {**run.facts, **run.known}.items()}
    try:
        return fill_fields(reply, facts)
    except Exception:  # noqa: BLE001 - an author's template may fail in any way
        return ""


def cut_short(state: TurnState, titles: Titles) -> TurnState:
    """Add to a turn's answer that the turn ran out of time: what was done, and what has an unknown outcome."""
    budget = _exceeded_budget()
    if budget is None:
        return state
    over = f"the {budget.limit} of the turn were over {budget.waited_for}"
    state = replace(state, reason="; ".join(filter(None, (over, state.reason))))
    if state.value is not None:
        return state  # its text is the value's
    new = (text for text in _call_outcomes(state, titles) if text not in state.text)
    late = " ".join((say("out_of_time"), *new))
    if state.status in {"waiting", "confirming"}:
        return replace(state, text=f"{late}\n\n{state.text}")
    top, last = state.agenda.top, state.runs[-1] if state.runs else None
    goes_on = top is not None and last is not None and top.name == last.flow and top.status != "active"
    question = repeated_question(top, state, titles) if top is not None and goes_on else ""
    nothing = last is None and state.chain is None and not state.text
    return replace(
        state,
        status="failed" if state.status == "done" and nothing else state.status,
        text="\n\n".join(filter(None, (state.text, late, question))),
    )


def done_so_far(state: TurnState, titles: Titles) -> str:
    """Say which changes this turn made, before a flow asks its next question.

    Calls of a flow whose model has told of them are left out.
    """
    told: set[int] = set()  # by identity: two calls with equal outputs are two calls
    for run in state.runs[:-1]:
        if run.text:
            told.update(map(id, run.ran))
    changes: list[str] = []
    for call in state.calls:
        tool = titles.tools.get(call.tool)
        if id(call) in told or call.failed or tool is None or tool.reads:
            continue
        changes.append(call.tool)
    done = titles.list_titles(changes)
    return say("done_now", tools=done) if done else ""


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
    results = [each for each in state.chain.entries if isinstance(each, ToolResult)]
    return all(each.tool in titles.tools and titles.tools[each.tool].reads for each in results)


def _unfinished_text(state: TurnState, titles: Titles) -> str:
    """Say what was done and what is left if a model reached its limit of calls, and nothing else ends the turn."""
    is_over = state.error is not None or state.pending is not None or _exceeded_budget() is not None
    run = state.runs[-1] if state.runs else None
    if not state.incomplete or is_over or (run is not None and run.status != "active"):
        return ""
    left = titles.flow(run.flow) if run is not None else json_line(beginning(state.request.message, _LONGEST_VALUE))
    done = done_so_far(state, titles)
    return " ".join(filter(None, (done, say("unfinished", what=left))))


def _unknown_outcomes(tools: Iterable[str], titles: Titles) -> list[str]:
    return [say("in_doubt", tool=name) for name in dict.fromkeys(map(titles.tool, tools))]


def _exceeded_budget() -> TimeBudget | None:
    budget = current_budget()
    return budget if budget is not None and budget.waited_for else None


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes the answers of turns; `model` fills a schema if tool outputs do not. `offers` are titles of flows."""

    model: ChatClient | None
    titles: Titles
    model_timeout_s: float | None = 30.0
    offers: Callable[[], Sequence[str]] = tuple

    async def give(self, state: TurnState) -> TurnState:
        """Return the answer of a turn in words, and in the schema if there is one."""
        state = self._in_words(_with_question(state))
        schema = state.request.schema
        if schema is None or state.status in {"waiting", "confirming", "open", "failed", "blocked"}:
            return cut_short(state, self.titles)
        with span("format", "decision") as traced:
            state, tier = await self._fill_schema(state, schema)
            if traced is not None:
                traced.note({"tier": tier.value, "given": state.value is not None})
        return cut_short(state, self.titles)

    def _in_words(self, state: TurnState) -> TurnState:
        status, texts, back = self._parts_of_text(state)
        is_late = _exceeded_budget() is not None
        has_broken = isinstance(state.error, ChainError)
        if has_broken and not is_late and not _only_looked_up(state, self.titles):
            done = _call_outcomes(state, self.titles)
            if done:
                texts.insert(0, " ".join((say("broken"), *done)))  # the model that would have said so has failed
        if status in {"waiting", "confirming"} and not back and (queued := self._queued_text(state)):
            texts = [*texts[:-1], queued, *texts[-1:]]  # the question comes last
        text = _paragraphs(state.text, *texts, back, _unfinished_text(state, self.titles))
        if not is_late and (_was_not_read(state) or (not text and has_broken)):
            # What was wished is kept, and the next message goes on with it.
            text = _paragraphs(say("no_answer"), text)
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
            status = status if state.pending is not None else "waiting"
        elif back and top is not None and state.request.schema is None:
            if state.pending is not None:
                back = f"{say('back', title=titles.flow(top.name))} {state.pending.question()}"
            elif top.status != "active":
                back = f"{back} {repeated_question(top, state, titles)}"
                status = "waiting" if status == "done" else status
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
            texts.append(worded(run, self.titles, contact))
        return texts

    def _texts_before_question(self, state: TurnState, contact: str) -> list[str]:
        """Return what is said before the question for a yes: what ended, what models said, and what was done so far."""
        ended = {"done", "blocked", "failed"}
        texts: list[str] = []
        for run in state.runs:
            if run.status in ended and not _is_unsaid(run, self.titles):
                texts.append(worded(run, self.titles, contact))
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
        about = state.runs[-1].flow if state.runs else top.name if top is not None else ""
        if about:
            return say("about", title=self.titles.flow(about))
        if state.status == "failed":
            return " ".join(filter(None, (say("broken"), _turn_to(contact))))
        offers = ", ".join(self.offers()[:_MOST_OFFERED])
        can_do = say("can_do", titles=offers) if offers else ""
        asks_nothing = is_courtesy(state.request.message) or not state.request.message.strip()
        if can_do and asks_nothing:
            return can_do
        return " ".join(filter(None, (say("no_flow"), can_do)))

    def _queued_text(self, state: TurnState) -> str:
        """Say which flows of this message wait for the one on top, but for those that call it."""
        top, names = state.agenda.top, list[str]()
        listed = state.agenda.listed_in(state.pending)
        for each in reversed(state.agenda.flows[:-1]):
            if any(each is one for one in listed):
                continue  # the question names it
            flow = self.titles.find(each.name)
            is_caller = top is not None and flow is not None and top.name in flow.calls
            if each.status == "queued" and each.turn == state.request.conversation.turns and not is_caller:
                names.append(with_objects(each, self.titles))
        return say("to_come", steps=", ".join(names)) if names else ""

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
    told = [run for run in state.runs if run.status in {"done", "failed"} or run.refusal]
    texts = [worded(run, titles, contact) for run in told]
    over = (titles.find(run.flow) for run in state.runs if run.status == "done")
    if any(flow is not None and flow.handover for flow in over):
        return texts
    top = state.agenda.top
    about = state.runs[-1].flow if state.runs else ""
    if top is not None:
        about = top.name
    told_over = say("handed_over", title=titles.flow(about)) if about else say("handed_over_now")
    return [*texts, told_over, _turn_to(contact)]


def _reason_of(state: TurnState) -> str:
    """Return why the turn ended so: what was decided, why a call waits, or what went wrong in the last flow."""
    if state.reason:
        return state.reason
    if state.pending is not None and state.pending.reason:
        return state.pending.reason
    return state.runs[-1].problem if state.runs else ""


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


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
    keys = {each.key for each in (*state.request.conversation.flows, *state.agenda.flows) if each.name == flow.name}
    return with_objects(flow, titles) if len(keys) > 1 else titles.flow(flow.name)


def with_objects(flow: OpenFlow, titles: Titles) -> str:
    """Return a flow's title with what the user said for it, so that two wishes for the same flow are told apart.

    What flows that it calls found or asked for is no part of that, such as the code of a login.
    """
    found = titles.find(flow.name)
    own = found.all_inputs() if found is not None and found.calls else flow.answers
    said = [value for name, value in flow.answers.items() if name in own and isinstance(value, str | int | float)]
    objects = ", ".join(dict.fromkeys(beginning(shown_value(value), _LONGEST_OBJECT) for value in said))
    title = titles.flow(flow.name)
    return f"{title} ({objects})" if objects else title


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
            own, result = f"{run.flow}-{number}", result_of(step, f"{run.flow}-{number}")
            output = storable(as_json(step.output)) if result.ok else None
            arguments, _ = storable_fields(without_filled(step.arguments, step.filled))
            entries.append(ToolRequest(id=own, round=0, tool=step.tool, requested=step.tool, arguments=arguments))
            entries.append(replace(result, output=output))
    if state.chain is not None:
        return replace(state.chain, entries=(*entries, *state.chain.entries))
    said = tuple(each.message() for each in state.request.conversation.messages)
    entries.append(AssistantText(text=state.text))
    asked = Message(role="user", content=state.request.message)
    return Chain(messages=(*said, asked), entries=tuple(entries), answer=state.text)
