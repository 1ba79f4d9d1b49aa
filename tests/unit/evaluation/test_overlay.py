"""The file of what was learned: versions on trial, live and back, and the flows with what they are taught."""

import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jazz_select import FlowRegistry, ProceduralMemory, SequentialFlow, sync_registry
from jazz_select.data_files import LARGEST
from jazz_select.errors import ConfigError, UnreadableFileError
from jazz_select.evaluation import Overlay, Version, changed_overlay, load_overlay, taught
from jazz_select.evaluation.overlay import yaml_text
from jazz_select.testing import HashEmbedder

TEXTS = st.text(max_size=60).map(yaml_text).filter(bool)


def version(**examples: str) -> Version:
    return Version(number=1, at="2026-01-01", examples={flow: {text: "e1 e2"} for flow, text in examples.items()})


@pytest.mark.spec("007.5")
def test_shadow_first_then_live_then_back(tmp_path: Path) -> None:
    file = tmp_path / "learned.yaml"
    assert load_overlay(file) == Overlay()
    tried = Overlay().start_trial(version(refund="cash back"))
    assert (tried.live, tried.shadow) == (0, 1), "what is new is on trial"
    tried.save(file)
    live = load_overlay(file).promote()
    assert (live.live, live.shadow) == (1, 0)
    second = live.start_trial(version(refund="cash back", track="lost?")).promote()
    assert second.live == 2
    assert second.roll_back().live == 1
    assert second.roll_back().roll_back().live == 0
    second.save(file)
    assert load_overlay(file) == second
    assert [each.name for each in tmp_path.iterdir()] == ["learned.yaml"], "nothing half written is left"
    with pytest.raises(ConfigError, match="no version is on trial"):
        second.promote()
    with pytest.raises(ConfigError, match="nothing to roll back to"):
        Overlay().roll_back()


def test_two_that_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "learned.yaml"

    def tries(number: int) -> None:
        changed_overlay(file, lambda now: now.start_trial(version(a=f"try {number}")))

    threads = [threading.Thread(target=tries, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    kept = load_overlay(file)
    assert [each.number for each in kept.versions] == [1, 2, 3, 4, 5, 6]
    assert {text for each in kept.versions for text in each.examples["a"]} == {f"try {number}" for number in range(6)}
    with pytest.raises(ConfigError, match="nothing to roll back to"):
        changed_overlay(file, Overlay.roll_back)
    assert changed_overlay(file, Overlay.promote).live == 6, "whoever fails lets go of it"


def test_old_versions_are_let_go_of_but_those_that_count() -> None:
    overlay = Overlay().start_trial(version(refund="the first")).promote()
    for number in range(30):
        overlay = overlay.start_trial(version(refund=f"try {number}"))
    assert len(overlay.versions) <= 10
    assert overlay.version("live") is not None
    assert overlay.version("shadow") is not None
    assert overlay.roll_back().version("live") is None, "before it, nothing was learned"


@given(
    st.dictionaries(
        TEXTS,
        st.dictionaries(TEXTS, st.just("id"), max_size=3),
        max_size=3,
    )
)
def test_whatever_users_wrote_comes_back_from_the_file(
    tmp_path_factory: pytest.TempPathFactory, examples: dict[str, dict[str, str]]
) -> None:
    file = tmp_path_factory.mktemp("kept") / "learned.yaml"
    overlay = Overlay().start_trial(Version(number=1, at="", examples=examples))
    overlay.save(file)
    assert load_overlay(file) == overlay


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("versions: 3", "versions: ", id="no list"),
        pytest.param("live: 4", "live: there is no version 4", id="a version that is not there"),
        pytest.param("versions: [{number: 1, at: x, examples: {a: [b]}}]", "versions.1.examples.a", id="a field"),
        pytest.param("was_live: [7]", "was_live: there is no version 7", id="nowhere to go back to"),
        pytest.param("was_live: [-3]", "was_live: there is no version -3", id="nor can be there"),
        pytest.param("versions: [{number: 1, at: x}, {number: 1, at: y}]", "the number 1", id="two of one number"),
        pytest.param("format: 9", "format", id="another format"),
        pytest.param("a: b: c", "is no YAML", id="no YAML"),
    ],
)
def test_a_file_that_is_wrong_is_told_of_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "learned.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said) as error:
        load_overlay(file)
    assert "learned.yaml" in str(error.value)


def test_a_file_that_has_to_be_there_and_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"learned\.yaml"):
        load_overlay(tmp_path / "learned.yaml", must_exist=True)


def test_flows_are_taught_without_being_touched(small_shop: FlowRegistry) -> None:
    SequentialFlow(
        name="all", description="Both.", flows=["refund", "track"], examples=list("abcde"), registry=small_shop
    )
    before = {flow.name: flow.compute_checksum() for flow in small_shop.values()}
    made = taught(small_shop, version(refund="cash back", track="Where IS my parcel", gone="x"))
    assert {flow.name: flow.compute_checksum() for flow in small_shop.values()} == before
    refund, track, both = (made.registry.by_name(name) for name in ("refund", "track", "all"))
    assert refund is not None
    assert track is not None
    assert both is not None
    assert refund.examples[-1] == "cash back"
    assert len(track.examples) == 5, "it says that already"
    assert [part.examples[-1] for part in both.subflows] == ["cash back", "when does it arrive"]
    assert made.notes == ("1 learned examples are for 'gone', and there is no such flow",)
    assert taught(small_shop, None).registry.keys() == small_shop.keys()


@pytest.mark.spec("007.5")
async def test_a_sync_indexes_the_live_version_and_only_that(small_shop: FlowRegistry, tmp_path: Path) -> None:
    file = tmp_path / "learned.yaml"
    live = Overlay().start_trial(version(refund="zzyzx qwerty")).promote()
    live.start_trial(version(track="zzyzx qwerty")).save(file)
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        await sync_registry(memory, "a", small_shop)
        plain = await memory.recall("zzyzx qwerty", "a", 1)
        report = await sync_registry(memory, "a", small_shop, learned=file)
        assert report.updated == ("refund",)
        (first,) = await memory.recall("zzyzx qwerty", "a", 1)
        assert first["flow_name"] == "refund"
        assert (await sync_registry(memory, "a", small_shop, learned=live)).updated == ()
        back = await sync_registry(memory, "a", small_shop)
        assert back.updated == ("refund",), "without the file it is as the authors wrote it"
        assert await memory.recall("zzyzx qwerty", "a", 1) == plain
        with pytest.raises(ConfigError, match="learned"):
            await sync_registry(memory, "a", small_shop, learned=tmp_path / "other-learned.yaml")


# --- a writer has its reader's bounds ------------------------------------------------


@pytest.mark.spec("013.5")
@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text(), max_size=2), max_size=2))
@example({"\ud800": {}})
def test_whatever_is_to_be_kept_can_be_read_again_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, examples: dict[str, dict[str, str]]
) -> None:
    file = tmp_path_factory.mktemp("kept") / "learned.yaml"
    before = Overlay().start_trial(version(refund="cash back"))
    before.save(file)
    made = Version.model_construct(number=1, at="", after=0, gain=None, examples=examples)
    after = before.promote().start_trial(made)
    refused = ""
    try:
        after.save(file)
    except UnreadableFileError as error:
        refused = str(error)
    assert not refused or "learned.yaml was left as it is" in refused
    assert not refused or "take texts out of it, or split the agent" in refused
    assert load_overlay(file) == (before if refused else after)
    assert list(file.parent.iterdir()) == [file]


def many(count: int, letters: int = 20) -> dict[str, dict[str, str]]:
    return {f"flow{flow}": {f"{number} {'x' * letters}": "e" for number in range(count // 10)} for flow in range(10)}


@pytest.mark.spec("013.5")
@pytest.mark.parametrize(
    "examples", [pytest.param(many(15_000), id="values"), pytest.param(many(2_000, 600), id="bytes")]
)
def test_versions_that_nobody_needs_make_room_before_the_file_is_full(examples: dict[str, dict[str, str]]) -> None:
    overlay = Overlay()
    for number in range(12):
        learned = {**examples, f"new{number}": {"x": ""}}
        overlay = overlay.start_trial(Version(number=1, at="", examples=learned)).promote()
        needed = {overlay.live, overlay.was_live[-1]} - {0}
        assert needed <= {each.number for each in overlay.versions}
        assert sum(each.share for each in overlay.versions) <= max(0.8, 3 * overlay.versions[-1].share)
    assert overlay.roll_back().version("live") is not None


@pytest.mark.spec("013.5")
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(Version(number=1, at="", examples=many(1_000)), id="many texts"),
        pytest.param(Version(number=1, at="", examples={"a": {"é" * 8_000: "e1 e2"}}), id="a long text"),
        pytest.param(Version(number=1, at="", examples={f"f{n}": {"x": ""} for n in range(500)}), id="many flows"),
    ],
)
def test_what_a_version_takes_of_a_file_is_known_before_it_is_written(tmp_path: Path, made: Version) -> None:
    file = tmp_path / "learned.yaml"
    Overlay().save(file)
    empty = len(file.read_bytes())
    Overlay().start_trial(made).save(file)
    taken = (len(file.read_bytes()) - empty) / LARGEST
    assert taken <= made.share / 0.8, "what is filled to .8 of its room can be read"


@pytest.mark.spec("013.5")
def test_a_lesson_that_is_too_large_leaves_what_was_live(tmp_path: Path) -> None:
    file = tmp_path / "learned.yaml"
    changed_overlay(file, lambda now: now.start_trial(version(refund="cash back")).promote())
    large = Version(number=1, at="", examples={"refund": {"é" * 2_100_000: "e1"}})
    with pytest.raises(UnreadableFileError, match="larger than 4 MiB"):
        changed_overlay(file, lambda now: now.start_trial(large))
    assert changed_overlay(file, Overlay.roll_back, must_exist=True).live == 0
