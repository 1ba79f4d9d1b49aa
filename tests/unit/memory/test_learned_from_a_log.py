"""What a sync learns from a log: the words of models and persons, hints with witnesses, and nothing from lies."""

from collections.abc import AsyncIterator, Sequence
from itertools import product
from pathlib import Path

import orjson
import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector, ProceduralMemory, Tool, sync_registry
from jazz_select.errors import OutcomeLogError
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.edge import open_edge_store
from jazz_select.outcomes import OutcomeLog, Source
from jazz_select.outcomes.callers import Caller, calling_as
from jazz_select.ports import FlowStore
from jazz_select.testing import HashEmbedder, ScriptedModel
from jazz_select.values import Candidate, Decision, Reason, Tier, flow_id

WORDS = {
    "track_parcel": ("where", "parcel", "arrive", "delivery", "courier", "late"),
    "cancel_order": ("cancel", "stop", "order", "undo", "purchase", "withdraw"),
    "refund_order": ("money", "back", "refund", "charge", "paid", "twice"),
    "change_address": ("address", "street", "move", "city", "postcode", "house"),
    "reset_password": ("password", "login", "forgot", "account", "locked", "access"),
    "find_invoice": ("invoice", "receipt", "bill", "tax", "document", "copy"),
    "ask_hours": ("open", "hours", "sunday", "closed", "shop", "today"),
    "use_voucher": ("voucher", "code", "discount", "coupon", "rabatt", "gift"),
    "return_item": ("return", "wrong", "size", "exchange", "label", "broken"),
    "book_visit": ("book", "visit", "appointment", "advice", "store", "slot"),
}
READING = "get_status"
PROBES = [
    f"{first} is my parcel {last}" for first, last in product(("where", "when"), ("now", "today", "then", "please"))
]
ADA = Source(kind="person", name="ada")


def asked(name: str, number: int) -> str:
    """One of many requests for a flow, in its words."""
    words = WORDS[name]
    places = (number % 6, (number // 6 + 1 + number) % 6, (number * 5 + 3) % 6)
    return f"{' '.join(words[place] for place in places)} no {number}"


def shop(examples: int = 5) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for name, words in WORDS.items():
        Flow(
            name=name,
            description=f"About {words[0]} and {words[1]}.",
            condition=f"The user speaks of {words[1]}.",
            desired_effects=["done"],
            examples=[asked(name, 1000 + number) for number in range(examples)],
            tools=[READING if name in {"track_parcel", "find_invoice"} else "cancel"],
            registry=registry,
        )
    return registry


def nothing() -> str:
    """Stand for what a tool does."""
    return ""


TOOLS = [
    Tool(name=READING, description="Status.", function=nothing, read_only=True),
    Tool(name="cancel", description="Cancels.", function=nothing, destructive=True),
]


ENCODER = Encoder(HashEmbedder(64), Lexical())


@pytest.fixture
async def store() -> AsyncIterator[FlowStore]:
    opened = await open_edge_store(None, ENCODER.layout)
    yield opened
    await opened.close()


@pytest.fixture
def memory(store: FlowStore) -> ProceduralMemory:
    return ProceduralMemory(store, ENCODER)


@pytest.fixture
def log(tmp_path: Path) -> OutcomeLog:
    return OutcomeLog(tmp_path / "outcomes.db")


def kept(log: OutcomeLog, request: str, name: str, *, key: str = "app", reason: Reason = Reason.LLM) -> str:
    """Keep that a model chose a flow for a request, or that recall did."""
    offered = Candidate(flow_id=flow_id(name), flow_name=name, confidence=0.6)
    attempts = int(reason is Reason.LLM)
    decision = Decision(tier=Tier.GUIDED, reason=reason, model="m", candidates=(offered,), attempts=attempts)
    with calling_as(Caller(key=key, may_teach=False)):
        return log.record(request, decision, agent_id="a", chosen=[name])


def chosen_by_models(log: OutcomeLog, count: int = 100) -> None:
    for number in range(count):
        name = [*WORDS][number % len(WORDS)]
        kept(log, asked(name, number), name)


def lies(log: OutcomeLog, count: int, keys: Sequence[str], *, source: Source | None = None) -> list[str]:
    """Say again and again, each time of another request, that it is for `cancel_order`."""
    entries: list[str] = []
    for number in range(count):
        key = keys[number % len(keys)]
        entry = kept(log, f"{PROBES[number % 8]} {number}", "track_parcel", key=key, reason=Reason.SEMANTIC)
        log.hint(entry, ["cancel_order"], source=source or Source(kind="user", key=key))
        entries.append(entry)
    log.flush()
    return entries


async def led(memory: ProceduralMemory, requests: Sequence[str] = PROBES) -> list[str]:
    found = await memory.recall_many(requests, "a")
    return [each[0]["flow_name"] for each in found]


async def synced(memory: ProceduralMemory, log: OutcomeLog | Path | None) -> tuple[str, ...]:
    return (await sync_registry(memory, "a", shop(), tools=TOOLS, evidence=log)).notes


@pytest.mark.spec("016.3")
async def test_below_fifty_and_without_a_log_everything_is_as_it_was(
    memory: ProceduralMemory, store: FlowStore, log: OutcomeLog
) -> None:
    await synced(memory, None)
    requests = [*PROBES, *(asked(name, 7) for name in WORDS)]
    before = [each.to_json() for each in await memory.recall_many(requests, "a")]
    note = orjson.dumps(await store.read_note("a"))
    chosen_by_models(log, 49)
    assert "49 logged requests can be learned from, and 50 are needed" in await synced(memory, log)
    assert [each.to_json() for each in await memory.recall_many(requests, "a")] == before
    assert orjson.dumps(await store.read_note("a")) == note
    assert b"evidence" not in note
    assert await memory.thresholds("a") is None


@pytest.mark.spec("016.3")
async def test_what_models_chose_makes_recall_sure_and_a_sync_without_the_log_forgets_it(
    memory: ProceduralMemory, log: OutcomeLog
) -> None:
    await synced(memory, None)
    requests = [asked(name, 500 + number) for name in WORDS for number in range(3)]
    before = await memory.recall_many(requests, "a")
    chosen_by_models(log, 400)
    told = await synced(memory, log)
    assert any(each.startswith("learned from") and "models chose for" in each for each in told)
    after = await memory.recall_many(requests, "a")
    assert sum(each[0]["confidence"] for each in after) > sum(each[0]["confidence"] for each in before)
    assert all(each.thresholds is not None and each.p_none is not None for each in after)
    for each in after:
        listed = [candidate["confidence"] for candidate in each]
        assert listed == sorted(listed, reverse=True)
        assert sum(listed) + (each.p_none or 0) <= 1 + 1e-6
    (fitted,) = log.moves("a")
    assert (fitted.kind, fitted.requests) == ("fitted", (await memory.thresholds("a")).requests)  # pyright: ignore[reportOptionalMemberAccess]
    await synced(memory, log)
    assert len(log.moves("a")) == 1, "nothing new was learned"
    assert any("given no log" in each for each in await synced(memory, None))
    assert [each.to_json() for each in await memory.recall_many(requests, "a")] == [each.to_json() for each in before]


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(
    ("count", "keys"),
    [(12, ["mallory"]), (1000, ["mallory"]), (12, ["mallory", "eve"]), (400, ["mallory", "eve"])],
    ids=["one key, twelve", "one key, a thousand", "two keys, twelve", "two keys, four hundred"],
)
async def test_lies_move_no_probe_to_a_destructive_flow(
    memory: ProceduralMemory, log: OutcomeLog, count: int, keys: list[str]
) -> None:
    chosen_by_models(log)
    lies(log, count, keys)
    await synced(memory, log)
    assert await memory.thresholds("a") is not None, "it has learned from the others"
    assert "cancel_order" not in await led(memory)


@pytest.mark.spec("016.3")
async def test_a_persons_correction_counts_at_once_and_can_be_taken_back(
    memory: ProceduralMemory, store: FlowStore, log: OutcomeLog
) -> None:
    chosen_by_models(log)
    await synced(memory, log)
    assert "cancel_order" not in await led(memory)
    entries = [kept(log, each, "track_parcel") for each in PROBES[:3]]
    for each in entries:
        log.correct(each, ["cancel_order"], source=ADA)
    await synced(memory, log)
    assert await led(memory) == ["cancel_order"] * 3 + ["track_parcel"] * 5
    (found,) = await memory.recall_many([f"{PROBES[0].upper()}?!"], "a")
    assert (found[0]["flow_name"], found[0]["confidence"], found.p_none) == ("cancel_order", 1.0, 0.0)
    (found,) = await memory.recall_many([f"{PROBES[0]} and my money"], "a", focuses=[PROBES[0]])
    assert found[0]["flow_name"] == "track_parcel", "in another context it may mean something else"
    note = orjson.dumps(await store.read_note("a"))
    assert b"my parcel" not in note, "no text of the log is in the index"
    for each in entries:
        log.correct(each, None, source=ADA)
    await synced(memory, log)
    assert "cancel_order" not in await led(memory)


@pytest.mark.spec("016.3")
@pytest.mark.parametrize("beside", [0, 20], ids=["nothing else", "too little else"])
async def test_a_persons_word_holds_for_its_request_from_the_first_sync_on(
    memory: ProceduralMemory, store: FlowStore, log: OutcomeLog, beside: int
) -> None:
    chosen_by_models(log, beside)
    entry, other, lie = (kept(log, each, "track_parcel") for each in (PROBES[0], "sing a song", PROBES[1]))
    log.correct(entry, ["cancel_order"], source=ADA)
    log.correct(other, [], source=ADA)
    log.correct(lie, ["cancel_order"], source=Source(kind="user", key="mallory"))
    await synced(memory, None)
    unlike = [PROBES[2], asked("find_invoice", 7)]
    before = [each.to_json() for each in await memory.recall_many(unlike, "a")]
    said = f"{beside + 2} logged requests can be learned from, and 50 are needed"
    assert f"{said}; what persons said of 2 of them holds for these alone" in await synced(memory, log)
    model = ScriptedModel()
    registry = shop()
    selector = FlowSelector(model, registry, memory, "a", policy="recommended")
    found = await selector.select(f"{PROBES[0].upper()}?!")
    assert (found.names, found.decision.reason, found.decision.confidence) == (["cancel_order"], Reason.CONFIDENT, 1.0)
    assert model.calls == []
    (none,) = await memory.recall_many(["Sing a song!"], "a")
    assert (none.p_none, {each["confidence"] for each in none}) == (1.0, {0.0})
    assert [each.to_json() for each in await memory.recall_many(unlike, "a")] == before, "of others nothing is learned"
    assert b"my parcel" not in orjson.dumps(await store.read_note("a")), "no text of the log is in the index"
    again = await ProceduralMemory(store, ENCODER).recall(PROBES[0], "a")
    assert again[0]["flow_name"] == "cancel_order", "another process reads it there"
    assert any(each.startswith("an earlier sync learned from 2 logged") for each in await synced(memory, None))
    await synced(memory, log)
    log.correct(entry, None, source=ADA)
    await synced(memory, log)
    assert (await led(memory, PROBES[:1])) != ["cancel_order"], "it is taken back"


@pytest.mark.spec("016.3")
async def test_many_words_of_a_person_move_what_is_like_them(memory: ProceduralMemory, log: OutcomeLog) -> None:
    chosen_by_models(log)
    lies(log, 400, ["mallory"], source=ADA)
    await synced(memory, log)
    assert await led(memory) == ["cancel_order"] * 8, "as many lies of a key move nothing"


@pytest.mark.spec("016.3")
async def test_hints_of_two_witnesses_lead_to_a_flow_that_only_reads(memory: ProceduralMemory, log: OutcomeLog) -> None:
    chosen_by_models(log)
    request = "paper for the office 99"

    async def chance() -> float:
        (found,) = await memory.recall_many([request], "a", top_k=10)
        return next((each["confidence"] for each in found if each["flow_name"] == "find_invoice"), 0.0)

    await synced(memory, log)
    before = await chance()
    for number in range(24):
        for key in ("one", "two"):
            entry = kept(log, f"paper for the office {number}", "ask_hours", key=key, reason=Reason.SEMANTIC)
            log.hint(entry, ["find_invoice"], source=Source(kind="user", key=key))
    told = await synced(memory, log)
    assert any("several witnesses agreed on 24" in each for each in told)
    assert await chance() > 2 * before


async def test_two_processes_recall_alike(tmp_path: Path, log: OutcomeLog) -> None:
    chosen_by_models(log, 200)
    log.flush()
    folder = tmp_path / "index"
    async with await ProceduralMemory.open(folder, embedder=HashEmbedder(64)) as one:
        await synced(one, log.path)
        first = [each.to_json() for each in await one.recall_many(PROBES, "a")]
    async with await ProceduralMemory.open(folder, embedder=HashEmbedder(64)) as two:
        assert [each.to_json() for each in await two.recall_many(PROBES, "a")] == first
        assert await two.thresholds("a") is not None


async def test_a_note_whose_evidence_cannot_be_read_leaves_recall_as_it_is_without(
    memory: ProceduralMemory, store: FlowStore, log: OutcomeLog
) -> None:
    await synced(memory, None)
    before = [each.to_json() for each in await memory.recall_many(PROBES, "a")]
    chosen_by_models(log, 200)
    await synced(memory, log)
    note = dict(await store.read_note("a") or {})
    note["evidence"] = {**note["evidence"], "sure": [2.0]}
    await store.write_note("a", note)
    other = ProceduralMemory(store, ENCODER)
    assert [each.to_json() for each in await other.recall_many(PROBES, "a")] == before


async def test_a_log_that_is_not_there_is_an_error_that_says_so(memory: ProceduralMemory, tmp_path: Path) -> None:
    with pytest.raises(OutcomeLogError, match="it is not there"):
        await synced(memory, tmp_path / "none.db")


@pytest.mark.spec("016.3")
async def test_guided_at_first_deterministic_later(memory: ProceduralMemory, log: OutcomeLog) -> None:
    registry = shop(examples=3)  # too few for a confidence of its own
    truth = {asked(name, number): name for name in WORDS for number in range(80)}

    def right(messages: Sequence[object]) -> str:
        text = str(messages[-1])
        request = max((each for each in truth if each in text), key=len)
        return orjson.dumps([flow_id(truth[request])]).decode()

    model = ScriptedModel(right, repeat=True)
    asks = FlowSelector(model, registry, memory, "a", policy="recommended", log=log)
    await sync_registry(memory, "a", registry)
    calls: list[int] = []
    requests = [asked(name, number) for number in range(80) for name in WORDS]
    for start in range(0, 800, 200):
        before = len(model.calls)
        for each in requests[start : start + 200]:
            assert (await asks.select(each)).names == [truth[each]]
        calls.append(len(model.calls) - before)
        await sync_registry(memory, "a", registry, evidence=log)
    assert calls[0] > 150, "guided today"
    assert calls[-1] < 40, "deterministic tomorrow"
