"""Guards, routes, actions and validators to nodes and edges, with every mistake in them refused by its name."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, cast

from jazz_select.agent.graph.actions import PRE_CHECK, Action
from jazz_select.agent.graph.guards import CONTINUE, GUARD_FAILED, Guard
from jazz_select.agent.graph.state import FINISH
from jazz_select.agent.graph.topology import FAILED, Topology
from jazz_select.errors import RouterError
from jazz_select.threads import is_async

DECIDE: Final = "acquire_or_plan"
TOO_MANY: Final = "finish_too_many_iterations"
"""The tag of a turn that went on for too many rounds."""
_RESERVED: Final = (CONTINUE, TOO_MANY, GUARD_FAILED, FAILED)


def laid_out(
    guards: Sequence[Guard[Any]],
    routes: Mapping[str, str],
    actions: Mapping[str, Action[Any]],
    validators: Iterable[str],
) -> Topology:
    """The nodes and edges of a router, checked.

    Raises:
        RouterError: A tag has no edge, an edge leads nowhere, a node is never reached, a loop passes no guard, …
    """
    between = (DECIDE, *validators)
    nodes = (PRE_CHECK, *between, *actions, FINISH)
    twice = sorted({name for name in nodes if nodes.count(name) > 1})
    if twice:
        raise RouterError(f"two nodes have one name: {', '.join(twice)}")  # noqa: EM102, TRY003 - said once
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


def way_out(ways: Mapping[str, str]) -> str:
    """The tag by which a node with these edges is left when it failed."""
    return next((tag for tag in (FAILED, GUARD_FAILED, FINISH, "") if tag in ways), FAILED)


def called(function: object) -> str:
    """What an author's function is called."""
    return str(getattr(function, "__name__", type(function).__name__))


def check_kinds(*, guards: object, routes: object, actions: object, functions: Mapping[str, object]) -> None:
    """See that the parts of a router are of their kinds, as far as they are used late.

    Raises:
        RouterError: One is not.
    """
    for each in cast("Sequence[object]", guards) if isinstance(guards, Sequence) else [guards]:
        if not isinstance(each, Guard) or each is guards:
            raise RouterError(f"guards are a list of Guards (make one of a function with @guard), not {each!r:.80}")  # noqa: EM102, TRY003
    if not isinstance(routes, Mapping):
        raise RouterError(f"routes are a mapping of tags to nodes, not {routes!r:.80}")  # noqa: EM102, TRY003 - said once
    named = cast("Mapping[object, object]", actions) if isinstance(actions, Mapping) else {"": actions}
    for name, each in named.items():
        if not isinstance(each, Action) or not callable(cast("Action[Any]", each).run):
            wanted = "actions are a mapping of names to Actions (Action(run=…) makes one of a function)"
            raise RouterError(f"{wanted}, not {name!r:.40}: {each!r:.80}")  # noqa: EM102, TRY003 - said once
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise RouterError(f"{name} is a function of the state, not {function!r:.80}")  # noqa: EM102, TRY003


def check_sync(functions: Mapping[str, object]) -> None:
    """See that what has to be pure is not async.

    Raises:
        RouterError: One is.
    """
    for name, function in functions.items():
        if is_async(function):
            raise RouterError(f"{name} is async, and waits for nothing: only plan and actions may")  # noqa: EM102, TRY003


def _check_tags(guards: Sequence[Guard[Any]], routes: Mapping[str, str], actions: Mapping[str, Action[Any]]) -> None:
    for each in guards:
        for tag in each.tags:
            if tag in _RESERVED:
                raise RouterError(f"the tag {tag!r} of guard {each.name} has a meaning already; call it otherwise")  # noqa: EM102, TRY003
            if tag not in routes:
                raise RouterError(f"the tag {tag!r} of guard {each.name} has no edge; add it to routes")  # noqa: EM102, TRY003
    idle = routes.keys() - set(chain.from_iterable(each.tags for each in guards))
    if idle:
        raise RouterError(f"no guard answers {', '.join(map(repr, sorted(idle)))}, which routes has")  # noqa: EM102, TRY003
    for name, action in actions.items():
        ways = _ways(action)
        if not ways:
            raise RouterError(f"{name} has no way out; give it an edge, to {PRE_CHECK} as a rule")  # noqa: EM102, TRY003
        if FAILED in ways:
            raise RouterError(f"the tag {FAILED!r} of {name} has a meaning already; call it otherwise")  # noqa: EM102, TRY003


def _ways(action: Action[Any]) -> dict[str, str]:
    return {"": action.then} if isinstance(action.then, str) else dict(action.then)
