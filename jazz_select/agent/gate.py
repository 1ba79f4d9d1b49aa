"""The gate for destructive work: which flows and calls wait for the user's yes."""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from jazz_select.agent.agent_options import Approval
from jazz_select.agent.chain.result_references import with_calls_named
from jazz_select.agent.chain.tool_calls import Announce
from jazz_select.agent.chain.transcript import ToolRequest
from jazz_select.agent.conversation import OpenFlow, PastCall, PendingCall, part_paths
from jazz_select.agent.flows.flow_runner import CallToCome, steps_left
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.turn import FlowRun
from jazz_select.flow.base import BaseFlow, chain_of
from jazz_select.json_values import canonical_bytes
from jazz_select.routing.approval import Allow, ApprovalPolicy, Ask, Deny, Verdict, needs_yes, verdict_of
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.question import LONGEST_TOGETHER, Before, describe_call, display_problem
from jazz_select.routing.records import CallSource, ToolCall
from jazz_select.routing.tool_call import call_of, fingerprint, withdraw_claim
from jazz_select.routing.tools.tool import Tool
from jazz_select.threads import self_bounded
from jazz_select.words import stems

_CLAIMS: Final = "give the agent a store of claims, such as SqliteClaims(path)"


class DestructionGate:
    """Decides when a destructive flow may run, and what is kept of a flow that stopped after a change.

    A destructive flow is held for the user's yes if its author changed its steps after it was started
    (`held_by_change`). A destructive tool that failed, and may have had its effect, needs approval before it runs again
    (`TurnApproval`).

    A flow that stops after it changed something is kept (`kept`): the next request for it resumes where it stopped, and
    repeats nothing.
    """

    def __init__(self, flows: KnownFlows) -> None:
        """Take the agent's flows and tools."""
        self._flows = flows

    def held_by_change(self, waiting: OpenFlow, flow: BaseFlow) -> tuple[str, ...]:
        """Return the remaining steps of a destructive flow if they changed after some were done, without a yes."""
        if not (waiting.is_final or self._flows.destroys(flow)):
            return ()
        changed = tuple(_changed_steps(waiting, flow, "0"))
        return () if changed == waiting.approved_changes else changed

    def release(self, waiting: OpenFlow) -> OpenFlow:
        """Return a held flow after the user's yes."""
        if waiting.anew:
            return waiting.model_copy(update={"parts": {}, "anew": False, "asks": (), "status": "queued"})
        begins = {} if waiting.parts or waiting.asks else {"status": "queued"}
        approved = waiting.changed or waiting.approved_changes
        return waiting.model_copy(update={"approved_changes": approved, "changed": (), **begins})

    def flow_to_keep(
        self, ended: OpenFlow, run: FlowRun | None = None, approval: "TurnApproval | None" = None
    ) -> tuple[OpenFlow, ...]:
        """Return the flow to keep if it stopped after it changed something, or nothing."""
        if not (ended.is_final or self._has_written(ended)):
            return ()
        # What refused a part is tried again when the flow resumes.
        parts = {path: replace(part, refusal="") for path, part in ended.parts.items()}
        changes: dict[str, Any] = {"status": "failed", "parts": parts}
        if run is not None:
            changes["uncertain_tools"] = self._uncertain_tools(ended, run)
        if run is not None and approval is not None:
            changes["calls_of_unknown_outcome"] = self._calls_of_unknown_outcome(ended.name, run, approval)
        return (ended.model_copy(update=changes),)

    def _has_written(self, ended: OpenFlow) -> bool:
        """Whether a call in it succeeded whose tool may change something."""
        for call in ended.past_calls:
            tool = self._flows.tools.get(call.tool)
            if not call.failed and tool is not None and not tool.reads:
                return True
        return False

    def _uncertain_tools(self, ended: OpenFlow, run: FlowRun) -> tuple[str, ...]:
        """Return the destructive tools that were called and failed: they may have had their effect.

        A tool stays in doubt until it has run, since a run may end before it.
        """
        succeeded = {record.tool for record in run.steps if record.status == "ok"}
        names = [name for name in ended.uncertain_tools if name not in succeeded]
        for record in run.steps:
            # Where only the output could not be read, the effect is certain.
            is_uncertain = record.status == "failed" and record.attempts and record.fault != "output"
            if is_uncertain and self._flows.tools[record.tool].destructive:
                names.append(record.tool)
        return tuple(dict.fromkeys(names))

    def _calls_of_unknown_outcome(self, flow: str, run: FlowRun, approval: "TurnApproval") -> dict[str, str]:
        """Return the ids of idempotent calls with an unknown outcome, by their places."""
        ids: dict[str, str] = {}
        for part in run.all:
            for record in part.records:
                if not record.unknown or not self._flows.tools[record.tool].idempotent:
                    continue
                passed = approval.passed.get((flow, part.path, record.tool))
                if passed is not None:
                    place, call_id = passed
                    ids[place] = call_id
        return ids


def _changed_steps(waiting: OpenFlow, flow: BaseFlow, path: str) -> Iterator[str]:
    """Yield the remaining steps of each begun part whose steps changed."""
    part = waiting.parts.get(path)
    if part is not None and part.done:
        remaining = [name for name, _ in steps_left(chain_of(flow), part.done)]
        if remaining != list(part.left):
            yield from remaining or ("nothing more",)
    for subflow, inner in zip(flow.subflows, part_paths(flow, path), strict=True):
        yield from _changed_steps(waiting, subflow, inner)


class AgentApproval:
    """The approval of an agent: its hook, or else its policy."""

    def __init__(self, given: Approval) -> None:
        self._policy: ApprovalPolicy = given.policy
        self._hook, self.claims = given.approve, given.claims

    @property
    def asks_to_begin(self) -> bool:
        """Whether the user confirms a flow that may change something before it begins, if no model chose it.

        False if no call needs approval, or if each one does.
        """
        if self._hook is not None:
            return True
        asks_for_some = needs_yes(self._policy, destructive=True)
        asks_for_all = needs_yes(self._policy, destructive=False)
        return asks_for_some and not asks_for_all

    async def withdraw(self, pending: PendingCall) -> list[Before]:
        """Claim cancelled calls, so that no other process makes them; return what became of each if one began it.

        An announced call needs no claim: it is not made without those that it uses.
        """
        outcomes: list[Before] = []
        for each in pending.calls:
            if self.claims is None or not each.destructive or each.uses:
                outcomes.append("")
                continue
            call = ToolCall(id=each.id, tool=each.tool, destructive=True, door=each.door, identity=each.identity)
            outcomes.append(await withdraw_claim(self.claims, call))
        return outcomes

    def asks_user(self, tool: Tool) -> bool:
        """Whether the user is asked before calls of this tool, as far as that is known without arguments."""
        return self._hook is None and needs_yes(self._policy, destructive=tool.destructive)

    async def verdict(self, call: ToolCall) -> Verdict:
        """Return the verdict on a call before the user is asked."""
        return await verdict_of(self._hook, call, self._policy)

    async def verdict_on_look_up(self, call: ToolCall) -> Verdict:
        """Return the verdict on a call that only reads, for a question: whom the hook wants asked is not asked then."""
        if self._hook is None:
            return Allow()
        verdict = await self.verdict(call)
        if isinstance(verdict, Ask):
            return Deny("the user would have to be asked first")
        return verdict


_LONGEST_CLOSING: Final = 2_000
"""Most characters of what a model tells once the calls of a question are made."""


class TurnApproval:
    """Approves the calls of one turn and names them. Concurrent parts of a flow share it.

    Attributes:
        claims: The store of claims, in which one process reserves a call; None without one.
        pending: The first call that needs the user's approval, with those that are asked about together with it.
        granted: The call that the user has approved, with those of its question.
        passed: The place and id of the last approved destructive call, by flow, path and tool.
        found: What the flows that a flow calls found, by that flow; an approval hook sees it.
        named: How the user named what a flow is about, by that flow.
    """

    def __init__(
        self, approval: AgentApproval, key: str, granted: PendingCall | None, asked: PendingCall | None
    ) -> None:
        """Take the agent's approval, the key of the turn, and the call that was asked about last, which keeps its id.

        If it is granted, it passes once.
        """
        self._approval = approval
        self._key = key
        self._unused_grants = [] if granted is None else [*granted.calls, *granted.then]
        last = granted or asked
        self._last_question = () if last is None else last.calls
        self._call_counts: Counter[tuple[str, ...]] = Counter()
        self._reused_ids: set[str] = set()
        """The ids of the last question that calls of this turn have."""
        self._question_ids: dict[str, str] = {}
        """The ids in the question of the calls that it let pass, by the ids under which they are made."""
        self._outputs: dict[str, Any] = {}
        """What these returned, by their ids in the question."""
        self.claims = approval.claims
        self.granted = granted
        self.pending: PendingCall | None = None
        self.passed: dict[tuple[str, str, str], tuple[str, str]] = {}
        self.found: dict[str, Mapping[str, Any]] = {}
        self.named: dict[str, Sequence[str]] = {}

    async def verdict_on_look_up(self, call: ToolCall) -> Verdict:
        """Return the verdict on a call that only reads, for a question to the user."""
        return await self._approval.verdict_on_look_up(call)

    @property
    def made_calls(self) -> list[PendingCall]:
        """The granted calls that were made."""
        if self.granted is None:
            return []
        return [call for call in self.granted.calls if call not in self._unused_grants]

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if an approved destructive call was made without a store of claims."""
        made = dict.fromkeys(each.tool for each in self.made_calls if each.destructive)
        if self.claims is not None or not made:
            return ()
        names = ", ".join(made)
        return (f"{names}: if another process continues this conversation too, both make this call; {_CLAIMS}",)

    @contextmanager
    def separate_question(self) -> Generator[None]:
        """Keep what is asked for one flow apart from the question so far; calls go on being named as one turn's."""
        asked, self.pending = self.pending, None
        try:
            yield
        finally:
            self.pending = asked

    def ask_besides(self, wanted: PendingCall) -> bool:
        """Ask about one more call in the same question, with what follows it; False if the question has no room."""
        if self.pending is None or not self._add(wanted.model_copy(update={"then": ()})):
            return False
        self.pending = self.pending.model_copy(update={"then": (*self.pending.then, *wanted.then)})
        return True

    def record_result(self, call_id: str, output: Any) -> None:
        """Keep what a call returned, if the user approved it: an announced call may use that."""
        if call_id in self._question_ids:
            self._outputs[self._question_ids[call_id]] = output

    def asks_user(self, tool: Tool) -> bool:
        """Whether the user is asked before calls of this tool, as far as that is known without arguments."""
        return self._approval.asks_user(tool)

    def granted_steps(self, flow: str, path: str) -> list[PlanStep]:
        """Return the granted calls as steps if a model's chain at this place asked for them."""
        granted = self.granted
        if granted is None or (granted.door, granted.flow, granted.path) != ("chain", flow, path):
            return []
        return granted.steps()

    def close_with(self, text: str, asked: Sequence[ToolRequest]) -> None:
        """Keep what a model tells once the calls that it asked about are made, if it refers to no others."""
        if self.pending is None or self.pending.door != "chain":
            return
        names: dict[str, str] = {}
        unmatched = dict(enumerate(self.pending.calls, 1))
        for request in asked:
            # Requests for one tool stand in the order of the question.
            for place, call in unmatched.items():
                if call.tool == request.tool:
                    names[request.id] = f"s{place}"
                    del unmatched[place]
                    break
        closing = ""
        if not unmatched:
            closing = with_calls_named(text, names)
        if len(closing) <= _LONGEST_CLOSING:
            self.pending = self.pending.model_copy(update={"closing": closing})

    def closing_for(self, message: str) -> str:
        """Return what is told once the granted calls are made, if the message is a yes and says nothing else."""
        granted = self.granted
        if granted is None or not granted.closing:
            return ""
        consent, _ = granted.answer_in(message)
        if consent.answer != "yes" or consent.rest:
            return ""
        return granted.closing

    def names_at(
        self, flow: str, path: str, door: CallSource, calls_of_unknown_outcome: Mapping[str, str] | None = None
    ) -> Callable[[str, Mapping[str, Any]], str]:
        """Return a function that names the calls of a flow's part, alike in all processes with the same conversation.

        The id is a digest of the turn, the part, the tool, and the number of the tool's call there. A call that the
        user was asked about keeps its id. So does a retry of one of `calls_of_unknown_outcome`, so that the tool can
        recognize it.
        """

        def name(tool: str, arguments: Mapping[str, Any]) -> str:
            place = (flow, path, door, tool)
            number = self._call_counts[place]
            self._call_counts[place] += 1
            own = self._asked_call(place, fingerprint(tool, arguments))
            if own is not None:
                self._reused_ids.add(own.id)
                return own.id
            if not number and calls_of_unknown_outcome:
                known = calls_of_unknown_outcome.get(_place_of(path, tool, arguments))
                if known:
                    return known
            return sha256(canonical_bytes([self._key, *place, number])).hexdigest()[:32]

        return name

    def _asked_call(self, place: tuple[str, str, CallSource, str], wanted: str) -> PendingCall | None:
        """Return the call of the last question that is made now at this place: as it was shown, or as announced."""
        unused: list[PendingCall] = []
        for call in self._last_question:
            is_there = (call.flow, call.path, call.door, call.tool) == place
            if is_there and call.id and call.id not in self._reused_ids:
                unused.append(call)
        # Calls of one question are made in its order.
        for call in unused:
            if fingerprint(call.tool, call.arguments) == wanted:
                return call
        if self.granted is not None:
            # The arguments of an announced call were not all known when it was shown.
            return next((call for call in unused if call.uses), None)
        return None

    def verdict_at(
        self,
        flow: str,
        path: str,
        ran: Sequence[PastCall] = (),
        uncertain_tools: Sequence[str] = (),
        later: Sequence[CallToCome] = (),
    ) -> Callable[[ToolCall], Awaitable[Verdict]]:
        """Return a function that gives the verdict on each call of a flow's part.

        A destructive call that ran there before, or may have, always needs approval. The first of several effectful
        calls (`later` are the others) is asked about together with them: one yes approves all whose arguments are
        known, so that a refusal leaves none of them half done.
        """
        before: dict[str, Before] = {}
        for each in ran:
            if each.call:
                before[each.call] = "unknown" if each.failed else "done"

        @self_bounded
        async def approve(call: ToolCall) -> Verdict:
            outcome: Before = ""
            if before and call.destructive:
                outcome = before.get(fingerprint(call.tool, call.arguments), "")
            if not outcome and call.tool in uncertain_tools:
                outcome = "unknown"
            verdict = await self._verdict(call, flow, path, outcome, later)
            if call.destructive and isinstance(verdict, Allow):
                self.passed[flow, path, call.tool] = (_place_of(path, call.tool, call.arguments), call.id)
            return verdict

        return approve

    async def _verdict(
        self, call: ToolCall, flow: str, path: str, before: Before, later: Sequence[CallToCome]
    ) -> Verdict:
        verdict = await self._approval.verdict(replace(call, found=dict(self.found.get(flow, {}))))
        then: list[PendingCall] = []
        if later or isinstance(verdict, Ask):
            then = await self._later_calls(call.id, later, flow, path)
        if isinstance(verdict, Allow):
            asking: list[PendingCall] = []
            for wanted, to_come in zip(then, later, strict=True):
                if self._approval.asks_user(to_come.tool):
                    asking.append(wanted)
            # One yes is for all of them, if it can cover each that needs one.
            is_for_all = bool(asking) and all(wanted.identity for wanted in asking)
            verdict = await self._asked_besides(call, before, is_for_all=is_for_all)
        if isinstance(verdict, Deny) or (isinstance(verdict, Allow) and not self._unused_grants):
            return verdict
        reason = verdict.reason if isinstance(verdict, Ask) else ""
        wanted = PendingCall.from_call(call, flow=flow, path=path, reason=reason, before=before)
        granted = self._find_granted(wanted, call)
        if granted is not None:
            # A yes is for one call: a second, equal call needs a yes of its own.
            self._unused_grants.remove(granted)
            self._question_ids[call.id] = granted.id
            return Allow()
        if isinstance(verdict, Allow):
            return verdict
        if self.pending is None:
            named = _unseen_names(self.named.get(flow, ()), [wanted, *then])
            self.pending = wanted.model_copy(update={"then": tuple(then), "named": named})
        elif self._is_beside(flow, path) and not self._add(wanted):
            return Deny("it cannot be shown together with the others that have to be approved: call it after them")
        return verdict

    def announcing(self, flow: str, path: str) -> Announce:
        """Return a function that takes the calls of a model's chain that use the output of one that needs approval."""

        def announce(call: ToolCall, digest: str, uses: Sequence[str]) -> bool:
            asked = () if self.pending is None else self.pending.calls
            asked_ids = {each.id for each in asked}
            if not self._is_beside(flow, path) or not asked_ids.issuperset(uses):
                return False
            wanted = PendingCall.from_call(call, flow=flow, path=path)
            return self._add(wanted.model_copy(update={"uses": tuple(uses), "digest": digest}))

        return announce

    def _is_beside(self, flow: str, path: str) -> bool:
        """Whether a call of a model's chain at this place is asked about together with the one that is pending."""
        pending = self.pending
        return pending is not None and (pending.flow, pending.path, pending.door) == (flow, path, "chain")

    def _add(self, wanted: PendingCall) -> bool:
        """Ask about one more call, if the question has room for it. The same destructive call is asked about once."""
        if self.pending is None:
            return False
        asked = self.pending.calls
        if wanted.destructive and any(each.is_same(wanted) for each in asked):
            return True
        shown = [describe_call(each.display_name, each.words, each.known_arguments) for each in (*asked, wanted)]
        if sum(map(len, shown)) > LONGEST_TOGETHER or display_problem(wanted.words, wanted.known_arguments):
            return False
        self.pending = self.pending.model_copy(update={"more": (*self.pending.more, wanted)})
        return True

    def _find_granted(self, wanted: PendingCall, call: ToolCall) -> PendingCall | None:
        """Return what the user has approved, if it is this call: as it was shown, or as it was announced."""
        place = (wanted.flow, wanted.path, wanted.door, wanted.tool)
        for granted in self._unused_grants:
            if granted.is_same(wanted):
                return granted
            # An announced call was not shown as one that was made before.
            is_announced = (granted.flow, granted.path, granted.door, granted.tool) == place and not wanted.before
            if is_announced and granted.is_completed_by(call, self._outputs):
                return granted
        return None

    async def _asked_besides(self, call: ToolCall, before: Before, *, is_for_all: bool) -> Verdict:
        if not (before or is_for_all):
            return Allow()
        # Deny what cannot be shown: nobody can approve it.
        verdict = await verdict_of(None, call, "always")
        if isinstance(verdict, Ask):
            return Ask("the same call was made before in this flow" if before else "it is the first of several")
        return verdict if before else Allow()

    async def _later_calls(self, first: str, later: Sequence[CallToCome], flow: str, path: str) -> list[PendingCall]:
        """Return the later calls as shown to the user, after the call with the id `first`.

        A call is shown with its arguments if all are known or come from calls that are shown before it, and if there is
        room. The others are only named.
        """
        found: list[PendingCall] = []
        room = LONGEST_TOGETHER
        covered: list[str] = [first]
        """The id of each call that a yes covers, in order; "" for one that is only named."""
        for to_come in later:
            tool = to_come.tool
            uses = tuple(covered[place] for place in to_come.sources)
            # The `confirm` of a tool is not asked for words where it may need what is not known yet.
            call = await call_of(tool, to_come.arguments, door="executor", known=not to_come.missing)
            wanted = PendingCall.from_call(call, flow=flow, path=path)
            if to_come.missing:
                wanted = wanted.model_copy(update={"uses": uses, "digest": tool.digest})
            room -= len(describe_call(wanted.display_name, wanted.words, wanted.arguments))
            is_open = bool(to_come.missing) and not (uses and all(uses))
            if is_open or room < 0 or call.unshown or display_problem(wanted.words, wanted.arguments):
                named: dict[str, Any] = {"arguments": {}, "words": "", "identity": "", "uses": (), "digest": ""}
                wanted = wanted.model_copy(update=named)
            found.append(wanted)
            covered.append(wanted.id if wanted.identity or wanted.uses else "")
        return found


def _unseen_names(named: Sequence[str], calls: Sequence[PendingCall]) -> tuple[str, ...]:
    """Return how the user named things, without what these calls show."""
    shown = " ".join(describe_call(each.display_name, each.words, each.known_arguments) for each in calls)
    words = set(stems(shown))
    unseen: list[str] = []
    for name in named:
        if name.casefold() not in shown.casefold() and not words.issuperset(stems(name)):
            unseen.append(name)
    return tuple(unseen)


def _place_of(path: str, tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{path} {fingerprint(tool, arguments)}"
