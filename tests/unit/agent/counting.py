"""A router that counts, and parts of it that fail as they are told."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jazz_select.agent import Action, ActionDecision, Guard, Router, TurnState


class Count(TurnState):
    """Counts."""

    name: str
    done: int = 0
    anything: Any = None


FINISH = ActionDecision(action="finish", reason="enough")


async def finishing(_: Count) -> ActionDecision:
    return FINISH


async def working(state: Count) -> ActionDecision:
    return FINISH if state.done >= 3 else ActionDecision(action="work")


def work(state: Count) -> Mapping[str, Any]:
    return {"done": state.done + 1}


def router(**changes: Any) -> Router[Count]:
    """A router that works three times."""
    made: dict[str, Any] = {"guards": (), "routes": {}, "actions": {"work": Action(run=work)}, "plan": working}
    return Router(Count, **{**made, **changes})


def unchanged(_: Count, given: ActionDecision) -> ActionDecision:
    return given


START = Count(name="a")


def raises(*_: Any) -> Any:
    msg = "it fell"
    raise ValueError(msg)


def answering(given: Any) -> Callable[..., Any]:
    return lambda *_: given


def planning(given: Any) -> Callable[[Count], Awaitable[Any]]:
    async def plan(_: Count) -> Any:
        return given

    return plan


def guarded(check: Callable[[Count], Any]) -> dict[str, Any]:
    return {"guards": [Guard("keeper", check, ("ask",))], "routes": {"ask": "work"}}


def acting(run: Callable[[Count], Any], **changes: Any) -> dict[str, Any]:
    return {"actions": {"work": Action(run=run, **changes)}}
