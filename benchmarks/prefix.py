"""How much of a prompt could a provider serve from its cache, with prompts made afresh and prompts that only grow?

`python -m benchmarks.prefix`: the recorded conversations at the shop's desk and the written ones at the clinic's, each
played both ways with the same replies, without a model. Asks for no data.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.options import Unclean, opened_book
from jazz_select import RECOMMENDED, Agent, FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.agent.agent_options import Narrowing, PromptOptions, TraceOptions
from jazz_select.evaluation.conversations import load_conversations
from jazz_select.evaluation.playing import play as play_case
from jazz_select.flow.flow_loading import load_flows
from jazz_select.ports import ChatModel
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.telemetry import Span
from jazz_select.text import tokens_in
from jazz_select.values import Message, Reply
from tests.conversations.desk import desk_for, index
from tests.conversations.judge import problems
from tests.conversations.play import play
from tests.conversations.script import scripts
from tests.conversations.tape import Mode, Tape, kind_of
from tests.vectors import EMBEDDER, HAS_STATIC

KEY = ("source", "kind", "narrowing")
CLINIC: Final = Path(__file__).parent.parent / "examples" / "clinic"
LEAST: Final = 1_024
STEP: Final = 128
"""Tokens from which on, and by which, providers serve a beginning from their caches."""
ALL: Final = "all"
TALK: Final = "talk"
_NO_FLOW: Final = "No procedure fits"


class Asked(NamedTuple):
    """A prompt: in which turn, what for, and its tokens."""

    turn: int
    kind: str
    tokens: tuple[str, ...]

    @classmethod
    def of(cls, turn: int, kind: str, messages: Sequence[Message]) -> "Asked":
        """A prompt as a provider reads it, one message after the other."""
        text = "\n\n".join(f"[{each.role}]\n{each.content}" for each in messages)
        return cls(turn, TALK if kind == "call" and _NO_FLOW in text else kind, tokens_in(text))


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many tokens two prompts have in common at their beginning."""
    for place, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return place
    return min(len(one), len(other))


def served(tokens: int) -> int:
    """How many of so many tokens in common a provider serves from its cache."""
    return tokens // STEP * STEP if tokens >= LEAST else 0


@dataclass(slots=True)
class Tally:
    """What prompts of a kind have in common with those that they are compared with."""

    prompts: int = 0
    tokens: int = 0
    prefix: int = 0
    served: int = 0

    def add(self, tokens: int, prefix: int) -> None:
        """One more prompt."""
        self.prompts += 1
        self.tokens += tokens
        self.prefix += prefix
        self.served += served(prefix)


@dataclass(slots=True)
class Measure:
    """The prompts of all conversations of a source, made in one way.

    Attributes:
        turns: By kind, the first prompt of a turn beside the last one of the turn before that had one of the kind.
        whole: Every prompt beside whatever of its conversation was asked before and has most in common with it.
    """

    conversations: int = 0
    turns: dict[str, Tally] = field(default_factory=dict[str, Tally])
    whole: Tally = field(default_factory=Tally)

    def add(self, asked: Sequence[Asked]) -> None:
        """One more conversation."""
        self.conversations += 1
        last: dict[str, Asked] = {}
        for place, each in enumerate(asked):
            before = last.get(each.kind)
            if before is not None and before.turn < each.turn:
                tally = self.turns.setdefault(each.kind, Tally())
                tally.add(len(each.tokens), common(before.tokens, each.tokens))
            last[each.kind] = each
            most = max((common(other.tokens, each.tokens) for other in asked[:place]), default=0)
            self.whole.add(len(each.tokens), most)

    def rows(self, source: str, narrowing: str) -> list[rows.Row]:
        """The stored rows."""
        named = {**dict(sorted(self.turns.items())), ALL: self.whole}
        return [
            {
                "source": source,
                "narrowing": narrowing,
                "kind": kind,
                "conversations": self.conversations,
                "prompts": tally.prompts,
                "tokens": tally.tokens,
                "prefix": tally.prefix,
                "served": tally.served,
            }
            for kind, tally in named.items()
        ]


async def desk(narrowing: Narrowing, names: Iterable[str] = ()) -> Measure:
    """The conversations at the shop's desk, with the replies that were recorded; flows are meant by name.

    Raises:
        AssertionError: One came to something else than was recorded.
    """
    measure = Measure()
    async with index() as memory:
        for script in scripts(*names):
            tape = Tape(script.cassette, mode=Mode.REKEY)
            played = await play(script, tape, desk_for(script, tape, memory, narrowing=narrowing))
            wrong = [str(each) for each in problems(played) if each.kind != "cassette"]
            if wrong or tape.stopped is not None or tape.left:
                msg = f"{script.name}, {narrowing}: {wrong or 'other prompts than were recorded'}"
                raise AssertionError(msg)
            measure.add([Asked.of(each.turn, each.kind, each.messages) for each in tape.asked])
    return measure


class _Listening:
    """A model in the place of another: it keeps what was asked, by turn and kind, which it hears of as a hook."""

    def __init__(self, model: ChatModel) -> None:
        self.asked: list[Asked] = []
        self._model, self._turn = model, 0
        self._span: Span | None = None

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """What the other says."""
        self.asked.append(Asked.of(self._turn, kind_of(self._span), messages))
        return await self._model.complete(messages)

    def on_start(self, span: Span) -> None:
        """A turn begins, or a call of the model."""
        self._turn += span.kind == "turn"
        if span.kind == "chat":
            self._span = span

    def on_end(self, span: Span) -> None:
        """Nothing is left to be done."""


async def clinic(narrowing: Narrowing, *, most: int | None = None) -> Measure:
    """The conversations at the clinic's desk, so many of them, with the replies that are written in them.

    Raises:
        AssertionError: One came to something else than is written.
    """
    measure, registry = Measure(), FlowRegistry()
    load_flows(CLINIC / "flows.yaml", registry)
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "clinic", registry)
        for case in load_conversations(CLINIC / "conversations.yaml", registry)[:most]:
            heard: list[_Listening] = []

            def made(model: ChatModel | None, heard: list[_Listening] = heard) -> Agent:
                hooks = [] if model is None else [_Listening(model)]
                heard += hooks
                asked = hooks[0] if hooks else None
                tools = load_tools(str(CLINIC / "tools.py"))
                able = {key: flow for key, flow in registry.items() if not flow.lacks(tools)}
                selector = FlowSelector(asked, able, memory, "clinic", **RECOMMENDED)
                return Agent(
                    selector,
                    tools,
                    asked,
                    tracing=TraceOptions(hooks=hooks),
                    prompt=PromptOptions(narrowing=narrowing),
                )

            result = await play_case(case, made)
            if result.outcome == "failed":
                wrong = [result.error, *(str(check) for _, check in result.all_checks if not check.passed)]
                msg = f"{case.name}, {narrowing}: {wrong}"
                raise AssertionError(msg)
            if heard and heard[0].asked:
                measure.add(heard[0].asked)
    return measure


def main(
    source: Annotated[str, typer.Option(help="desk, clinic, or both.")] = "both", *, unclean: Unclean = False
) -> None:
    """Play them all both ways, and store the rows."""
    if not HAS_STATIC:
        typer.echo("Skipped: without static vectors recall offers other flows than were recorded.", err=True)
        return
    logging.disable(logging.WARNING)  # of flows whose tools are not connected, and the like
    book = opened_book("prefix", KEY, look=unclean)
    for name, played in (("desk", desk), ("clinic", clinic)):
        for narrowing in get_args(Narrowing) if source in {name, "both"} else ():
            found = asyncio.run(played(narrowing)).rows(name, narrowing)
            book.store(*found)
            for row in found:
                Console().print(told(row))


def told(row: rows.Row) -> str:
    """A row in one line."""
    numbers: dict[str, Any] = {each: row[each] / max(row["tokens"], 1) for each in ("prefix", "served")}
    each = row["tokens"] / max(row["prompts"], 1)
    return (
        f"{row['source']}, {row['narrowing']}, {row['kind']}: {row['prompts']} prompts of {each:,.0f} tokens, "
        f"in common {numbers['prefix']:.1%}, served from {LEAST} on {numbers['served']:.1%}"
    )


if __name__ == "__main__":
    typer.run(main)
