"""Services for a browser to look at: the shop with its tools, and catalogues that somebody hostile wrote."""

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

import uvicorn

from flows.shop import Shop
from flows.tools import POLICY, shop_tools
from jazz_select import Flow, FlowRegistry, ProceduralMemory, tool_from_function
from jazz_select.flow.flow_loading import load_flows
from jazz_select.outcomes import OutcomeLog
from jazz_select.ports import ChatModel
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.service.agents import ServedAgents
from jazz_select.service.app import make_app
from jazz_select.service.panel.routes import panel_part
from jazz_select.service.panel.runs import PanelFiles
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.settings import Settings
from jazz_select.testing import MemoryClaims
from jazz_select.values import Message, Reply, Usage

ROOT: Final = Path(__file__).parents[2]
AGENT: Final = "support"
KEY: Final = "a key of twenty letters"
MARKUP: Final = "<img src=x onerror=window.__ran=1><script>window.__ran=1</script>"
"""What must never run, wherever it is said."""


@dataclass
class Service:
    """A service that is up.

    Attributes:
        url: Of its pages.
        files: Where what is corrected and measured goes.
        learned: Where what is taught goes.
        catalogue: What it serves.
        loop: Where it runs.
    """

    url: str
    files: PanelFiles
    learned: Path
    catalogue: RunningCatalogue
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None] = field(repr=False)
    ended: threading.Event = field(default_factory=threading.Event)

    def reload(self) -> None:
        """Read its flows anew, and wait for it."""
        asyncio.run_coroutine_threadsafe(self.catalogue.reload(), self.loop).result(60)


@dataclass(frozen=True)
class Scripted:
    """A model that chooses one of what it is offered, and says the same whatever else it is asked."""

    chosen: str
    said: str

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Choose, or say."""
        chooses = "You choose which flows fit" in messages[0].content
        usage = Usage(input_tokens=sum(len(each.content) // 4 for each in messages), output_tokens=6)
        return Reply(text=self.chosen if chooses else self.said, model="scripted", usage=usage)


def shop() -> Sources:
    """The example catalogue, and a shop that nobody has been to yet."""
    registry = FlowRegistry()
    load_flows(ROOT / "flows", registry)
    return Sources(registry=registry, tools=Toolbox(shop_tools(Shop())), policy=POLICY)


def hostile() -> Sources:
    """Flows whose every text is markup, and a tool that returns some."""
    registry = FlowRegistry(min_examples=0)

    def look(email: str) -> dict[str, str]:
        """Look. <script>window.__ran=1</script>"""
        return {"answer": f"{MARKUP}{email}", "link": "javascript:window.__ran=1"}

    tool = tool_from_function(look, title=f"Look {MARKUP}", destructive=True, read_only=False)
    for number in range(8):
        Flow(
            name=f"flow_{number} {MARKUP}",
            title=f"Title {MARKUP}",
            description=f"Number {number} {MARKUP} javascript:window.__ran=1",
            condition=f"the user says {number} {MARKUP}",
            desired_effects=[f"effect {MARKUP}"],
            examples=[f"please do number {number} {MARKUP} {word}" for word in ("now", "today", "soon")],
            tools=["look"] if number % 2 else [],
            steps=[MARKUP],
            aliases=[f"alias {number} {MARKUP}"],
            registry=registry,
        )
    for flow in registry.values():
        if flow.tools:
            vars(flow)["chain"] = ["look"]
            vars(flow)["reply"] = f"{MARKUP} {{answer}}"
    return Sources(registry=registry, tools=Toolbox([tool]))


@contextmanager
def served(
    folder: Path,
    read: Callable[[], Sources] = shop,
    *,
    model: ChatModel | None = None,
    keys: Sequence[str] = (),
    embedder: str = "static",
    cases: Sequence[Path] = (ROOT / "examples" / "eval.yaml",),
    log: Path | None = None,
) -> Generator[Service]:
    """A service on loopback, with an index of its own; it learns from `log` where one is given."""
    folder.mkdir(parents=True, exist_ok=True)
    learned = folder / "learned.yaml"
    learned.write_text("format: 1\n", "utf-8")
    files = PanelFiles(cases=tuple(cases), collected=folder / "cases.yaml", runs=folder / "runs")
    settings = Settings(
        agent_id=AGENT,
        learned=learned,
        embedder=embedder,
        flows=str(ROOT / "flows"),
        evidence=log,
    )
    up, holder = threading.Event(), list[Service]()
    failed: list[BaseException] = []

    async def run() -> None:
        memory = await ProceduralMemory.open(":memory:", embedder=embedder)
        with OutcomeLog(log or folder / "outcomes.db") as outcomes:
            async with memory:
                catalogue = RunningCatalogue(settings, memory, read, model=model, log=outcomes, claims=MemoryClaims())
                await catalogue.reload()
                digests = {sha256(key.encode()).hexdigest(): AGENT for key in keys}
                agents = ServedAgents({AGENT: catalogue}, digests, is_open=not keys)
                app = make_app(agents, parts=[panel_part({AGENT: files})])
                config = uvicorn.Config(app, port=0, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
                server = uvicorn.Server(config)
                task = asyncio.create_task(server.serve())
                while not server.started and not task.done():
                    await asyncio.sleep(0.01)
                port = server.servers[0].sockets[0].getsockname()[1]
                loop = asyncio.get_running_loop()

                def stop() -> None:
                    server.should_exit = True

                holder.append(Service(f"http://127.0.0.1:{port}/panel/", files, learned, catalogue, loop, stop))
                up.set()
                await task
                holder[0].ended.set()

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failed.append(error)
            up.set()
            raise

    thread = threading.Thread(target=work, name="panel-service", daemon=True)
    thread.start()
    up.wait(120)
    if failed:
        raise failed[0]
    try:
        yield holder[0]
    finally:
        holder[0].stop()
        thread.join(30)


SCRIPTED: Final = Scripted('["1"]', "I cannot tell.")
HOSTILE: Final = Scripted(f'["2"] {MARKUP}', MARKUP)
