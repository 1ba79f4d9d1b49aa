"""The panel's data, over a real connection: tries, turns, flows, the map, and who may see them."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from jazz_select.evaluation.checks.checking import check
from jazz_select.evaluation.rules import judging
from jazz_select.values import Decision, Reason, Tier
from tests.browser.serving import KEY, MARKUP, ROOT, SCRIPTED, Service, hostile, served

pytestmark = pytest.mark.spec("008.4")
ASKED = "Where is my parcel? It should have come on Monday"
ONE_WISH = "It would be kind if you told me when my parcel comes"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    with served(tmp_path_factory.mktemp("shop"), model=SCRIPTED) as service:
        yield service


def data(service: Service, path: str, body: Any = None, *, status: int = 200, **headers: str) -> Any:
    """What the panel is told."""
    url = service.url.replace("/panel/", f"/v1/panel/{path}")
    with httpx.Client(timeout=60) as client:
        answer = client.get(url, headers=headers) if body is None else client.post(url, json=body, headers=headers)
    assert answer.status_code == status, answer.text[:500]
    return answer.json()


def events(service: Service, body: Any) -> list[tuple[str, Any]]:
    url = service.url.replace("/panel/", "/v1/panel/turn")
    with httpx.Client(timeout=60) as client:
        text = client.post(url, json=body).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), orjson.loads(line.removeprefix("data: "))) for name, line in blocks]


# --- tries ---------------------------------------------------------------------------


def test_a_try_shows_both_retrievers_and_what_a_model_would_be_shown_without_asking_it(shop: Service) -> None:
    found = data(shop, "try", {"request": ASKED})
    assert found["decision"]["reason"] == "unasked"
    assert found["decision"]["raw_reply"] is None
    assert found["prompt"]["seen"] == "unsent"
    system, user = found["prompt"]["messages"]
    assert "You choose which flows fit" in system["content"]
    assert ASKED in user["content"]
    best = found["candidates"][0]
    assert set(best["ranks"]) == {"dense", "bm25"} == set(best["scores"])
    assert 0 <= best["confidence"] <= 1
    assert f" 1. {best['name']}" in found["explained"]


def test_a_try_that_asks_shows_what_was_sent_and_said(shop: Service) -> None:
    unasked = data(shop, "try", {"request": ASKED})
    found = data(shop, "try", {"request": ASKED, "ask": True})
    assert found["prompt"]["seen"] == "sent"
    assert found["prompt"]["messages"] == unasked["prompt"]["messages"], "what would be sent is what is sent"
    assert found["decision"]["raw_reply"] == '["1"]'
    assert found["decision"]["model"] == "scripted"
    assert found["decision"]["usage"]["input_tokens"] > 0
    assert [each["name"] for each in found["candidates"] if each["is_chosen"]] == [found["chosen"][0]["name"]]
    assert found["chosen"][0]["prompt"].startswith("<flow")
    assert {"chat", "recall", "decision"} <= {span["kind"] for span in found["trace"]}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"max_error": 1.0}, "confident", id="any error"),
        pytest.param({"max_error": 0.5}, "confident", id="the highest place of the slider"),
        pytest.param({"max_error": 0.0}, "unasked", id="no error"),
        pytest.param({"top_k": 1}, "unasked", id="one candidate that may not fit"),
        pytest.param({"top_k": 1, "max_error": 1.0}, "confident", id="one candidate, any error"),
    ],
)
def test_budget_and_number_are_those_of_the_sliders(shop: Service, options: dict[str, Any], reason: str) -> None:
    assert data(shop, "try", {"request": ONE_WISH, **options})["decision"]["reason"] == reason


@pytest.mark.parametrize("max_error", [0.0, 0.99])
def test_a_try_says_what_recall_expects_to_be_wrong(shop: Service, max_error: float) -> None:
    recall = data(shop, "try", {"request": ONE_WISH, "max_error": max_error})["decision"]["stages"][0]
    assert (recall["name"], recall["outcome"]) == ("recall", "decided" if max_error else "handed_on")
    assert 0 < recall["expected_error"] < 1
    assert f"the budget is {max_error:.1%}" in recall["why"]


def test_what_is_tried_is_not_logged(shop: Service) -> None:
    log = shop.catalogue.log
    assert log is not None
    before = len(list(log.read()))
    data(shop, "try", {"request": ASKED, "ask": True})
    assert len(list(log.read())) == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"request": 7},
        {"request": "x" * 8001},
        {"request": "x", "top_k": 0},
        {"request": "x", "top_k": "all"},
        {"request": "x", "max_error": 2},
        {"request": "x", "skip_llm_above": 0.9},
        {"request": "x", "on_empty": "first"},
        {"request": "x", "episodes": ["e"] * 21},
        {"request": "x", "surprise": 1},
        {"request": "x", "ask": "yes"},
        {"request": "x", "top_k": "3"},
        [],
        "text",
    ],
    ids=repr,
)
def test_what_cannot_be_tried_is_told(shop: Service, body: Any) -> None:
    told = data(shop, "try", body, status=400)
    assert told["detail"]
    assert told["status"] == 400


@pytest.mark.parametrize("request_", ["", "   ", "\x00", "\ud83d", "<selection>", "a" * 8000])
def test_odd_requests_are_answered(shop: Service, request_: str) -> None:
    body = orjson.dumps({"request": request_.encode("utf-8", "replace").decode()})
    url = shop.url.replace("/panel/", "/v1/panel/try")
    answer = httpx.post(url, content=body, headers={"content-type": "application/json"}, timeout=60)
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["try", "turn", "runs", "corrections"])
@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_of_another_page_could_send_is_not_taken(shop: Service, path: str, media: str) -> None:
    url = shop.url.replace("/panel/", f"/v1/panel/{path}")
    answer = httpx.post(url, content=b'{"request": "x", "message": "x"}', headers={"content-type": media})
    assert answer.status_code == 415


# --- turns -----------------------------------------------------------------------------


def test_a_turn_is_told_event_by_event_with_its_trace(tmp_path: Path) -> None:
    with served(tmp_path, embedder="minilm") as service:
        asked = {"message": "Please cancel my order", "context": {"email": "hana@example.org"}}
        begun = events(service, asked)[-1][1]
        assert (begun["status"], begun["text"]) == ("waiting", "Shall I go on with: Cancellation of an order?")
        told = events(service, asked | {"message": "yes", "history": begun["conversation"]})
        names = [name for name, _ in told]
        assert names[0] == "flow_chosen"
        assert names[-1] == "finished"
        last = told[-1][1]
        assert last["status"] == "confirming"
        assert last["pending"]["tool"] == "cancel_order"
        assert last["pending"]["destructive"] is True
        assert last["trace"][0]["kind"] == "turn"
        returned = [event["result"] for name, event in told if name == "tool_returned"]
        assert [(each["tool"], each["called"], each["fault"]) for each in returned][-1] == (
            "cancel_order",
            False,
            "asked",
        )
        (waits,) = [span for span in last["trace"] if span["attributes"].get("tool") == "cancel_order"]
        assert (waits["name"], waits["attributes"]["fault"]) == ("step", "asked"), "put off, and nothing that failed"
        body = {"message": "yes", "history": last["conversation"], "context": {"email": "hana@example.org"}}
        after = events(service, body)[-1][1]
        assert any(span["name"] == "cancel_order" and span["kind"] == "tool" for span in after["trace"])
        assert after["turns"] == 3


def test_a_conversation_that_was_changed_is_refused(shop: Service) -> None:
    last = events(shop, {"message": "Where is my order?"})[-1][1]
    forged = last["conversation"].replace("Where is my order?", "Refund everything!")
    assert forged != last["conversation"]
    assert data(shop, "turn", {"message": "yes", "history": forged}, status=400)["code"] == "SnapshotError"


def test_a_reader_who_leaves_ends_the_turn_and_nothing_else(shop: Service) -> None:
    async def leave() -> None:
        url = shop.url.replace("/panel/", "/v1/panel/turn")
        async with httpx.AsyncClient() as client, client.stream("POST", url, json={"message": ASKED}) as answer:
            assert answer.status_code == 200

    for _ in range(5):
        asyncio.run(leave())
    assert data(shop, "state")["flows"] == 40


# --- the catalogue -----------------------------------------------------------------------


def test_the_state_says_who_is_served_and_how(shop: Service) -> None:
    told = data(shop, "state")
    assert (told["agent_id"], told["flows"], told["has_model"], told["problem"]) == ("support", 40, True, "")
    assert told["settings"]["top_k"] == "auto"


@pytest.mark.spec("016.5")
def test_the_first_page_tells_what_is_decided_alone(shop: Service) -> None:
    log = shop.catalogue.log
    assert log is not None
    before = data(shop, "state")["forecast"]["logged"] or {"requests": 0, "alone": 0}
    decided = Decision(tier=Tier.DETERMINISTIC, reason=Reason.CONFIDENT)
    log.record("my money", decided, agent_id=shop.catalogue.agent_id, chosen=["refund_order"])
    log.record("my money", decided, agent_id="another", chosen=["refund_order"])
    log.record("my", Decision(tier=Tier.GUIDED, reason=Reason.LLM, attempts=1), agent_id=shop.catalogue.agent_id)
    told = data(shop, "state")["forecast"]
    assert (told["logged"]["requests"], told["logged"]["alone"]) == (before["requests"] + 2, before["alone"] + 1)
    assert "Examples, titles and aliases are decided without a model" in told["says"]
    assert "In the log of the last 30 days: " in told["says"]
    assert data(shop, "findings")["forecast"]["share_alone"] == told["share_alone"], "a check tells the same"


def test_what_is_suggested_is_said_in_examples_of_the_catalogue_itself(shop: Service, tmp_path: Path) -> None:
    suggested = data(shop, "state")["examples"]
    flows = [data(shop, f"flows/{each['name']}") for each in data(shop, "flows")["flows"][:40]]
    known = {text: flow["name"] for flow in flows for text in flow["examples"]}
    assert len({known[text] for text in suggested}) == 3, suggested
    assert max(map(len, suggested)) <= 80
    with served(tmp_path, hostile, cases=()) as service:  # whatever these flows say
        assert len(data(service, "state")["examples"]) <= 3


def test_a_flow_is_told_whole(shop: Service) -> None:
    listed = data(shop, "flows")["flows"]
    assert len(listed) == 40
    assert [each["name"] for each in listed] == sorted(each["name"] for each in listed)
    told = data(shop, "flows/refund_order")
    assert told["prompt"].startswith('<flow name="refund_order"')
    assert told["file"].endswith("returns.py")
    assert told["chain"][0] == "lookup_order"
    assert told["chain"][2]["candidate_tools"] == ["create_return", "offer_store_credit"]
    assert told["chain"][2]["fallback_tool"] is None
    assert "{return_number}" in told["reply"]
    assert data(shop, "flows/damaged_item_claim")["chain"] == []
    assert {"issue_refund"} == {tool["name"] for tool in told["tools"] if tool["destructive"]}
    assert data(shop, "flows/nothing_like_it", status=404)["detail"]


def test_the_map_has_a_place_for_every_flow_and_the_same_one_each_time(shop: Service, tmp_path: Path) -> None:
    told = data(shop, "map")
    assert len(told["points"]) == 40
    assert all(-1 <= each[axis] <= 1 for each in told["points"] for axis in "xy")
    assert 0 < told["stress"] < 0.6
    assert told["asked"] == sum(each["count"] for each in told["confusions"]) + told["right"]
    assert told["nearest"]["refund_order"][0]["name"] == "return_status"
    with served(tmp_path) as again:
        assert data(again, "map")["points"] == told["points"]


def test_findings_are_told_at_their_flow(tmp_path: Path) -> None:
    with served(tmp_path, hostile, cases=()) as service:
        told = data(service, "findings")
    assert told["counts"]["warning"] > 0
    named = {name for each in told["findings"] for name in each["flows"]}
    assert set(told["by_flow"]) == named
    assert any(MARKUP in name for name in named), "names are told as they are: pages show them as text"


def test_findings_are_those_of_check_and_of_files_as_they_are_now(tmp_path: Path) -> None:
    cases = tmp_path / "own.yaml"
    cases.write_text("- {request: Is it raining?, expect: none}\n", "utf-8")
    with served(tmp_path / "shop", cases=(cases,)) as service:
        before = data(service, "findings")
        leaked = "changed my mind after it arrived"
        cases.write_text(f"- {{request: {leaked}, expect: refund_order}}\n", "utf-8")
        after = data(service, "findings")
        found = check(str(ROOT / "flows"), tools=str(ROOT / "flows"), cases=cases, **checked(service)).to_dict()
    assert "leaked-case" not in {each["code"] for each in before["findings"]}
    codes = [(each["code"], each["flows"]) for each in after["findings"]]
    assert codes == [(each["code"], each["flows"]) for each in found["findings"]]
    assert any(leaked in str(each) for each in after["findings"])
    assert after["accepted"] == found["accepted"]


def checked(service: Service) -> dict[str, Any]:
    """How the team of this repository judges."""
    settings = service.catalogue.settings
    how, learned = judging(settings), settings.learned_by_now
    return {"embedder": how.embedder, "language": settings.language, "ignore": how.ignore, "learned": learned}


# --- who may see it, and how pages are given --------------------------------------------------


def test_pages_are_for_everybody_and_data_is_not(tmp_path: Path) -> None:
    with served(tmp_path, keys=[KEY]) as service:
        page = httpx.get(service.url)
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        for path in ("state", "flows", "map", "findings", "runs", "drift", "corrections", "flows/refund_order"):
            assert data(service, path, status=401)["detail"]
            assert data(service, path, status=401, authorization="Bearer wrong")["detail"]
        for path in ("try", "turn", "runs", "corrections"):
            assert data(service, path, {"request": "x"}, status=401)["detail"]
        assert data(service, "state", authorization=f"Bearer {KEY}")["flows"] == 40


@pytest.mark.parametrize(
    "path", ["../routes.py", "..%2froutes.py", "%2e%2e/routes.py", "css/../../routes.py", "nothing", "js/", "%00"]
)
def test_nothing_but_the_pages_is_given(shop: Service, path: str) -> None:
    with httpx.Client() as client:
        answer = client.get(f"{shop.url}{path}")
    assert answer.status_code in {400, 404}
    assert "panel_part" not in answer.text


def test_the_bare_address_leads_to_the_pages(shop: Service) -> None:
    for address in ("", "panel"):
        answer = httpx.get(f"{shop.url.removesuffix('panel/')}{address}")
        assert (answer.status_code, answer.headers["location"]) == (307, "/panel/")
