"""Chromium where it is asked for, with what it saw kept as pictures; elsewhere one line says what was left out."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.chromium import chromium
from tests.browser.serving import HOSTILE, KEY, Service, hostile, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


NEED_A_BROWSER = {"test_pages.py", "test_journeys.py", "test_hostile.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("browser")
    group.addoption("--browser", action="store_true", help="run what needs Chromium")
    group.addoption("--pictures", type=Path, default=None, help="a folder for pictures of every page")


def is_asked_for(config: pytest.Config) -> bool:
    return bool(config.getoption("--browser", default=False))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # `test_left_out.py` says so, in one line for all.
    return True if not is_asked_for(config) and collection_path.name in NEED_A_BROWSER else None


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    # In a module of its own: while this one is open, no event loop can be run in this thread.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pictures(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted: Any = pytestconfig.getoption("--pictures", default=None)
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def shop_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("shop"), embedder="minilm") as service:
        yield service


@pytest.fixture(scope="module")
def locked_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("locked"), keys=[KEY]) as service:
        yield service


@pytest.fixture(scope="module")
def hostile_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with served(tmp_path_factory.mktemp("hostile"), hostile, model=HOSTILE, cases=()) as service:
        yield service
