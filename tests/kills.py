"""Turns whose process is killed between any two points, and gone on with by another: `python -m tests.kills`.

A trial is a dialogue of a few messages with tools that destroy. The process that takes a turn is a fork that kills
itself with SIGKILL at a random call or return of any Python function, of any thread; the next process goes on with what
was saved. In some trials two processes go on at once. What the tools did stands in a file of its own, written by them.

With `--replicas` the processes are replicas that claim calls in a real PostgreSQL: up to so many take the same turn at
once, and are killed each at a point of its own; in some trials the server ends all connections meanwhile.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from traceback import format_exc
from types import FrameType
from typing import Any, Final, Self

from jazz_select import FlowRegistry
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.chain.transcript import ToolResult
from jazz_select.agent.turn import TurnResult
from jazz_select.ports import ClaimStore
from jazz_select.routing import SqliteClaims, Tool
from jazz_select.values import Message
from tests.agents import make_agent
from tests.unit.agent.turns import obj, selector_of, shop_of

FLOW: Final = "both"
REFUND: Final = '{"tool_call": {"tool": "refund", "arguments": {"amount": 5}}}'
CLOSE: Final = '{"tool_call": {"tool": "close", "arguments": {"receipt": "R-5"}}}'
UNKNOWN: Final = "outcome is unknown"
KINDS: Final = ("steps", "steps, unasked", "a model", "a model, unasked", "a deaf model, unasked")
_LIVES: Final = 12
_NEAR: Final = 0.5
_AT_ONCE: Final = 0.25
_DISTURBED: Final = 0.2
_KILLED_LIVES: Final = 3
"""Processes of later turns are left alone, so that a dialogue comes to its end."""


@dataclass(slots=True)
class Place:
    """The folder of one trial: what outlives a process."""

    folder: Path
    has_claims: bool = True
    database: str = ""
    """The address of the database that replicas claim calls in; empty for a file."""

    @property
    def saved(self) -> Conversation:
        path = self.folder / "conversation.json"
        return Conversation.from_json(path.read_text()) if path.exists() else Conversation(id="c")

    def save(self, result: TurnResult) -> None:
        """Keep a conversation as a careful caller does: whole, or not at all; then say what is done."""
        draft = self.folder / f"draft-{os.getpid()}"
        draft.write_text(result.conversation.to_json())
        draft.replace(self.folder / "conversation.json")
        done = [record.tool for run in result.runs for record in run.steps if record.status == "ok"]
        entries = result.chain.entries if result.chain else ()
        done += [each.tool for each in entries if isinstance(each, ToolResult) and each.ok]
        self.write("reported", {"status": result.status, "text": result.text, "done": done})

    def write(self, name: str, value: object) -> None:
        """One more line, by one call of the system."""
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, json.dumps(value).encode() + b"\n")
        os.close(descriptor)

    def read(self, name: str) -> list[Any]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@asynccontextmanager
async def claims_in(place: Place) -> AsyncGenerator[ClaimStore | None]:
    """The claims, as each process opens them."""
    if not place.has_claims:
        yield None
    elif not place.database:
        yield SqliteClaims(place.folder / "claims")
    else:
        from jazz_select.postgres.claims import PostgresClaims
        from jazz_select.postgres.connection import Database

        async with Database(place.database) as database:
            yield PostgresClaims(database, str(place.folder))


def agent_in(place: Place, kind: str, claims: ClaimStore | None) -> Agent:
    """The agent, as each process makes it."""

    def tool(name: str, gives: dict[str, Any], *, destructive: bool, **wanted: str) -> Tool:
        def run(call_id: str = "", **given: Any) -> dict[str, Any]:
            place.write("effects", [name, given, call_id])
            return gives

        output = obj(**{key: "integer" if isinstance(value, int) else "string" for key, value in gives.items()})
        return Tool(name=name, input_schema=obj(**wanted), output_schema=output, function=run, destructive=destructive)

    tools = [
        tool("find", {"amount": 5}, destructive=False),
        tool("refund", {"receipt": "R-5"}, destructive=True, amount="integer"),
        tool("close", {"closed": "yes"}, destructive=True, receipt="string"),
    ]
    registry: FlowRegistry = shop_of((FLOW, ("find", "refund", "close") if kind.startswith("steps") else ()))
    flow = registry.by_name(FLOW)
    assert flow is not None
    vars(flow).update(tools=("find", "refund", "close"))
    model = None if kind.startswith("steps") else deaf if kind.startswith("a deaf") else scripted
    return make_agent(
        selector_of(registry, FLOW),
        tools,
        model,
        claims=claims,
        approval="never" if kind.endswith("unasked") else "destructive",
    )


async def scripted(messages: Sequence[Message]) -> str:
    """A model that refunds, closes and answers, by what it is shown of what was done."""
    seen = "\n".join(message.content for message in messages)
    if UNKNOWN in seen:
        return "It is not known whether that was done."
    if re.search(r"closed\W+yes", seen):
        return "All is done."
    return CLOSE if "R-5" in seen else REFUND


async def deaf(messages: Sequence[Message]) -> str:
    """A model that hears nothing of an unknown outcome: it makes the call again until its calls are used up."""
    return await scripted([replace(each, content=each.content.replace(UNKNOWN, "")) for each in messages])


async def one_turn(place: Place, kind: str) -> TurnResult:
    """The next turn of the dialogue, whatever that is after what was saved."""
    saved = place.saved
    message = "both" if not saved.turns else "yes" if saved.pending else "and?"
    async with claims_in(place) as claims:
        return await agent_in(place, kind, claims).turn(message, saved)


class Fuse:
    """Kills this process at the nth event of its functions; where `at` is 0, counts them, and those around calls."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.count = 0
        self.marks: list[int] = []

    def __call__(self, frame: FrameType, *_: object) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        if not self.at and frame.f_code.co_name in {"_claim_call", "_claim", "_settle", "_store_outcome"}:
            self.marks.append(self.count)

    def __enter__(self) -> Self:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType] - this is how it is taken off


def live(place: Place, kind: str, kill_at: int) -> int:
    """Fork a process that takes a turn and saves it; give its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with Fuse(kill_at):
            result = asyncio.run(one_turn(place, kind))
            place.save(result)
        code = 0
    except BaseException:  # noqa: BLE001 - its parent says what it was
        place.write("errors", format_exc())
    finally:
        os._exit(code)


@dataclass(frozen=True, slots=True)
class Events:
    """The events of one turn: how many there are, and which lie about the calls that destroy, if there is one."""

    count: int
    first: int
    last: int

    def one(self, chance: random.Random) -> int:
        """Where to kill: anywhere, or as often near a call that destroys."""
        if self.last and chance.random() < _NEAR:
            return chance.randint(self.first, self.last)
        return chance.randint(1, self.count)


def events_of(kind: str, database: str) -> list[Events]:
    """The events of each turn of the dialogue, where nobody is killed."""
    counts: list[Events] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), database=database)
        while not is_over(place) and len(counts) < _LIVES:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                with Fuse() as fuse:
                    result = asyncio.run(one_turn(place, kind))
                    place.save(result)
                marks = fuse.marks or [0]
                os.write(writing, json.dumps([fuse.count, min(marks), max(marks)]).encode())
                os._exit(0)
            os.waitpid(child, 0)
            os.close(writing)
            counts.append(Events(*json.loads(os.read(reading, 1_000))))
            os.close(reading)
    return counts


def is_over(place: Place) -> bool:
    """Whether nothing more is to be said: all is done, or it is not known whether something was."""
    reported = place.read("reported")
    return bool(reported) and reported[-1]["status"] != "confirming"


@dataclass(slots=True)
class Tally:
    """What became of the trials."""

    kills: int = 0
    trials: int = 0
    done: int = 0
    unknown: int = 0
    problems: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Setting:
    """How processes claim their calls, and how many take a turn at once."""

    has_claims: bool = True
    database: str = ""
    replicas: int = 2

    def fuses(self, events: Events, chance: random.Random, life: int) -> list[int]:
        """Where each process of a turn is killed; 0 is nowhere."""
        first = [events.one(chance) if life < _KILLED_LIVES else 0]
        if not self.database:
            return first if chance.random() >= _AT_ONCE else [*first, 0]
        others = [
            events.one(chance) if life < _KILLED_LIVES and chance.random() < _NEAR else 0
            for _ in range(self.replicas - 1)
        ]
        return [*first, *others]

    def disturb(self, chance: random.Random) -> None:
        """Have the server end all connections, in some turns."""
        if not self.database or chance.random() >= _DISTURBED:
            return
        import psycopg

        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


def trial(number: int, chance: random.Random, events: dict[str, list[Events]], tally: Tally, setting: Setting) -> None:
    """One dialogue, killed twice or so, and what is wrong with what is left of it."""
    kind = KINDS[number % len(KINDS)]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), setting.has_claims, setting.database)
        for life in range(_LIVES):
            if is_over(place):
                break
            turn = min(place.saved.turns, len(events[kind]) - 1)
            children = [live(place, kind, each) for each in setting.fuses(events[kind][turn], chance, life)]
            setting.disturb(chance)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            tally.kills += codes.count(-signal.SIGKILL)
            if any(code not in {0, -signal.SIGKILL} for code in codes):
                tally.problems.append(f"{number} ({kind}): a process ended with {codes}: {place.read('errors')}")
        tally.trials += 1
        effects = [(name, json.dumps(given)) for name, given, _ in place.read("effects") if name != "find"]
        reported = place.read("reported")
        twice = [each for each, times in Counter(effects).items() if times > 1]
        if twice:
            tally.problems.append(f"{number} ({kind}): called twice: {twice}")
        made = {name for name, _ in effects}
        lost = {name for each in reported for name in each["done"] if name != "find"} - made
        if lost:
            tally.problems.append(f"{number} ({kind}): said to be done, and never called: {sorted(lost)}")
        if not is_over(place):
            tally.problems.append(f"{number} ({kind}): never came to an end: {reported}")
            return
        last = reported[-1]
        # Who is killed once the conversation is saved has told nobody else: what it says is there all the same.
        said = [each.content for each in place.saved.messages if each.role == "assistant"]
        if last["status"] == "failed" or any("not known" in each or UNKNOWN in each for each in (last["text"], *said)):
            tally.unknown += 1
        elif made == {"refund", "close"}:
            tally.done += 1
        else:
            tally.problems.append(f"{number} ({kind}): ended as {last} after {sorted(made)}, having said {said}")


def main() -> int:
    """Run the trials, and say what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-claims", action="store_true", help="to see that it goes wrong then")
    parser.add_argument("--replicas", type=int, default=0, help="so many at once, with claims in PostgreSQL")
    parser.add_argument("--kills", type=int, default=0, help="go on until there were so many")
    given = parser.parse_args()
    if not given.replicas:
        return run_trials(given, Setting(has_claims=not given.without_claims))
    from tests.postgres_server import PostgresServer, why_not

    if reason := why_not():
        sys.stdout.write(f"No replicas are killed: {reason}\n")
        return 0
    with PostgresServer() as server:
        return run_trials(given, Setting(not given.without_claims, server.new_database(), given.replicas))


def warm_up(database: str) -> None:
    """Take a turn of each kind, so that processes begin with what they need in memory, and are killed in a turn.

    Of 700,000 events of a process that loads all that by itself, 660,000 are imports.
    """
    if database:
        for module in ("jazz_select.postgres.claims", "jazz_select.postgres.connection"):
            import_module(module)
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(one_turn(Place(Path(folder), has_claims=False), kind))


def run_trials(given: argparse.Namespace, setting: Setting) -> int:
    """Run them in a setting."""
    chance, tally = random.Random(given.seed), Tally()
    warm_up(setting.database)
    events = {kind: events_of(kind, setting.database) for kind in KINDS}
    number = 0
    while number < given.trials or tally.kills < given.kills:
        trial(number, chance, events, tally, setting)
        number += 1
    told = (
        f"{tally.trials} dialogues, {tally.kills} kills: {tally.done} done, {tally.unknown} told that it is not known "
        f"whether a call was made, {len(tally.problems)} wrong"
    )
    sys.stdout.write("\n".join([told, *tally.problems[:20], ""]))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
