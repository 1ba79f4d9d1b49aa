"""The chain that an author gives a flow's tools: which come in which order, and where there is a choice."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Protocol, cast

from jazz_select.errors import FlowValidationError
from jazz_select.routing.execute import Choose, Step
from jazz_select.routing.points import GuidedDecisionPoint


class HasTools(Protocol):
    """A flow, as far as a chain needs it."""

    @property
    def label(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def place(self) -> str:
        """Where it was defined, for messages."""
        ...

    @property
    def tools(self) -> Sequence[str]:
        """Names of the tools that its steps may call."""
        ...

    @property
    def chain(self) -> object:
        """What its author wrote, steps if it is right; none where the flow is open."""
        ...


def chain_of(flow: HasTools) -> tuple[Step, ...]:
    """The steps of a flow for an executor: its attribute `chain`, or none where its author gave it none.

    ```python
    class CancelOrder(BaseFlow):
        tools = ["lookup_order", "cancel_order", "release_payment"]
        chain = ("lookup_order", GuidedDecisionPoint(after_step="lookup_order", candidate_tools=[...]), ...)
    ```

    A step is the name of a tool, a `GuidedDecisionPoint`, or `CHOOSE`. The tools after which points stand are among the
    flow's as well.

    Raises:
        FlowValidationError: An entry is no step, or names a tool that is not among the flow's `tools`.
    """
    given = flow.chain
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _wrong(flow, f"it is a list of steps, not {given!r:.80}")
    steps = cast("Sequence[Any]", given)
    for step in steps:
        names = [step] if isinstance(step, str) else _names(step)
        if names is None:
            raise _wrong(flow, f"a step is a tool's name, a GuidedDecisionPoint or CHOOSE, not {step!r:.80}")
        strange = [_meant(name, flow.tools) for name in dict.fromkeys(names) if name not in flow.tools]
        if strange:
            raise _wrong(flow, f"it names {', '.join(strange)}; add that to the flow's tools, or take it out")
    return tuple(steps)


def _names(step: object) -> list[str] | None:
    if isinstance(step, GuidedDecisionPoint):
        return [step.after_step, *step.candidate_tools, *([step.fallback_tool] if step.fallback_tool else [])]
    return [] if isinstance(step, Choose) else None


def _meant(name: str, tools: Sequence[str]) -> str:
    near = get_close_matches(name, tools, n=1)
    return f"{name} (did you mean {near[0]!r}?)" if near else name


def _wrong(flow: HasTools, problem: str) -> FlowValidationError:
    return FlowValidationError(flow.label, "chain", problem, place=flow.place)
