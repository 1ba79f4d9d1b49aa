"""Read a message by one selection: what recall found of it, or what a chat model read in it, with its values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

from jazz_select.agent.conversation import FlowKey, OpenFlow, PendingCall
from jazz_select.agent.conversation_view import ConversationView
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.reading.bare_answer import (
    agreed_offer,
    bare_answer,
    behind_correction,
    corrections,
    plain_answer,
    read_flags,
    thing_named,
    understood_answer,
)
from jazz_select.agent.reading.choice_answer import unknown_choice
from jazz_select.agent.reading.grounding import (
    NO_VALUES,
    Grounded,
    Refusal,
    Wanted,
    each_object,
    ground,
    is_choice,
    is_named,
    normalized,
    shown_inputs,
)
from jazz_select.agent.reading.reading import Able, PickedOption, Reading, Wish
from jazz_select.agent.reading.reading_context import reading_context
from jazz_select.agent.reading.value_checks import Checked, check_inputs
from jazz_select.agent.titles import Titles, shown_value
from jazz_select.agent.turn import TurnRequest, TurnState
from jazz_select.chat.client import ChatClient
from jazz_select.chat.decisions import Decider
from jazz_select.consent import asks_to_wait, is_courtesy, is_denied, names_all, says_also, says_only, says_twice
from jazz_select.errors import JazzSelectError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import storable_fields, storable_text
from jazz_select.phrases import QUESTION_MARKS, UNPARTED
from jazz_select.ports import has_capability
from jazz_select.selector.prompt import WITHIN, ConversationContext, Procedure, candidate_of
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.stage import is_likely
from jazz_select.stages import UserQuestion, is_none_suspected
from jazz_select.text import describe_error, in_words
from jazz_select.texts import say
from jazz_select.threads import in_thread, run_within_budget
from jazz_select.values import Decision, Reason, flow_id
from jazz_select.words import stems

_AT_ONCE: Final = 4_000
"""The longest text, in characters, in which values are looked for on the event loop."""
_NEAR: Final = 0.36
"""The lowest similarity at which a flow counts as sure in a catalogue too small for calibrated probabilities."""
_REPEATED: Final = 0.7
"""The similarity from which a message only repeats the request for a flow."""
_DECIDED: Final = (Reason.CONFIDENT, Reason.EXAMPLE)
"""Reasons for which recall itself decided."""
_STANDS: Final = (Reason.LLM, Reason.USER)
"""Reasons for which a choice reflects what the message means."""


FindProcedures = Callable[[Mapping[str, Any]], Callable[[BaseFlow], Procedure | None]]


@dataclass(frozen=True, kw_only=True)
class SelectionReader:
    """Reads messages that no rule could settle.

    Attributes:
        selector: Selects the flows that a message asks for.
        flows: The flows of the agent, and their inputs.
        titles: Their titles.
        decider: Answers single questions about a message; None without a decision model.
        asks_to_begin: Whether a flow that may change something begins only after a yes, if no model chose it.
        model: The agent's model. It reads messages if the selector has no model.
        speaks: Its role in the prompt.
        procedures: Returns what finds the procedure of a flow, with tools as a context fills them. None without them.
    """

    selector: FlowSelector
    flows: KnownFlows
    titles: Titles
    decider: Decider | None
    asks_to_begin: bool
    model: ChatClient | None
    speaks: str
    procedures: FindProcedures | None = None

    @cached_property
    def able(self) -> Able:
        """What the agent can do with a message."""
        has_model = self.selector.has_model or self.model is not None
        reads = has_model and has_capability(self.selector, "situation")
        return Able(reads=reads, answers=self.model is not None)

    async def read(self, state: TurnState, picked: PickedOption) -> Reading:
        """Read a message that no rule could settle, by a selection."""
        try:
            found = await run_within_budget(self.select(state, picked), what="recall")
        except Exception as error:  # noqa: BLE001 - whatever a memory or a selector fails with
            own = error if isinstance(error, JazzSelectError) else None
            return Reading(
                source="recall",
                picked=picked,
                error=own,
                problem=f"no flow could be looked for: {describe_error(error)}",
            )
        wishes, notes = await self.wishes(state, found)
        reading = Reading(source="recall", picked=picked, wishes=wishes, selection=found, notes=notes)
        if found.decision.raw_reply is not None and found.decision.reason in {Reason.LLM, Reason.NONE}:
            return await self._as_read(state, reading, found.decision)
        return await self._as_recalled(state, reading, found)

    async def _as_read(self, state: TurnState, reading: Reading, decision: Decision) -> Reading:
        """Complete the reading of a chat model."""
        message = state.request.message
        reading = await self._with_called_off(state, replace(reading, source="model"), decision)
        off = reading.called_off
        if state.pending is not None and decision.confirmed:
            is_off = any(flow.key in off for flow in state.agenda.all_listed(state.pending))
            answer, no_yes = _read_confirmation(state.pending, decision, message, is_off=is_off)
            reading = replace(reading, answer=answer, no_yes=no_yes)
        if reading.answer == "yes" and state.pending is not None:
            return replace(reading, wishes=without_answered(reading.wishes, state.pending.flow, state.agenda.top))
        if state.pending is not None:
            texts: list[str] = []
            for wish in reading.wishes:
                texts += [value for value in wish.grounded.values.values() if isinstance(value, str)]
            reading = replace(reading, is_only=says_only(message), is_more=says_also(message, texts))
        remaining = [flow for flow in state.agenda.flows if flow.key not in off]
        if not remaining or state.agenda.waiting is None:
            return reading
        waiting = remaining[-1]
        # Values alone, without a wish or an answer, are for the flow that waits.
        is_only_values = not (reading.wishes or off or reading.answer in {"yes", "no"})
        key = flow_id(waiting.name)
        has_values = bool(decision.values.get(key) or decision.unclear.get(key))
        if waiting.name in reading.names or (is_only_values and has_values):
            return await self._with_inputs(state, reading, waiting, chosen=True)
        return reading

    async def _with_called_off(self, state: TurnState, reading: Reading, decision: Decision) -> Reading:
        """Add which open flows are called off: of several wishes for a flow those that the values or the words name."""
        off: list[FlowKey] = []
        unclear: list[str] = []
        notes: list[str] = []
        names = {flow_id(flow.name): flow.name for flow in state.agenda.flows}
        for called_off_id in decision.called_off:
            if called_off_id not in names:
                continue
            name = names[called_off_id]
            alike = [flow for flow in reversed(state.agenda.flows) if flow.name == name]
            if len(alike) > 1 and not names_all(state.request.message):
                alike = _named_among(alike, await self._ground_inputs(state, name, decision, notes))
                if not alike:
                    unclear.append(name)
            off += [flow.key for flow in alike]
        notes = [*reading.notes, *notes]
        return replace(reading, called_off=tuple(off), off_unclear=tuple(unclear), notes=tuple(notes))

    async def _as_recalled(self, state: TurnState, reading: Reading, found: FlowSelectionResult) -> Reading:
        """Complete a reading without a chat model: recall, a decision model, or the user's own choice."""
        waiting, asked, message = state.agenda.waiting, state.request.conversation.question, state.request.message
        question = found.decision.question
        if question is not None:
            top = state.agenda.top
            reading = replace(
                reading,
                question=question,
                not_asked=_why_not_asked(state.request, question),
                is_elsewhere=top is not None and _is_elsewhere(found, question, top),
            )
            if waiting is None:
                return reading
            return await self._with_inputs(state, reading, waiting, chosen=False)
        if asked is not None and found.decision.reason is Reason.USER:
            reading = replace(reading, wanted=asked.request)
        is_sure = self.is_decisive(found, message)
        if is_sure and waiting is not None and found.names != [waiting.name]:
            # A word that an example happens to have, such as the name of a pet, is no wish.
            is_sure = not self._is_one_word_answer(state, waiting, found)
        reading = replace(reading, is_sure=is_sure)
        if waiting is not None and (not is_sure or found.names == [waiting.name]):
            reading = await self._with_inputs(state, reading, waiting, chosen=is_sure)
            understood = self.able.reads or reading.picked or reading.says_values or is_courtesy(message)
            return replace(reading, is_understood=bool(understood))
        if not is_sure:
            return reading
        return await self._with_sure_wishes(state, reading, found)

    async def _with_sure_wishes(self, state: TurnState, reading: Reading, found: FlowSelectionResult) -> Reading:
        """Complete the reading of wishes that recall is sure of.

        Recall finds the topic of a message, but not whether it is denied, supposed or only reported. So a flow that may
        change something is held for a yes if no model read the message. Where no call needs a yes, only a denial is
        asked about.
        """
        message = state.request.message
        writes = any(self.flows.may_write(self.flows.find(each)) for each in found.names)
        asks = writes and (self.asks_to_begin or self.is_denied(found, message))
        if not self.able.reads:
            reading = await self._with_things(state, reading)
        if asks and not _was_read(found, message):
            return replace(reading, is_held=True)
        return await self._read_for(state, reading, found.names)

    async def _with_things(self, state: TurnState, reading: Reading) -> Reading:
        """Fill the input of a flow whose example has the form of the single identifier in the message."""
        wishes: list[Wish] = []
        for wish in reading.wishes:
            wanted = self.inputs(state, wish.flow)
            if not wanted:
                wishes.append(Wish(wish.flow))
                continue
            examples = {name: want.declared.example for name, want in wanted.items() if want.declared is not None}
            checked = await self._check_values(wish.flow, thing_named(wanted, examples, state.request.message))
            grounded = Grounded(values=checked.values, wrong=checked.wrong, refusal=checked.refusal)
            wishes.append(Wish(wish.flow, grounded))
        return replace(reading, wishes=tuple(wishes))

    def is_decisive(self, found: FlowSelectionResult, message: str) -> bool:
        """Whether a selection is certain enough to begin its flows."""
        return bool(found.chosen_flows) and (_was_read(found, message) or is_sure(found))

    def is_denied(self, found: FlowSelectionResult, message: str) -> bool:
        """Whether a message that no model read may say that the selected flows are not to be begun."""
        if _was_read(found, message):
            return False
        return any(is_denied(message, (each.name, each.title, *each.aliases)) for each in found.chosen_flows)

    async def select(self, state: TurnState, picked: PickedOption, *, waits: bool = True) -> FlowSelectionResult:
        """Select by the message alone if that is enough or required, else with the earlier turns.

        A model reads both at once, with the open flows. Recall with earlier turns would find the flow just done for
        every "thanks" that follows, so such a result does not count if the flow ran in them, or if it is manual and the
        user was told so. If the last turn asked which flow is meant, an answer decides; any other message is read with
        the earlier request.
        """
        request = state.request
        message, context, episodes = request.message, request.context, request.conversation.episodes
        asked = request.conversation.question
        choose = self.selector.select
        if picked:
            return await choose(message, context=context, asked=asked)
        if self.able.reads:
            situation = self._situation(state, message)
            return await choose(message, episode_summaries=episodes, context=context, situation=situation, asked=asked)
        within = WITHIN if has_capability(self.selector, "situation") else None
        own = await choose(message, context=context, situation=within)
        if not episodes and asked is None:
            return own
        is_answer = waits and state.agenda.waiting is not None and asked is None
        if is_answer or self.is_decisive(own, message):
            return own
        found = await choose(message, episode_summaries=episodes, context=context, situation=within, asked=asked)
        if own.decision.question is not None and not self.is_decisive(found, message):
            return own
        over = set(request.conversation.done)
        for names in request.conversation.ran:
            for name in names:
                flow = self.flows.find(name)
                if flow is not None and flow.manual:
                    over.add(name)
        return found if over.isdisjoint(found.names) else own

    # --- values --------------------------------------------------------------

    async def wishes(self, state: TurnState, found: FlowSelectionResult) -> tuple[tuple[Wish, ...], tuple[str, ...]]:
        """Return the chosen flows, each as often as a model read different objects for it, and notes."""
        wishes: list[Wish] = []
        notes: list[str] = []
        for name in found.names:
            objects = await self._ground_inputs(state, name, found.decision, notes)
            if len(objects) == 1 and objects[0].values and self.flows.may_write(self.flows.find(name)):
                # A small number may be the count itself: "twice", read as a quantity of 2.
                counts = [value for value in objects[0].values.values() if isinstance(value, int) and 1 < value < 10]  # noqa: PLR2004
                if not counts and says_twice(state.request.message):
                    objects = [objects[0]._replace(times=2)]
            for grounded in objects:
                wishes.append(Wish(name, grounded))
        return tuple(wishes), tuple(notes)

    async def _ground_inputs(self, state: TurnState, name: str, decision: Decision, notes: list[str]) -> list[Grounded]:
        """Return what a model read for the inputs of a flow, as far as the user said it, once for each object."""
        flow_key = flow_id(name)
        wanted = self.inputs(state, name)
        unclear = decision.unclear.get(flow_key, {})
        objects: list[Mapping[str, Any]] = []
        for values in (decision.values.get(flow_key, {}), *decision.repeated.get(flow_key, ())):
            objects.extend(each_object(values, wanted))
        if not unclear and not any(objects):
            return [Grounded(every=flow_key in decision.every)]
        # What the agent proposed is no word of the user's: only a plain yes takes it over, or the user's own statement.
        # Of several choices, each was said by the user.
        offered: list[Any] = []
        for flow in state.agenda.flows:
            offered.extend(values[0] for values in flow.choices.values() if len(values) == 1)
        view = ConversationView.from_turn(state, self.titles.flow)
        heard = (*view.user_messages, *agreed_offer(view.last_answer, state.request.message))
        grounded: list[Grounded] = []
        context = reading_context(state.request)
        for values in objects:
            # Looking for many values in a long message would block the event loop for too long.
            if sum(map(len, heard)) > _AT_ONCE:
                found = await in_thread(ground, values, unclear, wanted, heard, offered, context)
            else:
                found = ground(values, unclear, wanted, heard, offered, context)
            found = found._replace(wrong=_not_chosen(found, values, wanted, state))
            checked, more = await self.check_values(name, found)
            refused = [f"{name}: {each} does not count, since {why}" for each, why in found.refused.items()]
            for note in (*more, *refused):
                if note not in notes:
                    notes.append(note)
            _add_object(grounded, checked)
        return grounded

    async def _with_inputs(self, state: TurnState, reading: Reading, waiting: OpenFlow, *, chosen: bool) -> Reading:
        """Add what a message says of the inputs of a waiting flow that it goes on with, or that may mean it."""
        reading = replace(reading, wishes=_own_first(reading.wishes, waiting))
        reading, own = await self._objects_for(state, reading, waiting)
        alike = [flow for flow in state.agenda.flows if flow.name == waiting.name]
        if len(alike) > 1 or len(own) > 1:
            reading = _with_objects_named(reading, waiting, own)
        asked = ConversationView.from_turn(state, self.titles.flow).last_answer
        wanted = self.flows.asked_inputs(waiting)
        flags, notes = await read_flags(self.decider, wanted, waiting.asks, asked=asked, message=state.request.message)
        reading = replace(reading, notes=(*reading.notes, *notes))
        unclear = {name: values for name, values in own[0].unclear.items() if name not in flags}
        grounded = own[0]._replace(values={**own[0].values, **flags}, unclear=unclear)
        grounded = new_in(grounded, waiting, state.request.message)
        has_none = not (grounded.values or grounded.taken_back or grounded.wrong or grounded.unclear)
        if has_none and len(own) == 1 and self.model is None:
            # No model of the agent reads values, so the rules do.
            grounded, notes = await self._read_plain_values(state, waiting, reading, grounded, chosen=chosen)
            reading = replace(reading, notes=(*reading.notes, *notes))
        if _names_another_wish(state, waiting, grounded, is_yes=reading.answer == "unclear"):
            # What is for the other wish takes no place of this one.
            grounded = NO_VALUES
        elif len(own) == 1 and _is_one_more(state, waiting, grounded):
            return _with_one_more(reading, waiting, grounded)
        return replace(reading, grounded=grounded)

    async def _read_plain_values(
        self, state: TurnState, waiting: OpenFlow, reading: Reading, grounded: Grounded, *, chosen: bool
    ) -> tuple[Grounded, tuple[str, ...]]:
        """Return what rules read of the inputs of a waiting flow: values, readings of one, or that it is no choice."""
        plain = self._plain_values(state, waiting, reading, chosen=chosen)
        message, missing = state.request.message, self.missing_inputs(state, waiting)
        is_asked_to_begin = not waiting.asks and state.pending is None
        is_statement = QUESTION_MARKS.isdisjoint(message) and not behind_correction(message)
        if not plain and is_asked_to_begin and is_statement:
            # A yes to begin may give what would be asked for next: "yes, A-17".
            plain = bare_answer(self.inputs(state, waiting.name), message, reading_context(state.request))
        is_repeated = self._repeats(state, waiting, reading)
        if not plain and not (chosen and is_repeated):
            unclear = understood_answer(missing, message, reading_context(state.request), whole=False)
            grounded = grounded._replace(unclear=unclear)
        wrong: Mapping[str, str] = {}
        if not plain and not grounded.unclear and not is_repeated:
            wrong = unknown_choice(missing, message)
        return await self.check_values(waiting.name, grounded._replace(values=plain, wrong=wrong))

    async def _objects_for(
        self, state: TurnState, reading: Reading, waiting: OpenFlow
    ) -> tuple[Reading, list[Grounded]]:
        """Return what a model read for a waiting flow, once for each object; it is asked if none has read it yet."""
        own = [wish.grounded for wish in reading.wishes if wish.flow == waiting.name]
        if not own and reading.selection is not None:
            notes: list[str] = []
            own = await self._ground_inputs(state, waiting.name, reading.selection.decision, notes)
            reading = replace(reading, notes=(*reading.notes, *notes))
        if own and own[0] != NO_VALUES:
            return reading, own
        read = await self._read_for(state, replace(reading, wishes=(Wish(waiting.name),)), [waiting.name])
        return replace(reading, notes=read.notes), [wish.grounded for wish in read.wishes]

    def _plain_values(
        self, state: TurnState, waiting: OpenFlow, reading: Reading, *, chosen: bool
    ) -> Mapping[str, Any]:
        """Return the values that rules find in a message: corrections, or the answer to the question."""
        message, missing, found = state.request.message, self.missing_inputs(state, waiting), reading.selection
        context = reading_context(state.request)
        corrected = corrections(self.inputs(state, waiting.name), waiting.answers, message, context)
        if corrected:
            return corrected
        declared = next((want.declared for want in missing.values()), None)
        if declared is not None and declared.question:
            # After an author's question every word may be a value, unless it repeats the request.
            is_other = self._repeats(state, waiting, reading)
        else:
            is_other = chosen or _names_a_flow(found, message)
        if is_other:
            return {}
        return plain_answer(missing, message, context)

    def _is_one_word_answer(self, state: TurnState, waiting: OpenFlow, found: FlowSelectionResult) -> bool:
        """Whether a message is one word after an author's question, which recall only finds likely to mean a flow."""
        message = state.request.message
        if len(message.split()) != 1 or UNPARTED.search(message):
            return False
        if _is_decided(found.decision) or _was_read(found, message) or _names_a_flow(found, message):
            return False
        declared = next((want.declared for want in self.missing_inputs(state, waiting).values()), None)
        return declared is not None and bool(declared.question)

    def _repeats(self, state: TurnState, waiting: OpenFlow, reading: Reading) -> bool:
        """Whether a message only repeats the request for a flow."""
        if is_named(self.titles.find(waiting.name), state.request.message):
            return True
        return _nearness(reading.selection, waiting) >= _REPEATED

    async def _read_for(self, state: TurnState, reading: Reading, names: Sequence[str]) -> Reading:
        """Have a model read the inputs of these flows, if no model has read the message yet and they take any."""
        found = reading.selection
        was_asked = found is not None and (found.decision.attempts or found.decision.error)
        if was_asked or not (self.model is not None or self.selector.has_model):
            return reading
        message = reading.wanted or state.request.message
        open_names = {flow.name for flow in state.agenda.flows}
        takes: list[BaseFlow] = []
        for name in names:
            flow = self.flows.find(name)
            if flow is not None and (flow.name in open_names or self._lacks_inputs(flow, message, state)):
                takes.append(flow)
        if not takes:
            return reading
        situation = self._situation(state, message)
        if situation is None:
            return reading
        given = [candidate_of(flow).as_metadata() for flow in takes]
        # It is known which flow is meant: only the inputs are read, so nothing else of the situation is shown.
        situation = replace(situation, under_way=[], confirms="", done=(), growing=None, begins=_refuse_all, speaks="")
        situation = replace(situation, procedures=None, calls=())
        selector = self.selector
        if self.model is not None:
            selector = FlowSelector(None, selector.flow_registry)
        selecting = selector.select(state.request.message, given, situation=situation)
        read = await run_within_budget(selecting, what="its inputs")
        notes: list[str] = []
        wishes: list[Wish] = []
        for wish in reading.wishes:
            if wish.flow not in names:
                wishes.append(wish)
                continue
            for grounded in await self._ground_inputs(state, wish.flow, read.decision, notes):
                wishes.append(Wish(wish.flow, wish.grounded if grounded == NO_VALUES else grounded))
        return replace(reading, wishes=tuple(wishes), notes=(*reading.notes, *notes))

    def missing_inputs(self, state: TurnState, waiting: OpenFlow) -> dict[str, Wanted]:
        """Return the inputs that a waiting flow asks for and does not have, in the order of asking."""
        known = known_values(state, waiting)
        return {name: each for name, each in self.flows.asked_inputs(waiting).items() if name not in known}

    def inputs(self, state: TurnState, name: str) -> dict[str, Wanted]:
        """Return the inputs that the user may give for a flow, in this state of the conversation."""
        waiting = next((each for each in state.agenda.flows if each.name == name and each.status != "queued"), None)
        return self.flows.inputs(name, state.request.context, waiting, state.request.conversation.called)

    def _lacks_inputs(self, flow: BaseFlow, message: str, state: TurnState) -> bool:
        """Whether a message must be read for a flow's inputs. A message that only names it gives no optional input."""
        return self.flows.lacks(flow, state.request.context, optional=not is_named(flow, message))

    def _situation(self, state: TurnState, message: str) -> ConversationContext | None:
        if self.model is None and not self.able.reads:
            return None
        view = ConversationView.from_turn(state, self.titles.flow, agreed=state.granted is not None)

        def inputs(flow_id: str) -> tuple[str, ...]:
            flow = self.selector.flow_registry.get(flow_id)
            if flow is None:
                return ()
            return shown_inputs(self.inputs(state, flow.name))

        procedures = self._procedures(state)
        return replace(
            view.situation(),
            begins=self._begin_rule(state, message),
            inputs=inputs,
            reader=self.model,
            speaks=self.speaks,
            procedures=procedures,
            calls=view.calls_by_turn() if procedures is not None else (),
        )

    def _procedures(self, state: TurnState) -> Callable[[str], Procedure | None] | None:
        """Return what finds the procedure of a flow by its id, if the model that reads may begin it."""
        if self.procedures is None:
            return None
        procedure_of, flows = self.procedures(state.request.context), self.selector.flow_registry

        def procedure(flow_id: str) -> Procedure | None:
            flow = flows.get(flow_id)
            if flow is None:
                return None
            return procedure_of(flow)

        return procedure

    def _begin_rule(self, state: TurnState, message: str) -> Callable[[str, bool], bool]:
        """Return the rule for which flows may begin if no chat model has read the message."""

        def begins(flow_id: str, likely: bool) -> bool:  # noqa: FBT001 - as the selector calls it
            flow = self.selector.flow_registry.get(flow_id)
            if flow is None or self._lacks_inputs(flow, message, state):
                return False
            if is_named(flow, message):
                return True
            return likely and not (self.asks_to_begin and self.flows.may_write(flow))

        return begins

    async def _check_values(self, name: str, values: Mapping[str, Any]) -> Checked:
        """Apply the author's checks of a flow to these values, if there are any."""
        checking = check_inputs(self.flows.find(name), values, self.flows.tools)
        return await run_within_budget(checking, what="a check")

    async def check_values(self, name: str, grounded: Grounded) -> tuple[Grounded, tuple[str, ...]]:
        """Apply the author's checks to the values."""
        found = await self._check_values(name, grounded.values)
        wrong = {**grounded.wrong, **found.wrong}
        checked = grounded._replace(values=found.values, wrong=wrong, refusal=found.refusal)
        return checked, tuple(found.notes.values())


def is_sure(result: FlowSelectionResult) -> bool:
    """Whether a stage was sure of the first selected flow, or recall finds it likely.

    Without a chat model, recall returns the nearest flow for any message, even "yes" or "thanks". If the catalogue is
    too small for calibrated probabilities, a flow is likely only if it is the single nearest one and lies near the
    request.
    """
    decision, first = result.decision, result.chosen_flows[0]
    if _is_decided(decision):
        return True
    for candidate in decision.candidates:
        if candidate.flow_id == first.id and candidate.confidence is not None:
            return is_likely(candidate.confidence, decision.p_none)
    similarities = [candidate.scores.get("dense", 0.0) for candidate in decision.candidates]
    return similarities[0] >= _NEAR and similarities[0] == max(similarities)


def _is_decided(decision: Decision) -> bool:
    """Whether a decision model or recall itself was sure, within the error budget."""
    by_decider = any(stage.name == "decider" and stage.outcome == "decided" for stage in decision.stages)
    return by_decider or decision.reason in _DECIDED


def without_answered(wishes: Sequence[Wish], answered: str, top: OpenFlow | None) -> tuple[Wish, ...]:
    """Return the wishes without the flow that was answered, unless it is wanted for another object.

    "yes, and 20 to Kim" asks for the same flow again; "yes, go on with the transfer" does not.
    """
    own = top if top is not None and top.name == answered else None
    remaining: list[Wish] = []
    for wish in wishes:
        is_new = bool(wish.grounded.values) and (own is None or bool(new_in(wish.grounded, own).values))
        if wish.flow != answered or is_new:
            remaining.append(wish)
    return tuple(remaining)


def new_in(grounded: Grounded, waiting: OpenFlow, message: str = "") -> Grounded:
    """Return what is new to a waiting flow of what was said of its inputs.

    Several values for an input that is known are new only if the `message` itself has one of them.
    """
    folded = message.casefold()
    values: dict[str, Any] = {}
    for name, value in grounded.values.items():
        if waiting.answers.get(name) == value:
            continue
        if name in waiting.asks or not _is_found(waiting, name, value):
            values[name] = value
    unclear: dict[str, tuple[Any, ...]] = {}
    for name, candidates in grounded.unclear.items():
        if name not in waiting.answers or any(str(value).casefold() in folded for value in candidates):
            unclear[name] = candidates
    withdrawn = tuple(name for name in grounded.taken_back if name in waiting.answers)
    return grounded._replace(values=values, unclear=unclear, taken_back=withdrawn, refused={})


def _own_first(wishes: Sequence[Wish], waiting: OpenFlow) -> tuple[Wish, ...]:
    """Return the wishes with the one that a waiting flow is for before the others for that flow."""
    ordered = list(wishes)
    places = [place for place, wish in enumerate(wishes) if wish.flow == waiting.name]
    for place in places:
        if waiting.has(wishes[place].grounded.values):
            ordered.insert(places[0], ordered.pop(place))
            break
    return tuple(ordered)


def _names_another_wish(state: TurnState, waiting: OpenFlow, grounded: Grounded, *, is_yes: bool) -> bool:
    """Whether values are those of another open wish for the flow that waits: all of them, or some beside a yes."""
    if not grounded.values:
        return False
    changed = {**waiting.answers, **storable_fields(grounded.values)[0]}
    for other in state.agenda.flows:
        if other is waiting or other.name != waiting.name:
            continue
        if other.answers == changed or (is_yes and other.has(grounded.values)):
            return True
    return False


def known_values(state: TurnState, waiting: OpenFlow) -> dict[str, Any]:
    """Return the values that a waiting flow has: its answers, and the caller's context."""
    return {**waiting.answers, **state.request.context}


def _add_object(grounded: list[Grounded], found: Grounded) -> None:
    """Add what was said for one object; the same once more is counted, and no object of its own."""
    for place, known in enumerate(grounded):
        if known._replace(times=1) == found:
            if found.values:
                grounded[place] = known._replace(times=known.times + 1)
            return
    grounded.append(found)


def _with_objects_named(reading: Reading, waiting: OpenFlow, own: Sequence[Grounded]) -> Reading:
    """Add the objects that a message names for a flow that it does not choose: each is a wish, told by its values."""
    if waiting.name in reading.names:
        return reading
    named = tuple(Wish(waiting.name, each) for each in own if each.values or len(own) > 1)
    return replace(reading, wishes=(*named, *reading.wishes))


def _with_one_more(reading: Reading, waiting: OpenFlow, grounded: Grounded) -> Reading:
    """Return the reading of a message whose values are for another object than that of the flow that waits."""
    others = [each for each in reading.wishes if each.flow != waiting.name]
    return replace(reading, grounded=NO_VALUES, wishes=(Wish(waiting.name), Wish(waiting.name, grounded), *others))


def _is_one_more(state: TurnState, waiting: OpenFlow, grounded: Grounded) -> bool:
    """Whether values are said to be for one more object beside that of the flow that waits: "and also 30 to Lee".

    A number alone ("also make it 60") tells no other object.
    """
    values = storable_fields(grounded.values)[0]
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    return waiting.is_for_another(texts) and says_also(state.request.message, [*texts.values()])


def _named_among(flows: Sequence[OpenFlow], named: Sequence[Grounded]) -> list[OpenFlow]:
    """Return those of several wishes for a flow that have the values that were named, all of them or else some."""
    found: list[OpenFlow] = []
    for grounded in named:
        values = storable_fields(grounded.values)[0]
        with_all = [flow for flow in flows if flow.has(values)]
        with_some = [flow for flow in flows if flow.count_shared(values)]
        if with_all:
            found += with_all
        elif len(with_some) == 1:
            found += with_some
    return found


def _read_confirmation(
    pending: PendingCall, decision: Decision, message: str, *, is_off: bool
) -> tuple[Literal["yes", "no", "unclear"], str]:
    """Return what a model read of the answer to the call that waits, and why a yes does not count.

    The answer is "unclear" for a yes that does not count, and for a refusal that only asks for time.
    """
    quote = decision.quote
    if decision.confirmed == "no":
        return ("unclear" if asks_to_wait(quote) else "no"), ""
    if not quote:
        return "unclear", "the reader quotes no words for it"
    consent, why = pending.answer_in(message, quote=quote)
    # What the same message calls off is not approved by it.
    if consent.answer != "yes" or is_off:
        return "unclear", why
    return "yes", why


def _not_chosen(
    found: Grounded, values: Mapping[str, Any], wanted: Mapping[str, Wanted], state: TurnState
) -> dict[str, str]:
    """Return what to tell the user of values that are none of the choices of an input that was asked for.

    So the question comes again at once, and no model is asked what to say to that.
    """
    waiting, message = state.agenda.waiting, normalized(state.request.message)
    if waiting is None:
        return {}
    wrong: dict[str, str] = {}
    for name, why in found.refused.items():
        if why is not Refusal.NOT_TAKEN or name not in waiting.asks or not is_choice(wanted[name]):
            continue
        # A model may have made the value up: only what the user said is refused with a reason.
        if normalized(str(values[name])) in message:
            wrong[name] = say("wrong_value", value=shown_value(values[name]), input=in_words(name))
    return wrong


def _refuse_all(flow_id: str, likely: bool) -> bool:  # noqa: ARG001, FBT001 - as the selector calls it
    """Refuse every flow: a model must read the message."""
    return False


def _was_read(found: FlowSelectionResult, message: str) -> bool:
    """Whether the meaning is certain: a chat model read the message, or the user chose or named a flow."""
    return found.decision.reason in _STANDS or is_named(found.chosen_flows[0], message)


def _is_found(active: OpenFlow, name: str, value: object) -> bool:
    """Whether the facts of a flow already hold this value, by name or within a text, so that it corrects nothing."""
    facts: dict[str, Any] = {}
    for part in active.parts.values():
        facts.update(part.own)
    if name in facts:
        return facts[name] == value
    texts = [fact for fact in facts.values() if isinstance(fact, str)]
    wanted = stems(storable_text(value))
    return bool(wanted) and set(stems(" ".join(texts))).issuperset(wanted)


def _nearness(found: FlowSelectionResult | None, active: OpenFlow) -> float:
    if found is not None:
        for candidate in found.decision.candidates:
            if candidate.flow_name == active.name:
                return candidate.scores.get("dense", 0.0)
    return 0.0


def _names_a_flow(found: FlowSelectionResult | None, message: str) -> bool:
    if found is None:
        return False
    words = set(stems(message))
    names = [str(candidate.get("flow_name", "")) for candidate in found.candidates]
    return any(not words.isdisjoint(stems(name)) for name in names)


def _why_not_asked(request: TurnRequest, question: UserQuestion) -> str:
    """Return why a selector's question must not be asked, or "".

    The same question is not asked in two successive turns, except for one repeat after a number that no option has.
    """
    before = request.conversation.question
    names = [option.flow_name for option in question.options]
    if before is not None and (before.again or not question.again):
        names_before = {option.flow_name for option in before.options}
        if names_before == set(names):
            return f"which of {', '.join(names)} is meant was asked before, and is still not clear"
    if is_courtesy(request.message):
        return "it is thanks or a greeting"
    return ""


def _is_elsewhere(found: FlowSelectionResult, question: UserQuestion, active: OpenFlow) -> bool:
    """Whether a message is about other flows than the active one; else it goes to the active flow.

    Recall must know of no reason to suspect that no flow is meant. A number that no option has is about the question if
    the active flow waits, because its inputs did not accept the number.
    """
    if question.again and active.status != "active":
        return True
    p_none = found.decision.p_none
    if p_none is None or is_none_suspected(p_none):
        return False
    return active.name not in {option.flow_name for option in question.options}
