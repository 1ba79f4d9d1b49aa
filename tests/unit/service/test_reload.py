"""Files that change while they are served: live soon, or what was live before stays and the reason is told."""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copytree, rmtree
from textwrap import dedent
from typing import Any, ClassVar
from weakref import ref

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import FlowLoadError, JazzSelectError
from jazz_select.service.agents import AgentSource
from jazz_select.service.reload import CatalogueReloader, reload_on_change
from jazz_select.service.running import Generation, RunningCatalogue, Sources
from jazz_select.settings import Settings
from jazz_select.testing import FailingEmbedder, HashEmbedder
from tests.clock import until

pytestmark = pytest.mark.spec("008.5")
LOOK_UP = "def look_up() -> str: ...\n\nTOOLS = [look_up]\n"


def flow_yaml(*names: str, about: str = "Do it") -> str:
    entries = "".join(
        f"""
  - name: {name}
    description: {about} - {name}.
    condition: The user wants {name}.
    desired_effects: [{name} is done]
    examples: [do {name}, please {name}, {name} now, I want {name}, start {name}]
"""
        for name in names
    )
    return f"flows:{entries}"


def flow_python(name: str, about: str = "Do it") -> str:
    return dedent(f"""
        from jazz_select import BaseFlow

        class Written(BaseFlow):
            name = "{name}"
            description = "{about}"
            condition = "The user wants {name}."
            desired_effects = ["{name} is done"]
            examples = ["do {name}", "please {name}", "{name} now", "I want {name}", "start {name}"]
    """)


def write(file: Path, text: str) -> None:
    """As an editor does it: the file is replaced at once."""
    beside = file.with_name(f".{file.name}.swp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def names(live: Generation) -> set[str]:
    return {flow.name for flow in live.registry.values()}


def about(live: Generation, name: str) -> str:
    return next(flow.description for flow in live.registry.values() if flow.name == name)


class Served:
    """A folder whose flows are served."""

    def __init__(self, catalogue: RunningCatalogue, folder: Path) -> None:
        self.catalogue, self.folder = catalogue, folder

    @property
    def live(self) -> Generation:
        return self.catalogue.live

    @property
    def problem(self) -> str:
        return self.catalogue.problem

    async def has(self, *wanted: str) -> None:
        """Wait until these are live, and nothing is wrong."""
        await until(lambda: names(self.live) == set(wanted) and not self.problem)

    async def says(self, part: str) -> None:
        """Wait until this is the reason why the newest files are not live."""
        await until(lambda: part in self.problem)


@asynccontextmanager
async def served(
    folder: Path,
    index: Path,
    *,
    tools: str | None = None,
    every_s: float | None = None,
    embedder: object = None,
    patience_s: float = 60,
) -> AsyncGenerator[Served]:
    settings = Settings(flows=str(folder), index=index, agent_id="shop")
    source = AgentSource(settings=settings, tools=tools)
    async with await ProceduralMemory.open(index, embedder=embedder or HashEmbedder()) as memory:  # pyright: ignore[reportArgumentType]
        catalogue = RunningCatalogue(
            settings, memory, CatalogueReloader(source.read, source.places), patience_s=patience_s
        )
        await catalogue.reload()
        async with reload_on_change([catalogue], every_s=every_s):
            yield Served(catalogue, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    made.mkdir()
    write(made / "one.yaml", flow_yaml("refund", "track"))
    return made


@pytest.fixture
async def shop(folder: Path, tmp_path: Path) -> AsyncGenerator[Served]:
    async with served(folder, tmp_path / "index") as made:
        yield made


async def test_a_changed_file_is_live(shop: Served) -> None:
    before = shop.live
    write(shop.folder / "one.yaml", flow_yaml("refund", "track", "invoice"))
    await shop.has("refund", "track", "invoice")
    assert shop.live.number > before.number
    assert shop.live.report.created == ("invoice",)
    result = await shop.live.selector.select("do invoice")
    assert result.names == ["invoice"]
    write(shop.folder / "two.yaml", flow_yaml("cancel"))
    await shop.has("refund", "track", "invoice", "cancel")
    (shop.folder / "two.yaml").unlink()
    await shop.has("refund", "track", "invoice")


async def test_new_folders_are_watched_as_well(shop: Served) -> None:
    deep = shop.folder / "more" / "and more"
    deep.mkdir(parents=True)
    write(deep / "three.yaml", flow_yaml("invoice"))
    await shop.has("refund", "track", "invoice")
    write(deep / "three.yaml", flow_yaml("invoice", "cancel"))
    await shop.has("refund", "track", "invoice", "cancel")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        pytest.param("one.yaml", "flows: [", "one.yaml", id="no YAML"),
        pytest.param("one.yaml", "flows:\n  - name: refund\n", "one.yaml", id="a field is missing"),
        pytest.param("two.yaml", flow_yaml("refund", about="Other"), "refund", id="a name twice"),
        pytest.param("code.py", "raise OSError('no such disk')", "no such disk", id="code that raises"),
        pytest.param("code.py", "import sys; sys.exit(3)", "SystemExit", id="code that exits"),
        pytest.param("code.py", "def (", "SyntaxError", id="no Python"),
    ],
)
async def test_what_cannot_be_used_is_told_and_what_was_live_stays(
    shop: Served, file: str, text: str, said: str
) -> None:
    before = shop.live
    write(shop.folder / file, text)
    await shop.says(said)
    assert shop.live is before
    assert (await shop.live.selector.select("do track")).names == ["track"]
    (shop.folder / file).unlink()
    write(shop.folder / "one.yaml", flow_yaml("refund", "cancel"))
    await shop.has("refund", "cancel")


async def test_a_flow_whose_tool_is_not_there_does_not_go_live(folder: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(LOOK_UP, encoding="utf-8")
    async with served(folder, tmp_path / "index", tools=str(tools)) as shop:
        wanting = flow_yaml("refund").rstrip() + "\n    tools: [pay_back]\n"
        write(folder / "one.yaml", wanting)
        await shop.says("pay_back")
        assert names(shop.live) == {"refund", "track"}
        write(tools, "def pay_back() -> str: ...\n\nTOOLS = [pay_back]\n")
        await shop.has("refund")
        assert list(shop.live.tools) == ["pay_back"]


async def test_most_of_a_catalogue_is_not_deleted_by_an_edit(folder: Path, tmp_path: Path) -> None:
    many = [f"flow{number}" for number in range(20)]
    write(folder / "one.yaml", flow_yaml(*many))
    async with served(folder, tmp_path / "index") as shop:
        write(folder / "one.yaml", flow_yaml("flow0"))
        await shop.says("delete")
        assert names(shop.live) == set(many)
        assert (await shop.live.selector.select("do flow7")).names == ["flow7"]
        write(folder / "one.yaml", flow_yaml(*many[:15]))
        await shop.has(*many[:15])


async def test_a_folder_that_is_deleted_may_come_back(shop: Served, tmp_path: Path) -> None:
    before = shop.live
    shop.folder.rename(tmp_path / "away")
    await shop.says("no such file or folder")
    assert shop.live is before
    write(tmp_path / "away" / "one.yaml", flow_yaml("invoice", "track"))
    (tmp_path / "away").rename(shop.folder)
    await shop.has("invoice", "track")
    rmtree(shop.folder)
    await shop.says("no such file or folder")
    shop.folder.mkdir()
    write(shop.folder / "one.yaml", flow_yaml("cancel", "track"))
    await shop.has("cancel", "track")
    write(shop.folder / "one.yaml", flow_yaml("cancel", "refund"))
    await shop.has("cancel", "refund")


async def test_a_volume_of_kubernetes_changes_by_a_link(tmp_path: Path) -> None:
    volume = tmp_path / "volume"

    def publish(version: str, *flows: str) -> None:
        (volume / f"..{version}").mkdir(parents=True)
        (volume / f"..{version}" / "shop.yaml").write_text(flow_yaml(*flows), encoding="utf-8")
        (volume / "..passing").symlink_to(f"..{version}")
        (volume / "..passing").replace(volume / "..data")

    publish("1", "refund", "track")
    (volume / "shop.yaml").symlink_to("..data/shop.yaml")
    async with served(volume, tmp_path / "index") as shop:
        publish("2", "refund", "invoice")
        await shop.has("refund", "invoice")
        rmtree(volume / "..1")
        publish("3", "cancel", "invoice")
        await shop.has("cancel", "invoice")


async def test_a_release_is_put_in_the_place_of_another(tmp_path: Path) -> None:
    current = tmp_path / "current"
    for number, flow in enumerate(["refund", "track", "cancel"]):
        package = tmp_path / f"release{number}" / "package_of_a_release"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        write(package / "code.py", flow_python(flow))
    current.symlink_to("release0")
    async with served(current / "package_of_a_release", tmp_path / "index") as shop:
        for number, flow in [(1, "track"), (2, "cancel")]:
            (tmp_path / "next").symlink_to(f"release{number}")
            (tmp_path / "next").replace(current)
            await shop.has(flow)


async def test_python_is_run_again_though_its_size_and_second_are_the_same(folder: Path, tmp_path: Path) -> None:
    file = folder / "code.py"
    file.write_text(flow_python("invoice", "first"), encoding="utf-8")
    stamp = (1_700_000_000, 1_700_000_000)
    os.utime(file, stamp)
    async with served(folder, tmp_path / "index") as shop:
        for word in ("other", "third"):
            write(file, flow_python("invoice", word))
            os.utime(file, stamp)
            await until(lambda word=word: about(shop.live, "invoice") == word)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    made = tmp_path / tmp_path.name
    made.mkdir()
    (made / "__init__.py").touch()
    write(made / "helper.py", "ABOUT = 'first'\nOPENED = []\n")
    code = flow_python("invoice").replace('"Do it"', "helper.ABOUT")
    write(made / "code.py", f"from {made.name} import helper\n{code}")
    return made


async def test_a_helper_of_a_package_is_run_again_with_what_imports_it(package: Path, tmp_path: Path) -> None:
    async with served(package, tmp_path / "index") as shop:
        for word in ("other", "third"):
            write(package / "helper.py", f"ABOUT = {word!r}\nOPENED = []\n")
            await until(lambda word=word: about(shop.live, "invoice") == word)
        before = shop.live, sys.modules[f"{package.name}.helper"]
        write(package / "helper.py", "raise OSError('no such disk')")
        await shop.says("no such disk")
        assert (shop.live, sys.modules[f"{package.name}.helper"]) == before
        assert sys.modules[package.name].helper is before[1]


async def test_modules_stay_where_only_data_changes(package: Path, tmp_path: Path) -> None:
    async with served(package, tmp_path / "index") as shop:
        sys.modules[f"{package.name}.helper"].OPENED.append("a connection")
        (package / "helper.py").write_bytes((package / "helper.py").read_bytes())  # as a checkout does
        write(package / "more.yaml", flow_yaml("refund"))
        await shop.has("refund", "invoice")
        assert sys.modules[f"{package.name}.helper"].OPENED == ["a connection"]


async def test_a_file_of_flows_and_tools_is_run_once(folder: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    counting = f"with open({str(runs)!r}, 'a') as runs: runs.write('x')\n" + LOOK_UP
    write(folder / "code.py", flow_python("invoice") + counting)
    async with served(folder, tmp_path / "index") as shop:
        assert runs.read_text(encoding="utf-8") == "x"
        write(folder / "one.yaml", flow_yaml("refund"))
        await shop.has("refund", "invoice")
        assert runs.read_text(encoding="utf-8") == "x"
        write(folder / "code.py", flow_python("invoice", "other") + counting)
        await until(lambda: about(shop.live, "invoice") == "other")
        assert runs.read_text(encoding="utf-8") == "xx"


async def test_what_editors_leave_beside_is_nothing(shop: Served) -> None:
    number = shop.live.number
    for name in (".one.yaml.swp", "#one.yaml#", "one.yaml~", ".#one.yaml", "4913", "one.yaml.tmp"):
        (shop.folder / name).write_text("flows: [", encoding="utf-8")
    (shop.folder / "__pycache__").mkdir()
    (shop.folder / "__pycache__" / "code.py").write_text("raise OSError", encoding="utf-8")
    write(shop.folder / "one.yaml", flow_yaml("cancel", "track"))
    await shop.has("cancel", "track")
    assert (shop.live.number, shop.catalogue.failures) == (number + 1, 0)


async def test_a_burst_is_read_once_it_is_over(shop: Served) -> None:
    number = shop.live.number
    for size in range(1, 40):
        half = flow_yaml(*(f"flow{each}" for each in range(size)))[:-7]
        (shop.folder / "one.yaml").write_text(half, encoding="utf-8")
    (shop.folder / "one.yaml").write_text(flow_yaml("cancel", "track"), encoding="utf-8")
    await shop.has("cancel", "track")
    assert shop.live.number - number <= 2
    assert shop.catalogue.failures <= 1


async def test_a_change_during_a_reload_is_read_after_it(shop: Served) -> None:
    for number in range(8):
        write(shop.folder / "one.yaml", flow_yaml("track", f"flow{number}"))
        write(shop.folder / "two.yaml", flow_yaml(f"other{number}"))
        await asyncio.gather(shop.catalogue.reload(), shop.catalogue.reload(), return_exceptions=True)
    await shop.has("track", "flow7", "other7")


async def test_what_is_in_flight_ends_with_what_it_began_with(shop: Served) -> None:
    before = shop.live
    write(shop.folder / "one.yaml", flow_yaml("refund", "track", about="Another text"))
    await until(lambda: shop.live is not before)
    result = await before.selector.select("do track")
    assert [flow.description for flow in result.chosen_flows] == ["Do it - track."]


async def test_a_change_is_seen_where_nobody_tells_of_it(folder: Path, tmp_path: Path) -> None:
    async with served(folder, tmp_path / "index", every_s=0.05) as shop:
        write(folder / "one.yaml", flow_yaml("cancel", "track"))
        await shop.has("cancel", "track")


async def test_a_single_file_is_watched(tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    write(file, flow_yaml("refund"))
    async with served(file, tmp_path / "index") as shop:
        for name in ("track", "cancel"):
            write(file, flow_yaml(name))
            await shop.has(name)
        file.unlink()
        await shop.says("no such file or folder")
        write(file, flow_yaml("invoice"))
        await shop.has("invoice")


async def test_what_fails_for_now_is_tried_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazz_select.service.reload._AGAIN_S", 0.05)
    embedder = FailingEmbedder(failing=False)
    async with served(folder, tmp_path / "index", embedder=embedder) as shop:
        embedder.failing = True
        write(folder / "one.yaml", flow_yaml("cancel", "track"))
        await until(lambda: shop.catalogue.failures > 2)
        embedder.failing = False
        await shop.has("cancel", "track")


async def test_catalogues_that_were_replaced_are_let_go(package: Path, tmp_path: Path) -> None:
    held: list[ref[object]] = []
    async with served(package, tmp_path / "index", every_s=60) as shop:
        for number in range(30):
            held.extend(map(ref, (shop.live.registry, shop.live.agent, sys.modules[f"{package.name}.code"])))
            write(package / "helper.py", f"ABOUT = 'about {number}'\nimport {package.name}.code as ours\n")
            await shop.catalogue.reload()
        assert about(shop.live, "invoice") == "about 29"
        gc.collect()
        assert sum(each() is not None for each in held) <= 6


async def test_an_error_that_nobody_thought_of_is_told_as_well(folder: Path, tmp_path: Path) -> None:
    async with served(folder, tmp_path / "index") as shop:
        write(folder / "one.yaml", "flows: [")
        with pytest.raises(JazzSelectError):
            await shop.catalogue.reload()
        write(folder / "code.py", "class E(BaseException): ...\nraise E('of another kind')")
        await shop.says("of another kind")


async def test_a_reading_that_hangs_is_given_up_and_tried_again_when_it_came_back(folder: Path, tmp_path: Path) -> None:
    over = tmp_path / "over"
    hangs = f"import pathlib, time\nwhile not pathlib.Path({str(over)!r}).exists(): time.sleep(.01)\n"
    async with served(folder, tmp_path / "index", patience_s=1) as shop:
        before = shop.live
        write(folder / "code.py", hangs + flow_python("invoice"))
        await shop.says("is not waited for any more")
        assert (shop.live, (await shop.live.selector.select("do track")).names) == (before, ["track"])
        over.touch()
        await shop.has("refund", "track", "invoice")


async def test_what_did_not_change_is_not_embedded_again(folder: Path, tmp_path: Path) -> None:
    class Counting(HashEmbedder):
        read: ClassVar[list[str]] = []

        def embed(self, texts: Sequence[str]) -> Any:
            self.read.extend(texts)
            return super().embed(texts)

    embedder = Counting()
    async with served(folder, tmp_path / "index", embedder=embedder) as shop:
        embedder.read.clear()
        write(folder / "two.yaml", flow_yaml("invoice"))
        await shop.has("refund", "track", "invoice")
        assert any("invoice" in text for text in embedder.read)
        assert not any("refund" in text or "track" in text for text in embedder.read)


async def test_a_catalogue_that_hangs_is_not_waited_for_by_others_for_ever(folder: Path) -> None:
    begun, over = threading.Event(), threading.Event()

    def hangs() -> Sources:
        begun.set()
        over.wait()
        return AgentSource(settings=Settings(flows=str(folder))).read()

    source = AgentSource(settings=Settings(flows=str(folder)))
    other = CatalogueReloader(source.read, source.places, patience_s=0.05)
    thread = threading.Thread(target=CatalogueReloader(hangs, source.places), daemon=True)
    thread.start()
    begun.wait()
    try:
        with pytest.raises(FlowLoadError, match=r"another catalogue has been read for more than 0\.05 s"):
            await asyncio.to_thread(other)
        assert not other.seen, "so that it is tried again"
    finally:
        over.set()
        thread.join()
    assert other().registry


def test_two_agents_of_one_file_name_are_apart(folder: Path, tmp_path: Path) -> None:
    copytree(folder, tmp_path / "copy")
    write(tmp_path / "copy" / "one.yaml", flow_yaml("refund"))
    sources = [AgentSource(settings=Settings(flows=str(each))) for each in (folder, tmp_path / "copy")]
    first, second = (CatalogueReloader(each.read, each.places) for each in sources)
    assert [len(each().registry) for each in (first, second)] == [2, 1]
