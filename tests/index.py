"""An embedded index that is treated badly, many times over: `python -m tests.index`.

- Syncs are killed with SIGKILL, half of them just before or after they write, and half at any time; the
  index must open again, hold every flow that was to stay, in its old or new form and once, and the next sync finishes.
- Each file of an index is cut, emptied, overwritten or deleted: then there is a typed error, or recall notes that flows
  may be missing, or none is. It never ends the process, and no agent is given what another has.
- Many tenants are asked at once while some of them are written to, and none is ever given what another has.
- Selections leave no files open, and little memory taken.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from jazz_select import FlowSelector, ProceduralMemory
from jazz_select.errors import JazzSelectError
from jazz_select.memory.engines.edge import Shard
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard
from tests.unit.memory.cards import card
from tests.unit.selector.shop import shop

_DIM: Final = 32
_LONGEST_S: Final = 60.0
_AGED: Final = 25
"""Kills that one index lives through."""
_FULL: Final = 330
_ASIDE: Final = 20
_EDGES: Final = 10
"""Before and after each write of a sync of two batches, those that delete, and the note."""


def opened(index: Path, dim: int = _DIM) -> Awaitable[ProceduralMemory]:
    """The index, as each process opens it."""
    return ProceduralMemory.open(index, embedder=HashEmbedder(dim))


Work = Callable[..., Coroutine[Any, Any, Any]]


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    said: Any


def in_a_process(work: Work, *given: Any, kill_at: int = 0, kill_after: float = _LONGEST_S) -> Ended:
    """Run it in a fork, with what is given; kill that at an edge of what it writes, or after so many seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            _kill_at(kill_at)
            said = asyncio.run(work(*given))
            os.write(writing, json.dumps(said).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    ends = time.monotonic() + kill_after
    done, status = os.waitpid(child, os.WNOHANG)
    while not done:
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)
        done, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    return Ended(code, json.loads(text) if text else None)


def _kill_at(edge: int) -> None:
    """Kill this process at the nth edge of what it writes: before the first is 1, after it 2, and so on."""
    write = Shard.write
    left = edge

    def pass_edge() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def written(self: Shard, *given: Any, **options: Any) -> None:
        pass_edge()
        write(self, *given, **options)
        pass_edge()

    Shard.write = written


# --- syncs that are killed -------------------------------------------------------


def catalogue(version: int) -> list[FlowCard]:
    """Flows of which most stay from one version to the next, some change, and some come and go."""
    dice = random.Random(version)
    here = [number for number in range(_FULL) if (number + version) % 11]
    return [card(f"flow_{number}", f"about {number}, {dice.choice(['old', 'new'])}") for number in here]


def listed(flows: list[FlowCard]) -> dict[str, str]:
    """Name to description."""
    return {each.name: each.description for each in flows}


async def sync_to(index: Path, version: int) -> list[str]:
    """Sync, and what is wrong with the index after it."""
    async with await opened(index) as memory:
        await memory.sync("a", catalogue(version))
        again = await memory.sync("a", catalogue(version))
        found = {each["flow_name"]: each["description"] for each in await memory.list_flows("a")}
        notes = (await memory.recall("about 7", "a")).notes
    problems = [] if found == listed(catalogue(version)) else [f"a sync to version {version} left {len(found)} flows"]
    problems += [f"a second sync did something: {again}"] if again.created or again.updated or again.deleted else []
    return problems + [f"after a sync: {note}" for note in notes]


async def after_a_kill(index: Path, before: int, wanted: int) -> list[str]:
    """What is wrong with an index whose sync from one version to another was killed."""
    async with await opened(index) as memory:
        found = [(each["flow_name"], each["description"]) for each in await memory.list_flows("a")]
        others = await memory.list_flows("b")
        (first, *_) = await memory.recall("please about 7", "a") or [{}]
    old, new = listed(catalogue(before)), listed(catalogue(wanted))
    twice = [name for name, times in Counter(name for name, _ in found).items() if times > 1]
    lost = [name for name in old if name in new and name not in dict(found)]
    strange = [name for name, about in found if about not in {old.get(name), new.get(name)}]
    problems = [f"{what}: {names[:5]}" for what, names in (("twice", twice), ("lost", lost), ("?", strange)) if names]
    problems += [] if len(others) == _ASIDE else [f"{len(others)} of {_ASIDE} flows of another agent"]
    return problems if "flow_name" in first else [*problems, "nothing is recalled"]


async def founded(index: Path) -> None:
    """An index of two agents."""
    async with await opened(index) as memory:
        await memory.sync("a", catalogue(0))
        await memory.sync("b", catalogue(0)[:_ASIDE])


def kill_syncs(kills: int, chance: random.Random) -> list[str]:
    """Kill so many, and say what became of it."""
    problems: list[str] = []
    done = finished = 0
    while done < kills:
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index"
            in_a_process(founded, index)
            at, version = 0, 0
            began = time.monotonic()
            in_a_process(sync_to, index, 1)
            took, at = time.monotonic() - began, 1
            for version in range(2, _AGED * 20):
                if (done % _AGED == 0 and version > 2) or done >= kills:
                    break
                at_an_edge = version % 2
                kill_at = chance.randint(1, _EDGES) if at_an_edge else 0
                after = _LONGEST_S if at_an_edge else chance.uniform(0, took)
                ended = in_a_process(sync_to, index, version, kill_at=kill_at, kill_after=after)
                killed = ended.code == -signal.SIGKILL
                done, finished = done + killed, finished + (not killed)
                if killed:
                    left = in_a_process(after_a_kill, index, at, version)
                    problems += _told(left, f"version {version}, after a kill")
                    ended = in_a_process(sync_to, index, version)
                problems += _told(ended, f"version {version}")
                at = version
    return [f"{done} syncs killed, {finished} finished before, {len(problems)} problems", *problems]


def _told(ended: Ended, where: str) -> list[str]:
    said: list[str] = [f"it ended with {ended.code}"] if ended.said is None else ended.said
    return [f"{where}: {each}" for each in said]


# --- files that are damaged ------------------------------------------------------

_KEPT: Final = {"a": 30, "b": 20, "c": 10}


def _emptied(file: Path, _: random.Random) -> None:
    os.truncate(file, 0)


def _cut(file: Path, dice: random.Random) -> None:
    os.truncate(file, int(file.stat().st_size * dice.random()))


def _deleted(file: Path, _: random.Random) -> None:
    file.unlink()


def _zeroed(file: Path, dice: random.Random) -> None:
    _overwritten(file, dice, bytes)


def _garbled(file: Path, dice: random.Random) -> None:
    _overwritten(file, dice, dice.randbytes)


def _overwritten(file: Path, dice: random.Random, made: Callable[[int], bytes]) -> None:
    """Where something stands: most of a file is holes."""
    used = len(file.read_bytes().rstrip(b"\0")) or file.stat().st_size
    start = dice.randrange(max(used, 1))
    with file.open("r+b") as opened_file:
        opened_file.seek(start)
        opened_file.write(made(max(1, min(used - start, dice.choice([1, 8, 64, 4_096])))))


_NOT_MENDED: Final = "after a sync, told: a note"
DAMAGES: Final = (_emptied, _cut, _deleted, _zeroed, _garbled)


async def kept(index: Path) -> None:
    """An index of some agents; each flow was written twice, so that all of its files have something in them."""
    async with await opened(index) as memory:
        for agent, count in _KEPT.items():
            await memory.sync(agent, [card(f"{agent}_{number}", "an earlier one") for number in range(count)])
            await memory.sync(agent, [card(f"{agent}_{number}") for number in range(count)])


async def read(index: Path) -> dict[str, str]:
    """What an index gives for each agent: nothing where all is well, else what is told of it or was not."""
    said: dict[str, str] = {}
    try:
        async with await opened(index) as memory:
            for agent, count in _KEPT.items():
                try:
                    said[agent] = await _seen(memory, agent, count)
                except JazzSelectError as error:
                    said[agent] = f"told: {type(error).__name__}"
    except JazzSelectError as error:
        said["all"] = f"told: {type(error).__name__}"
    return said


async def _seen(memory: ProceduralMemory, agent: str, count: int) -> str:
    names = {f"{agent}_{number}" for number in range(count)}
    found = {each["flow_name"] for each in await memory.list_flows(agent)}
    recalled = await memory.recall(f"please {agent}_3", agent, top_k=5)
    strange = (found | {each["flow_name"] for each in recalled}) - names
    if strange:
        return f"SILENT: flows that are not its own: {sorted(strange)[:3]}"
    if recalled.notes:
        return "told: a note"
    if found != names or not recalled:
        return f"SILENT: {len(found)} of {count} flows, and {len(recalled)} are recalled"
    return "" if recalled[0]["flow_name"] == f"{agent}_3" else "all are there, in another order"


async def mended(index: Path) -> dict[str, str]:
    """What a sync makes of it: all is there again, or an error says what to do."""
    try:
        async with await opened(index) as memory:
            for agent, count in _KEPT.items():
                await memory.sync(agent, [card(f"{agent}_{number}") for number in range(count)])
        after = await read(index)
    except JazzSelectError as error:
        return {"all": f"told: {type(error).__name__}"}
    return {agent: what and f"after a sync, {what}" for agent, what in after.items()}


def files_of(index: Path) -> Iterator[Path]:
    """The files that the engine wrote, and the mark of the folder."""
    yield from (path for path in sorted(index.rglob("*")) if path.is_file() and path.name != "lock")


def damage_files(damaged: int, chance: random.Random) -> list[str]:
    """Damage so many indexes, in one file each, and say what became of it."""
    ended: Counter[str] = Counter()
    problems: list[str] = []
    for number in range(damaged):
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index"
            in_a_process(kept, index)
            files = list(files_of(index))
            file, damage = files[number // len(DAMAGES) % len(files)], DAMAGES[number % len(DAMAGES)]
            damage(file, chance)
            name = f"{number}: {file.relative_to(index)} {damage.__name__.strip('_')}"
            for what, work in (("read", read), ("synced", mended)):
                code, answer = in_a_process(work, index)
                said: dict[str, str] = answer or {}
                told = sorted({each for each in said.values() if each})
                ended[f"{what}: {', '.join(told) or 'all is there'}" if not code else f"{what}: died of {code}"] += 1
                if code or any("SILENT" in each or each == _NOT_MENDED for each in told):
                    problems.append(f"{name}, {what}: {code} {said}")
    counts = [f"{times:>6}  {how}" for how, times in ended.most_common(12)]
    return [f"{damaged} indexes damaged, {len(problems)} problems", *problems, *counts]


# --- many who ask at once --------------------------------------------------------

_TENANTS: Final = 35
_AT_ONCE: Final = 250


async def recall_for_tenants(index: Path, recalls: int, chance: random.Random) -> list[str]:
    """Ask for all tenants at once while some are written to; whoever is given another's flow is told of."""
    problems: list[str] = []
    asked = 0

    def own(tenant: int) -> list[FlowCard]:
        return [card(f"{topic} of {tenant}", f"{topic} the order") for topic in ("refund", "track", "change")]

    async def ask(memory: ProceduralMemory, tenant: int) -> None:
        nonlocal asked
        found = {each["flow_name"] for each in await memory.recall("please refund the order", f"tenant {tenant}")}
        asked += 1
        strange = [name for name in found if not name.endswith(f" of {tenant}")]
        if strange or len(found) < len(own(tenant)):
            problems.append(f"tenant {tenant} was given {sorted(found)}")

    async def write(memory: ProceduralMemory) -> None:
        while asked < recalls:
            tenant = chance.randrange(_TENANTS)
            one = card(f"extra of {tenant}", "refund the order")
            await memory.memorize(one, f"tenant {tenant}")
            await memory.delete_flow(one.id, f"tenant {tenant}")
            await memory.sync(f"tenant {tenant}", own(tenant))

    async with await opened(index) as memory:
        for tenant in range(_TENANTS):
            await memory.sync(f"tenant {tenant}", own(tenant))
        writer = asyncio.create_task(write(memory))
        while asked < recalls:
            some = [chance.randrange(_TENANTS) for _ in range(min(_AT_ONCE, recalls - asked))]
            await asyncio.gather(*(ask(memory, tenant) for tenant in some))
        await writer
    return [f"{asked} recalls of {_TENANTS} tenants, {len(problems)} problems", *problems]


async def select_many_times(index: Path, selections: int) -> list[str]:
    """Select, and see that neither open files nor memory grow."""
    names = [f"flow_{number}" for number in range(40)]
    problems: list[str] = []
    async with await opened(index) as memory:
        await memory.sync("a", [card(name, f"deal with case {name}") for name in names])
        selector = FlowSelector(None, shop(*names), memory, "a")
        await _select(selector, selections // 10, 0)
        files, taken = _open_files(), _resident()
        await _select(selector, selections, selections)
        more, grown = _open_files() - files, _resident() - taken
    problems += [f"{more} more files are open"] if more > 0 else []
    problems += [f"{grown >> 20} MiB more memory is taken"] if grown > _GROWN else []
    told = f"{selections} selections, {len(problems)} problems: {more} more files open, {grown / 1e6:.1f} MB more taken"
    return [told, *problems]


_GROWN: Final = 20_000_000


async def _select(selector: FlowSelector, times: int, first: int) -> None:
    for number in range(first, first + times):
        result = await selector.select(f"please deal with case flow_{number % 40}, number {number}")
        assert result.candidates, number


def _open_files() -> int:
    place = Path("/proc/self/fd")
    return len([*place.iterdir()]) if place.is_dir() else 0


def _resident() -> int:
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def main() -> int:
    """Do each so many times, and say what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--damaged", type=int, default=200)
    parser.add_argument("--recalls", type=int, default=138_000)
    parser.add_argument("--selections", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    told = [kill_syncs(given.kills, chance), damage_files(given.damaged, chance)]
    with tempfile.TemporaryDirectory() as folder:
        told.append(asyncio.run(recall_for_tenants(Path(folder) / "tenants", given.recalls, chance)))
        told.append(asyncio.run(select_many_times(Path(folder) / "selections", given.selections)))
    sys.stdout.write("".join(f"{line}\n" for lines in told for line in lines[:20]))
    return 0 if all(" 0 problems" in lines[0] for lines in told) else 1


if __name__ == "__main__":
    sys.exit(main())
