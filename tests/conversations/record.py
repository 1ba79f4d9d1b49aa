"""Writing a cassette by playing the model: `python -m tests.conversations.record NAME`.

The conversation runs from its start with the replies that are recorded, and stops at the first prompt without one,
which is printed. `--reply FILE` (`-`: standard input) or `--say TEXT` gives the reply to it, records it, and runs on to
the next one; so a call of the model is one command. At the end the conversation is judged.

The exit code is 0 where all is as it should be, 1 where the judge found something, 2 where the command cannot be
understood, and 3 where a reply is wanted.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from jazz_select.testing import Recorded
from jazz_select.text import beginning, one_line
from tests.conversations.desk import Desk, desk_of
from tests.conversations.effects import diff
from tests.conversations.judge import problems
from tests.conversations.play import Played, play
from tests.conversations.script import SCRIPTS, Script, scripts
from tests.conversations.tape import Mode, Tape

DONE, WRONG, USAGE, WANTED = 0, 1, 2, 3


MakeDesk = Callable[[Script, Tape], AbstractAsyncContextManager[Desk]]


def main(arguments: Sequence[str] | None = None, *, folder: Path = SCRIPTS, make: MakeDesk = desk_of) -> int:
    """Run a conversation as far as its replies reach, and say what is wanted next."""
    given = _parser().parse_args(arguments)
    logging.disable(logging.WARNING)  # of flows whose tools are not connected, and the like
    try:
        (script,) = scripts(given.name, folder=folder)
        replies = [*(_text(file) for file in given.reply), *given.say]
        tape = Tape(script.cassette, mode=Mode.REKEY if given.rekey else Mode.STOP, replies=replies)
        _drop(tape, given.drop)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    played = asyncio.run(_played(script, tape, make))
    _keep(tape, changed=bool(replies or given.rekey or given.drop), ended=tape.stopped is None and not played.crash)
    _tell_turns(played)
    if tape.replies:
        _tell(f"{len(tape.replies)} replies were not asked for, and are not kept")
    if tape.stopped is not None:
        return _ask(tape, tape.stopped, brief=given.brief)
    return _judge(played)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conversations.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="the conversation: a file of scripts/, without .yaml")
    parser.add_argument("--reply", action="append", default=[], metavar="FILE", help="the next reply; - for stdin")
    parser.add_argument("--say", action="append", default=[], metavar="TEXT", help="the next reply, as it is")
    parser.add_argument(
        "--rekey",
        action="store_true",
        help="keep replies whose prompts have changed, by turn and kind, and flows by name; show how",
    )
    parser.add_argument("--drop", metavar="N", help="forget record N, or all from it on (N-)")
    parser.add_argument("--brief", action="store_true", help="print only the messages that no earlier prompt had")
    return parser


def _text(file: str) -> str:
    """A reply, without the end of line that editors put there."""
    return (sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")).rstrip("\n")


def _drop(tape: Tape, given: str | None) -> None:
    if given is None:
        return
    number = given.removesuffix("-")
    if not number.isdecimal() or not 1 <= int(number) <= len(tape.left):
        msg = f"--drop {given}: there are records 1 to {len(tape.left)}"
        raise ValueError(msg)
    first = int(number) - 1
    del tape.left[first : None if given.endswith("-") else first + 1]


async def _played(script: Script, tape: Tape, make: MakeDesk) -> Played:
    async with make(script, tape) as desk:
        return await play(script, tape, desk)


def _keep(tape: Tape, *, changed: bool, ended: bool) -> None:
    """Write the cassette where something is new; at the end of a conversation without what nothing asks for."""
    if ended and changed:
        for record in tape.left:
            _tell(f"dropped, since nothing asks for it any more: {record.title}")
        tape.left.clear()
    if changed:
        tape.save()
    for record, now in tape.rekeyed:
        _tell(f"kept, with its prompt as it is now: {now.title}\n{record.changes(now, 400)}\n  reply: {record.reply}\n")


def _ask(tape: Tape, question: Recorded, *, brief: bool) -> int:
    stale = tape.stale(question)
    if stale is not None:
        _tell(f"=== what has changed since the recorded prompt, whose reply was {stale.reply!r}")
        _tell(stale.changes(question))
    _tell(f"=== prompt {len(tape.asked) + 1}: {question.title}")
    known = [message.content for record in tape.asked for message in record.messages] if brief else []
    for message in question.messages:
        before = f"(as before) {one_line(beginning(message.content, 100))}"
        content = before if message.content in known else message.content
        _tell(f"[{message.role}]\n{content}")
    if question.schema is not None:
        _tell(f"[schema]\n{question.schema}")
    _tell(f"=== a reply is wanted: python -m tests.conversations.record {tape.path.stem} --reply - (or --say TEXT)")
    return WANTED


def _judge(played: Played) -> int:
    _tell("=== effects")
    for effect in diff(played.before, played.after):
        _tell(str(effect))
    found = problems(played)
    for problem in found:
        _tell(f"!!! {problem}")
    _tell(f"=== {played.script.name}: {len(found)} problems" if found else f"=== {played.script.name}: as it should be")
    return WRONG if found else DONE


def _tell_turns(played: Played) -> None:
    """The conversation so far, with what was done in it."""
    asked = played.tape.asked
    new = {each.digest for each in played.tape.recorded}
    for number, turn in enumerate(played.script.turns[: played.tape.turn], 1):
        _tell(f"--- turn {number}\ncustomer: {turn.customer}")
        for place, record in enumerate(asked, 1):
            if record.turn == number:
                mark = "new reply" if record.digest in new else "reply"
                said = beginning(one_line(record.reply), 160)
                _tell(f"  #{place} {record.kind}, {record.tokens} tokens, {mark}: {said}")
        if number <= len(played.turns):
            done = played.turns[number - 1]
            for tool, given in done.calls:
                _tell(f"  {tool}({', '.join(f'{name}={value!r}' for name, value in given.items())})")
            result = done.result
            why = f"; {result.reason}" if result.reason else ""
            _tell(f"agent ({result.status}; {', '.join(result.flows) or 'no flow'}{why}): {result.text}")


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
