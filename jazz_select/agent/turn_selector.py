"""Find the flows of a message: the flow that waits for it as an answer, or the flows that match it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

from jazz_select.agent.answer import called_off, left_open, left_undone, shown_value, too_late_text
from jazz_select.agent.conversation import OpenFlow, PendingCall, after_selection
from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.reading.bare_answer import (
    approval_heard,
    bare_answer,
    corrections,
    flags_heard,
    is_value,
    plain_answer,
    thing_named,
)
from jazz_select.agent.reading.grounding import NOTHING_SAID, Grounded, Wanted, ground, is_named, same, shown_inputs
from jazz_select.agent.turn import ConversationView, FlowStack, TurnRequest, TurnWork, Way
from jazz_select.chat.client import ChatClient
from jazz_select.consent import Asked, is_courtesy, is_denied, read_consent
from jazz_select.errors import JazzSelectError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import storable_fields, storable_text
from jazz_select.ports import has_capability
from jazz_select.selector.asking import again, ends, named_in
from jazz_select.selector.prompt import WITHIN, Situation, candidate_of
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


def is_sure(result: FlowSelectionResult) -> bool:
    """Whether a stage was sure of the first selected flow, or recall finds it likely.

    Without a chat model, recall returns the nearest flow for any message, even "yes" or "thanks". If the catalogue is
    too small for calibrated probabilities, a flow is likely only if it is the single nearest one and lies near the
    request.
    """
    decision, first = result.decision, result.chosen_flows[0]
    by_decider = any(each.name == "decider" and each.outcome == "decided" for each in decision.stages)
    if by_decider or decision.reason in _DECIDED:
        return True
    confidence = next((each.confidence for each in decision.candidates if each.flow_id == first.id), None)
    if confidence is not None:
        return is_likely(confidence, decision.p_none)
    near = [each.scores.get("dense", 0.0) for each in decision.candidates]
    return near[0] >= _NEAR and near[0] == max(near)


_REPEATED: Final = 0.7
"""The similarity from which a message only repeats the request for a flow."""
_DECIDED: Final = (Reason.CONFIDENT, Reason.EXAMPLE)
"""Reasons for which recall itself decided."""
_Heard = Literal["", "one", "none", "off", "beyond"]
"""How a message answers the question: "one" of the flows, "none" of them, "off" to cancel, "beyond" for a number that
no option has, or "" for anything else."""
_STANDS = (Reason.LLM, Reason.USER)
"""Reasons for which a choice reflects what the message means."""


@dataclass(frozen=True, kw_only=True)
class TurnSelector:
    """Selects the flows to run in each turn.

    Attributes:
        running: Runs them.
        model: The agent's model. It answers messages that no flow fits, even while a flow is open, and reads messages
            if the selector has no model.
        speaks: Its role in the prompt.
    """

    running: TurnFlows
    model: ChatClient | None
    speaks: str

    @cached_property
    def _reads(self) -> bool:
        has_model = self.running.selector.has_model or self.model is not None
        return has_model and has_capability(self.running.selector, "situation")

    async def select(self, request: TurnRequest) -> TurnWork:
        """Return the flows of a message and what to do with them. Failures are reported in the result."""
        begun = self._without_gone(request)
        works = begun.stack.top is not begun.stack.waiting
        answer = _answer_heard(request, beside=works)
        begun, at_once = await self._settled(begun)
        if at_once is None:
            at_once = await self._at_once(begun, answer)
        if at_once is not None:
            return at_once
        waits = begun.pending is not None or request.conversation.question is not None
        if self.model is not None and works and not waits:
            return replace(begun, way="run", hears_first=True)
        return await self._looked_for(begun, answer)

    async def handed_back(self, work: TurnWork) -> TurnWork:
        """Return the flows for the part of a message that the model at work on a flow handed back."""
        wish = TurnWork(
            request=replace(work.request, message=work.handed_back),
            stack=work.stack,
            wanted=work.handed_back,
            runs=work.runs,
            chain=work.chain,
            calls=work.calls,
            called=work.called,
            notes=work.notes,
        )
        return replace(await self._looked_for(wish, ""), request=work.request)

    async def _looked_for(  # noqa: PLR0911 - one way for each kind of message
        self, begun: TurnWork, answer: _Heard
    ) -> TurnWork:
        """Select flows for a message that no rule could settle, and act on the result."""
        request, active, waiting = begun.request, begun.stack.top, begun.stack.waiting
        try:
            found = await run_within_budget(self._found(begun, answer), what="recall")
        except Exception as error:  # noqa: BLE001 - whatever a memory or a selector fails with
            return replace(
                begun,
                way="ask" if waiting else "open" if active is None else "run",
                error=error if isinstance(error, JazzSelectError) else None,
                reason=f"no flow could be looked for: {describe_error(error)}",
            )
        begun = await self._with_said(replace(begun, selection=found), found.decision)
        if found.decision.raw_reply is not None and found.decision.reason in {Reason.LLM, Reason.NONE}:
            return await self._as_chosen(begun, found)
        if found.decision.question is not None:
            return await self._left_open(begun, found.decision.question)
        asked = request.conversation.question
        if asked is not None and found.decision.reason is Reason.USER:
            begun = replace(begun, wanted=asked.request)
        decisive = self._is_decisive(found, request.message)
        if waiting is not None and (not decisive or found.names == [waiting.name]):
            heard = await self._heard(begun, waiting, chosen=decisive)
            if heard.way != "ask":
                return heard
            understood = self._reads or answer or heard.stack != begun.stack or is_courtesy(request.message)
            told = heard.text or ("" if understood else say("not_understood"))
            return _asked_again(replace(heard, text=told))
        if decisive:
            return await self._begun(begun, found)
        if active is not None:
            return replace(begun, way="run")
        return replace(begun, way="open", reason=begun.reason or why_open(found))

    async def _left_open(self, begun: TurnWork, question: UserQuestion) -> TurnWork:
        """Ask the user which flow is meant, as the selector suggests, unless the message is for the open flow."""
        active, why = begun.stack.top, _why_not_asked(begun.request, question)
        if active is not None and not _is_elsewhere(begun, question, active):
            why = why or f"the message is taken to be for {active.name}"
        if begun.stack.waiting is not None:
            heard = await self._heard(begun, begun.stack.waiting, chosen=False)
            again = _asked_again(heard) if heard.way == "ask" else heard
            return (
                again if why or again.way != "ask" or heard.stack != begun.stack else _question_asked(again, question)
            )
        if not why:
            return _question_asked(begun, question)
        return replace(begun, way="open" if active is None else "run", reason=begun.reason or why)

    async def _at_once(self, begun: TurnWork, answer: _Heard) -> TurnWork | None:
        active, waiting, at_once = begun.stack.top, begun.stack.waiting, None
        # The pending question comes last in the text, after the choice between flows, so it is answered first.
        if active is not None and (waiting or not answer):
            at_once = await self._answered_at_once(replace(begun, pending=None), active, idle=waiting is not None)
        if at_once is None and answer == "off":
            why = "which flow is meant was asked, and the user called it off"
            return replace(begun, way="ask", text=say("none_of_these"), reason=begun.reason or why)
        return at_once

    def _without_gone(self, request: TurnRequest) -> TurnWork:
        """Return the open flows that are still live, and the call that waits for a yes."""
        stack = request.stack
        gone = [each.name for each in stack.flows if self.running.flow(each.name) is None]
        left = replace(stack, flows=tuple(each for each in stack.flows if each.name not in gone))
        reason = f"there is no flow {', '.join(gone)} any more" if gone else ""
        return TurnWork(
            request=request, stack=left, pending=_of_top(request.conversation.pending, left.top), reason=reason
        )

    async def _answered_at_once(self, begun: TurnWork, active: OpenFlow, *, idle: bool) -> TurnWork | None:
        """Handle a message that is a bare answer, agrees or cancels, without a selection."""
        message = begun.request.message
        said = read_consent(message, Asked(words=f"{active.name} {self.running.titles.flow(active.name)}"))
        if idle and not active.anew and (answers := bare_answer(self._lacking(begun, active), message)):
            return await self._given(begun, active, answers, way="run")
        if idle and said.answer != "neither" and (meant := _is_it(active)):
            return await self._confirmed_value(begun, active, *meant, is_it=said.answer == "yes")
        if idle and said.answer == "yes" and (active.anew or set(active.asks) <= _known(begun, active).keys()):
            agreed = await self._given(begun, self.running.gate.agreed(active), {}, way="run")
            return await self._besides(agreed, said.rest, after=active.name)
        if said == ("no", "") and (idle or self.model is None):
            return self._off(begun, [active])
        asked = ConversationView.of(begun, self.running.titles.flow).asked
        # The model that continues the flow asked this question, so it receives the answer.
        hears = (
            self.model is not None and not idle and (is_value(message) or (said.answer != "neither" and "?" in asked))
        )
        return replace(begun, way="run", hears_first=bool(said.rest)) if hears else None

    async def _confirmed_value(
        self, begun: TurnWork, active: OpenFlow, name: str, value: object, *, is_it: bool
    ) -> TurnWork:
        if is_it:
            return await self._given(begun, active, {name: value}, way="run")
        others = {each: values for each, values in active.choices.items() if each != name}
        stack = begun.stack.with_top(active.model_copy(update={"choices": others}))
        return replace(begun, way="ask", stack=stack, reason=f"{name} is another one")

    async def _settled(self, begun: TurnWork) -> tuple[TurnWork, TurnWork | None]:
        """Apply a yes or a no to the pending call. Return None if the message is neither."""
        pending = begun.pending
        if pending is None:
            return begun, None
        said, notes = await approval_heard(self.running.decider, pending, begun.request.message)
        begun = replace(begun, notes=(*begun.notes, *notes))
        if said.answer == "yes":
            return begun, await self._besides(self._granted(begun, pending), said.rest, after=pending.flow)
        if said.answer == "neither" or (said.rest and self._reads):
            return begun, None  # a refusal with more text may be a correction, which the reader can tell
        return begun, await self._besides(await self._refused(begun, pending), said.rest)

    @staticmethod
    def _granted(begun: TurnWork, pending: PendingCall) -> TurnWork:
        return replace(begun, way="run" if pending.flow else "open", granted=pending, pending=None)

    async def _besides(self, begun: TurnWork, rest: str, *, after: str = "") -> TurnWork:
        """Handle the rest of a message beside a yes or a no: queue the flows for it, or have it answered."""
        if not rest:
            return begun
        alone = replace(begun, request=replace(begun.request, message=rest))
        try:
            found = await run_within_budget(self._found(alone, "", waits=False), what="recall")
        except Exception as error:  # noqa: BLE001 - whatever a memory or a selector fails with
            begun = replace(begun, notes=(*begun.notes, f"no flow could be looked for: {describe_error(error)}"))
            names: list[str] = []
        else:
            begun = await self._with_said(replace(begun, selection=found, wanted=rest), found.decision)
            names = [each for each in found.names if each != after] if self._is_decisive(found, rest) else []
            writes = any(self.running.gate.may_write(self.running.flow(each)) for each in names)
            names = [] if writes and self._denied(found, rest) else names
        if names:
            return self._with_wishes(begun, names, after=after)
        return (
            replace(begun, text=f"{begun.text}\n\n{left_open(rest)}")
            if begun.way == "ask"
            else replace(begun, besides=rest)
        )

    async def _refused(self, begun: TurnWork, pending: PendingCall) -> TurnWork:
        active, begun = begun.stack.top, replace(begun, pending=None)
        became = too_late_text(pending, await self.running.approval.withdraw(pending))
        if active is not None and pending.flow:
            return self._off(begun, [active], told=became)
        return replace(begun, way="ask", text=became or left_undone(pending))

    @staticmethod
    def _with_wishes(begun: TurnWork, names: list[str], *, after: str = "") -> TurnWork:
        """Queue the flows that were requested beside a yes or a no, after the flow that was answered."""
        if not names:
            return begun
        wanted = [after, *names] if after else names
        way: Way = "open" if begun.granted is not None and not after else "run"
        return replace(_with(begun, wanted), way=way, resumed="")

    def _off(self, begun: TurnWork, off: Sequence[OpenFlow], *, told: str = "", meant: Sequence[str] = ()) -> TurnWork:
        """Cancel these flows, the latest first. A flow that destroyed something is kept, to resume if asked for again.

        `told` replaces the usual sentence about the first of them. A flow cancelled right after it was chosen is
        recorded in the log of outcomes as possibly wrong, with the `meant` flows as the probable targets.
        """
        for each in off:
            if each.turn + 1 >= begun.request.conversation.turns:
                self.running.selector.hint(each.logged, right=meant, note="called off in the turn after it was chosen")
        off = [*off, *self._callers(begun.stack, off)]
        texts = [called_off(each, self.running.titles) for each in off]
        if told:
            texts[0] = told
        kept = tuple(flow for each in off for flow in self.running.gate.kept(each))
        flows = tuple(each for each in begun.stack.flows if not any(each is gone for gone in off))
        stack = FlowStack(flows, (*begun.stack.failed, *kept))
        resumed = stack.top.name if stack.top is not None else ""
        return replace(begun, way="ask", stack=stack, text="\n\n".join(texts), resumed=resumed)

    def _callers(self, stack: FlowStack, off: Sequence[OpenFlow]) -> Iterator[OpenFlow]:
        names = {each.name for each in off}
        for each in reversed(stack.flows):
            flow = self.running.flow(each.name)
            if each.name not in names and each.status == "queued" and flow is not None and names & {*flow.calls}:
                names.add(each.name)
                yield each

    def _is_decisive(self, found: FlowSelectionResult, message: str) -> bool:
        return bool(found.chosen_flows) and (_was_read(found, message) or is_sure(found))

    async def _begun(self, begun: TurnWork, found: FlowSelectionResult) -> TurnWork:
        """Begin the selected flows. If no model read the message, ask for a yes before one that may change something.

        Recall finds the topic of a message, but not whether it is denied, supposed or only reported. Where no call
        needs a yes, only a denial is asked about.
        """
        writes = any(self.running.gate.may_write(self.running.flow(each)) for each in found.names)
        asks = writes and (self.running.approval.asks_to_begin or self._denied(found, begun.request.message))
        begun = begun if self._reads else await self._with_things(begun, found.names)
        if not asks or _was_read(found, begun.request.message):
            begun = await self._read_for(begun, found.names)
            unread = self.model is not None and found.decision.raw_reply is None
            return replace(_with(begun, found.names), way="run", hears_first=unread)
        begun = _with(begun, found.names[:1])
        top = begun.stack.top
        if top is not None and top.status == "queued":
            begun = replace(begun, stack=begun.stack.with_top(top.model_copy(update={"status": "waiting"})))
        return replace(begun, way="ask", reason="nobody has read whether this is to be begun")

    def _denied(self, found: FlowSelectionResult, message: str) -> bool:
        """Whether a message that no model read may say that the selected flows are not to be begun."""
        if _was_read(found, message):
            return False
        return any(is_denied(message, (each.name, each.title, *each.aliases)) for each in found.chosen_flows)

    async def _with_things(self, begun: TurnWork, names: Sequence[str]) -> TurnWork:
        """Fill the input of a flow whose example has the form of the single identifier in the message."""
        said = dict(begun.said)
        for name in names:
            wanted = self._inputs(begun, name)
            like = {each: want.declared.example for each, want in wanted.items() if want.declared is not None}
            found = await self.running.checked(name, thing_named(wanted, like, begun.request.message))
            said[name] = Grounded(values=found.values, wrong=found.wrong)
        return replace(begun, said=said)

    def _lacking(self, begun: TurnWork, active: OpenFlow) -> dict[str, Wanted]:
        known = _known(begun, active)
        return {name: each for name, each in self.running.wanted(active).items() if name not in known}

    async def _heard(self, begun: TurnWork, active: OpenFlow, *, chosen: bool) -> TurnWork:
        """Let a waiting flow continue with a message that is about nothing else."""
        asked, message = ConversationView.of(begun, self.running.titles.flow).asked, begun.request.message
        wanted = self.running.wanted(active)
        flags, notes = await flags_heard(self.running.decider, wanted, active.asks, asked=asked, message=message)
        begun = replace(await self._read_for(begun, [active.name]), notes=(*begun.notes, *notes))
        said = begun.said.get(active.name, NOTHING_SAID)
        said = said._replace(values={**said.values, **flags})
        message = message.casefold()
        unclear = {
            name: values
            for name, values in said.unclear.items()
            if name not in flags
            and (name not in active.answers or any(str(each).casefold() in message for each in values))
        }
        if unclear:
            return await self._unclear(begun, active, said._replace(unclear=unclear))
        answers = {
            name: value
            for name, value in said.values.items()
            if active.answers.get(name) != value and (name in active.asks or not _is_found(active, name, value))
        }
        back = [name for name in said.taken_back if name in active.answers]
        if self.model is None and not (answers or back or said.wrong):
            answers = self._plainly_said(begun, active, chosen=chosen)
        way: Way = "run" if answers or back or (chosen and not said.wrong) else "ask"
        return await self._given(begun, active, answers, way=way, back=back, wrong=said.wrong)

    def _plainly_said(self, begun: TurnWork, active: OpenFlow, *, chosen: bool) -> dict[str, Any]:
        """Return the values that rules find in a message: corrections, or the answer to the question."""
        message, lacking = begun.request.message, self._lacking(begun, active)
        corrected = corrections(self._inputs(begun, active.name), active.answers, message)
        if corrected:
            return corrected
        declared = next((each.declared for each in lacking.values()), None)
        if declared is not None and declared.question:
            repeated = is_named(self.running.titles.find(active.name), message) or _nearness(begun, active) >= _REPEATED
            return {} if repeated else plain_answer(lacking, message)
        return {} if chosen or _names_a_flow(begun) else plain_answer(lacking, message)

    async def _given(
        self,
        begun: TurnWork,
        active: OpenFlow,
        answers: Mapping[str, Any],
        *,
        way: Way,
        back: Sequence[str] = (),
        wrong: Mapping[str, str] | None = None,
    ) -> TurnWork:
        """Store the values that pass the author's checks, and ask again for the others. Corrections are said back.

        Values that were withdrawn are removed. A correction invalidates results found with the old value. If steps that
        used it had effects, the user is asked first whether to restart.
        """
        read = begun.said.get(active.name, NOTHING_SAID).values
        unchecked = {name: value for name, value in answers.items() if name not in read}
        found = await self.running.checked(active.name, unchecked)
        begun = replace(begun, notes=(*begun.notes, *found.notes.values()))
        answers = {name: value for name, value in answers.items() if name in read or name in found.values}
        refused = {**(wrong or {}), **found.wrong}
        way = way if answers or back or not refused else "ask"
        # The steps that ran did not use a value that is new and was not asked for.
        corrected = any(name in active.answers or name not in active.asks for name in answers) or bool(back)
        corrected = corrected and not active.is_final
        kept = {name: value for name, value in active.answers.items() if name not in {*back, *refused}}
        still = {name: text for name, text in active.wrong.items() if name not in answers}
        known: dict[str, Any] = {"answers": {**kept, **answers}, "wrong": {**still, **refused}}
        gone = [name for name in back if name not in answers]
        if refused or gone:
            known["asks"] = tuple(dict.fromkeys((*refused, *gone, *active.asks)))
            way = "ask" if gone else way
        if answers.keys() & active.choices.keys():
            known["choices"] = {name: each for name, each in active.choices.items() if name not in answers}
        if corrected and self.running.titles.effects(active.ran):
            known |= {"anew": True, "status": "waiting", "pending": None}
            way = "ask"
        elif corrected:
            known |= {"parts": {}, "pending": None}
        told = [begun.text, *self._said_back(active, answers, back)]
        stack = begun.stack.with_top(active.model_copy(update=known))
        return replace(begun, way=way, stack=stack, text="\n".join(filter(None, told)))

    @staticmethod
    def _said_back(active: OpenFlow, answers: Mapping[str, Any], back: Sequence[str]) -> Iterator[str]:
        for name, value in answers.items():
            if name in active.answers and not same(active.answers[name], value):
                old, new = (shown_value(each) for each in (active.answers[name], value))
                yield say("corrected", input=in_words(name), new=new, old=old)
        for name in back:
            yield say("taken_back", input=in_words(name), old=shown_value(active.answers[name]))

    async def _unclear(self, begun: TurnWork, active: OpenFlow, heard: Grounded) -> TurnWork:
        """Ask for the inputs with ambiguous answers, and drop results found with an earlier answer."""
        begun = await self._given(begun, active, heard.values, way="ask")
        flow = begun.stack.top or active
        known = {name: value for name, value in flow.answers.items() if name not in heard.unclear}
        asks = tuple(dict.fromkeys((*heard.unclear, *active.asks)))
        waits: dict[str, Any] = {"answers": known, "asks": asks, "choices": heard.unclear}
        if len(known) < len(flow.answers) and not flow.is_final:
            waits |= {"parts": {}, "pending": None}
        reason = f"which is meant is not clear: {', '.join(heard.unclear)}"
        return replace(begun, stack=begun.stack.with_top(flow.model_copy(update=waits)), reason=reason)

    async def _with_said(self, begun: TurnWork, decision: Decision) -> TurnWork:
        """Add the grounded values that a model read for the inputs of flows."""
        told = {*decision.values, *decision.unclear}
        if not told:
            return begun
        said, reasons = dict(begun.said), list[str]()
        view = ConversationView.of(begun, self.running.titles.flow)
        # What the agent proposed is no word of the user's: only a plain yes takes it over, or the user's own statement.
        # Of several choices, each was said by the user.
        several = [values for each in begun.stack.flows for values in each.choices.values()]
        offered = [values[0] for values in several if len(values) == 1]
        heard = view.heard
        for flow in (self.running.selector.flow_registry.get(each) for each in told):
            if flow is not None:
                values, unclear = decision.values.get(flow.id, {}), decision.unclear.get(flow.id, {})
                wanted = self._inputs(begun, flow.name)
                # Looking for many values in a long message would block the event loop for too long.
                if sum(map(len, heard)) > _AT_ONCE:
                    found = await in_thread(ground, values, unclear, wanted, heard, offered)
                else:
                    found = ground(values, unclear, wanted, heard, offered)
                checks = await self.running.checked(flow.name, found.values)
                said[flow.name] = found._replace(values=checks.values, wrong=checks.wrong)
                reasons += checks.notes.values()
                reasons += [f"{flow.name}: {name} does not count, since {why}" for name, why in found.refused.items()]
        return replace(begun, said=said, notes=(*begun.notes, *reasons))

    def _inputs(self, begun: TurnWork, name: str) -> dict[str, Wanted]:
        waiting = next((each for each in begun.stack.flows if each.name == name and each.status != "queued"), None)
        return self.running.inputs(name, begun.request.context, waiting, begun.request.conversation.called)

    def _lacks(self, flow: BaseFlow, message: str, begun: TurnWork) -> bool:
        """Whether a message must be read for a flow's inputs. A message that only names it gives no optional input."""
        return self.running.lacks(flow, begun.request.context, optional=not is_named(flow, message))

    async def _read_for(self, begun: TurnWork, names: Sequence[str]) -> TurnWork:
        selection = begun.selection
        message = begun.wanted or begun.request.message
        flows = [flow for each in names if (flow := self.running.flow(each)) is not None]
        waiting = {each.name for each in begun.stack.flows}
        takes = [each for each in flows if each.name in waiting or self._lacks(each, message, begun)]
        was_asked = selection is not None and (selection.decision.attempts or selection.decision.error)
        if was_asked or not takes or not (self.model is not None or self.running.selector.has_model):
            return begun
        situation = self._situation(begun, message)
        if situation is None:
            return begun
        given = [candidate_of(each).as_metadata() for each in takes]
        situation = replace(situation, under_way=[], confirms="", done=(), growing=None, begins=_never, speaks="")
        said = begun.request.message
        selector = self.running.selector
        of_one = selector if self.model is None else FlowSelector(None, selector.flow_registry)
        read = await run_within_budget(of_one.select(said, given, situation=situation), what="its inputs")
        return await self._with_said(begun, read.decision)

    def _situation(self, begun: TurnWork, message: str) -> Situation | None:
        if self.model is None and not self._reads:
            return None
        view = ConversationView.of(begun, self.running.titles.flow, agreed=begun.granted is not None)

        def inputs(flow_id: str) -> tuple[str, ...]:
            flow = self.running.selector.flow_registry.get(flow_id)
            return () if flow is None else shown_inputs(self._inputs(begun, flow.name))

        begins = self._begins(begun, message)
        return replace(view.situation(), begins=begins, inputs=inputs, reader=self.model, speaks=self.speaks)

    async def _as_chosen(  # noqa: C901, PLR0911 - one way for each answer
        self, begun: TurnWork, found: FlowSelectionResult
    ) -> TurnWork:
        """Apply a model's choice: continue, begin or resume another flow, cancel, or none of these."""
        request, waiting, pending, decision = begun.request, begun.stack.waiting, begun.pending, found.decision
        by_value = not (found.names or decision.called_off or decision.confirmed)
        if by_value and waiting is not None and begun.said.get(waiting.name, NOTHING_SAID) != NOTHING_SAID:
            return await self._gone_on(begun, waiting)
        if pending is not None and decision.confirmed:
            if decision.confirmed == "no":
                return await self._as_refused(begun, pending, found.names)
            own = flow_id(pending.flow) in decision.called_off
            quote = decision.quote
            if not own and quote and read_consent(request.message, pending.asked, quote=quote).answer == "yes":
                begun = self._granted(begun, pending)
                if decision.called_off:
                    begun = replace(await self._called_off(begun, decision.called_off), way=begun.way, resumed="")
                return self._with_wishes(begun, found.names, after=pending.flow)
            if own or not (found.names or decision.called_off):  # the model contradicts itself
                return _asked_again(replace(begun, way="ask"))
        if decision.called_off:
            begun = await self._called_off(begun, decision.called_off, found.names)
            if not found.names:
                return replace(begun, pending=None)
            begun = replace(begun, pending=_of_top(pending, begun.stack.top))
        if not found.names:
            if begun.stack.top is None or self.model is not None:
                return replace(begun, way="open", reason=begun.reason or why_open(found))
            return _asked_again(replace(begun, way="ask")) if waiting else replace(begun, way="run")
        active = begun.stack.top
        if waiting is not None and active is not None and active.name in found.names:
            begun = await self._gone_on(begun, active)
            if found.names == [active.name]:
                return begun
        return replace(_with(begun, found.names), way="run")

    async def _as_refused(self, begun: TurnWork, pending: PendingCall, names: list[str]) -> TurnWork:
        """Drop the pending call. If a model continues its flow, it receives the message."""
        active, others = begun.stack.top, [each for each in names if each != pending.flow]
        if active is None or pending.flow not in names or pending.door != "chain":
            return self._with_wishes(await self._refused(begun, pending), others)
        became = too_late_text(pending, await self.running.approval.withdraw(pending))
        stack = begun.stack.with_top(active.model_copy(update={"status": "active"}))
        # No approval is pending any more: the model sees no old question, and a repeated call is a new one.
        settled = begun.request.conversation.model_copy(update={"pending": None})
        request = replace(begun.request, conversation=settled)
        text = "\n\n".join(filter(None, (begun.text, became)))
        begun = replace(begun, request=request, way="run", stack=stack, text=text, pending=None)
        return self._with_wishes(begun, others, after=pending.flow)

    async def _gone_on(self, begun: TurnWork, active: OpenFlow) -> TurnWork:
        """Continue a waiting flow that was chosen, with the values in the message. Without any, answer the message."""
        heard = await self._heard(begun, active, chosen=True)
        waits = begun.pending is not None or bool(self._lacking(begun, active))
        if heard.stack == begun.stack and waits and self.model is not None:
            return replace(heard, way="open", about=True)
        return _asked_again(heard) if heard.way == "ask" else heard

    async def _called_off(self, begun: TurnWork, ids: Sequence[str], meant: Sequence[str] = ()) -> TurnWork:
        off = [each for each in reversed(begun.stack.flows) if flow_id(each.name) in ids]
        pending, became = begun.pending, ""
        if pending is not None and any(each.name == pending.flow for each in off):
            became = too_late_text(pending, await self.running.approval.withdraw(pending))
        return self._off(begun, off, told=became, meant=meant)

    async def _found(self, begun: TurnWork, answer: _Heard, *, waits: bool = True) -> FlowSelectionResult:
        """Select by the message alone if that is enough or required, else with the earlier turns.

        A model reads both at once, with the open flows. Recall with earlier turns would find the flow just done for
        every "thanks" that follows, so such a result does not count if the flow ran in them, or if it is manual and the
        user was told so. If the last turn asked which flow is meant, an answer decides; any other message is read with
        the earlier request.
        """
        request = begun.request
        message, context, episodes = request.message, request.context, request.conversation.episodes
        asked = request.conversation.question
        if answer:
            return await self.running.selector.select(message, context=context, asked=asked)
        if self._reads:
            situation = self._situation(begun, message)
            return await self.running.selector.select(
                message, episode_summaries=episodes, context=context, situation=situation, asked=asked
            )
        within = WITHIN if has_capability(self.running.selector, "situation") else None
        own = await self.running.selector.select(message, context=context, situation=within)
        if not episodes and asked is None:
            return own
        if (waits and begun.stack.waiting and asked is None) or self._is_decisive(own, message):
            return own
        found = await self.running.selector.select(
            message, episode_summaries=episodes, context=context, situation=within, asked=asked
        )
        if own.decision.question is not None and not self._is_decisive(found, message):
            return own
        ran = {name: self.running.flow(name) for name in _ran_in(episodes)}
        over = {*request.conversation.done, *(name for name, flow in ran.items() if flow is not None and flow.manual)}
        return own if set(found.names) & over else found

    def _begins(self, begun: TurnWork, message: str) -> Callable[[str, bool], bool]:
        """Return the rule for which flows may begin if no chat model has read the message."""

        def begins(flow_id: str, likely: bool) -> bool:  # noqa: FBT001 - as the selector calls it
            flow = self.running.selector.flow_registry.get(flow_id)
            if flow is None or self._lacks(flow, message, begun):
                return False
            if is_named(flow, message):
                return True
            return likely and not (self.running.approval.asks_to_begin and self.running.gate.may_write(flow))

        return begins


def _never(flow_id: str, likely: bool) -> bool:  # noqa: ARG001, FBT001 - as the selector calls it
    """Refuse every flow: a model must read the message."""
    return False


def _was_read(found: FlowSelectionResult, message: str) -> bool:
    """Whether the meaning is certain: a chat model read the message, or the user chose or named a flow."""
    return found.decision.reason in _STANDS or is_named(found.chosen_flows[0], message)


def _ran_in(episodes: Sequence[str]) -> set[str]:
    return {name for each in episodes for name in each.rpartition(" The agent ran ")[2].removesuffix(".").split(", ")}


def _is_found(active: OpenFlow, name: str, value: object) -> bool:
    """Whether the facts of a flow already hold this value, by name or within a text, so that it corrects nothing."""
    facts = {each: fact for part in active.parts.values() for each, fact in part.own.items()}
    if name in facts:
        return facts[name] == value
    found = set(stems(" ".join(fact for fact in facts.values() if isinstance(fact, str))))
    wanted = stems(storable_text(value))
    return bool(wanted) and found.issuperset(wanted)


def _is_it(active: OpenFlow) -> tuple[str, Any] | None:
    """Return the input and the single value that the user was asked to confirm."""
    first = next(iter(active.asks), "")
    meant = active.choices.get(first, ())
    return (first, meant[0]) if len(meant) == 1 else None


def _known(begun: TurnWork, active: OpenFlow) -> dict[str, Any]:
    return {**active.answers, **begun.request.context}


def _of_top(pending: PendingCall | None, active: OpenFlow | None) -> PendingCall | None:
    """Return the pending call if it belongs to the active flow or to none.

    A call that was saved without an id needs a new approval, because it cannot be claimed.
    """
    theirs = {"", active.name} if active is not None else {""}
    return pending if pending is not None and pending.id and pending.flow in theirs else None


def _asked_again(heard: TurnWork) -> TurnWork:
    """Repeat the question with the reason. If another input must be asked for first, drop the pending call."""
    waiting, pending = heard.stack.top, heard.pending
    if pending is not None and waiting is not None:
        known = pending.arguments
        stale = any(known.get(name, value) != value for name, value in waiting.answers.items())
        stale = stale or any(name in known and name not in waiting.answers for name in waiting.asks)
        pending = None if waiting.choices or waiting.anew or stale else pending
    wanted = ", ".join(waiting.asks) if waiting is not None else ""
    if pending is not None:
        why = f"the message says neither yes nor no to {pending.tool}"
    else:
        why = f"the message does not plainly give {wanted}" if wanted else "the message is no yes to going on"
    return replace(heard, pending=pending, reason=heard.reason or f"the question was asked again: {why}")


def _nearness(begun: TurnWork, active: OpenFlow) -> float:
    found = begun.selection.decision.candidates if begun.selection is not None else ()
    return next((each.scores.get("dense", 0.0) for each in found if each.flow_name == active.name), 0.0)


def _names_a_flow(begun: TurnWork) -> bool:
    found = begun.selection.candidates if begun.selection is not None else ()
    said = set(stems(begun.request.message))
    return any(said & set(stems(str(each.get("flow_name", "")))) for each in found)


def _with(begun: TurnWork, names: list[str]) -> TurnWork:
    """Put the chosen flows on top. A flow parked below keeps its pending call."""
    stack, request, pending = begun.stack, begun.request, begun.pending
    turn, top, wanted = request.conversation.turns, stack.top, begun.wanted or request.message
    logged = begun.selection.logged if begun.selection is not None else ""
    if top is not None and pending is not None and pending.flow == top.name:
        stack = stack.with_top(top.model_copy(update={"pending": pending}))
    after = after_selection(stack.flows, stack.failed, names, request=wanted, turn=turn, logged=logged)
    flows = tuple(
        _chosen(each, begun.said.get(each.name, NOTHING_SAID)) if each.name in names else each for each in after
    )
    failed = tuple(each for each in stack.failed if each.name not in names)
    return replace(begun, stack=FlowStack(flows, failed), pending=None)


def _chosen(flow: OpenFlow, said: Grounded) -> OpenFlow:
    """Return a chosen flow with the values in the message. Its pending call needs a new approval."""
    if flow.status != "queued":
        return flow.model_copy(update={"pending": None})
    known = {"answers": {**flow.answers, **storable_fields(said.values)[0]}, "wrong": dict(said.wrong)}
    meant = {name: tuple(each) for name, each in storable_fields(said.unclear)[0].items()}
    return flow.model_copy(update={**known, "choices": meant, "pending": None})


def why_open(found: FlowSelectionResult) -> str:
    """Return the reason why nothing of a selection runs."""
    if found.names and found.decision.reason is Reason.FALLBACK_INVALID:
        return "the model's choice could not be read, or names no flow that it was offered"
    if found.names and found.decision.raw_reply is not None:
        return "no flow fits, as the model says"
    if found.names:
        decision = found.decision
        unknown = decision.confidence is None
        more = ": the catalogue is too small to tell how sure recall is, and no model chooses" if unknown else ""
        return f"it is not sure enough that {found.names[0]} is meant{more}"
    if not found.candidates:
        return "nothing was recalled: has sync_registry run for this agent, with this memory?"
    return "no flow fits"


def _answer_heard(request: TurnRequest, *, beside: bool = False) -> _Heard:
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
    if option is None and not beside and again(question, message) is not None:
        return "beyond"
    return "off" if read_consent(message) == ("no", "") else "" if option is None else "none"


def _why_not_asked(request: TurnRequest, question: UserQuestion) -> str:
    """Return why a selector's question must not be asked, or "".

    The same question is not asked in two successive turns, except for one repeat after a number that no option has.
    """
    before = request.conversation.question
    names = [each.flow_name for each in question.options]
    repeated = question.again and before is not None and not before.again
    if before is not None and not repeated and {each.flow_name for each in before.options} == {*names}:
        return f"which of {', '.join(names)} is meant was asked before, and is still not clear"
    return "it is thanks or a greeting" if is_courtesy(request.message) else ""


def _question_asked(begun: TurnWork, question: UserQuestion) -> TurnWork:
    why = f"two or three flows are left, and the user is asked which: {begun.reason}".removesuffix(": ")
    return replace(begun, way="ask", text=question.text, question=question, reason=why)


def _is_elsewhere(begun: TurnWork, question: UserQuestion, active: OpenFlow) -> bool:
    """Whether the message is about other flows than the active one; else it goes to the active flow.

    Recall must know of no reason to suspect that no flow is meant. A number that no option has is about the question if
    the active flow waits, because its inputs did not accept the number.
    """
    if question.again and active.status != "active":
        return True
    p_none = None if begun.selection is None else begun.selection.decision.p_none
    is_for_a_flow = p_none is not None and not is_none_suspected(p_none)
    return is_for_a_flow and active.name not in {each.flow_name for each in question.options}
