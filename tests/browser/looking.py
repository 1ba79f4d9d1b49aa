"""What is asked of every page: that it is there, that nothing is wrong with it, and that it fits."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from tests.browser.serving import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_S: Final = 60.0
LOOKS: Final = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light"), "phone-dark": (390, "dark")}
"""How it is looked at: width in pixels, and the colours that the system asks for."""
EXPECTED: Final = ("Failed to load resource: the server responded with a status of 4",)
"""What a browser says by itself of an answer that a page then tells of."""


@dataclass
class Looked:
    """A page, and what went wrong on it."""

    page: "Page"
    service: Service
    troubles: list[str] = field(default_factory=list[str])

    def open(self, hash_: str) -> "Page":
        """Go there, and wait until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.service.url}{hash_}")
        self.settled()
        return self.page

    def settled(self) -> None:
        """Wait until nothing is fetched any more."""
        end = time.monotonic() + PATIENCE_S
        # By hand: what Playwright polls with is eval, which these pages forbid.
        while not self.page.evaluate(
            "document.querySelector('h1') && !document.querySelector('.bones, .busy, [aria-busy]') && true"
        ):
            if time.monotonic() > end:
                raise AssertionError(self.page.locator("body").inner_text()[:2000])
            time.sleep(0.05)

    def faults(self) -> list[str]:
        """What axe finds that is serious or worse."""
        from axe_playwright_python.sync_playwright import Axe

        found = cast("dict[str, Any]", Axe().run(self.page).response)
        return [
            f"{each['impact']} {each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
            for each in found["violations"]
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"]
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@contextmanager
def looking(browser: "Browser", service: Service, look: str = "light") -> Generator[Looked]:
    """A window onto a service."""
    width, colours = LOOKS[look]
    context = browser.new_context(
        viewport={"width": width, "height": 844 if width < 600 else 860},
        color_scheme=cast("Any", colours),
        reduced_motion="reduce",
    )
    page = context.new_page()
    looked = Looked(page, service)
    page.on("pageerror", lambda error: looked.troubles.append(str(error)))
    page.on(
        "console",
        lambda message: (
            looked.troubles.append(message.text)
            if message.type in {"error", "warning"} and not message.text.startswith(EXPECTED)
            else None
        ),
    )
    try:
        yield looked
    finally:
        context.close()
