"""The open flows of a conversation as a value, the active one last, and how wishes are placed among them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jazz_select.agent.conversation import MOST_FLOWS, FlowKey, OpenFlow, PendingCall, bound_text
from jazz_select.agent.reading.grounding import Grounded
from jazz_select.agent.reading.reading import Wish
from jazz_select.json_values import storable_fields


@dataclass(frozen=True, slots=True)
class Agenda:
    """What is open: a stack of flows, and those that failed after a destructive call.

    Attributes:
        flows: The open flows, the active one on top, last. Those below are parked, or queued until it is their turn.
        failed: The flows that failed. A wish for one of them resumes it.
    """

    flows: tuple[OpenFlow, ...] = ()
    failed: tuple[OpenFlow, ...] = ()

    @property
    def top(self) -> OpenFlow | None:
        """The active flow."""
        return self.flows[-1] if self.flows else None

    @property
    def waiting(self) -> OpenFlow | None:
        """The active flow, if it waits for the user and no model works on it."""
        if self.top is None or self.top.status == "active":
            return None
        return self.top

    def with_top(self, flow: OpenFlow) -> "Agenda":
        """Replace the active flow."""
        return replace(self, flows=(*self.flows[:-1], flow))

    def without_top(self, kept: tuple[OpenFlow, ...] = ()) -> "Agenda":
        """Remove the active flow, and add `kept` to the failed ones."""
        return Agenda(self.flows[:-1], (*self.failed, *kept))

    def with_on_top(self, flow: OpenFlow) -> "Agenda":
        """Put a flow on top, in place of what was open of the same wish."""
        others = [each for each in self.flows if each.key != flow.key]
        return replace(self, flows=(*others, flow))

    def call_of_top(self, pending: PendingCall | None) -> PendingCall | None:
        """Return the pending call if it belongs to the flow on top or to none.

        A call that was saved without an id needs a new approval, because it cannot be claimed.
        """
        if pending is None or not pending.id:
            return None
        is_of_top = self.top is not None and pending.flow == self.top.name
        return pending if is_of_top or not pending.flow else None

    def listed_in(self, question: PendingCall | None) -> list[OpenFlow]:
        """Return the flows below the top that are queued with a call of their own which a question lists."""
        if question is None:
            return []
        listed: list[OpenFlow] = []
        for flow in self.flows[:-1]:
            own_call = flow.pending
            if flow.status != "queued" or own_call is None:
                continue
            if any(call.is_same(own_call) for call in question.calls):
                listed.append(flow)
        return listed

    def all_listed(self, question: PendingCall | None) -> list[OpenFlow]:
        """Return the flow on top and those that its question lists beside it, in the question's order."""
        if self.top is None or question is None or question.flow != self.top.name:
            return []
        return [self.top, *reversed(self.listed_in(question))]

    def move_to_top(self, key: FlowKey) -> "Agenda":
        """Put an open flow on top."""
        for flow in self.flows:
            if flow.key == key:
                return self.with_on_top(flow)
        return self

    def with_queued(self, reached: OpenFlow, question: PendingCall | None) -> "Agenda":
        """Store how far a queued flow came. Those that the question lists lie below the top, in its order."""
        below = [reached if flow.key == reached.key else flow for flow in self.flows[:-1]]
        top = self.flows[-1:]
        stored = replace(self, flows=(*below, *top))
        listed = stored.listed_in(question)
        others = flows_without(below, listed)
        return replace(stored, flows=(*others, *listed, *top))

    def without_same_wish(self) -> "Agenda":
        """Drop the queued wishes for the same flow with the same values as the one on top: "no, only the other"."""
        top = self.top
        if top is None or not top.answers:
            return self
        wanted = (top.name, "queued", top.answers)
        alike: list[OpenFlow] = []
        for flow in self.flows[:-1]:
            # A flow that has made calls is kept: it is more than a wish.
            if (flow.name, flow.status, flow.answers) == wanted and not flow.past_calls:
                alike.append(flow)
        return replace(self, flows=tuple(flows_without(self.flows, alike)))

    # --- wishes --------------------------------------------------------------

    def split_by_room(self, wishes: Sequence[Wish]) -> tuple[tuple[Wish, ...], tuple[Wish, ...]]:
        """Return the wishes for which a conversation has room beside its open flows, and the others.

        A flow that is open is never pushed out by a new wish.
        """
        # What destroyed something is kept whatever its number, so it takes no room.
        room = MOST_FLOWS - len([flow for flow in self.flows if not flow.is_final])
        fitting: list[Wish] = []
        too_many: list[Wish] = []
        wanted = [(wish.flow, _storable_values(wish.grounded)) for wish in wishes]
        for wish, own in zip(wishes, self._find_resumed(wanted), strict=True):
            is_placed = own is not None and (own.is_final or any(flow is own for flow in self.flows))
            if is_placed:
                fitting.append(wish)
            elif room > 0:
                room -= 1
                fitting.append(wish)
            else:
                too_many.append(wish)
        return tuple(fitting), tuple(too_many)

    def with_wishes(self, wishes: Sequence[Wish], *, request: str, turn: int, logged: str = "") -> "Agenda":
        """Put the wished flows on top with their values, the first of them uppermost, so that it runs first."""
        ordered = self._active_first(wishes)
        wanted = [(wish.flow, _storable_values(wish.grounded)) for wish in ordered]
        placed = self._place_wishes(wanted, request=request, turn=turn, logged=logged)
        keys = {flow.key for flow in placed}
        rest = [flow for flow in self.flows if flow.key not in keys]
        failed = [flow for flow in self.failed if flow.key not in keys]
        chosen = [_with_values(flow, wish.grounded) for flow, wish in zip(placed, ordered, strict=True)]
        return Agenda((*rest, *reversed(chosen)), tuple(failed))

    def _active_first(self, wishes: Sequence[Wish]) -> list[Wish]:
        """Put the first wish for the active flow before all others, so that this flow stays on top."""
        ordered = list(wishes)
        top = self.top
        if top is None:
            return ordered
        for place, wish in enumerate(ordered):
            if wish.flow == top.name:
                return [wish, *ordered[:place], *ordered[place + 1 :]]
        return ordered

    def _place_wishes(
        self, wanted: Sequence[tuple[str, Mapping[str, Any]]], *, request: str, turn: int, logged: str
    ) -> list[OpenFlow]:
        """Return the flow of each wish, in order: the open or failed one that it comes back to, or a new one."""
        known = [*self.failed, *self.flows]
        placed: list[OpenFlow] = []
        for (name, _), own in zip(wanted, self._find_resumed(wanted), strict=True):
            if own is not None:
                placed.append(own)
                continue
            nth = 0
            for flow in (*known, *placed):
                if (flow.name, flow.turn) == (name, turn):
                    nth = max(nth, flow.nth + 1)
            text = bound_text(request)
            placed.append(OpenFlow(name=name, status="queued", request=text, turn=turn, nth=nth, logged=logged))
        return placed

    def _find_resumed(self, wanted: Sequence[tuple[str, Mapping[str, Any]]]) -> list[OpenFlow | None]:
        """Return the open or failed flow that each of these wishes comes back to, or None if it is begun anew.

        A wish comes back to a flow that has all its values. Otherwise the first wish for a flow comes back to the
        latest one, the active flow before all others, unless that is for another object: it has other values.
        """
        free = list({flow.key: flow for flow in (*self.failed, *self.flows)}.values())
        names: set[str] = set()
        resumed: list[OpenFlow | None] = []
        for name, values in wanted:
            latest_first = [flow for flow in reversed(free) if flow.name == name]
            own = next((flow for flow in latest_first if flow.has(values)), None)
            if own is None and name not in names:
                # The flow on top is corrected even by other values: "no, 60".
                corrected = [flow for flow in latest_first if flow is self.top or not flow.is_for_another(values)]
                own = corrected[0] if corrected else None
            if own is not None:
                free.remove(own)
            names.add(name)
            resumed.append(own)
        return resumed


def flows_without(flows: Sequence[OpenFlow], removed: Sequence[OpenFlow]) -> list[OpenFlow]:
    """Return the flows that are none of the `removed` objects.

    Two wishes with the same values are equal and still two wishes, so flows are compared by identity.
    """
    gone = {id(flow) for flow in removed}
    return [flow for flow in flows if id(flow) not in gone]


def _storable_values(stated: Grounded) -> dict[str, Any]:
    return storable_fields(stated.values)[0]


def _with_values(flow: OpenFlow, stated: Grounded) -> OpenFlow:
    """Return a chosen flow with the values in the message. Its pending call needs a new approval."""
    values = _storable_values(stated)
    if flow.status != "queued":
        # It has begun: a new value would change what its steps have used. Only what it waits for is new to it.
        new: dict[str, Any] = {}
        if flow.status == "waiting":
            new = {name: value for name, value in values.items() if name in flow.asks}
        return flow.model_copy(update={"pending": None, "answers": {**new, **flow.answers}})
    unclear = storable_fields(stated.unclear)[0]
    update: dict[str, Any] = {
        "answers": {**flow.answers, **values},
        "wrong": dict(stated.wrong),
        "refusal": stated.refusal,
        "choices": {name: tuple(meanings) for name, meanings in unclear.items()},
        "pending": None,
        "every": stated.every,
    }
    return flow.model_copy(update=update)
