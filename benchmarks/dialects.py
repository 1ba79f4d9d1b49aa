"""What does it cost to call tools in the text of replies, and in a provider's own form?

`python -m benchmarks.dialects`: the recorded conversations at the shop's desk, each played in both forms and with both
ways to make prompts, with the same decisions of the model, without a model. They have to come to the same effects.
Asks for no data. Tokens are counted by our own estimate, tools and calls as the JSON that a provider is sent.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.options import Unclean, opened_book
from benchmarks.prefix import ALL, Asked, Measure
from jazz_select.agent.agent_options import Narrowing
from jazz_select.text import estimate_tokens
from tests.conversations.desk import desk_for, index
from tests.conversations.judge import problems
from tests.conversations.native import KeptPrompts, as_sent
from tests.conversations.play import play
from tests.conversations.script import scripts
from tests.conversations.tape import Mode, Tape
from tests.vectors import HAS_STATIC

KEY = ("form", "narrowing", "kind")
Form = Literal["text", "native"]
CALL: Final = "call"


async def played(form: Form, narrowing: Narrowing, names: Iterable[str] = ()) -> list[rows.Row]:
    """The conversations in one form, as rows: by kind, and `call` is going on with a flow.

    Raises:
        AssertionError: One came to something else than was recorded.
    """
    measure, kinds, turns = Measure(), dict[str, list[int]](), 0
    async with index() as memory:
        for script in scripts(*names):
            tape = KeptPrompts(script.cassette) if form == "native" else Tape(script.cassette, mode=Mode.REKEY)
            result = await play(script, tape, desk_for(script, tape, memory, narrowing=narrowing))
            wrong = [str(each) for each in problems(result) if each.kind != "cassette"]
            left = tape.left if form == "text" else ()  # a call is asked for once more where text stands around it
            if wrong or tape.stopped is not None or left:
                msg = f"{script.name}, {form}, {narrowing}: {wrong or 'other prompts than were recorded'}"
                raise AssertionError(msg)
            turns += len(result.turns)
            prompts = tape.prompts if isinstance(tape, KeptPrompts) else [(each.messages, ()) for each in tape.asked]
            asked: list[Asked] = []
            for each, (messages, tools) in zip(tape.asked, prompts, strict=True):
                sent = list(as_sent(messages, tools))
                asked.append(Asked.of(each.turn, each.kind, sent))
                kinds.setdefault(each.kind, []).append(sum(estimate_tokens(one.content) for one in sent))
            measure.add(asked)
    kinds[ALL] = [tokens for counted in kinds.values() for tokens in counted]
    share = {kind: tally.prefix / max(tally.tokens, 1) for kind, tally in {**measure.turns, ALL: measure.whole}.items()}
    return [
        {
            "form": form,
            "narrowing": narrowing,
            "kind": kind,
            "conversations": measure.conversations,
            "turns": turns,
            "calls": len(counted),
            "tokens": sum(counted),
            "prefix": share.get(kind),
        }
        for kind, counted in sorted(kinds.items())
    ]


def main(
    form: Annotated[str, typer.Option(help="text, native, or both.")] = "both", *, unclean: Unclean = False
) -> None:
    """Play them all, and store the rows."""
    if not HAS_STATIC:
        typer.echo("Skipped: without static vectors recall offers other flows than were recorded.", err=True)
        return
    logging.disable(logging.WARNING)  # of flows whose tools are not connected, and the like
    book = opened_book("dialects", KEY, look=unclean)
    for each in get_args(Form):
        for narrowing in get_args(Narrowing) if form in {each, "both"} else ():
            found = asyncio.run(played(each, narrowing))
            book.store(*found)
            for row in found:
                Console().print(told(row))


def told(row: rows.Row) -> str:
    """A row in one line."""
    prefix = "" if row["prefix"] is None else f", {row['prefix']:.0%} as before"
    each = row["tokens"] / row["calls"]
    return f"{row['form']}, {row['narrowing']}, {row['kind']}: {row['calls']} calls of {each:,.0f} tokens{prefix}"


if __name__ == "__main__":
    typer.run(main)
