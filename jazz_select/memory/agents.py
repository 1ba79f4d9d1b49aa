"""What a memory knows of each agent: the model fitted to its flows, and what is wrong with its index."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from time import monotonic
from weakref import WeakKeyDictionary, WeakValueDictionary

from jazz_select.memory.encoder import TermCounts
from jazz_select.memory.engines.points import SYNCED, fault_at
from jazz_select.memory.fit.model import UNREAD, RecallModel
from jazz_select.ports import FlowStore
from jazz_select.threads import in_thread

_FRESH_S = 60.0
"""How long a model read from a store that others write to is trusted."""
_MOST_AGENTS, _MOST_BYTES = 1_024, 64 << 20
"""Agents whose models are kept, and the memory that these take together."""
_SMALL, _NAME = 2_000, 200
"""Bytes, about, of a model without its matrix, and of each name in it."""
_MOST_LOOKED_THROUGH = 5_000
"""Flows of an agent that are each looked at before its first recall: some ten milliseconds, in a thread."""
_MOST_COUNTED = 5_000
"""Flows whose words are counted where a flow was written since the last sync; of more, those of the lowest keys, which
are numbers as good as drawn by lot, and the same ones everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """An agent's model, and the other layouts its flows lie in while its move to this one is not finished."""

    model: RecallModel
    elsewhere: tuple[str, ...] = ()
    read_at: float = 0.0
    flows: int = 0
    """How many there were in the index."""
    notes: tuple[str, ...] = ()
    """What is wrong with what was read."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        second = None if self.model.second is None else self.model.second.transform
        arrays = (self.model.transform, second, self.model.terms)
        named = len(self.model.names) + len(self.model.usual.flows)
        return _SMALL + _NAME * named + sum(each.nbytes for each in arrays if each is not None)


class Agents:
    """The state of each agent, read when first needed, and kept of those that were asked for last."""

    def __init__(self, store: FlowStore, *dims: int) -> None:
        """Read from this store, of vectors of these lengths."""
        self._store = store
        self._dims = dims
        self._states: OrderedDict[str, AgentState] = OrderedDict()
        self._looked_through: set[str] = set()
        # A lock belongs to an event loop, and a memory may be used from several. Who holds one or waits keeps it.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Lock]]
        self._locks = WeakKeyDictionary()

    def writing(self, agent_id: str) -> asyncio.Lock:
        """Held by whoever writes this agent's flows."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        lock = locks.get(agent_id)
        if lock is None:
            lock = locks[agent_id] = asyncio.Lock()
        return lock

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._states)

    def forget(self, agent_id: str) -> None:
        """Read it again next time."""
        self._states.pop(agent_id, None)

    async def state(self, agent_id: str) -> AgentState:
        """From memory where it is fresh, else from the store."""
        state = self._states.get(agent_id)
        if state is None or (self._store.shared and monotonic() - state.read_at > _FRESH_S):
            state = self._states[agent_id] = await self._read(agent_id)
            self._make_room()
        elif agent_id in self._states:
            self._states.move_to_end(agent_id)
        return state

    def _make_room(self) -> None:
        """Let go of those that were asked for longest ago: each is a matrix, and agents may come and go."""
        held = sum(state.size for state in self._states.values())
        while len(self._states) > 1 and (len(self._states) > _MOST_AGENTS or held > _MOST_BYTES):
            held -= self._states.popitem(last=False)[1].size

    async def _read(self, agent_id: str) -> AgentState:
        """The note is the last thing that a sync writes, so without one a move to this layout may be under way."""
        note = await self._store.read_note(agent_id)
        elsewhere = () if note is not None else tuple(await self._store.other_layouts(agent_id))
        model = RecallModel.from_note(note, dims=self._dims).by_key(lambda flow: self._store.key(agent_id, flow))
        flows = await self._store.count(agent_id)
        notes = [UNREAD] if model.caveat == UNREAD else []
        if note is None and flows:
            payloads = await self._store.payloads(agent_id)
            notes += [_cut_short(agent_id)] if any(each.get(SYNCED) for each in payloads.values()) else []
        elif model.flows is not None and flows < len(model.flows):
            notes.append(
                f"the index has {flows} of the {len(model.flows)} flows that were last written for agent {agent_id!r}: "
                "run sync_registry (jazz-select sync), which writes the others anew"
            )
        elif model.flows is not None and flows > len(model.flows):
            notes.append(_too_many(agent_id, flows, len(model.flows)))
        if flows and (faults := await self._unreadable(agent_id, flows)):
            notes.append(
                f"{faults} of the {flows} entries of agent {agent_id!r} cannot be read: run sync_registry "
                "(jazz-select sync), which writes them anew or removes them"
            )
        if model.terms is None or (model.flows is not None and flows != len(model.flows)):
            terms = await self._store.terms(agent_id, _MOST_COUNTED) if flows else []
            model = replace(model, terms=await in_thread(TermCounts.of, terms))
        return AgentState(model=model, elsewhere=elsewhere, read_at=monotonic(), flows=flows, notes=tuple(notes))

    async def _unreadable(self, agent_id: str, flows: int) -> int:
        """How many cannot be read in an index that nobody else writes to, looked at once after it was opened.

        Of a shared or a large one that would take too long; there recall tells of those that it comes upon.
        """
        if self._store.shared or agent_id in self._looked_through or flows > _MOST_LOOKED_THROUGH:
            return 0
        payloads = await self._store.payloads(agent_id)
        faults = await in_thread(
            lambda: sum(bool(fault_at(self._store, agent_id, key, each)) for key, each in payloads.items())
        )
        if not faults:
            if len(self._looked_through) >= _MOST_AGENTS:
                self._looked_through.clear()
            self._looked_through.add(agent_id)
        return faults


def _too_many(agent_id: str, flows: int, noted: int) -> str:
    return (
        f"the index has {flows} flows of agent {agent_id!r}, and {noted} were last written: a sync was cut short, or "
        "two wrote at once; run sync_registry (jazz-select sync), which leaves those of its catalogue"
    )


def _cut_short(agent_id: str) -> str:
    return (
        f"the last sync of agent {agent_id!r} was cut short, or the index has lost what was noted of its flows: "
        "there may be more of them; run sync_registry (jazz-select sync)"
    )
