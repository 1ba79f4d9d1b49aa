"""Markup in names, descriptions, examples, tools, what a tool returns and what a model says: shown, and never run."""

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.browser.looking import Looked, looking
from tests.browser.serving import MARKUP, Service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.timeout(240), pytest.mark.spec("008.4")]
FLOW = quote(f"flow_1 {MARKUP}", safe="")
ASKED = quote(f"please do number 1 {MARKUP}")
PAGES = {
    "try": f"#/try?q={ASKED}",
    "asked": f"#/try?q={ASKED}&ask=1&tab=reply",
    "prompt": f"#/try?q={ASKED}&ask=1&tab=prompt",
    "chosen": f"#/try?q={ASKED}&ask=1&tab=chosen",
    "explained": f"#/try?q={ASKED}&ask=1&tab=explained",
    "trace": f"#/try?q={ASKED}&ask=1&tab=trace",
    "catalogue": "#/catalogue",
    "searched": f"#/catalogue?q={quote(MARKUP)}",
    "map": f"#/catalogue/map?flow={FLOW}",
    "confusions": "#/catalogue/confusions",
    "findings": "#/catalogue/findings",
    "flow": f"#/flow/{FLOW}",
    "no such flow": f"#/flow/{quote(MARKUP, safe='')}",
    "run": f"#/runs/{quote(MARKUP, safe='')}",
    "page": f"#/{quote(MARKUP, safe='')}",
    "correct": f"#/correct?q={ASKED}&right={FLOW}",
}


def unharmed(looked: Looked) -> None:
    """Nothing ran, nothing was made of a text but a text, and nothing leads out of the panel."""
    page = looked.page
    assert page.evaluate("window.__ran") is None
    assert (
        page.evaluate(
            "document.querySelectorAll('main img, main script, main iframe, main object, main form[action]').length"
        )
        == 0
    )
    links = page.evaluate("[...document.querySelectorAll('a')].map((each) => each.getAttribute('href'))")
    assert [each for each in links if not each.startswith("#")] == []
    assert (
        page.evaluate(
            "[...document.querySelectorAll('main *')].flatMap((e) => [...e.attributes]).filter((a) => a.name.startsWith('on')).length"
        )
        == 0
    )
    assert looked.troubles == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_hostile_texts_shows_them_as_text(name: str, browser: "Browser", hostile_service: Service) -> None:
    with looking(browser, hostile_service, "phone") as looked:
        page = looked.open(PAGES[name])
        page.wait_for_timeout(200)
        unharmed(looked)
        assert looked.overflow() <= 0
        if name not in {"confusions", "page", "run", "no such flow"}:
            assert "<script>" in page.locator("main").inner_text() or MARKUP in page.evaluate(
                "[...document.querySelectorAll('textarea, input')].map((each) => each.value).join()"
            )


def test_what_a_tool_and_a_model_say_in_a_conversation_is_text(browser: "Browser", hostile_service: Service) -> None:
    with looking(browser, hostile_service) as looked:
        page = looked.open("#/talk/markup")
        page.locator("#context").evaluate(
            '(each) => { each.value = \'{"email": "<script>window.__ran=1</script>"}\'; }'
        )
        for text in (f"please do number 1 {MARKUP}", "yes", MARKUP):
            before = page.locator(".turn").count()
            page.locator("#message").fill(text)
            page.keyboard.press("Enter")
            page.locator(".turn").nth(before).wait_for()
            looked.settled()
            unharmed(looked)
        for summary in page.locator(".side summary").all():
            summary.click()
        unharmed(looked)
        assert "<script>" in page.locator(".talk").inner_text()


def test_what_was_corrected_with_markup_is_text(browser: "Browser", hostile_service: Service) -> None:
    with looking(browser, hostile_service) as looked:
        page = looked.open(f"#/correct?q={quote(f'again {MARKUP}')}&right={FLOW}")
        page.get_by_role("button", name="Save as case").click()
        page.locator(".told.good", has_text="Added to").wait_for()
        page.get_by_role("button", name="Teach as example").click()
        page.locator(".told.bad").wait_for()
        looked.settled()
        unharmed(looked)


def test_the_pages_forbid_what_is_not_theirs(browser: "Browser", hostile_service: Service) -> None:
    with looking(browser, hostile_service) as looked:
        page = looked.open("#/try")
        page.evaluate(
            "(markup) => { const made = document.createElement('div'); made.innerHTML = markup; document.body.append(made);"
            " const script = document.createElement('script'); script.textContent = 'window.__ran=1';"
            " document.body.append(script); }",
            MARKUP,
        )
        page.wait_for_timeout(300)
        assert page.evaluate("window.__ran") is None
        assert any("Content Security Policy" in each for each in looked.troubles)
