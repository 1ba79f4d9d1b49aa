"""All conversations, replayed and judged: `python -m tests.conversations [NAME …]`, or `make converse`.

Where a model is set (`JAZZ_LLM=openai:gpt-5-mini`) it is asked instead of the cassettes; `--record` keeps what it says.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Any

from jazz_select.chat.models import as_chat_model
from jazz_select.settings import Settings
from tests.conversations.desk import desk_for, index
from tests.conversations.play import Played, play
from tests.conversations.report import Tally
from tests.conversations.script import Script, scripts
from tests.conversations.tape import Mode, Tape
from tests.vectors import HAS_STATIC


async def played(chosen: Sequence[Script], model: Any, *, record: bool) -> list[Played]:
    """Play them one after another, on one index."""
    done: list[Played] = []
    async with index() as memory:
        for script in chosen:
            tape = Tape(script.cassette, mode=Mode.STOP if model is None else Mode.ASK, model=model)
            done.append(await play(script, tape, desk_for(script, tape, memory)))
            if record and model is not None:
                tape.save()
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, judge and print; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.conversations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these conversations")
    parser.add_argument("--record", action="store_true", help="keep what a real model says, as the cassettes")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # of flows whose tools are not connected, and the like
    llm = Settings().llm or None
    if not HAS_STATIC and llm is None:
        sys.stdout.write("Skipped: without static vectors recall offers other flows than were recorded.\n")
        return 0
    try:
        chosen = scripts(*given.names)
    except ValueError as error:
        parser.error(str(error))
    tally = Tally()
    for each in asyncio.run(played(chosen, None if llm is None else as_chat_model(llm), record=given.record)):
        for problem in tally.add(each):
            sys.stdout.write(f"{each.script.name}: {problem}\n\n")
    asked = f"replies of {llm}" if llm else "recorded replies"
    sys.stdout.write("\n".join([f"{asked}: {tally.lines()[0]}", *tally.lines()[1:], ""]))
    return 1 if tally.found else 0


if __name__ == "__main__":
    sys.exit(main())
