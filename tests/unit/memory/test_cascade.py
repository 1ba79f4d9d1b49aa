"""A cascade: the fast embedder answers what it is sure of, the better one the rest, over one index."""

from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree

import pytest

from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory
from jazz_select.build import load_registry
from jazz_select.errors import ConfigError, EmbedderMismatchError, MissingExtraError
from jazz_select.memory.embedders import known_embedders as embedders
from jazz_select.memory.embedders import minilm
from jazz_select.memory.embedders.known_embedders import CascadeEmbedder, open_embedder
from jazz_select.memory.fit.model import UNREAD
from jazz_select.ports import Embedder, Vectors
from jazz_select.testing import FailingEmbedder, HashEmbedder, check_embedder
from jazz_select.values import RecallResult
from tests.tables import read_table
from tests.unit.memory.cards import CARDS
from tests.unit.memory.conftest import Place, opened
from tests.vectors import NEEDS_STATIC

ROOT = Path(__file__).parents[3]
LABELLED = read_table(ROOT / "examples" / "eval.yaml")[::2]
"""Half of them: all of both kinds, sure and unsure, are there."""
ASKED: list[str] = [each["request"] for each in LABELLED]


class Listening:
    """A `HashEmbedder` that keeps which requests it read."""

    def __init__(self, dim: int) -> None:
        self._inner = HashEmbedder(dim)
        self.identity, self.dim, self.offload = f"hash{dim}:1", dim, False
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._inner.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        self.read.append(text)
        return self._inner.embed_query(text)


class Pair:
    """A poor embedder before a better one."""

    def __init__(self, first: Embedder | None = None, second: Embedder | None = None) -> None:
        self.first, self.second = first or Listening(48), second or Listening(256)
        self.both = CascadeEmbedder(self.first, self.second)


@pytest.fixture(scope="module")
def catalogue() -> FlowRegistry:
    """The repository's own flows."""
    return load_registry(ROOT / "flows")


class Synced:
    """Indexes of the repository's flows, each made once by the embedder that it is for, to be copied."""

    def __init__(self, flows: FlowRegistry, folder: Path) -> None:
        self._flows, self._folder = flows, folder
        self._made: dict[str, Path] = {}
        self._known: dict[str, list[RecallResult]] = {}

    async def copied(self, place: Path, embedder: Embedder) -> Path:
        """Such an index at this place."""
        made = self._made.get(embedder.identity)
        if made is None:
            made = self._folder / f"{len(self._made)}"
            async with await ProceduralMemory.open(made, embedder=embedder) as memory:
                await memory.sync("a", list(self._flows.values()))
            self._made[embedder.identity] = made
        return copytree(made, place)

    async def answers(self, place: Place, embedder: Embedder, asked: Sequence[str] = ASKED) -> list[RecallResult]:
        """What is recalled for each of the requests from an index of these flows."""
        if isinstance(place, Path):
            await self.copied(place, embedder)
        async with await opened(place, embedder=embedder) as memory:
            await memory.sync("a", list(self._flows.values()))
            return await memory.recall_many(asked, "a", top_k=5)

    async def known(self, embedder: Embedder) -> list[RecallResult]:
        """What is recalled for all requests from an index in a folder, found out once."""
        if embedder.identity not in self._known:
            place = self._folder / f"known{len(self._known)}"
            self._known[embedder.identity] = await self.answers(place, embedder)
        return self._known[embedder.identity]


@pytest.fixture(scope="module")
def synced(catalogue: FlowRegistry, tmp_path_factory: pytest.TempPathFactory) -> Synced:
    return Synced(catalogue, tmp_path_factory.mktemp("synced"))


class Told:
    """A result as far as two engines agree on it: the same flows, and numbers to four digits."""

    def __init__(self, result: RecallResult) -> None:
        self.names = [each["flow_name"] for each in result]
        self.numbers = [number for each in result for number in (each["confidence"], each["score"])]
        self.numbers.append(result.p_none)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Told) and (self.names, self.numbers) == (
            other.names,
            [None if each is None else pytest.approx(each, abs=1e-4) for each in other.numbers],  # pyright: ignore[reportUnknownMemberType]
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.names} {self.numbers}"


@pytest.mark.spec("006.2")
async def test_each_answer_is_that_of_the_embedder_it_names(place: Place, synced: Synced) -> None:
    pair = Pair()
    found = await synced.answers(place, pair.both)
    alone = {f"hash{each.dim}": await synced.known(each) for each in (Listening(48), Listening(256))}
    assert {each.stage for each in found} == {"hash48", "hash256"}, "some are sure, and some are not"
    for number, each in enumerate(found):
        assert Told(each) == Told(alone[each.stage][number]), ASKED[number]


@pytest.mark.spec("006.2")
async def test_the_second_reads_what_the_first_is_not_sure_of_and_nothing_else(place: Place, synced: Synced) -> None:
    first, second = Listening(48), Listening(256)
    found = await synced.answers(place, Pair(first, second).both)
    assert set(ASKED) <= set(first.read)
    unsure = [text for text, each in zip(ASKED, found, strict=True) if each.stage == "hash256"]
    assert [text for text in second.read if text in ASKED] == unsure
    for each in found:
        assert ("at least the threshold" in each.why) is (each.stage == "hash48"), each.why


class Together(Listening):
    """One that reads many requests at once."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.batches: list[list[str]] = []

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.batches.append([*texts])
        return self.embed(texts)


@pytest.mark.spec("006.2")
async def test_what_many_requests_leave_unsure_is_read_together(synced: Synced, tmp_path: Path) -> None:
    one, many = Listening(256), Together(256)
    apart = await synced.answers(tmp_path / "apart", Pair(second=one).both, ASKED[:40])
    found = await synced.answers(tmp_path / "together", Pair(second=many).both, ASKED[:40])
    assert [Told(each) for each in found] == [Told(each) for each in apart]
    assert many.batches == [one.read]
    assert not many.read


@pytest.mark.spec("006.2")
async def test_no_more_is_lost_than_the_fit_allows(synced: Synced) -> None:
    wanted = [each["expect"][0] for each in LABELLED]
    both, alone = await synced.known(Pair().both), await synced.known(Listening(256))

    def right(found: Sequence[RecallResult]) -> int:
        return sum(bool(each) and each[0]["flow_name"] == flow for each, flow in zip(found, wanted, strict=True))

    assert right(both) >= right(alone) - 0.002 * len(wanted)


@pytest.mark.spec("006.2")
async def test_without_a_calibration_the_second_reads_everything(place: Place) -> None:
    pair = Pair()
    async with await opened(place, embedder=pair.both) as memory:
        await memory.sync("a", CARDS)
        for found in (await memory.recall("money back", "a"), (await memory.recall_many(["parcel"], "a"))[0]):
            assert (found.stage, found.why) == ("hash256", "hash48 is not calibrated")
            assert found[0]["confidence"] is None


async def test_an_index_without_a_sync_is_read_by_the_second(place: Place) -> None:
    async with await opened(place, embedder=Pair().both) as memory:
        await memory.memorize(CARDS[0], "a")
        assert (await memory.recall("money back", "a")).stage == "hash256"


@pytest.mark.spec("006.2")
async def test_where_the_second_fails_the_first_answers_and_says_so(catalogue: FlowRegistry, tmp_path: Path) -> None:
    second = FailingEmbedder(HashEmbedder(256), failing=False)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair(second=second).both) as memory:
        await memory.sync("a", list(catalogue.values()))
        await memory.sync("b", CARDS)
        second.failing = True
        found = await memory.recall_many(ASKED, "a")
        assert {each.stage for each in found} == {"hash48"}
        failed = [each for each in found if each.why == "hash failed"]
        assert failed
        assert all(each and "recall without hash: the embedder hash:256 failed" in each.notes[0] for each in failed)
        uncalibrated = await memory.recall("money back", "b")
        assert (uncalibrated[0]["flow_name"], uncalibrated.stage) == ("refund_order", "hash48")


async def test_where_the_first_fails_the_second_answers_and_where_both_do_words_alone(
    catalogue: FlowRegistry, tmp_path: Path
) -> None:
    first, second = (FailingEmbedder(HashEmbedder(dim), failing=False) for dim in (48, 256))
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair(first, second).both) as memory:
        await memory.sync("a", list(catalogue.values()))
        first.failing = True
        found = await memory.recall("where is my parcel", "a")
        assert (found.stage, found.why) == ("hash:256", "hash:48 failed")
        assert [note.partition(":")[0] for note in found.notes] == ["recall without hash"]
        second.failing = True
        found = await memory.recall("where is my parcel", "a")
        assert found
        assert [note.partition(":")[0] for note in found.notes] == ["recall by BM25 alone", "recall without hash"]


@pytest.mark.spec("006.2")
async def test_what_was_fitted_is_there_when_the_index_is_opened_again(synced: Synced, tmp_path: Path) -> None:
    before = await synced.answers(tmp_path / "index", Pair().both)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair().both) as memory:
        after = await memory.recall_many(ASKED, "a", top_k=5)
        await memory.memorize(CARDS[0], "a")
        later = await memory.recall_many(ASKED, "a", top_k=5)
    assert [(Told(each), each.stage, each.why) for each in after] == [
        (Told(each), each.stage, each.why) for each in before
    ]
    assert {each.stage for each in later} == {"hash48", "hash256"}, "one flow more leaves both calibrated"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"sure": 7}, id="a threshold above 1"),
        pytest.param({"sure": "high"}, id="a threshold that is no number"),
        pytest.param({"second": {"version": 0}}, id="a second model of another version"),
        pytest.param({"second": []}, id="a second model that is none"),
    ],
)
async def test_a_damaged_note_is_as_good_as_none(
    damage: dict[str, object], synced: Synced, catalogue: FlowRegistry, tmp_path: Path
) -> None:
    await synced.copied(tmp_path / "index", Pair().both)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair().both) as memory:
        store = memory._store  # pyright: ignore[reportPrivateUsage]
        note = await store.read_note("a")
        assert note
        await store.write_note("a", note | damage)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair().both) as memory:
        found = await memory.recall("where is my parcel", "a")
        assert found
        assert (found.stage, UNREAD in found.notes) == ("hash256", True)
        await memory.sync("a", list(catalogue.values()))
        assert (await memory.recall("where is my parcel", "a")).why != "hash48 is not calibrated"


@pytest.mark.spec("006.2")
async def test_a_cascade_is_another_layout_and_a_sync_moves_to_it(
    synced: Synced, catalogue: FlowRegistry, tmp_path: Path
) -> None:
    await synced.answers(tmp_path / "index", Listening(48))
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair().both) as memory:
        with pytest.raises(EmbedderMismatchError, match=r"cascade\(hash48:1, hash256:1\)"):
            await memory.recall("where is my parcel", "a")
        await memory.sync("a", list(catalogue.values()))
        assert (await memory.recall("where is my parcel", "a")).stage


@pytest.mark.spec("006.2")
async def test_a_decision_says_which_embedder_found_its_candidates(
    synced: Synced, catalogue: FlowRegistry, tmp_path: Path
) -> None:
    await synced.copied(tmp_path / "index", Pair().both)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=Pair().both) as memory:
        await memory.sync("a", list(catalogue.values()))
        result = await FlowSelector(None, catalogue, memory, agent_id="a").select(ASKED[0])
        found = await memory.recall(ASKED[0], "a")
    assert result.decision.recalled_by == f"{found.stage}: {found.why}"
    assert f"recalled by: {found.stage}" in result.explain()


def test_as_one_embedder_it_keeps_the_contract() -> None:
    check_embedder(CascadeEmbedder(HashEmbedder(64), HashEmbedder(256)))


@NEEDS_STATIC
@pytest.mark.spec("006.2")
async def test_by_its_name_it_is_static_vectors_before_the_transformer(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder="cascade") as memory:
        assert memory.embedder.startswith("cascade(static:wordllama-")
        assert ", minilm:" in memory.embedder
        await memory.sync("a", CARDS)
        found = await memory.recall("I was charged for goods that came broken", "a")
    assert (found[0]["flow_name"], found.stage) == ("refund_order", "minilm")


@pytest.mark.parametrize(
    ("missing", "error", "says"),
    [
        pytest.param("wordllama", ConfigError, "'cascade' needs the package 'wordllama'", id="static"),
        pytest.param("onnxruntime", MissingExtraError, r"\[minilm\]", id="minilm"),
    ],
)
@pytest.mark.spec("006.2")
def test_where_a_part_is_missing_it_says_what_to_do(
    missing: str, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, {missing})
    with pytest.raises(error, match=says):
        open_embedder("cascade")


def without(monkeypatch: pytest.MonkeyPatch, packages: Collection[str]) -> None:
    """Hide these packages from the embedders."""

    def find(name: str) -> object | None:
        return None if name in packages else find_spec(name)

    for module in (embedders, minilm):
        monkeypatch.setattr(module, "find_spec", find)
