"""Ways through the panel: by keyboard, back and forward, a conversation with an approval, runs, corrections, a key."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import yaml

from jazz_select.evaluation.overlay import examples_of, load_overlay
from jazz_select.outcomes import OutcomeLog
from jazz_select.values import Candidate, Decision, Reason, Tier, flow_id
from tests.browser.looking import LOOKS, Looked, looking
from tests.browser.serving import AGENT, KEY, SCRIPTED, Service, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.timeout(240), pytest.mark.spec("008.4")]


def say(looked: Looked, text: str) -> str:
    """Say it to the agent, with the button of this name where there is one; returns what the turn shows."""
    before = looked.page.locator(".turn").count()
    button = looked.page.get_by_role("button", name=text, exact=True)
    if button.count():
        button.click()
    else:
        looked.page.locator("#message").fill(text)
        looked.page.keyboard.press("Enter")
    looked.page.locator(".turn").nth(before).wait_for()
    looked.settled()
    return looked.page.locator(".turn").nth(before).inner_text()


def test_a_request_is_tried_by_keyboard_alone(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/try")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "request"
        page.keyboard.type("Where is my parcel?")
        page.keyboard.press("Enter")
        page.get_by_text("What is right?").wait_for()
        assert "q=Where" in page.url
        page.locator("[role=tab]").first.focus()
        page.keyboard.press("ArrowLeft")
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Trace"
        assert "tab=trace" in page.url
        focused = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert focused == "solid"


def test_the_map_is_one_stop_for_tab_and_arrow_keys_go_among_its_flows(
    browser: "Browser", shop_service: Service
) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/catalogue/map?flow=refund_order")
        stop = page.locator(".map a[tabindex='0']")
        assert stop.get_attribute("href") == "#/flow/refund_order"
        stop.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert stop.count() == 1
        there = stop.get_attribute("href")
        assert there not in {None, "#/flow/refund_order"}
        page.keyboard.press("Enter")
        page.get_by_text("Nearest flows").wait_for()
        assert page.url.endswith(str(there))


def test_the_list_is_narrowed_and_ordered_at_an_address(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/catalogue")
        page.get_by_label("Show").select_option(label="seasonal desk (3)")
        page.get_by_label("Order").select_option(label="Worst R@1")
        page.get_by_text("3 of 40 flows").wait_for()
        assert "order=recalled" in page.url
        assert "group=owner" in page.url
        page.reload()
        page.get_by_text("3 of 40 flows").wait_for()
        page.get_by_role("link", name="gift_wrapping").click()
        page.get_by_role("link", name="owner seasonal desk").wait_for()


def test_every_state_has_an_address_that_back_and_forward_lead_to(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/try")
        page.locator("#request").fill("Please cancel my order")
        page.get_by_role("button", name="Select", exact=True).click()
        looked.settled()
        chosen = page.locator(".verdict-name").inner_text()
        page.locator(".verdict-name a").click()
        page.get_by_text("Nearest flows").wait_for()
        assert page.evaluate("document.activeElement.tagName") == "H1"
        page.go_back()
        page.get_by_text("What is right?").wait_for()
        assert page.locator(".verdict-name").inner_text() == chosen
        assert page.locator("#request").input_value() == "Please cancel my order"
        page.go_back()
        page.get_by_text("Nothing asked yet").wait_for()
        page.go_forward()
        page.get_by_text("What is right?").wait_for()


def test_a_budget_that_is_moved_changes_who_decides_and_the_address(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/try?q=It%20would%20be%20kind%20if%20you%20told%20me%20when%20my%20parcel%20comes")
        page.get_by_text("What is right?").wait_for()
        page.locator("#error").focus()
        page.keyboard.press("End")
        page.get_by_text("At most 0.50 of the answers without a model may be wrong.").wait_for()
        assert "error=0.5" in page.url
        assert page.locator(".verdict-line code").inner_text() == "confident"


def test_a_conversation_waits_for_a_button_before_it_destroys_something(
    browser: "Browser", shop_service: Service, pictures: Path
) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/talk/refund")
        page.locator("summary", has_text="What is known beside").click()
        page.locator("#context").fill('{"email": "hana@example.org"}')
        assert "Shall I go on with" in say(looked, "Please cancel my order")
        said = say(looked, "Yes")
        assert "cannot be undone" in said
        assert "asks to call cancel_order" in said
        assert "calls cancel_order" not in said
        assert page.locator(".trace .tag").all_inner_texts() == ["waits"]
        assert looked.faults() == []
        page.screenshot(path=pictures / "talk-light.png")
        say(looked, "No")
        assert page.get_by_role("button", name="Yes, go on").count() == 0
        say(looked, "Please cancel my order")
        say(looked, "Yes")
        assert "is cancelled. 32.90 EUR are back" in say(looked, "Yes, go on")
        page.get_by_label("Trace of turn 1").click()
        assert "turn=1" in page.url
        page.reload()
        looked.settled()
        assert page.locator(".turn").count() == 6, page.locator(".talk-log").inner_text()
        page.locator(".trace summary").first.press("Enter")
        assert looked.troubles == []


def test_a_flow_that_stands_still_says_why_and_what_to_do(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        looked.open("#/talk/open")
        said = say(looked, "The vase arrived in pieces, it was broken when I opened the box")
        assert "damaged_item_claim was found, and stands still: it has no chain of tools." in said
        assert "No model is configured" in said
        assert "give the flow a chain" in said


def test_what_is_suggested_fills_the_box_and_is_said_by_whoever_sends_it(
    browser: "Browser", shop_service: Service
) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/talk/suggested")
        suggested = page.locator(".hints button").first
        text = suggested.inner_text()
        assert any(text in flow.examples for flow in shop_service.catalogue.live.registry.values())
        suggested.click()
        assert page.locator("#message").input_value() == text
        assert page.evaluate("document.activeElement.id") == "message"
        assert page.locator(".turn").count() == 0


def test_a_run_is_made_kept_and_compared(browser: "Browser", shop_service: Service, pictures: Path) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.page
        for _ in range(2):
            looked.open("#/runs")
            page.get_by_role("button", name="Measure").click()
            page.get_by_role("heading", name="Misses", exact=True).wait_for(timeout=120_000)
        page.screenshot(path=pictures / "run-light.png", full_page=True)
        assert looked.faults() == []
        page.locator("#with").select_option(index=1)
        page.get_by_text("Mended since").wait_for()
        assert "with=eval-" in page.url
        assert len(list(shop_service.files.runs.glob("*.json"))) == 2
        compared = page.url.removeprefix(shop_service.url)
        looked.open("#/runs")
        assert page.get_by_role("region", name="Runs").get_by_role("row").count() == 3
        assert looked.faults() == []
    with looking(browser, shop_service, "phone") as looked:
        for hash_ in (compared.partition("?")[0], compared):
            looked.open(hash_).get_by_text("Recall alone: this run asked no model.").wait_for()
            assert looked.overflow() <= 0
            measures = looked.page.get_by_role("region", name="Measures")
            assert measures.evaluate("element => element.scrollWidth - element.clientWidth") <= 0
            assert looked.faults() == []
        looked.page.screenshot(path=pictures / "run-compared-phone.png", full_page=True)


def test_a_correction_is_written_and_shown(browser: "Browser", shop_service: Service, pictures: Path) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/try?q=My%20lamp%20should%20go%20to%20my%20new%20flat")
        page.get_by_label("The right flow").select_option("change_order_address")
        page.get_by_role("button", name="Save as case").click()
        page.locator(".told.good", has_text="Added to").wait_for()
        (case,) = yaml.safe_load(shop_service.files.collected.read_text("utf-8"))
        assert case["expect"] == ["change_order_address"]
        looked.open("#/correct?q=The%20kettle%20should%20be%20mint%2C%20please%20exchange%20it")
        page.get_by_role("button", name="Teach as example").click()
        page.locator(".told.warn", has_text="Choose the flow").wait_for()
        page.get_by_label("The right flow").select_option("exchange_item")
        page.get_by_role("button", name="Teach as example").click()
        page.get_by_role("button", name="Teach it").click(timeout=60_000)
        page.locator(".told.good", has_text="Learned as version 1").wait_for(timeout=60_000)
        looked.settled()
        assert "The kettle should be mint" in shop_service.learned.read_text("utf-8")
        page.screenshot(path=pictures / "corrected-light.png", full_page=True)
        assert looked.faults() == []
        looked.open("#/runs/drift")
        page.get_by_text("Expected to be right").wait_for()
        page.get_by_text("There are no requests in the 7 days before, so there is nothing to compare with.").wait_for()
        assert page.get_by_text("No change is larger than chance").count() == 0
        assert looked.faults() == []


def test_what_was_taught_is_overruled_with_a_name_and_taken_back(
    browser: "Browser", tmp_path: Path, pictures: Path
) -> None:
    said = "The kettle should be mint, please exchange it"

    def learned(service: Service) -> dict[str, list[str]]:
        version = load_overlay(service.learned).version("live")
        return {flow: [*texts] for flow, texts in examples_of(version).items()}

    with served(tmp_path) as service, looking(browser, service) as looked:
        page = looked.page

        def teach(right: str, button: str) -> None:
            looked.open(f"#/correct?q={quote(said)}")
            page.get_by_label("The right flow").select_option(right)
            page.get_by_role("button", name="Teach as example").click()
            page.get_by_role("button", name=button, exact=True).click(timeout=60_000)

        teach("exchange_item", "Teach it")
        page.locator(".told.good", has_text="Learned as version 1").wait_for(timeout=60_000)
        teach("refund_order", "Teach it all the same")
        page.locator(".told.bad", has_text="say who you are").wait_for()
        assert learned(service) == {"exchange_item": [said]}, "nobody overrules without a name"
        page.get_by_label("Your name").fill("Ada")
        page.get_by_role("button", name="Teach as example").click()
        overruling = "It is learned for exchange_item: with your name you overrule that."
        page.locator(".told.warn", has_text=overruling).wait_for(timeout=60_000)
        buttons = [page.get_by_role("button", name=name) for name in ("Save as case", "Teach as example")]
        boxes = [each.bounding_box() for each in (page.get_by_label("Your name"), *buttons)]
        bottoms = [each["y"] + each["height"] for each in boxes if each is not None]
        assert max(bottoms) - min(bottoms) < 2, "they stand in one line"
        page.screenshot(path=pictures / "overrule-light.png", full_page=True)
        assert looked.faults() == []
        page.get_by_role("button", name="Teach it all the same", exact=True).click()
        page.locator(".told.good, .told.warn", has_text="Learned as version 2").wait_for(timeout=60_000)
        assert learned(service) == {"refund_order": [said]}
        page.get_by_role("cell", name="by person Ada").wait_for()
        page.get_by_role("button", name="Take back the last").click()
        page.get_by_role("link", name="exchange_item", exact=True).wait_for()
        looked.settled()
        assert learned(service) == {"exchange_item": [said]}
        page.get_by_role("button", name=f"Take back {said}").click()
        page.get_by_text("Nothing yet. What is taught can be taken back.").wait_for()
        assert learned(service) == {}
        assert looked.faults() == []
        assert looked.troubles == []
        assert service.catalogue.log is not None
        spoken = {each.corrected_by for each in service.catalogue.log.read(corrected=True)}
        assert {each.name for each in spoken if each is not None} == {"Ada"}


@pytest.mark.parametrize("look", LOOKS)
def test_what_was_measured_of_the_promise_is_shown(
    look: str, browser: "Browser", tmp_path: Path, pictures: Path
) -> None:
    path = tmp_path / "audited.db"
    with OutcomeLog(path) as log:
        for number in range(40):
            differs = number in {5, 6}
            flow = "refund_order" if differs else "exchange_item"
            first = Candidate(flow_id=flow_id(flow), flow_name=flow, confidence=0.97)
            decision = Decision(tier=Tier.GUIDED, reason=Reason.LLM, candidates=(first,), attempts=1)
            chosen = "cancel_order" if differs else flow
            log.record(f"request number {number}", decision, agent_id=AGENT, chosen=[chosen], sure=True)
    with served(tmp_path / "shop", log=path) as service, looking(browser, service, look) as looked:
        page = looked.open("#/runs/drift")
        page.get_by_role("heading", name="Decided without a model").wait_for()
        page.get_by_text("Promised: at most 1").wait_for()
        page.get_by_text("2 of 40 that were asked all the same did").wait_for()
        page.get_by_text("the threshold of refund_order was raised to 0.970").wait_for()
        page.screenshot(path=pictures / f"audit-{look}.png", full_page=True)
        assert looked.overflow() <= 0
        assert looked.faults() == []
        assert looked.troubles == []


def test_a_key_is_asked_for_once_and_a_wrong_one_is_told(browser: "Browser", locked_service: Service) -> None:
    with looking(browser, locked_service) as looked:
        page = looked.page
        page.goto(f"{locked_service.url}#/catalogue")
        page.get_by_text("This service asks for a key").wait_for()
        assert looked.faults() == []
        page.locator("#key").fill("not this one")
        page.keyboard.press("Enter")
        page.get_by_text("This key opens nothing here").wait_for()
        page.locator("#key").fill(KEY)
        page.keyboard.press("Enter")
        page.get_by_text("40 flows").first.wait_for()
        page.reload()
        page.get_by_text("40 flows").first.wait_for()
        assert page.evaluate("localStorage.length") == 0
        assert page.evaluate("sessionStorage.getItem('jazz.key')") == KEY


def test_what_a_model_saw_and_said_is_shown(browser: "Browser", tmp_path: Path, pictures: Path) -> None:
    with served(tmp_path, model=SCRIPTED) as service, looking(browser, service) as looked:
        page = looked.open("#/try?q=Where%20is%20my%20parcel%3F")
        assert page.locator(".verdict-name").inner_text() == "A model chooses"
        page.get_by_label("Ask the model where it would be asked").check()
        page.get_by_text("Chosen by the model.").wait_for()
        assert "ask=1" in page.url
        page.get_by_role("tab", name="What it said").click()
        page.get_by_label("The model's reply").get_by_text('["1"]').wait_for()
        page.screenshot(path=pictures / "try-model-light.png", full_page=True)
        assert looked.faults() == []


def test_a_service_that_is_gone_and_files_that_cannot_be_used_are_told(browser: "Browser", tmp_path: Path) -> None:
    with served(tmp_path) as service, looking(browser, service) as looked:
        # Without the looks from time to time: each page looks by itself.
        looked.page.add_init_script("window.setInterval = () => 0")
        page = looked.open("#/catalogue")
        service.catalogue.problem = "flows/orders.py:3: <script>no condition</script>"
        page.reload()
        page.get_by_text("The newest files are not live.").wait_for()
        page.get_by_text("<script>no condition</script>").wait_for()
        assert looked.faults() == []
        service.reload()
        page.get_by_role("link", name="Runs", exact=True).click()
        page.get_by_role("heading", name="Runs", exact=True).wait_for()
        page.locator("#banner:empty").wait_for(state="attached")
        service.stop()
        service.ended.wait(30)
        page.get_by_role("link", name="Correct", exact=True).click()
        page.get_by_text("The service is not there").first.wait_for()
        page.get_by_role("button", name="Try again").wait_for()


def test_colours_are_chosen_and_kept(browser: "Browser", shop_service: Service) -> None:
    with looking(browser, shop_service) as looked:
        page = looked.open("#/try")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.get_by_role("button", name="Dark", exact=True).click()
        page.reload()
        looked.settled()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.get_by_role("button", name="Dark", exact=True).get_attribute("aria-pressed") == "true"
