"""The router: a turn of an agent as a graph of guards, one decision and one action per round."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from time import perf_counter
from typing import Any, Final, Generic, Literal, cast

from jazz_select.agent.graph.guards import (
    CONTINUE,
    COUNTED,
    FINISH,
    GUARD_FAILED,
    ActionDecision,
    Guard,
    NodeRecord,
    Route,
    StateT,
    TurnState,
    check_guards,
    function_name,
    run_guards,
    with_updates,
)
from jazz_select.agent.graph.snapshot import Snapshot
from jazz_select.agent.graph.topology import FAILED, NodeExit, Topology, mermaid, walk
from jazz_select.errors import RouterError, SnapshotError
from jazz_select.telemetry import span
from jazz_select.text import describe_error
from jazz_select.threads import is_async
from jazz_select.values import Tier

PRE_CHECK: Final = "pre_check"
Updates = Mapping[str, Any]
Acquire = Callable[[StateT], ActionDecision | None]
"""Decides without a model; None to let a model plan."""
Planner = Callable[[StateT], Awaitable[ActionDecision]]
"""Decides by one model call."""
Rewrite = Callable[[StateT, ActionDecision], ActionDecision]
"""Changes a model's decision. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Generic[StateT]):
    """An action of a turn.

    Attributes:
        run: Performs it, sync or async; returns changed fields of the state, or a Route if `then` has several edges.
        then: The next node, or one per tag that `run` may return.
        planned: Whether it may be decided on; False for one that only follows another.
        pauses: Whether the turn pauses after it, such as after a question to the user.
    """

    run: Callable[[StateT], Any]
    then: str | Mapping[str, str] = PRE_CHECK
    planned: bool = True
    pauses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[StateT]):
    """A turn that has finished or paused.

    Attributes:
        status: `finished`, or `paused` if it is to be resumed.
        state: The state.
        trace: The nodes that were passed.
        node: The next node if paused.
    """

    status: Literal["finished", "paused"] = "paused"
    state: StateT
    trace: tuple[NodeRecord, ...] = ()
    node: str = ""

    def snapshot(self) -> Snapshot:
        """Return a snapshot to resume from.

        Raises:
            SnapshotError: The turn has ended, or its state does not survive JSON.
        """
        return Snapshot.take(self.node, self.state, self.trace)


def route_of_decision(decision: ActionDecision, known: Collection[str]) -> Route:
    """Return the route of a decision; an unknown action ends the turn."""
    if decision.action not in known:
        reason = f"there is no action {decision.action!r:.80}"
        decision = decision.model_copy(update={"action": FINISH, "reason": reason})
    return Route(decision.action, {}, decision)


def as_decision(found: object, tier: Tier) -> ActionDecision:
    """Return an author's result as a decision of this tier."""
    if not isinstance(found, ActionDecision):
        raise TypeError(f"it gave {type(found).__name__}, not an ActionDecision")
    return found.model_copy(update={"tier": tier})


def rewritten(rewrite: Rewrite[StateT], name: str, state: StateT, decision: ActionDecision) -> ActionDecision:
    """Return the rewritten decision with a note of the change; a rewrite that fails ends the turn."""
    try:
        found = as_decision(rewrite(state, decision), decision.tier)
        if found == decision:
            return decision
    except Exception as error:  # noqa: BLE001 - any error of an author's function
        reason = f"{name} failed: {describe_error(error)}"
        return decision.model_copy(update={"action": FINISH, "reason": reason, "notes": (*decision.notes, reason)})
    # Earlier notes stay, even if the rewrite returns a new decision.
    own = tuple(each for each in found.notes if each not in decision.notes)
    note = f"{name}: {decision.action} → {found.action}"
    return found.model_copy(update={"notes": (*decision.notes, *own, note)})


def exit_of_action(name: str, given: object, ways: Mapping[str, str]) -> Route:
    """Return an action's exit; with a single edge, the action need not name its tag."""
    if given is not None and not isinstance(given, Route | Mapping):
        return failed_route(f"{name} answered with {type(given).__name__}, not with fields of the state")
    route = given if isinstance(given, Route) else Route("", cast("Updates | None", given) or {})
    if route.tag in ways:
        return route
    own = [tag for tag in ways if tag != FAILED]
    if len(own) == 1 and route.tag in {"", CONTINUE}:
        return Route(own[0], route.updates, route.decision)
    return failed_route(f"{name} answered {route.tag!r}, for which there is no edge")


def failed_route(reason: str, tag: str = FAILED) -> Route:
    """Return a route that ends the turn after a failure."""
    return Route(tag, {}, ActionDecision(action=FINISH, reason=reason))


DECIDE: Final = "acquire_or_plan"
TOO_MANY: Final = "finish_too_many_iterations"
"""The tag of a turn that exceeded its number of rounds."""
_RESERVED: Final = (CONTINUE, TOO_MANY, GUARD_FAILED, FAILED)


def laid_out(
    guards: Sequence[Guard[Any]],
    routes: Mapping[str, str],
    actions: Mapping[str, Action[Any]],
    validators: Iterable[str],
) -> Topology:
    """Return the checked topology of a router.

    Raises:
        RouterError: Two nodes share a name, a tag has no edge, an edge leads nowhere, a node is unreachable, or a loop
            has no guard.
    """
    between = (DECIDE, *validators)
    nodes = (PRE_CHECK, *between, *actions, FINISH)
    twice = sorted({name for name in nodes if nodes.count(name) > 1})
    if twice:
        raise RouterError(f"two nodes have one name: {', '.join(twice)}")
    _check_tags(guards, routes, actions)
    planned = [*(name for name, action in actions.items() if action.planned), FINISH]
    edges: dict[str, Mapping[str, str]] = {
        PRE_CHECK: {CONTINUE: DECIDE, **routes, TOO_MANY: FINISH, GUARD_FAILED: FINISH},
        **{node: {"": following} for node, following in pairwise(between)},
        between[-1]: {name: name for name in planned},
        **{name: {**_ways(action), FAILED: FINISH} for name, action in actions.items()},
    }
    topology = Topology(nodes, edges)
    topology.check(PRE_CHECK)
    return topology


def check_kinds(*, guards: object, routes: object, actions: object, functions: Mapping[str, object]) -> None:
    """Check the types of a router's parts; of the functions only `plan` may be async."""
    check_guards(guards, RouterError)
    if not isinstance(routes, Mapping):
        raise RouterError(f"routes must be a mapping of tags to nodes, got {routes!r:.80}")
    named = cast("Mapping[object, object]", actions) if isinstance(actions, Mapping) else {"": actions}
    for name, each in named.items():
        if not isinstance(each, Action) or not callable(cast("Action[Any]", each).run):
            wanted = "actions must be a mapping of names to Actions (Action(run=…) makes one of a function)"
            raise RouterError(f"{wanted}, got {name!r:.40}: {each!r:.80}")
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise RouterError(f"{name} must be a function of the state, got {function!r:.80}")
        if name != "plan" and is_async(function):
            raise RouterError(f"{name} is async, and waits for nothing: only plan and actions may")


def _check_tags(guards: Sequence[Guard[Any]], routes: Mapping[str, str], actions: Mapping[str, Action[Any]]) -> None:
    for each in guards:
        for tag in each.tags:
            if tag in _RESERVED:
                raise RouterError(f"the tag {tag!r} of guard {each.name} has a meaning already; call it otherwise")
            if tag not in routes:
                raise RouterError(f"the tag {tag!r} of guard {each.name} has no edge; add it to routes")
    idle = routes.keys() - set(chain.from_iterable(each.tags for each in guards))
    if idle:
        raise RouterError(f"no guard answers {', '.join(map(repr, sorted(idle)))}, which routes has")
    for name, action in actions.items():
        ways = _ways(action)
        if not ways:
            raise RouterError(f"{name} has no way out; give it an edge, to {PRE_CHECK} as a rule")
        if FAILED in ways:
            raise RouterError(f"the tag {FAILED!r} of {name} has a meaning already; call it otherwise")


def _ways(action: Action[Any]) -> dict[str, str]:
    return {"": action.then} if isinstance(action.then, str) else dict(action.then)


_UNDECIDED = "no guard decides what is to be done, acquire neither, and there is no planner"


class Router(Generic[StateT]):
    """A turn as a graph: built and checked once, then run for any number of concurrent turns."""

    def __init__(  # noqa: PLR0913 - the parts of a turn
        self,
        state_type: type[StateT],
        *,
        guards: Sequence[Guard[StateT]],
        routes: Mapping[str, str],
        actions: Mapping[str, Action[StateT]],
        plan: Planner[StateT] | None = None,
        acquire: Acquire[StateT] | None = None,
        rewrites: Sequence[Rewrite[StateT]] = (),
        validators: Mapping[str, Rewrite[StateT]] | None = None,
        finish: Callable[[StateT], Updates | None] | None = None,
        max_iterations: int = 100,
        name: str = "turn",
    ) -> None:
        """Build and check the graph.

        Args:
            state_type: The type of the turn's state.
            guards: Guards in the order in which each round checks them.
            routes: The node for each tag of the guards.
            actions: Actions by name; `finish` is built in.
            plan: Asks a model for a decision, once per round. Without it, the turn ends if neither a guard nor
                `acquire` decides.
            acquire: Decides without a model if it can.
            rewrites: Rewrites applied to a model's decision, in this order.
            validators: Nodes between the decision and the action, in this order.
            finish: Returns the state's changes at the end of a turn.
            max_iterations: Most rounds of a turn, whatever the guards say.
            name: Name in traces and diagrams.

        Raises:
            RouterError: A part has the wrong type, a tag has no edge, an edge leads nowhere, or a loop has no guard.
        """
        functions = {f"rewrite {function_name(each)}": each for each in rewrites}
        functions |= {f"validator {name}": each for name, each in (validators or {}).items()}
        functions |= {"plan": plan, "acquire": acquire}
        check_kinds(guards=guards, routes=routes, actions=actions, functions=functions)
        if not (isinstance(state_type, type) and issubclass(state_type, TurnState)):  # pyright: ignore[reportUnnecessaryIsInstance] - authors without a type checker
            raise RouterError(f"{state_type!r:.80} is no type of state; derive it from TurnState")
        if max_iterations < 1:
            raise RouterError(f"max_iterations must be at least 1, got {max_iterations}")
        self.name = name
        self._state_type = state_type
        self._guards = tuple(guards)
        self._actions = dict(actions)
        self._plan, self._acquire = plan, acquire
        self._rewrites = tuple(rewrites)
        self._validators = dict(validators or {})
        self._finish: Callable[[StateT], Updates | None] = finish or (lambda _: None)
        self._max_iterations = max_iterations
        self._planned = frozenset({FINISH, *(name for name, action in self._actions.items() if action.planned)})
        self._topology = laid_out(self._guards, routes, self._actions, self._validators)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return self._topology.nodes

    def mermaid(self) -> str:
        """Return the graph as a mermaid flowchart."""
        return mermaid(self._topology)

    def pre_check(self, state: StateT) -> Route:
        """Return the guards' route with the state's updates. Asks no model and has no effects."""
        entered = state.model_copy(update={"iterations": state.iterations + 1})
        counted: dict[str, Any] = {"iterations": entered.iterations}
        if entered.iterations > self._max_iterations:
            reason = f"more than {self._max_iterations} rounds"
            return Route(TOO_MANY, counted, ActionDecision(action=FINISH, reason=reason))
        found = run_guards(self._guards, entered)
        return Route(found.tag, {**found.updates, **counted}, found.decision)

    async def run(self, state: StateT, *, most_nodes: int | None = None) -> Run[StateT]:
        """Run a turn until it ends or an action pauses it.

        Args:
            state: The initial state.
            most_nodes: Pause after this many nodes.

        Raises:
            RouterError: The state has another type, or `most_nodes` is negative.
        """
        if not isinstance(state, self._state_type):
            raise RouterError(f"{self.name} runs on {self._state_type.__name__}, not on {type(state).__name__}")
        return await self._walk(Run(node=PRE_CHECK, state=state), most_nodes)

    async def resume(
        self,
        snapshot: Snapshot,
        updates: Updates | None = None,
        *,
        aliases: Mapping[str, str] | None = None,
        most_nodes: int | None = None,
    ) -> Run[StateT]:
        """Resume a paused turn.

        The next node follows from the snapshot's trace in this graph. Between the guards and the decided action, the
        guards are checked again, because the state may have changed; if one answers, a new round begins. Validators
        added since the snapshot are run.

        Args:
            snapshot: The paused turn.
            updates: New fields of the state, such as the answer that was waited for.
            aliases: Current names by former names of nodes and tags.
            most_nodes: Pause again after this many nodes.

        Raises:
            SnapshotError: The snapshot does not fit this router.
            RouterError: The updates are no valid fields of the state, or `most_nodes` is negative.
        """
        node = snapshot.node_of(self.nodes, aliases or {})
        state = snapshot.state_of(self._state_type)
        if state.decision is not None and state.decision.action in (aliases or {}):
            action = (aliases or {})[state.decision.action]
            state = with_updates(state, {"decision": state.decision.model_copy(update={"action": action})})
        if node in self._validators and state.decision is not None and state.decision.action not in self._planned:
            action = state.decision.action
            problem = f"there is no action {action!r} any more; pass aliases={{{action!r}: …}} if it was renamed"
            raise SnapshotError(problem, missing=(action,))
        node, in_round = self._resume_point(node, snapshot.last(state, aliases or {}), aliases or {})
        try:
            state = with_updates(state, updates or {})
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise RouterError(f"the updates are no state: {describe_error(error)}") from error
        if in_round and run_guards(self._guards, state).tag != CONTINUE:
            node = PRE_CHECK
        return await self._walk(Run(node=node, state=state, trace=snapshot.trace), most_nodes)

    def _resume_point(self, node: str, last: NodeRecord | None, aliases: Mapping[str, str]) -> tuple[str, bool]:
        """Return the node at which a snapshot resumes, and whether it lies after passed guards of the same round."""
        if node == PRE_CHECK:
            return node, False
        if last is None:
            raise SnapshotError(f"nothing was passed before {node!r}, and a turn begins at {PRE_CHECK}")
        between = (DECIDE, *self._validators)
        try:
            ways = self._topology.edges.get(last.node, {})
            route = last.route if last.route in ways else aliases.get(last.route, last.route)
            following = self._topology.following(last.node, route)
        except RouterError as error:
            raise SnapshotError(str(error)) from error
        if following != node and not (following in between and node in {*between, *self._planned}):
            leads = f"leads to {following!r}" if following else "leads nowhere"
            problem = f"{last.node!r} {leads} in this graph, not to {node!r}; pass aliases where names have changed"
            raise SnapshotError(problem, missing=() if following else (last.node,))
        in_round = last.node in between or (last.node == PRE_CHECK and last.route == CONTINUE)
        return following, in_round and following != FINISH

    async def _walk(self, run: Run[StateT], most_nodes: int | None) -> Run[StateT]:
        if most_nodes is not None and most_nodes < 0:
            raise RouterError(f"most_nodes must be at least 0, got {most_nodes}")
        with span(self.name, "turn") as traced:
            node, run = await walk(self._topology, run.node, run, self._run_node, most_nodes=most_nodes)
            run = replace(run, status="paused" if node else "finished", node=node)
            if traced is not None:
                traced.note({"status": run.status, "iterations": run.state.iterations})
        return run

    async def _run_node(self, node: str, progress: Run[StateT]) -> NodeExit[Run[StateT]]:
        began = perf_counter()
        with span(node, "node") as traced:
            route = await self._route_of(node, progress.state)
            try:
                made = {} if route.decision is None else {"decision": route.decision}
                # `finish` keeps the tag that led to it: it says why the turn ended.
                left_by = {} if node == FINISH else {"route": route.tag}
                _check_count(node, route, progress.state)
                state = with_updates(progress.state, {**route.updates, **made, **left_by})
            except (LookupError, TypeError, ValueError) as error:
                ways = self._topology.edges.get(node, {})
                tag = next((tag for tag in (FAILED, GUARD_FAILED, FINISH, "") if tag in ways), FAILED)
                route = failed_route(f"{node} answered what is no state: {describe_error(error)}", tag)
                # Not validated: an action may have mutated the state it was given.
                state = progress.state.model_copy(update={"decision": route.decision, "route": route.tag})
            record = NodeRecord(
                node=node,
                iteration=state.iterations,
                route=route.tag,
                action=state.decision.action if state.decision else "",
                duration_s=perf_counter() - began,
            )
            if traced is not None:
                _trace_node(traced, record, state)
        pauses = node in self._actions and self._actions[node].pauses and route.tag != FAILED
        return NodeExit(replace(progress, state=state, trace=(*progress.trace, record)), route.tag, pauses)

    async def _route_of(self, node: str, state: StateT) -> Route:
        if node == PRE_CHECK:
            return self.pre_check(state)
        if node == DECIDE:
            return route_of_decision(await self._decide(state), self._planned)
        if node in self._validators:
            decision = state.decision or ActionDecision(action=FINISH, reason=f"{node}: there is no decision")
            return route_of_decision(rewritten(self._validators[node], node, state, decision), self._planned)
        if node == FINISH:
            return await self._run_action(node, self._finish, state)
        return await self._run_action(node, self._actions[node].run, state)

    async def _decide(self, state: StateT) -> ActionDecision:
        try:
            acquired = self._acquire(state) if self._acquire else None
            if acquired is not None:
                return as_decision(acquired, Tier.DETERMINISTIC)
        except Exception as error:  # noqa: BLE001 - any error of an author's function
            return ActionDecision(action=FINISH, reason=f"acquisition failed: {describe_error(error)}")
        if self._plan is None:
            return ActionDecision(action=FINISH, reason=_UNDECIDED, tier=Tier.OPEN)
        try:
            planned = as_decision(await self._plan(state), Tier.GUIDED)
        except Exception as error:  # noqa: BLE001 - any error of a model
            return ActionDecision(action=FINISH, reason=f"planning failed: {describe_error(error)}", tier=Tier.OPEN)
        for each in self._rewrites:
            planned = rewritten(each, function_name(each), state, planned)
        return planned

    async def _run_action(self, node: str, run: Callable[[StateT], Any], state: StateT) -> Route:
        try:
            given = run(state)
            if inspect.isawaitable(given):
                given = await given
        except Exception as error:  # noqa: BLE001 - any error of an action
            return failed_route(f"{node} failed: {describe_error(error)}")
        return exit_of_action(node, given, self._topology.edges.get(node) or {"": ""})


def _check_count(node: str, route: Route, state: TurnState) -> None:
    if node != PRE_CHECK and route.updates.get("iterations", state.iterations) != state.iterations:
        raise ValueError(COUNTED)


def _trace_node(traced: Any, record: NodeRecord, state: TurnState) -> None:
    decision = state.decision
    traced.note({"route": record.route, "action": record.action, "iteration": record.iteration})
    if decision is not None and record.node == DECIDE:
        traced.note({"tier": decision.tier.value})
        said = {"reason": decision.reason, "arguments": dict(decision.arguments), "notes": list(decision.notes)}
        traced.hold(said)
