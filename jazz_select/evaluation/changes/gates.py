"""Gates: how much a change may move before it is stopped; `[tool.jazz-select.gates]` in pyproject.toml."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from jazz_select.arguments import Constraint, Probability, checked
from jazz_select.evaluation.changes.difference import BROKEN, ChangeKind, Difference, GateFailure
from jazz_select.evaluation.changes.snapshots import Source
from jazz_select.evaluation.rules import rules, table_as

_Count = Annotated[int, Constraint("a count, such as 0", ge=0)]
_Share = Annotated[str, Constraint("a share", pattern=r"^\s*(\d+\.?\d*|\.\d+)\s*%\s*$")]
Limit = Annotated[_Count | _Share | None, Constraint('a count, such as 10, or a share, such as "2%"')]
"""A count, or a share such as "2%"; None for no limit."""
_NAMED = 3


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What a change may do; a gate that is None lets everything through.

    Attributes:
        max_broken_cases: Cases whose right flow was first, or offered, and is not any more, or is gone altogether; a
            share is one of the labelled cases.
        min_recall_at_1: The least share of labelled cases whose first is right afterwards, from 0 to 1; cases that
            lost their flow count as wrong.
        max_changed_first: Requests of any kind whose first is another flow; a share is one of all requests.
        max_new_confusions: Pairs of flows that more requests are confused between than before.
        max_extra_model_calls: Requests that ask a model, more than before; a share is one of all requests.
        max_extra_tokens: Tokens of the counted prompts, more than before; a share is one of those before.
        allow_removed_flows: Whether flows may be gone without one that took their place.
    """

    max_broken_cases: Limit = None
    min_recall_at_1: Annotated[Probability | None, Constraint("a number from 0 to 1, such as 0.8")] = None
    max_changed_first: Limit = None
    max_new_confusions: Annotated[_Count | None, Constraint("a count, such as 0")] = None
    max_extra_model_calls: Limit = None
    max_extra_tokens: Limit = None
    allow_removed_flows: Annotated[bool, Constraint("true or false")] = True

    @classmethod
    def of(cls, told: Mapping[str, Any], *, where: str = "gates") -> "Gates":
        """From names and values, as a file has them.

        Args:
            told: Them.
            where: What an error calls the place they stand in.

        Raises:
            ConfigError: There is no gate of such a name, or a value cannot work.
        """
        return table_as(cls, told, where)

    @classmethod
    def load(cls, folder: Path) -> "Gates":
        """From the pyproject.toml of `folder`; none where there is no such file or no such table in it.

        Raises:
            ConfigError: The file cannot be read, or a gate in it cannot work.
        """
        file = folder / "pyproject.toml"
        return cls.of(rules("gates", file=file), where=f"{file}, [tool.jazz-select.gates]")

    @property
    def any(self) -> bool:
        """Whether one of them may stop something."""
        return self != Gates()

    def failures(self, found: Difference) -> tuple[GateFailure, ...]:
        """Those that this change does not pass, in the order of their names here."""
        checked = (
            self._broken(found),
            self._recall(found),
            self._moved(found),
            self._confusions(found),
            self._calls(found),
            self._tokens(found),
            self._removed(found),
        )
        return tuple(each for each in checked if each is not None)

    def _broken(self, found: Difference) -> GateFailure | None:
        broken = [each.request for each in found.changes if each.source is Source.CASE and each.effect in BROKEN]
        labelled = max(found.before.labelled, found.after.labelled)
        return _over("max_broken_cases", self.max_broken_cases, len(broken), labelled, "cases are broken", broken)

    def _recall(self, found: Difference) -> GateFailure | None:
        least, now = self.min_recall_at_1, found.after.recall_at_1
        if least is None or (now is not None and now >= least):
            return None
        told = "there are no labelled cases to find R@1 by" if now is None else f"R@1 is {now:.1%}"
        message = f"min_recall_at_1: {told}, and at least {least:.1%} is asked for"
        value = "unknown" if now is None else f"{now:.4f}"
        return GateFailure(gate="min_recall_at_1", allowed=str(least), found=value, message=message)

    def _moved(self, found: Difference) -> GateFailure | None:
        moved = [each.request for each in found.changes if ChangeKind.FIRST in each.kinds]
        what = "requests have another first candidate"
        return _over("max_changed_first", self.max_changed_first, len(moved), found.after.requests, what, moved)

    def _confusions(self, found: Difference) -> GateFailure | None:
        pairs = [f"{each.expected} → {each.first}" for each in found.confusions]
        what = "pairs of flows are confused more often"
        return _over("max_new_confusions", self.max_new_confusions, len(pairs), 0, what, pairs)

    def _calls(self, found: Difference) -> GateFailure | None:
        more = found.after.asked - found.before.asked
        what = "more requests ask a model"
        return _over("max_extra_model_calls", self.max_extra_model_calls, more, found.after.requests, what)

    def _tokens(self, found: Difference) -> GateFailure | None:
        if found.before.flows and found.after.flows and found.before.counted != found.after.counted:
            return None  # of one side they are not known, which its notes say
        before, more = found.before.prompt_tokens, found.after.prompt_tokens - found.before.prompt_tokens
        what = f"more tokens are in the prompts of {found.after.counted} requests"
        return _over("max_extra_tokens", self.max_extra_tokens, more, before, what)

    def _removed(self, found: Difference) -> GateFailure | None:
        gone = found.flows.removed
        if self.allow_removed_flows or not gone:
            return None
        message = f"allow_removed_flows: {_some(gone)} removed, and none may be"
        return GateFailure(gate="allow_removed_flows", allowed="false", found=str(len(gone)), message=message)


def _over(
    gate: str, limit: Limit, found: int, of: int, what: str, which: list[str] | None = None
) -> GateFailure | None:
    if limit is None:
        return None
    share = float(limit.replace("%", "")) / 100 if isinstance(limit, str) else None
    most = float(limit) if share is None else share * of
    if found <= most:
        return None
    allowed = str(limit) if share is None else f"{limit} of {of:,}"
    named = f": {_some(tuple(which))}" if which else ""
    message = f"{gate}: {found:,} {what}, and {allowed} may{named}"
    return GateFailure(gate=gate, allowed=str(limit), found=str(found), message=message)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"{name:.80}" for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
