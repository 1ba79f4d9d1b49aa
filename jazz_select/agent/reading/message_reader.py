"""Read a message once: by rules where they suffice, else by one selection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jazz_select.agent.conversation import OpenFlow, PendingCall
from jazz_select.agent.conversation_view import ConversationView
from jazz_select.agent.reading.bare_answer import (
    answers_in_order,
    bare_answer,
    behind_correction,
    corrections,
    fitting_inputs,
    is_correction,
    is_value,
    read_approval,
    readings_of_time,
    several_answers,
    understood_answer,
    unfit_answer,
    yes_not_taken,
)
from jazz_select.agent.reading.choice_answer import named_choice, named_reading
from jazz_select.agent.reading.grounding import Grounded, Wanted, is_named
from jazz_select.agent.reading.reading import PickedOption, Reading, Wish
from jazz_select.agent.reading.reading_context import reading_context
from jazz_select.agent.reading.selection_reader import SelectionReader, known_values, new_in, without_answered
from jazz_select.agent.reading.small_talk import asks_to_repeat, is_only_thanks
from jazz_select.agent.turn import TurnRequest, TurnState
from jazz_select.consent import Consent, asks_to_wait, read_consent
from jazz_select.phrases import Asked
from jazz_select.selector.asking import ends, named_in, repeat_question
from jazz_select.text import describe_error
from jazz_select.threads import run_within_budget


@dataclass(frozen=True, kw_only=True)
class MessageReader:
    """Reads the messages of an agent; `selections` reads those that no rule can settle."""

    selections: SelectionReader

    async def read(self, state: TurnState) -> Reading:
        """Return what the message of a turn says."""
        picked = picked_option(state.request, beside=state.agenda.top is not state.agenda.waiting)
        notes: tuple[str, ...] = ()
        no_yes = ""
        waits = state.pending is not None or state.agenda.waiting is not None
        if waits and asks_to_wait(state.request.message):
            return Reading(waits=True)
        small_talk = self._small_talk(state)
        if small_talk is not None:
            return small_talk
        if state.pending is not None:
            corrected = await self._read_correction(state, state.pending)
            if corrected is not None:
                return corrected
            approval = await read_approval(self.selections.decider, state.pending, state.request.message)
            consent, notes = approval.consent, approval.notes
            if not self.selections.able.reads:
                # A model that reads the message may still find the yes.
                no_yes = approval.why_no_yes
            # A refusal with more text may be a correction, which a model that reads it can tell.
            is_left_to_model = consent.answer == "no" and bool(consent.rest) and self.selections.able.reads
            if consent.answer != "neither" and not is_left_to_model:
                reading = Reading(answer=consent.answer, notes=notes)
                return await self._with_rest(state, reading, consent.rest, answered=state.pending.flow)
        reading = await self._by_rules(state, picked)
        if reading is None:
            reading = await self.selections.read(state, picked)
        no_yes = reading.no_yes or no_yes
        if no_yes:
            notes = (*notes, yes_not_taken(no_yes))
        return replace(reading, no_yes=no_yes, notes=(*notes, *reading.notes))

    async def read_part(self, state: TurnState) -> Reading:
        """Return what a part of a message says, which the model at work on a flow handed back."""
        return replace(await self.selections.read(state, ""), wanted=state.request.message)

    # --- by rules ------------------------------------------------------------

    def _small_talk(self, state: TurnState) -> Reading | None:
        """Read thanks where nothing is open, and the wish to hear the question again that waits."""
        message, conversation = state.request.message, state.request.conversation
        if state.pending is not None or state.agenda.waiting is not None:
            return Reading(repeats=True) if asks_to_repeat(message) else None
        if state.agenda.top is not None or conversation.question is not None:
            return None
        if not conversation.messages or not is_only_thanks(message):
            return None
        # An author may have a flow for thanks.
        flows = self.selections.selector.flow_registry.values()
        if any(is_named(flow, message) for flow in flows):
            return None
        return Reading(thanks=True)

    async def _read_correction(self, state: TurnState, pending: PendingCall) -> Reading | None:
        """Read a refusal that plainly names another value for the call that waits: "no, 60"."""
        top, message, context = state.agenda.top, state.request.message, reading_context(state.request)
        if top is None or top.name != pending.flow or top.is_final or not is_correction(message, context):
            return None
        answers = corrections(self.selections.inputs(state, top.name), top.answers, message, context)
        return await self._with_values(top, answers) if answers else None

    async def _by_rules(self, state: TurnState, picked: PickedOption) -> Reading | None:
        """Read a message that is a bare answer, agrees, cancels, or is for the model at work; None for any other."""
        top, waiting = state.agenda.top, state.agenda.waiting
        # The pending question comes last in the text, after the choice between flows, so it is answered first.
        if waiting is not None:
            reading = await self._answer_to(state, waiting)
        elif top is not None and not picked:
            reading = self._for_model(state, top)
        else:
            reading = None
        if reading is not None:
            return reading
        if picked == "off":
            return Reading(picked=picked)
        is_asked = state.pending is not None or state.request.conversation.question is not None
        at_work = top is not None and waiting is None
        # Where a question waits, the message is read first: only the reading finds an answer in the user's own words.
        if self.selections.model is None or not at_work or is_asked:
            return None
        return Reading(for_model=True, is_first=True)

    async def _answer_to(self, state: TurnState, waiting: OpenFlow) -> Reading | None:
        """Read the answer to the question of a waiting flow."""
        if not waiting.anew:
            reading = await self._values_of(state, waiting)
            if reading is not None:
                return reading
        consent = self._consent(state, waiting)
        proposed = _proposals(waiting, self.selections.missing_inputs(state, waiting))
        if proposed:
            return await self._answer_to_proposal(state, waiting, proposed, consent)
        if consent.answer == "no" and not consent.rest:
            return Reading(called_off=(waiting.key,))
        # A yes to a call that waits is read by what its question shows, and by nothing less.
        if consent.answer != "yes" or state.pending is not None:
            return None
        waits_for_yes = waiting.anew or known_values(state, waiting).keys() >= set(waiting.asks)
        if not waits_for_yes:
            return None
        return await self._with_rest(state, Reading(answer="yes"), consent.rest, answered=waiting.name)

    async def _answer_to_proposal(
        self, state: TurnState, waiting: OpenFlow, proposed: Mapping[str, Any], consent: Consent
    ) -> Reading | None:
        """Read a yes or a no to proposed values: a plain yes takes them, and what stands beside a no may be another."""
        message = state.request.message
        if consent.answer == "yes" and not consent.rest:
            return await self._with_values(waiting, proposed)
        if consent.answer == "yes":
            return None
        if consent.answer == "no" and not consent.rest:
            return Reading(proposal="no")
        instead = ""
        if consent.answer == "no":
            instead = consent.rest
        elif is_correction(message):
            instead = behind_correction(message)
        answers = bare_answer(self.selections.missing_inputs(state, waiting), instead, reading_context(state.request))
        if not answers:
            return None
        return await self._with_values(waiting, answers)

    async def _values_of(self, state: TurnState, waiting: OpenFlow) -> Reading | None:
        """Read a message that is a value that a waiting flow asked for, or several, and nothing else.

        Where a value fits two inputs that were asked for, a model reads which one is meant. A value with several
        readings is asked about.
        """
        message, missing = state.request.message, self.selections.missing_inputs(state, waiting)
        context = reading_context(state.request)
        several = several_answers(missing, waiting.choices, message)
        if len(several) > 1:
            return await self._read_several(waiting, several)
        fitting = fitting_inputs(missing, message, context)
        is_offered = any(value in waiting.choices.get(name, ()) for name, value in fitting.items())
        if self.selections.able.reads and len(fitting) > 1 and not is_offered:
            return None
        # The first that gives a value counts; a place ("the second") is none where the value itself is offered.
        answers: Mapping[str, Any] = {}
        if not is_offered:
            answers = named_reading(waiting, missing, message)
        answers = answers or bare_answer(missing, message, context)
        answers = answers or named_choice(waiting, missing, message)
        answers = answers or answers_in_order(self._open_inputs(state, waiting), message, context)
        if answers:
            return await self._with_values(waiting, answers)
        return await self._read_refused(state, waiting)

    async def _read_refused(self, state: TurnState, waiting: OpenFlow) -> Reading | None:
        """Read a message that gives no value at once: one to be refused with the reason, or several readings."""
        message, missing = state.request.message, self.selections.missing_inputs(state, waiting)
        context = reading_context(state.request)
        unfit = unfit_answer(missing, message, context)
        if unfit:
            refused = await self._with_values(waiting, unfit)
            if refused.grounded.wrong:
                return refused
        times = readings_of_time(missing, message, context, beside=self._open_inputs(state, waiting))
        if times:
            return await self._read_time(waiting, times)
        unclear = understood_answer(missing, message, context, whole=True)
        if not unclear:
            return None
        return Reading(grounded=Grounded(unclear=unclear))

    def _open_inputs(self, state: TurnState, waiting: OpenFlow) -> dict[str, Wanted]:
        """Return the inputs of a flow that have no value, those that it asks for first."""
        known = known_values(state, waiting)
        inputs = {**self.selections.missing_inputs(state, waiting), **self.selections.inputs(state, waiting.name)}
        return {name: want for name, want in inputs.items() if name not in known}

    async def _read_time(self, waiting: OpenFlow, times: Sequence[Mapping[str, str]]) -> Reading:
        """Read a time without its part of the day as the one that passes the checks: "half past two" at a desk by day.

        Where both or neither do, both are asked about.
        """
        readings = [await self._with_values(waiting, each) for each in times]
        passing: list[Reading] = []
        for reading in readings:
            if not (reading.grounded.wrong or reading.grounded.refusal or reading.notes):
                passing.append(reading)
        if len(times) == 1 or len(passing) == 1:
            return (passing or readings)[0]
        # The day, if there is one, is known all the same: only the half of the day is asked about.
        *days, time_input = times[0]
        unclear = {time_input: tuple(each[time_input] for each in times)}
        if not days:
            return Reading(grounded=Grounded(unclear=unclear))
        with_day = await self._with_values(waiting, {name: times[0][name] for name in days})
        return replace(with_day, grounded=with_day.grounded._replace(unclear=unclear))

    def _for_model(self, state: TurnState, top: OpenFlow) -> Reading | None:
        """Read whether a message answers the model that is at work on a flow, or calls the flow off."""
        consent = self._consent(state, top)
        if consent.answer == "no" and not consent.rest and not self.selections.able.answers:
            return Reading(called_off=(top.key,))
        if self.selections.model is None:
            return None
        asked = ConversationView.from_turn(state, self.selections.titles.flow).last_answer
        # The model that continues the flow asked this question, so it receives the answer.
        is_answer = consent.answer != "neither" and "?" in asked
        if not is_answer and not is_value(state.request.message, reading_context(state.request)):
            return None
        return Reading(for_model=True, is_first=bool(consent.rest))

    def _consent(self, state: TurnState, flow: OpenFlow) -> Consent:
        return read_consent(state.request.message, Asked(words=f"{flow.name} {self.selections.titles.flow(flow.name)}"))

    async def _with_values(self, waiting: OpenFlow, answers: Mapping[str, Any]) -> Reading:
        grounded, notes = await self.selections.check_values(waiting.name, Grounded(values=answers))
        return Reading(grounded=grounded, notes=notes)

    async def _read_several(self, waiting: OpenFlow, several: Sequence[Mapping[str, Any]]) -> Reading:
        """Return the reading of an answer that names several objects: the flow is wished for with each."""
        wishes: list[Wish] = []
        notes: tuple[str, ...] = ()
        for each in several:
            grounded, more = await self.selections.check_values(
                waiting.name, Grounded(values={**waiting.answers, **each})
            )
            wishes.append(Wish(waiting.name, grounded))
            notes += more
        return Reading(grounded=new_in(wishes[0].grounded, waiting), wishes=tuple(wishes), notes=notes)

    async def _with_rest(self, state: TurnState, reading: Reading, rest: str, *, answered: str) -> Reading:
        """Read the words beside a yes or a no: the flows that they ask for, if they surely do."""
        if not rest:
            return reading
        after = state
        if reading.answer == "no" and answered:
            after = replace(state, agenda=state.agenda.without_top())
        alone = replace(after, request=replace(state.request, message=rest), pending=None)
        granted = state.pending if reading.answer == "yes" else None
        try:
            finding = self.selections.select(replace(alone, granted=granted), "", waits=False)
            found = await run_within_budget(finding, what="recall")
        except Exception as error:  # noqa: BLE001 - whatever a memory or a selector fails with
            problem = f"no flow could be looked for: {describe_error(error)}"
            return replace(reading, rest=rest, notes=(*reading.notes, problem))
        wishes, notes = await self.selections.wishes(alone, found)
        reading = replace(reading, rest=rest, selection=found, notes=(*reading.notes, *notes), wanted=rest)
        if not self.selections.is_decisive(found, rest):
            return reading
        wishes = without_answered(wishes, answered, state.agenda.top)
        flows = self.selections.flows
        writes = any(flows.may_write(flows.find(wish.flow)) for wish in wishes)
        if writes and self.selections.is_denied(found, rest):
            return reading
        return replace(reading, wishes=wishes)


def picked_option(request: TurnRequest, *, beside: bool = False) -> PickedOption:
    """Read the answer to the last turn's question, if there was one, without a model.

    If a flow is open `beside` it, a number in the message may be meant for that.
    """
    question, message = request.conversation.question, request.message
    if question is None:
        return ""
    if ends(message, question.options):
        return "off"
    option = named_in(message, question.options)
    if option:  # a flow may be called "Cancel"
        return "one"
    if option is None and not beside and repeat_question(question, message) is not None:
        return "beyond"
    if read_consent(message) == ("no", ""):
        return "off"
    return "" if option is None else "none"


def _proposals(waiting: OpenFlow, asked: Mapping[str, object]) -> dict[str, Any]:
    """Return the values that the user was asked to confirm, by input: of the first input, and of others beside it."""
    first = next(iter(waiting.asks), "")
    single = {name: values[0] for name, values in waiting.choices.items() if len(values) == 1}
    return {name: value for name, value in single.items() if name == first or name in asked} if first in single else {}
