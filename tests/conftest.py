"""What every test shares: the network fuse, what is made once, the report on the specification, and patience."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest

from jazz_select.memory.engines.temporary import shared_memory
from tests.clock import StillLoop
from tests.depth import CI, DEEP
from tests.fuse import Fuse
from tests.once import Once
from tests.specification import claims, marked, report

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

# A loaded machine is slow, not wrong.
hypothesis.settings.register_profile(
    "house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
for _profile in (CI, DEEP):
    hypothesis.settings.register_profile(_profile, hypothesis.settings.get_profile("house"))
hypothesis.settings.load_profile("house")

_ROOM: Final = 4 << 30
"""Bytes free there, so that a run, which needs one of them at most, takes no memory that the machine has not got."""
_REAL_LOOP = asyncio.new_event_loop
_FUSE = pytest.StashKey[Fuse]()
_ONCE = pytest.StashKey[Once]()
_CLAIMS = pytest.StashKey[dict[str, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--spec-report", action="store_true", help="list the lines of the specification and the tests that prove them"
    )


def pytest_configure(config: pytest.Config) -> None:
    _keep_files_in_memory()
    fuse = config.stash[_FUSE] = Fuse()
    fuse.install()
    once = config.stash[_ONCE] = Once()
    once.install()


def _keep_files_in_memory() -> None:
    """Have pytest make its folders in memory where the machine has plenty of it.

    Hundreds of indexes are written and flushed, and to wait for a disk took half the time of a run.
    """
    folder = shared_memory(_ROOM)
    if folder is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))  # noqa: TID251 - where pytest reads it


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"real": _REAL_LOOP} if _is_real(item) else {"still": StillLoop}


def _is_real(item: pytest.Item) -> bool:
    """Whether it looks at the clock of the machine: whoever starts programs waits for them."""
    return any(item.get_closest_marker(each) for each in ("real_clock", "programs", "soak", "live"))


def _still_where_the_test_runs() -> asyncio.AbstractEventLoop:
    """The loop of `asyncio.run`: threads that a test starts are the world outside, and keep the real one."""
    return StillLoop() if threading.current_thread() is threading.main_thread() else _REAL_LOOP()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_FUSE].remove()
    config.stash[_ONCE].remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    fuse = item.config.stash[_FUSE]
    fuse.armed = item.get_closest_marker("live") is None
    item.config.stash[_ONCE].look()
    asyncio.events.new_event_loop = _REAL_LOOP if _is_real(item) else _still_where_the_test_runs
    try:
        return (yield)
    finally:
        fuse.armed = True
        asyncio.events.new_event_loop = _REAL_LOOP


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_CLAIMS] = claims(marked(item) for item in items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # while tests are collected nothing is let go of
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # Thousands of collected tests are no garbage: to look through them again and again took an eighth of all time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--spec-report") and _CLAIMS in config.stash:
        terminalreporter.section("specification")
        for row in report(config.stash[_CLAIMS]):
            terminalreporter.line(row)


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """A PostgreSQL server on loopback, which all tests of a process share: none of them stops it."""
    from tests.postgres_server import PostgresServer, why_not

    if reason := why_not():
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database_url(postgres: "PostgresServer") -> str:
    """The address of a new, empty database."""
    return postgres.new_database()
