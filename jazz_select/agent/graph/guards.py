"""Guards: pure checks of a turn's state before each decision, which may route the turn elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutine
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from pydantic import BaseModel, ConfigDict, Field

from jazz_select.arguments import checked
from jazz_select.errors import CannotDo, ConfigError, RouterError
from jazz_select.text import describe_error
from jazz_select.threads import is_async, run_with_timeout
from jazz_select.values import Tier

FINISH = "finish"
"""The action that ends a turn."""


class ActionDecision(BaseModel):
    """What to do next, and why.

    Attributes:
        action: The name of an action, or `finish`.
        arguments: Arguments of the action.
        reason: Why, in words.
        tier: Deterministic unless a model decided.
        notes: Changes by rewrites, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: str
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    reason: str = ""
    tier: Tier = Tier.DETERMINISTIC
    notes: tuple[str, ...] = ()


class GuardInput(BaseModel):
    """Base of what guards check: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class TurnState(GuardInput):
    """Base of a turn's state. Authors add fields, all of which must survive JSON.

    Attributes:
        iterations: How often the guards were entered.
        route: The tag by which the last node was left; set by the router, so that no action has to.
        decision: The last decision.
    """

    iterations: int = Field(default=0, ge=0)
    route: str = ""
    decision: ActionDecision | None = None


GuardInputT = TypeVar("GuardInputT", bound=GuardInput)
StateT = TypeVar("StateT", bound=TurnState)


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """One node that was passed.

    Attributes:
        node: Its name.
        iteration: Its round.
        route: The tag by which it was left.
        action: The last action decided on, if any.
        duration_s: Its duration in seconds; ignored by equality.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    node: str
    iteration: int
    route: str
    action: str = ""
    duration_s: float = field(default=0.0, compare=False)


def changed(state: GuardInput, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted values that differ from the state's."""
    own = vars(state)
    return {name: value for name, value in wanted.items() if name not in own or own[name] != value}


def with_updates(state: GuardInputT, updates: Mapping[str, Any]) -> GuardInputT:
    """Return the state with these fields, validated."""
    strange = updates.keys() - type(state).model_fields.keys()
    if strange:
        raise LookupError(f"{type(state).__name__} has no field {', '.join(sorted(map(str, strange)))}")
    return type(state).model_validate({**vars(state), **updates}) if updates else state


CONTINUE = "continue"
"""The tag of a turn that goes on."""
GUARD_FAILED = "finish_guard_failed"
"""The tag of a turn that ends because a guard failed."""
COUNTED = "it changes iterations, which the router counts"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a turn goes next.

    Attributes:
        tag: The tag of an edge of the graph; `continue` passes on to the next guard.
        updates: Changed fields of the state.
        decision: The decision, if the tag leads to an action.
    """

    tag: str = CONTINUE
    updates: Mapping[str, Any] = field(default_factory=dict[str, Any])
    decision: ActionDecision | None = None


@checked
@dataclass(frozen=True, slots=True)
class Guard(Generic[GuardInputT]):
    """A named check with its possible tags, so that each can have an edge.

    Attributes:
        name: Name in traces and messages.
        check: Returns a route for a state, or None to let it pass. Never async; an agent calls it in a thread.
        tags: The tags it may return besides `continue`.
    """

    name: str
    check: Callable[[GuardInputT], Route | None]
    tags: tuple[str, ...]


@overload
def guard(check: Callable[[GuardInputT], Route | None], /) -> Guard[GuardInputT]: ...
@overload
def guard(*tags: str) -> Callable[[Callable[[GuardInputT], Route | None]], Guard[GuardInputT]]: ...
def guard(*tags: Any) -> Any:
    """Make a guard of a function: `@guard("finish_aborted")`; `@guard` for one that only changes what comes after it.

    Raises:
        ConfigError: A tag is no text.
    """
    if len(tags) == 1 and callable(tags[0]):
        only = cast("Callable[[Any], Route | None]", tags[0])
        return Guard(function_name(only), only, ())
    wrong = [each for each in tags if not isinstance(each, str)]
    if wrong:
        raise ConfigError(
            f"@guard must be given the tags that the guard may answer with, as texts, got {wrong[0]!r:.80}"
        )

    def make_guard(check: Callable[[GuardInputT], Route | None]) -> Guard[GuardInputT]:
        return Guard(function_name(check), check, tags)

    return make_guard


def check_guards(guards: object, error: type[ConfigError | RouterError]) -> None:
    """Refuse anything but a list of guards with plain functions."""
    given = list(cast("Sequence[object]", guards)) if isinstance(guards, Sequence) else None
    wrong: list[object] = [guards] if given is None else [each for each in given if not isinstance(each, Guard)]
    if wrong:
        raise error(f"guards must be a list of Guards (make one of a function with @guard), got {wrong[0]!r:.80}")
    for each in cast("list[Guard[Any]]", given):
        if is_async(each.check):
            raise error(f"guard {each.name} is async, and nothing waits for a guard: make its check a plain function")


def function_name(function: object) -> str:
    """Return the name of an author's function."""
    return str(getattr(function, "__name__", type(function).__name__))


def iteration_cap(limit: int, tag: str = "finish_iteration_cap") -> Guard[Any]:
    """Return a guard that ends a turn after `limit` rounds; for routers alone, as an agent's turn has no rounds."""

    def check(state: GuardInput) -> Route | None:
        return Route(tag) if isinstance(state, TurnState) and state.iterations > limit else None

    return Guard(f"iteration_cap({limit})", check, (tag,))


def run_guards(
    guards: Sequence[Guard[GuardInputT]], state: GuardInputT, reached: list[tuple[str, Mapping[str, Any]]] | None = None
) -> Route:
    """Run the guards in order; return the first tag that is not `continue`, with all updates so far.

    A guard that raises, returns an unknown tag or updates an unknown field ends the turn: a failed check must not let
    through what it was to stop. One that raises `CannotDo` ends it with these words for the user. Before each guard,
    its name and the updates so far are appended to `reached`.
    """
    initial, named, touched = state, set[str](), dict[str, Any]()
    for each in guards:
        if reached is not None:
            reached.append((each.name, touched))
        try:
            route = each.check(state)
            if route is None:
                continue
            problem = _problem(each, route, state)
            if problem:
                return _failed_route(each.name, problem, touched)
            state = with_updates(state, route.updates)
            # Compared with the initial state, so that one guard may undo another's change.
            named |= route.updates.keys()
            touched = changed(initial, {name: getattr(state, name) for name in named})
        except CannotDo as refusal:
            reason = f"guard {each.name}: cannot be done: {refusal.message}"
            decision = ActionDecision(action=FINISH, reason=reason, arguments={"text": refusal.message})
            return Route(GUARD_FAILED, touched, decision)
        except Exception as error:  # noqa: BLE001 - any error of a guard
            return _failed_route(each.name, describe_error(error), touched)
        if route.tag != CONTINUE:
            return Route(route.tag, touched, route.decision)
    return Route(CONTINUE, touched)


async def through_in_time(guards: Sequence[Guard[GuardInputT]], state: GuardInputT) -> Route:
    """Run `through` in a thread, as guards may block; a guard that exceeds the turn's time has failed."""
    reached: list[tuple[str, Mapping[str, Any]]] = [(guards[0].name, {})]
    try:
        work = partial(run_guards, guards, state, reached)
        return cast("Route", await run_with_timeout(work, limit_s=None, name="jazz-select-guards", of=guards))
    except Exception as error:  # noqa: BLE001 - no time is left, or a guard exits
        name, touched = reached[-1]
        return _failed_route(name, describe_error(error), touched)


def _problem(guard: Guard[Any], route: object, state: GuardInput) -> str:
    if iscoroutine(route):
        route.close()  # it is never awaited
    if not isinstance(route, Route):
        return f"it answered with {type(route).__name__}, not with a Route"
    if route.tag not in {CONTINUE, *guard.tags}:
        return f"it answered {route.tag!r}, which is not among its tags; make it with @guard({route.tag!r})"
    if isinstance(state, TurnState) and route.updates.get("iterations", state.iterations) != state.iterations:
        return COUNTED
    if not isinstance(route.decision, ActionDecision | None):  # pyright: ignore[reportUnnecessaryIsInstance] - authors without a type checker
        return f"its decision is {type(route.decision).__name__}, not an ActionDecision"
    return ""


def _failed_route(name: str, problem: str, updates: Mapping[str, Any]) -> Route:
    reason = f"guard {name} failed: {problem}"
    return Route(GUARD_FAILED, updates, ActionDecision(action=FINISH, reason=reason))
