"""What two versions of a catalogue are both asked: labelled cases, logged requests, and the examples of either."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.evaluation.route import Asked
from jazz_select.flow.data import read_text
from jazz_select.json_values import plain

if TYPE_CHECKING:
    from jazz_select.evaluation.cases import Case  # the process of a side reads none, and need not wait for it

_LONGEST = 8_000
"""Characters of a logged request, as many as recall reads."""


class Source(StrEnum):
    """Where a request comes from; the first of these that knows it says so."""

    CASE = "case"
    """Somebody said which flows are right."""
    LOGGED = "logged"
    """A user asked it."""
    EXAMPLE = "example"
    """An author wrote it, for a flow of either version."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A request that both versions are asked.

    Attributes:
        asked: The request, as it is put to a selector.
        source: Where it comes from.
        expect: The flows that are right: of a case its labels, none of them where nothing fits; of an example the flows
            that have it; None where nobody said.
    """

    asked: Asked
    source: Source
    expect: tuple[str, ...] | None = None

    @cached_property
    def key(self) -> str:
        """The same for the same request with the same context, in every process."""
        return key_of(self.asked)


def key_of(asked: Asked) -> str:
    """What a request is kept under: text, earlier turns and context count, and nothing else."""
    told = [asked.request, list(asked.episodes), plain(asked.context)]
    try:
        data = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # halves of surrogate pairs
        data = repr(told).encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def questions(
    cases: "Iterable[Case]", logged: Iterable[str | Asked], *sides: Mapping[str, Mapping[str, Any]]
) -> tuple[Question, ...]:
    """Everything that is asked, each request once, in the order of its sources.

    Args:
        cases: Labelled requests.
        logged: What users asked, with what was said before and what guards saw where that is known.
        sides: The flows of each version, by name, with their fields.
    """
    found: dict[str, Question] = {}
    for case in cases:
        _add(found, Question(asked=Asked.of(case), source=Source.CASE, expect=case.expect))
    for each in logged:
        asked = each if isinstance(each, Asked) else Asked(request=each)
        _add(found, Question(asked=asked, source=Source.LOGGED))
    owners: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for flows in sides:
        for name in sorted(flows):
            for example in flows[name].get("examples") or ():
                owners[str(example)][name] = None
    for example in sorted(owners):
        asked = Asked(request=example)
        _add(found, Question(asked=asked, source=Source.EXAMPLE, expect=tuple(sorted(owners[example]))))
    return tuple(found.values())


def _add(found: dict[str, Question], question: Question) -> None:
    if question.asked.request.strip() or question.asked.episodes:
        found.setdefault(question.key, question)


def read_requests(files: Sequence[Path]) -> tuple[str, ...]:
    """The requests of these files, one a line; empty lines say nothing.

    Raises:
        ConfigError: A file cannot be read.
    """
    lines: list[str] = []
    for file in files:
        try:
            lines += read_text(file).splitlines()
        except FlowLoadError as error:
            msg = f"cannot read the requests in {file}: {error.problem}"
            raise ConfigError(msg) from error
    return tuple(line.strip()[:_LONGEST] for line in lines if line.strip())
