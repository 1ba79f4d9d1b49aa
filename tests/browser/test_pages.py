"""Every page: it is there, nothing is wrong with it, it fits the window, and axe finds no serious fault."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.browser.looking import LOOKS, looking
from tests.browser.serving import Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.timeout(240), pytest.mark.spec("008.4")]
ASKED = quote("Where is my parcel? It should have come on Monday")
PAGES = {
    "try-empty": ("#/try", "Nothing asked yet"),
    "try": (f"#/try?q={ASKED}", "What is right?"),
    "try-budget": (f"#/try?q={ASKED}&error=0.05&top_k=3", "At most 0.05 of the answers without a model may be wrong."),
    "try-trace": (f"#/try?q={ASKED}&tab=trace", "recall"),
    "talk-empty": ("#/talk/new", "Nothing said yet"),
    "catalogue": ("#/catalogue", "40 flows"),
    "catalogue-search": ("#/catalogue?q=refund", "refund_order"),
    "catalogue-nothing": ("#/catalogue?q=nothinglikethis", "No flow has these words"),
    "map": ("#/catalogue/map", "Nearest pairs"),
    "map-flow": ("#/catalogue/map?flow=refund_order", "lies nearest to"),
    "confusions": ("#/catalogue/confusions", "Examples asked"),
    "findings": ("#/catalogue/findings", "Looked at"),
    "flow": ("#/flow/refund_order", "Nearest flows"),
    "flow-gone": ("#/flow/no_such_flow", "Not here"),
    "runs": ("#/runs", "Measure now"),
    "run-gone": ("#/runs/eval-of-nobody", "Not here"),
    "drift-empty": ("#/runs/drift", "The log is empty"),
    "correct": ("#/correct?q=I%20want%20it%20in%20blue", "Asked lately"),
    "no-such-page": ("#/nowhere", "There is no such page"),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_there_and_nothing_is_wrong_with_it(
    name: str, look: str, browser: "Browser", shop_service: Service, pictures: Path
) -> None:
    hash_, text = PAGES[name]
    with looking(browser, shop_service, look) as looked:
        page = looked.open(hash_)
        page.locator("main").get_by_text(text).first.wait_for()
        page.screenshot(path=pictures / f"{name}-{look}.png", full_page=True)
        assert looked.overflow() <= 0
        assert looked.faults() == []
        assert looked.troubles == []
        assert page.locator("h1").count() == 1
        assert page.title().endswith("jazz_select")


def test_nothing_is_loaded_from_elsewhere(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        asked: list[str] = []
        looked.page.on("request", lambda request: asked.append(request.url))
        for hash_, _ in PAGES.values():
            looked.open(hash_)
        root = shop_service.url.removesuffix("panel/")
        assert asked
        assert [url for url in asked if not url.startswith((root, "data:", "about:"))] == []
