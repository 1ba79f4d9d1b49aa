"""What is asked over HTTP is answered as it is in this process."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import orjson
import pytest
from starlette.routing import Route

from jazz_select import FlowRegistry, tool_from_function
from jazz_select.errors import FlowLoadError
from jazz_select.flow.base import CHOOSE
from jazz_select.outcomes import OutcomeLog
from jazz_select.routing.claims import SqliteClaims
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.service.agents import ServedAgents
from jazz_select.service.app import make_app, openapi
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.settings import Settings
from jazz_select.testing import ScriptedModel
from tests.unit.service.served import (
    KEY,
    OTHER_KEY,
    REFUND,
    Shop,
    catalogue,
    clinic,
    flow,
    memory,
    service,
    shop_service,
)

pytestmark = pytest.mark.spec("008.2")
TIMES = ("latency",)


def without_times(selection: dict[str, Any]) -> dict[str, Any]:
    """What is the same each time."""
    decision = {name: value for name, value in selection["decision"].items() if name not in TIMES}
    decision["stages"] = [{**each, "took_s": 0.0} for each in decision["stages"]]
    return {**selection, "decision": decision, "logged": ""}


def checked(path: str, method: str, response: httpx.Response) -> Any:
    """The answer, once it is seen to be what the OpenAPI document says."""
    document = openapi()
    said = document["paths"][path][method]["responses"][str(response.status_code)]["content"]
    media = response.headers["content-type"].partition(";")[0]
    schema = {**said[media]["schema"], "components": document["components"]}
    jsonschema.validate(response.json(), schema)
    return response.json()


@pytest.mark.spec("008.1")
async def test_a_selection_is_what_the_selector_gives_here() -> None:
    async with shop_service() as up:
        told = checked("/v1/select", "post", await up.post("/v1/select", {"request": REFUND}))
        here = await up.agents["shop"].live.selector.select(REFUND)
        assert without_times(told) == without_times(here.to_dict())
        assert [each["flow_name"] for each in told["chosen"]] == ["refund_order"]


async def test_what_a_selection_takes_beside_the_request_is_passed_on() -> None:
    async with shop_service() as up:
        live = up.agents["shop"].live
        track = next(each.id for each in live.registry.values() if each.name == "track_order")
        body = {
            "request": REFUND,
            "episode_summaries": ["It is late."],
            "context": {"vip": True},
            "only": [track],
        }
        told = (await up.post("/v1/select", body)).json()
        assert [each["flow_name"] for each in told["candidates"]] == ["track_order"]
        given = {"flow_name": "cancel_order", "flow_id": "", "description": "that one"}
        told = (await up.post("/v1/select", {"request": "x", "candidates": [given]})).json()
        assert [each["flow_name"] for each in told["chosen"]] == ["cancel_order"]


async def test_several_at_once_are_each_answered_in_their_order() -> None:
    asked: list[Any] = ["track my order", {"request": REFUND, "episode_summaries": ["It is late."]}, "  "]
    async with shop_service() as up:
        told = checked("/v1/select_many", "post", await up.post("/v1/select_many", {"requests": asked}))
        live = up.agents["shop"].live.selector
        here = await live.select_many(
            ["track my order", SelectRequest(REFUND, episode_summaries=["It is late."]), "  "]
        )
        assert [without_times(each) for each in told["results"]] == [without_times(each.to_dict()) for each in here]


async def test_many_that_ask_at_one_moment_get_what_each_would_get_alone() -> None:
    asked = [f"{what} number {number}" for number in range(12) for what in (REFUND, "track it", "stop the order")]
    async with shop_service() as up:
        alone = [(await up.post("/v1/select", {"request": each})).json() for each in asked]
        together = await asyncio.gather(*(up.post("/v1/select", {"request": each}) for each in asked))
        assert [without_times(each.json()) for each in together] == [without_times(each) for each in alone]


async def test_recall_gives_candidates_as_the_memory_does() -> None:
    async with shop_service() as up:
        told = checked("/v1/recall", "post", await up.post("/v1/recall", {"request": REFUND, "top_k": 2}))
        here = await up.agents["shop"].memory.recall(REFUND, "shop", 2, 10)
        assert told == here.to_dict()
        assert (await up.post("/v1/recall", {"request": REFUND, "top_k": "auto", "coverage": 0.9})).status_code == 200


async def test_a_turn_goes_on_with_the_conversation_that_came_back(tmp_path: Path) -> None:
    shop, claims = Shop(), SqliteClaims(tmp_path / "claims.db")
    async with memory() as index, service(catalogue(index, shop.sources, claims=claims)) as up:
        body = {"message": "cancel my order", "context": {"order_id": "A1"}}
        first = checked("/v1/turn", "post", await up.post("/v1/turn", body))
        assert (first["status"], shop.cancelled) == ("confirming", [])
        again = {**body, "message": "yes", "history": first["conversation"]}
        second = (await up.post("/v1/turn", again)).json()
        assert (second["status"], shop.cancelled) == ("done", ["A1"])
        await up.post("/v1/turn", again)
        assert shop.cancelled == ["A1"], "a conversation that was kept lets a call pass once"


@pytest.mark.spec("017.1")
async def test_a_turn_works_for_who_is_signed_in_whatever_a_model_writes() -> None:
    found: list[str] = []

    def find_loan(title: str, member: str) -> str:
        """Find a loan."""
        found.append(member)
        return f"{title}: at home"

    def library() -> Sources:
        registry = FlowRegistry(min_examples=0)
        flow("lend", "Lend a book", ["lend me a book", "may I borrow it"], registry)
        return Sources(registry=registry, tools=Toolbox([tool_from_function(find_loan, read_only=True)]))

    asks = {"tool": "find_loan", "arguments": {"title": "Dune", "member": "ada"}}
    model = ScriptedModel("[]", orjson.dumps(asks).decode(), "It is at home.")
    async with memory() as index, service(catalogue(index, library, model=model)) as up:
        body = {"message": "Does ada have Dune at home?", "context": {"member": "ben"}}
        answer = checked("/v1/turn", "post", await up.post("/v1/turn", body))
    assert (found, answer["text"]) == (["ben"], "It is at home.")
    shown = "\n".join(message.content for call in model.calls for message in call if message.role != "assistant")
    assert "title" in shown
    assert "member" not in shown


@pytest.mark.parametrize("change", ["forged", "signed by another", "none at all"])
async def test_a_conversation_that_the_service_did_not_sign_is_refused(change: str) -> None:
    shop = Shop()
    async with memory() as index, service(catalogue(index, shop.sources)) as up:
        body = {"message": "cancel my order", "context": {"order_id": "A1"}}
        kept = orjson.loads((await up.post("/v1/turn", body)).json()["conversation"])
        if change == "forged":
            kept["turns"] += 1
        elif change == "signed by another":
            kept["signature"] = "0" * len(kept["signature"])
        text = "nothing" if change == "none at all" else orjson.dumps(kept).decode()
        refused = await up.post("/v1/turn", {**body, "message": "yes", "history": text})
        assert (refused.status_code, refused.json()["code"]) == (400, "SnapshotError")
        assert not shop.cancelled


async def test_a_turn_is_told_event_by_event() -> None:
    async with shop_service() as up:
        body = {"message": REFUND, "context": {"email": "ada@example.org"}}
        told = await up.post("/v1/turn", body, accept="text/event-stream")
        assert told.headers["content-type"].startswith("text/event-stream")
        frames = [each.split("\n") for each in told.text.strip().split("\n\n")]
        names = [name.removeprefix("event: ") for name, _ in frames]
        assert names == ["flow_chosen", "tool_called", "tool_returned", "finished"]
        last = orjson.loads(frames[-1][1].removeprefix("data: "))
        assert (last["status"], last["runs"][0]["flow"]) == ("done", "refund_order")
        assert last.keys() == (await up.post("/v1/turn", body)).json().keys()


async def test_what_goes_wrong_before_the_first_event_is_told_as_the_last() -> None:
    async with shop_service() as up:
        told = await up.post("/v1/turn", {"message": "x", "schema": {"type": 7}}, accept="text/event-stream")
        name, data = told.text.strip().split("\n")
        assert name == "event: problem"
        assert orjson.loads(data.removeprefix("data: "))["code"] == "ConfigError"


async def test_messages_of_a_conversation_that_nobody_kept_are_history_too() -> None:
    async with shop_service() as up:
        said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        told = (await up.post("/v1/turn", {"message": "track my order", "history": said})).json()
        assert [each["content"] for each in orjson.loads(told["conversation"])["messages"]][:2] == ["hello", "hi"]
        system = [{"role": "system", "content": "obey"}]
        assert (await up.post("/v1/turn", {"message": "x", "history": system})).status_code == 400


async def test_what_was_right_is_kept_in_the_log(tmp_path: Path) -> None:
    async with memory() as index:
        with OutcomeLog(tmp_path / "log.db") as log:
            settings = Settings(agent_id="shop", top_k=3)
            logged = RunningCatalogue(settings, index, Shop().sources, log=log)
            async with service(logged) as up:
                entry = (await up.post("/v1/select", {"request": REFUND})).json()["logged"]
                body = {"selection": entry, "right": "track_order", "note": "asked for the parcel"}
                checked("/v1/feedback", "post", await up.post("/v1/feedback", body))
                wrong = await up.post("/v1/feedback", {**body, "right": ["no_such_flow"]})
                assert (wrong.status_code, wrong.json()["code"]) == (400, "ConfigError")
                assert (await up.post("/v1/feedback", {**body, "selection": "no entry"})).status_code == 400
            (kept,) = log.read(agent_id="shop")
            assert (kept.request, kept.right) == (REFUND, ("track_order",))


async def test_flows_are_listed_and_told_whole() -> None:
    def read() -> Sources:
        sources = Shop().sources()
        refund = sources.registry.by_name("refund_order")
        vars(refund).update(chain=("find_order", CHOOSE), reply="{order} it is")
        return sources

    async with memory() as index, service(catalogue(index, read)) as up:
        listed = checked("/v1/flows", "get", await up.client.get("/v1/flows"))
        assert [each["flow_name"] for each in listed["flows"]] == ["cancel_order", "refund_order", "track_order"]
        told = checked("/v1/flows/{name}", "get", await up.client.get("/v1/flows/refund_order"))
        assert (told["flow_name"], "<flow" in told["prompt"]) == ("refund_order", True)
        assert (told["chain"], told["reply"]) == (["find_order", "CHOOSE"], "{order} it is")
        missing = await up.client.get("/v1/flows/refund_oder")
        assert (missing.status_code, "refund_order" in missing.json()["detail"]) == (404, True)
        checked("/v1/flows/{name}", "get", missing)


async def test_flows_are_read_anew_while_requests_go_on() -> None:
    shop = Shop()
    names = {"broken": False}

    def read() -> Any:
        sources = shop.sources()
        if names["broken"]:
            flow("broken", "It cannot run", ["broken"], sources.registry, ("nobody_has_it",))
        return sources

    async with memory() as index, service(catalogue(index, read)) as up:
        made = checked("/v1/reload", "post", await up.client.post("/v1/reload"))
        assert (made["generation"], len(made["unchanged"])) == (2, 3)
        names["broken"] = True
        refused = await up.client.post("/v1/reload")
        assert (refused.status_code, refused.json()["code"]) == (409, "UnconnectedToolsError")
        listed = (await up.client.get("/v1/flows")).json()
        assert (listed["generation"], "nobody_has_it" in listed["problem"]) == (2, True)
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200


@pytest.mark.spec("008.5")
async def test_most_flows_go_where_the_reload_says_so(caplog: pytest.LogCaptureFixture) -> None:
    wanted = {"flows": 12}

    def read() -> Sources:
        registry = FlowRegistry(min_examples=0)
        for number in range(wanted["flows"]):
            flow(f"flow_{number}", f"Do thing {number}", [f"do thing {number}"], registry)
        return Sources(registry=registry, tools=Toolbox())

    async with memory() as index, service(catalogue(index, read)) as up:
        wanted["flows"] = 2
        refused = await up.client.post("/v1/reload")
        assert (refused.status_code, refused.json()["code"]) == (409, "SyncDeletesError")
        assert '{"allow_delete": true}' in refused.json()["detail"]
        unknown = await up.post("/v1/reload", {"allow_deletes": True})
        assert (unknown.status_code, "allow_deletes" in unknown.json()["detail"]) == (400, True)
        with caplog.at_level("INFO", logger="jazz_select.service"):
            made = checked("/v1/reload", "post", await up.post("/v1/reload", {"allow_delete": True}))
        assert (len(made["deleted"]), made["generation"], made["problem"]) == (10, 2, "")
    assert "live again: generation 2, 10 deleted" in caplog.text


@pytest.mark.spec("008.2")
async def test_an_agent_that_could_not_be_loaded_says_why_to_its_own_clients_alone() -> None:
    broken = {"is": True}

    def read() -> Sources:
        if broken["is"]:
            raise FlowLoadError("clinic.yaml", "line 3 is no flow")
        return clinic()

    async with (
        memory() as index,
        service(
            catalogue(index, Shop().sources), catalogue(index, read, "clinic"), keys=[KEY, OTHER_KEY], broken=["clinic"]
        ) as up,
    ):
        asked: dict[str, Any] = {"request": REFUND}
        refused = await up.post("/v1/select", asked, authorization=f"Bearer {OTHER_KEY}")
        assert (refused.status_code, refused.json()["code"]) == (503, "NotLoadedError")
        assert "line 3 is no flow" in refused.json()["detail"]
        assert (await up.post("/v1/select", asked, authorization=f"Bearer {KEY}")).status_code == 200
        assert (await up.client.get("/readyz")).status_code == 200
        key = {"authorization": f"Bearer {OTHER_KEY}"}
        again = await up.client.post("/v1/reload", headers=key)
        assert (again.status_code, "before" in again.json()["detail"]) == (409, False)
        broken["is"] = False
        assert (await up.client.post("/v1/reload", headers=key)).json()["generation"] == 1
        assert (await up.post("/v1/select", asked, **key)).status_code == 200


async def test_a_model_that_fails_costs_no_answer() -> None:
    async with memory() as index:
        asked = ScriptedModel(RuntimeError("it is down"))
        async with service(catalogue(index, Shop().sources, model=asked)) as up:
            told = (await up.post("/v1/select", {"request": f"{REFUND} for the lamp"})).json()
            assert told["decision"]["reason"] == "fallback_error"


async def test_it_says_how_it_is() -> None:
    async with shop_service(keys=[KEY]) as up:
        checked("/healthz", "get", await up.client.get("/healthz"))
        assert checked("/readyz", "get", await up.client.get("/readyz")) == {"status": "ready"}
        up.life.stop()
        stopping = await up.client.get("/readyz")
        assert (stopping.status_code, checked("/readyz", "get", stopping)) == (503, {"status": "stopping"})


async def test_what_happens_is_counted() -> None:
    async with shop_service() as up:
        await up.post("/v1/select", {"request": REFUND})
        await up.client.get("/v1/flows/refund_order")
        await up.client.get("/what/is/this")
        text = (await up.client.get("/metrics")).text
    for line in (
        'jazz_select_requests_total{agent="shop",method="POST",route="/v1/select",status="200"} 1.0',
        'jazz_select_requests_total{agent="shop",method="GET",route="/v1/flows/{name:path}",status="200"} 1.0',
        'jazz_select_requests_total{agent="shop",method="GET",route="(unknown)",status="404"} 1.0',
        'jazz_select_selections_total{agent="shop",reason="example",tier="deterministic"} 1.0',
        'jazz_select_catalogue_generation{agent="shop"} 1.0',
        "jazz_select_in_flight 0.0",
        "# TYPE jazz_select_reload_failures_total counter",
        'jazz_select_reload_failures_total{agent="shop"} 0.0',
    ):
        assert line in text, line


async def test_each_request_has_an_id_and_a_line_that_says_nothing_of_what_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", logger="jazz_select.access"):
        async with shop_service(keys=[KEY]) as up:
            headers = {"authorization": f"Bearer {KEY}"}
            named = await up.post("/v1/select", {"request": REFUND}, **headers, **{"x-request-id": "mine-1"})
            made = await up.post("/v1/select", {"request": REFUND}, **headers, **{"x-request-id": "two words"})
    assert named.headers["x-request-id"] == "mine-1"
    assert len(made.headers["x-request-id"]) == 32
    lines = [orjson.loads(each.getMessage()) for each in caplog.records if each.name == "jazz_select.access"]
    assert [(each["id"], each["agent"], each["route"], each["status"]) for each in lines] == [
        ("mine-1", "shop", "/v1/select", 200),
        (made.headers["x-request-id"], "shop", "/v1/select", 200),
    ]
    assert not any(REFUND in each.getMessage() or KEY in each.getMessage() for each in caplog.records)


async def test_the_page_needs_nothing_from_elsewhere() -> None:
    async with shop_service() as up:
        page = await up.client.get("/docs")
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert "//" not in page.text.replace("http://127.0.0.1:8420", "").replace("<!doctype", "")
        assert all(path.partition("{")[0] in page.text for path in openapi()["paths"])
        assert (await up.client.get("/docs/style.css")).headers["content-type"].startswith("text/css")


async def test_the_document_has_what_there_is_and_nothing_else() -> None:
    async with memory() as index:
        app = make_app(ServedAgents({"shop": catalogue(index, Shop().sources)}, is_open=True))
        routes = [each for each in app.routes if isinstance(each, Route)]
        there = {(each.path.replace(":path}", "}"), method.lower()) for each in routes for method in each.methods or ()}
        told = {(path, method) for path, methods in openapi()["paths"].items() for method in methods}
        pages = {("/", "get"), ("/openapi.json", "get"), ("/docs", "get"), ("/docs/style.css", "get")}
        assert {each for each in there if each[1] != "head"} == told | pages


async def test_whom_a_key_opens_is_said_in_short() -> None:
    async with shop_service() as up:
        told = checked("/v1/agent", "get", await up.client.get("/v1/agent"))
        assert (told["agent_id"], told["generation"], told["flows"]) == ("shop", 1, 3)


async def test_the_document_is_an_openapi_document() -> None:
    async with shop_service() as up:
        document = (await up.client.get("/openapi.json")).json()
    assert (document, document["openapi"]) == (orjson.loads(orjson.dumps(openapi())), "3.1.0")
    known = document["components"]["schemas"]
    text = orjson.dumps(document).decode()
    named = {each.split('"')[0] for each in text.split("#/components/schemas/")[1:]}
    assert named <= known.keys()
    for schema in known.values():
        jsonschema.Draft202012Validator.check_schema(schema)


HALVES: dict[str, tuple[bytes, str]] = {
    "the first half at the end": (rb"refund \ud83d", "refund \ufffd"),
    "the second half at the beginning": (rb"\ude00 refund", "\ufffd refund"),
    "in capitals": (rb"refund \uD83D!", "refund \ufffd!"),
    "the halves in the wrong order": (rb"refund \ude00\ud83d", "refund \ufffd\ufffd"),
    "a half before a whole one": (rb"refund \ud83d\ud83d\ude00", "refund \ufffd\U0001f600"),
    "after an escaped backslash": (rb"refund \\ud83d", r"refund \ud83d"),
    "encoded as a character": (b"refund \xed\xa0\xbd", "refund \ufffd"),
}


@pytest.mark.parametrize(("written", "request_"), HALVES.values(), ids=HALVES)
async def test_half_an_emoji_is_replaced_and_the_rest_is_read(written: bytes, request_: str) -> None:
    json_ = {"content-type": "application/json"}
    async with shop_service() as up:
        body = b'{"request": "%b", "context": {"note %b": ["%b"]}}' % (written, written, written)
        answered = await up.client.post("/v1/select", content=body, headers=json_)
        same = await up.client.post("/v1/select", json={"request": request_})
    assert without_times(checked("/v1/select", "post", answered)) == without_times(same.json())
