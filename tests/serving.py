"""A service that is treated badly, many times over: `python -m tests.serving`.

- It is killed with SIGKILL under load; each client hears of it, the index holds every flow afterwards, and it is back
  soon.
- Clients send what is no request, stop in the middle, send without end, read nothing, and hang up, while others ask as
  they should: these are answered, nothing fails on the service's side, no connection stays, and memory does not grow.
- Whatever its own OpenAPI document lets one think of is sent, and more: it is answered or refused, and never fails.
- It, and the library in a process, get each attack of `tests.held_up`: nobody else waits, and memory does not grow.
- All of that by one agent's key; the other's flows are never in what comes back.
"""

import argparse
import asyncio
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx
import jsonschema
import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import held_up
from tests.held_up import KEY, OTHER
from tests.unit.service.processes import Process, running

MINE: Final = {"authorization": f"Bearer {KEY}"}
SECRET: Final = b"invoice_copy"
"""What only the other agent has."""
LATE_S: Final = 15.0
"""A connection that is open for longer hangs."""
_FLOWS: Final = ["close_account", "refund_order", "track_order"]


def prepared(folder: Path) -> list[str]:
    """Two agents, and the options that serve them with few places."""
    return [*held_up.prepared(folder), "--config", "max_in_flight=64"]


def memory_kb(up: Process) -> int:
    """What the process holds, where the system says so."""
    file = Path(f"/proc/{up.popen.pid}/status")
    found = re.search(r"VmRSS:\s+(\d+)", file.read_text()) if file.exists() else None
    return int(found[1]) if found else 0


def say(text: str) -> None:
    """A line of the report."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# --- killed -------------------------------------------------------------------------


async def loaded(root: str, clients: int, begun: asyncio.Event) -> Counter[str]:
    """How clients end that ask without a pause, until nobody answers."""
    ended: Counter[str] = Counter()

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=root, headers=MINE, timeout=LATE_S) as client:
            while True:
                try:
                    response = await client.post("/v1/select", json={"request": "I want my money back"})
                except httpx.TransportError as error:
                    ended[type(error).__name__] += 1
                    return
                begun.set()
                if response.status_code not in {200, 503}:
                    ended[f"status {response.status_code}"] += 1
                    return

    await asyncio.gather(*(ask() for _ in range(clients)))
    return ended


def killed(trials: int) -> list[str]:
    """Kill it under load, so often."""
    faults: list[str] = []
    back_s: list[float] = []
    dice = random.Random(8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = prepared(folder)
        for _ in range(trials):
            began = time.monotonic()
            with running(folder, *options) as up:
                back_s.append(time.monotonic() - began)
                listed = httpx.get(f"{up.root}/v1/flows", headers=MINE, timeout=LATE_S).json()
                anew = httpx.post(f"{up.root}/v1/reload", headers=MINE, timeout=LATE_S).json()
                if [each["flow_name"] for each in listed["flows"]] != _FLOWS or anew["unchanged"] != _FLOWS:
                    faults.append(f"after a kill: {listed}, {anew}")

                async def until_killed(up: Process = up) -> Counter[str]:
                    begun = asyncio.Event()
                    asking = asyncio.create_task(loaded(up.root, 16, begun))
                    await begun.wait()
                    await asyncio.sleep(dice.uniform(0, 0.3))
                    up.popen.kill()
                    return await asyncio.wait_for(asking, LATE_S)

                ended = asyncio.run(until_killed())
                if any(each.startswith("status") for each in ended) or ended.total() != 16:
                    faults.append(f"clients of a killed service: {dict(ended)}")
    say(f"{trials} kills under load: back in {median(back_s):.2f} s, at most {max(back_s):.2f} s")
    return faults


# --- hostile clients -------------------------------------------------------------------

_GOOD = orjson.dumps({"request": "I want my money back"})
_HEAD = b"POST /v1/%s HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + KEY.encode()
_JSON = b"\r\ncontent-type: application/json\r\n"


def hostile(dice: random.Random) -> tuple[str, list[bytes]]:
    """A way to be no good client, and what is sent."""
    path = dice.choice([b"select", b"select_many", b"recall", b"turn", b"feedback", b"nothing"])
    head = _HEAD % path + _JSON
    sized = head + b"content-length: %d\r\n\r\n"
    deep = b"[" * dice.choice([200, 2_000, 100_000])
    ways: dict[str, Callable[[], list[bytes]]] = {
        "noise": lambda: [dice.randbytes(dice.randrange(1, 5_000))],
        "half a head": lambda: [head[: dice.randrange(1, len(head))]],
        "half a body": lambda: [sized % 1_000 + _GOOD[: dice.randrange(len(_GOOD))]],
        "a huge body": lambda: [sized % 10_000_000, *[b"x" * 100_000] * 100],
        "a huge chunked body": lambda: [
            head + b"transfer-encoding: chunked\r\n\r\n",
            *[b"186a0\r\n" + b"x" * 100_000 + b"\r\n"] * 100,
        ],
        "an endless head": lambda: [head, *[b"x-%d: %s\r\n" % (each, b"y" * 4_000) for each in range(100)]],
        "a bad length": lambda: [head + b"content-length: 1e3\r\n\r\n" + _GOOD],
        "a flipped byte": lambda: [flipped(sized % len(_GOOD) + _GOOD, dice)],
        "deep JSON": lambda: [sized % len(deep) + deep],
        "bad UTF-8": lambda: [sized % 18 + b'{"request": "\xff\xfe"}  '],
        "many at once, none read": lambda: [(sized % len(_GOOD) + _GOOD) * 50],
        "another key": lambda: [(sized % len(_GOOD)).replace(KEY.encode(), OTHER.encode()[:-1] + b"x") + _GOOD],
        "an upgrade": lambda: [head + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"],
        "an odd method": lambda: [(sized % len(_GOOD)).replace(b"POST", b"TRACE") + _GOOD],
    }
    name = dice.choice(sorted(ways))
    return name, ways[name]()


def flipped(sent: bytes, dice: random.Random) -> bytes:
    """With one byte otherwise."""
    place = dice.randrange(len(sent))
    return sent[:place] + bytes([sent[place] ^ (1 << dice.randrange(8))]) + sent[place + 1 :]


async def treat_badly(port: int, dice: random.Random) -> tuple[str, str]:
    """One hostile client: what it did, and what was wrong with what came back."""
    name, sent = hostile(dice)
    how = dice.choice(["waits", "closes its side", "hangs up", "drips"])
    back = b""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        return name, f"cannot connect: {error}"
    try:
        for each in sent:
            writer.write(each)
            await asyncio.wait_for(writer.drain(), LATE_S)
            if how == "drips":
                await asyncio.sleep(0.05)
        if how == "hangs up":
            writer.transport.abort()
            return name, ""
        if how == "closes its side":
            writer.write_eof()
        else:
            # A whole request leaves the connection open for the next: then it is asked to be closed.
            writer.write(b"\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        back = await asyncio.wait_for(reader.read(), LATE_S)
    except TimeoutError:
        return f"{name}, {how}", "it hangs"
    except OSError:
        pass
    finally:
        writer.transport.abort()
    statuses = {int(each) for each in re.findall(rb"HTTP/1\.1 (\d{3})", back)}
    if any(each >= 500 and each != 503 for each in statuses):
        return f"{name}, {how}", f"it failed: {back[:300]!r}"
    return name, "another agent's flow is in it" if SECRET in back else ""


async def beset(up: Process, connections: int) -> list[str]:
    """Hostile clients, 50 at a time, while four ask as they should."""
    port, dice = int(up.root.rpartition(":")[2]), random.Random(18)
    faults: list[str] = []
    over = False
    answered = slowest = 0.0

    async def good() -> None:
        nonlocal answered, slowest
        async with httpx.AsyncClient(base_url=up.root, headers=MINE, timeout=LATE_S) as client:
            while not over:
                began = time.monotonic()
                response = await client.post("/v1/select", content=_GOOD, headers={"content-type": "application/json"})
                slowest = max(slowest, time.monotonic() - began)
                if response.status_code == 200:
                    answered += 1
                elif response.status_code not in {429, 503}:
                    faults.append(f"a good client was answered {response.status_code}: {response.text[:200]}")
                await asyncio.sleep(0.02)

    asking = [asyncio.create_task(good()) for _ in range(4)]
    places = asyncio.Semaphore(50)

    async def one() -> None:
        async with places:
            name, fault = await treat_badly(port, dice)
            if fault:
                faults.append(f"{name}: {fault}")

    half = connections // 2
    await asyncio.gather(*(one() for _ in range(half)))
    before = memory_kb(up)
    await asyncio.gather(*(one() for _ in range(connections - half)))
    over = True
    await asyncio.gather(*asking)
    grown = memory_kb(up) - before
    say(
        f"{connections} hostile connections: {answered:.0f} answers to good clients meanwhile, the slowest in "
        f"{slowest:.2f} s; memory grew by {grown / 1024:.1f} MiB in the second half"
    )
    if grown > 64 << 10:
        faults.append(f"memory grew by {grown} KiB")
    if not answered:
        faults.append("no good client was answered")
    return faults


# --- whatever the document lets one think of ---------------------------------------------


def values(schema: dict[str, Any], known: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly what a schema describes, at times something else."""
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
    return st.one_of(_like(schema, known), _like(schema, known), anything)


def _like(schema: dict[str, Any], known: dict[str, Any]) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911 - one way for each kind
    if "$ref" in schema:
        return _like(known[schema["$ref"].rpartition("/")[2]], known)
    if "anyOf" in schema:
        return st.one_of([_like(each, known) for each in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object" if "properties" in schema:
            needed, fields = set(schema.get("required", ())), schema["properties"]
            made = {name: values(each, known) for name, each in fields.items()}
            return st.fixed_dictionaries(
                {name: each for name, each in made.items() if name in needed},
                optional={name: each for name, each in made.items() if name not in needed},
            )
        case "object":
            return st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=20), max_size=3)
        case "array":
            return st.lists(values(schema.get("items", {}), known), max_size=4)
        case "string":
            return st.text(max_size=60) | st.sampled_from(["refund_order", "where is my parcel", "yes", "auto"])
        case "integer":
            return st.integers(-5, 200)
        case "number":
            return st.floats(-1, 400)
        case "boolean":
            return st.booleans()
        case _:
            return st.none()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and what is told of it."""
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            yield path, method, told


def _tried(
    client: httpx.Client, operation: str, told: dict[str, Any], known: dict[str, Any], examples: int
) -> Counter[int]:
    """Send one operation what is thought of, and count the answers.

    Raises:
        AssertionError: What came back is not what the document says.
    """
    statuses: Counter[int] = Counter()
    body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    method, path = operation.split()
    headers = {"content-type": "application/json"} if body else {}
    checkers: dict[tuple[str, str], Any] = {
        (status, media): jsonschema.Draft202012Validator({**each["schema"], "components": {"schemas": known}})
        for status, said in told["responses"].items()
        for media, each in said["content"].items()
    }

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        database=None,
    )
    @given(value=values(body, known) if body else st.none(), name=st.text(min_size=1, max_size=20))
    def ask(value: Any, name: str) -> None:
        try:
            content = orjson.dumps(value) if body else b""
            url = path.replace("{name}", httpx.URL(f"http://x/{name}").raw_path.decode()[1:])
        except (TypeError, UnicodeError, httpx.InvalidURL):
            return
        response = client.request(method, url, content=content, headers=headers)
        statuses[response.status_code] += 1
        assert SECRET not in response.content
        if path.endswith("}") and response.status_code == 404:
            return  # a name may be a path of its own
        media = response.headers.get("content-type", "").partition(";")[0]
        checker = checkers.get((str(response.status_code), media))
        assert checker is not None, f"{method} {url}: {response.status_code} {media} is not in the document"
        if media.endswith("json"):
            checker.validate(response.json())

    ask()
    return statuses


def thought_of(up: Process, examples: int) -> list[str]:
    """Send to each operation what its document describes, and hold the answers against it."""
    faults: list[str] = []
    statuses: Counter[int] = Counter()
    with httpx.Client(base_url=up.root, headers=MINE, timeout=LATE_S) as client:
        document = client.get("/openapi.json").json()
        known = document["components"]["schemas"]
        for path, method, told in operations(document):
            try:
                statuses += _tried(client, f"{method} {path}", told, known, examples)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the others are tried
                faults.append(f"{method} {path}: {str(error)[:600]}")
    say(f"{statuses.total()} requests out of the OpenAPI document: {dict(sorted(statuses.items()))}")
    return faults


def main() -> int:
    """Run all of it; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--examples", type=int, default=300, help="for each operation")
    parser.add_argument("--strict", action="store_true", help="hold times as a quiet machine does")
    asked = parser.parse_args()
    faults = killed(asked.kills) if asked.kills else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(folder, *prepared(folder)) as up:
            faults += thought_of(up, asked.examples)
            faults += asyncio.run(beset(up, asked.connections))
            if up.popen.poll() is not None:
                faults.append(f"the service ended with {up.popen.poll()}")
        said = (folder / "stderr").read_text()
        if "Traceback" in said:
            faults.append(f"the service's log: {said[said.index('Traceback') :][:2_000]}")
    faults += held_up.attacked(strict=asked.strict)
    for fault in faults[:20]:
        say(fault)
    say(f"{len(faults)} faults" if faults else "no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
