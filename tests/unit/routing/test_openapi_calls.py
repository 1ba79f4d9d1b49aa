"""Tools from OpenAPI documents, called: what a server on loopback is sent, and what becomes of its answer."""

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, FromContext, Policy
from jazz_select.errors import ToolError
from jazz_select.routing import Allow, FlowExecutor, Tool, run_plan, tools_from_openapi
from jazz_select.routing.records import StepError, StepOutcome
from jazz_select.telemetry import Trace
from jazz_select.testing import ListMemory
from tests.unit.routing.openapi_pets import Api, document, pet_api, secured, with_operation

SECRET = "s3cr3t-t0ken/+="  # noqa: S105 - nobody's
PROBLEM = {"type": "about:blank", "title": "Not found", "status": 404, "detail": "There is no pet 7."}


@pytest.fixture
async def api() -> AsyncGenerator[Api]:
    async with pet_api() as served:
        yield served


def tools_at(api: Api, made: dict[str, Any] | None = None, **options: Any) -> list[Tool]:
    return tools_from_openapi(made or document(), servers=f"{api.url}/v1", **options)


async def call(tools: list[Tool], name: str, arguments: dict[str, Any] | None = None, **options: Any) -> StepOutcome:
    plan = [{"tool": name, "arguments": arguments or {}}]
    return (await run_plan(plan, tools, approve=lambda _: Allow(), **options)).steps[0]


def error_of(step: StepOutcome) -> StepError:
    assert step.error is not None, step
    return step.error


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("name", "arguments", "sent"),
    [
        pytest.param(
            "listPets",
            {"limit": 5, "tag": ["a b", "c&d"]},
            {"verb": "GET", "path": "/v1/pets", "query": "limit=5&tag=a%20b&tag=c%26d", "body": ""},
            id="a query",
        ),
        pytest.param("showPet", {"petId": "a/b ?#"}, {"path": "/v1/pets/a%2Fb%20%3F%23"}, id="a path"),
        pytest.param(
            "createPet",
            {"name": "Rex", "parent": {"name": "Ida"}},
            {"verb": "POST", "body": '{"name":"Rex","parent":{"name":"Ida"}}'},
            id="a body of fields",
        ),
        pytest.param(
            "replacePet",
            {"petId": "7", "body": {"name": "Rex"}},
            {"verb": "PUT", "path": "/v1/pets/7", "body": '{"name":"Rex"}'},
            id="a body as a whole",
        ),
        pytest.param("delete_pets_petId", {"petId": "7"}, {"verb": "DELETE", "body": ""}, id="no body"),
    ],
)
async def test_a_call_is_sent_as_the_document_says(
    api: Api, name: str, arguments: dict[str, Any], sent: dict[str, Any]
) -> None:
    step = await call(tools_at(api), name, arguments)
    assert (step.status, step.output) == ("ok", {"ok": True})
    assert {key: api.last[key] for key in sent} == sent


async def test_headers_and_cookies_are_sent_and_the_id_of_the_call_makes_it_once(api: Api) -> None:
    tools = tools_at(api)
    await call(tools, "listPets", {"X-Trace": "t1", "shop": "a;b"})
    assert (api.last["headers"]["x-trace"], api.last["headers"]["cookie"]) == ("t1", "shop=a%3Bb")
    creating = next(tool for tool in tools if tool.name == "createPet")
    assert "Idempotency-Key" not in creating.input_schema["properties"]
    assert creating.idempotent
    await call(tools, "createPet", {"name": "Rex"})
    assert len(api.last["headers"]["idempotency-key"]) >= 16


@pytest.mark.parametrize(
    ("parameter", "value", "query"),
    [
        pytest.param({"explode": False, "schema": {}}, ["a", "b"], "p=a%2Cb", id="with commas"),
        pytest.param({"style": "pipeDelimited", "explode": False}, ["a", "b"], "p=a%7Cb", id="with pipes"),
        pytest.param({"style": "deepObject"}, {"a": 1, "b": [True]}, "p%5Ba%5D=1&p%5Bb%5D%5B0%5D=true", id="deep"),
        pytest.param({"schema": {"type": "object"}}, {"a": 1, "b": "x"}, "a=1&b=x", id="an object"),
        pytest.param({"content": {"application/json": {"schema": {}}}}, {"a": 1}, "p=%7B%22a%22%3A1%7D", id="as JSON"),
    ],
)
async def test_a_parameter_is_written_in_its_style(api: Api, parameter: dict[str, Any], value: Any, query: str) -> None:
    made = with_operation("/x", "get", {"operationId": "x", "parameters": [{"name": "p", "in": "query", **parameter}]})
    await call(tools_at(api, made), "x", {"p": value})
    assert api.last["query"] == query


async def test_a_form_is_sent_as_a_form(api: Api) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "meta": {"type": "object"}}}
    body = {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}
    made = with_operation("/x", "post", {"operationId": "x", "requestBody": body})
    await call(tools_at(api, made), "x", {"a": "1 2", "meta": {"k": ["v"]}})
    assert api.last["body"] == "a=1+2&meta%5Bk%5D%5B0%5D=v"
    assert api.last["headers"]["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        pytest.param("showPet", {"petId": ".."}, "'.' and '..' cannot stand", id="a value that climbs"),
        pytest.param("showPet", {"petId": "."}, "'.' and '..' cannot stand", id="a value that stays"),
        pytest.param("showPet", {"petId": ""}, "must not be empty", id="a value that ends the path"),
        pytest.param("showPet", {"petId": "../admin"}, "'.' and '..' cannot stand", id="behind a slash"),
        pytest.param("showPet", {"petId": "a/../../admin"}, "'.' and '..' cannot stand", id="between slashes"),
        pytest.param("showPet", {"petId": "..\\admin"}, "'.' and '..' cannot stand", id="behind a backslash"),
        pytest.param("showPet", {"petId": "..;/admin"}, "'.' and '..' cannot stand", id="before a semicolon"),
        pytest.param("showPet", {"petId": "%2e%2e"}, "'.' and '..' cannot stand", id="encoded"),
        pytest.param("showPet", {"petId": "%252e%252e%252fx"}, "'.' and '..' cannot stand", id="encoded twice"),
        pytest.param("showPet", {"petId": "a\0b"}, "must not have control characters", id="a NUL"),
        pytest.param("showPet", {"petId": "a\r\nb"}, "must not have control characters", id="a line end"),
        pytest.param("listPets", {"X-Trace": "a\r\nHost: evil"}, "must be ASCII in one line", id="two headers"),
        pytest.param("listPets", {"limit": 500}, "500 is greater than the maximum", id="more than there may be"),
        pytest.param("listPets", {"other": 1}, "other", id="an input that is none"),
        pytest.param("showPet", {}, "petId", id="nothing for the path"),
    ],
)
async def test_arguments_that_do_not_fit_are_not_sent(
    api: Api, name: str, arguments: dict[str, Any], problem: str
) -> None:
    step = await call(tools_at(api), name, arguments)
    assert (step.status, error_of(step).fault) == ("failed", "arguments")
    assert problem in error_of(step).message
    assert api.requests == []


# --- with what ------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged on this side; the server logs what it was asked."""
    return " ".join(each.getMessage() for each in caplog.records if not each.name.startswith("uvicorn"))


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.spec("020.3")
@pytest.mark.parametrize("from_context", [True, False], ids=["from the context", "from the program"])
@pytest.mark.parametrize(
    ("scheme", "value", "where", "sent"),
    [
        pytest.param("token", SECRET, "authorization", f"Bearer {SECRET}", id="bearer"),
        pytest.param("login", ("ada", SECRET), "authorization", basic("ada", SECRET), id="basic"),
        pytest.param("login", f"ada:{SECRET}", "authorization", basic("ada", SECRET), id="basic in one text"),
        pytest.param("key", SECRET, "x-api-key", SECRET, id="a key in a header"),
        pytest.param("baked", SECRET, "cookie", "session=s3cr3t-t0ken%2F%2B%3D", id="a key in a cookie"),
        pytest.param("asked", SECRET, "", "api_key=s3cr3t-t0ken%2F%2B%3D", id="a key in the query"),
    ],
)
async def test_a_credential_is_sent_where_its_scheme_says(
    api: Api, scheme: str, value: Any, where: str, sent: str, *, from_context: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tools = tools_at(api, secured(scheme), auth={} if from_context else {scheme: value})
    context = {scheme: value} if from_context else {}
    api.answer = lambda request: JSONResponse({"you sent": dict(request.headers), "query": str(request.url)})
    with Trace() as trace:
        step = await call(tools, "listPets", context=context)
    assert step.status == "ok"
    assert (api.last["headers"][where] if where else api.last["query"]) == sent
    told = (
        json.dumps([step.output, step.arguments, step.notes]) + logged(caplog) + repr(trace) + repr(step) + repr(tools)
    )
    for spelling in (SECRET, "s3cr3t-t0ken", sent.removeprefix("Basic ")):
        assert spelling not in told


async def test_a_failure_does_not_repeat_a_credential(api: Api) -> None:
    api.answer = lambda request: PlainTextResponse(f"bad token {request.headers['authorization']}", status_code=401)
    step = await call(tools_at(api, secured("token"), auth={"token": SECRET}), "listPets")
    assert error_of(step).message == "listPets failed: 401 Unauthorized: bad token Bearer [hidden]"


def in_escapes(text: str) -> str:
    return "".join(f"\\u{ord(each):04x}" for each in text)


ODD = 'odd"\\<t0ken>/+='
ECHOES = [
    pytest.param(JSONResponse({"you": ODD}), id="in JSON"),
    pytest.param(JSONResponse({ODD: [ODD]}), id="as a name in JSON"),
    pytest.param(Response(f'{{"you": "{in_escapes(ODD)}"}}', media_type="application/json"), id="in escapes"),
    pytest.param(PlainTextResponse(json.dumps(ODD)), id="as JSON in a text"),
    pytest.param(PlainTextResponse("odd&quot;\\&lt;t0ken&gt;/+="), id="in HTML"),
    pytest.param(Response(b"\0", media_type=f"image/x-{ODD}"), id="in the type"),
    pytest.param(JSONResponse({"detail": ODD}, status_code=400), id="in a failure"),
]


@pytest.mark.spec("020.3")
@pytest.mark.parametrize("answer", ECHOES)
async def test_an_answer_repeats_no_credential(api: Api, answer: Response) -> None:
    api.answer = lambda _: answer
    step = await call(tools_at(api, secured("token"), auth={"token": ODD}), "listPets")
    told = json.dumps([step.output, step.error.message if step.error else ""])
    assert "t0ken" not in told
    assert "[hidden]" in told


@pytest.mark.parametrize(
    ("schemes", "context", "sent"),
    [
        pytest.param(("token", "key"), {"key": "abcdef"}, {"x-api-key": "abcdef"}, id="the second of two"),
        pytest.param(
            ("key+token",),
            {"key": "abcdef", "token": "xyz"},
            {"x-api-key": "abcdef", "authorization": "Bearer xyz"},
            id="both",
        ),
        pytest.param(("signed", "key"), {"key": "abcdef"}, {"x-api-key": "abcdef"}, id="one is not supported"),
        pytest.param(("", "key"), {}, {}, id="none is needed"),
    ],
)
async def test_alternatives(api: Api, schemes: tuple[str, ...], context: dict[str, str], sent: dict[str, str]) -> None:
    step = await call(tools_at(api, secured(*schemes)), "listPets", context=context)
    assert step.status == "ok"
    known = {name: value for name, value in api.last["headers"].items() if name in {"x-api-key", "authorization"}}
    assert known == sent


@pytest.mark.parametrize(
    ("schemes", "auth", "context", "problem"),
    [
        pytest.param(("token",), {}, {}, "it needs 'token' from the context, which has none", id="nothing"),
        pytest.param(
            ("token",), {"token": FromContext("jwt")}, {"token": "x"}, "it needs 'jwt' from", id="another key"
        ),
        pytest.param(("key+token",), {}, {"key": "x"}, "it needs 'key' and 'token' from", id="one of two"),
        pytest.param(("signed",), {}, {"signed": "x"}, "'signed', which is not supported; give headers=", id="digest"),
        pytest.param(("token",), {}, {"token": "a\nb: c"}, "must be ASCII in one line", id="two headers"),
        pytest.param(("token",), {}, {"token": 7}, "must be a text, got int", id="a number"),
        pytest.param(("login",), {}, {"login": SECRET}, "must be a user and a password", id="no user"),
        pytest.param(("token",), {"token": lambda: 1 / 0}, {}, "failed: ZeroDivisionError", id="a function that fails"),
    ],
)
async def test_without_a_credential_nothing_is_sent(
    api: Api, schemes: tuple[str, ...], auth: dict[str, Any], context: dict[str, Any], problem: str
) -> None:
    step = await call(tools_at(api, secured(*schemes), auth=auth), "listPets", context=context)
    assert (step.status, error_of(step).fault) == ("failed", "arguments")
    assert problem in error_of(step).message
    assert SECRET not in error_of(step).message
    assert api.requests == []


async def test_a_function_gives_a_new_token_for_each_call(api: Api) -> None:
    given = iter(("first", "second"))

    async def token() -> str:
        await asyncio.sleep(0)
        return next(given)

    tools = tools_at(api, secured("token"), auth={"token": token}, headers={"X-Team": "blue-team"})
    await call(tools, "listPets")
    await call(tools, "listPets")
    assert [each["headers"]["authorization"] for each in api.requests] == ["Bearer first", "Bearer second"]
    assert api.last["headers"]["x-team"] == "blue-team"


IN_PLACE = [
    pytest.param("key", "x-api-key", "header", "mine", id="a header"),
    pytest.param("asked", "api_key", "query", "mine", id="a name in the query"),
    pytest.param("asked", "filter", "query", {"api_key": "mine"}, id="a name in a free object"),
    pytest.param("baked", "session", "cookie", "mine", id="a cookie"),
]


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(("scheme", "name", "place", "value"), IN_PLACE)
async def test_no_argument_takes_the_place_of_a_credential(
    api: Api, scheme: str, name: str, place: str, value: Any
) -> None:
    parameter = {"name": name, "in": place, "schema": {"type": "object"} if isinstance(value, dict) else {}}
    made = with_operation("/x", "get", {"operationId": "x", "parameters": [parameter], "security": [{scheme: []}]})
    await call(tools_at(api, made, auth={scheme: "s3cr3t"}), "x", {name: value})
    headers = api.last["headers"]
    sent = [headers.get("x-api-key"), api.last["query"], headers.get("cookie")]
    assert "mine" not in str(sent)
    assert "s3cr3t" in str(sent)


@pytest.mark.spec("020.3")
async def test_no_free_object_makes_another_verb_of_a_read(api: Api) -> None:
    parameter = {"name": "filter", "in": "query", "schema": {"type": "object"}}
    tools = tools_at(api, with_operation("/x", "get", {"operationId": "x", "parameters": [parameter]}))
    step = await call(tools, "x", {"filter": {"_Method": "DELETE"}})
    assert "'_Method' would make another verb of a read" in error_of(step).message
    assert api.requests == []


async def test_who_the_user_is_comes_from_the_context(api: Api) -> None:
    tools = tools_at(api, from_context={"petId": "my_pet"}, include=["showPet"])
    assert tools[0].input_schema["properties"] == {}
    await call(tools, "showPet", {"petId": "8"}, context={"my_pet": "7"})
    assert api.last["path"] == "/v1/pets/7"


# --- what is answered -----------------------------------------------------------------


def streamed(pieces: int, media_type: str) -> Response:
    return StreamingResponse((b"x" * 100_000 for _ in range(pieces)), media_type=media_type)


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("answer", "output"),
    [
        pytest.param(JSONResponse([1, {"a": None}]), [1, {"a": None}], id="JSON"),
        pytest.param(Response('{"a": 1}', media_type="application/hal+json"), {"a": 1}, id="a kind of JSON"),
        pytest.param(Response("{a", media_type="application/json"), "{a", id="what is no JSON"),
        pytest.param(
            Response(b'\xef\xbb\xbf{"a": 1}', media_type="application/json"), {"a": 1}, id="a byte order mark"
        ),
        pytest.param(PlainTextResponse("hello"), "hello", id="text"),
        pytest.param(Response(status_code=204), None, id="nothing"),
        pytest.param(Response(b"\x00" * 10, media_type="image/png"), {"type": "image/png", "bytes": 10}, id="an image"),
    ],
)
async def test_an_answer_is_data(api: Api, answer: Response, output: Any) -> None:
    api.answer = lambda _: answer
    step = await call(tools_at(api), "listPets")
    assert (step.status, step.output) == ("ok", output)


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(
            JSONResponse(PROBLEM, status_code=404, media_type="application/problem+json"),
            "404 Not Found: Not found; There is no pet 7.",
            id="a problem",
        ),
        pytest.param(JSONResponse({"error": {"code": 3}}, status_code=409), '409 Conflict: {"code":3}', id="another"),
        pytest.param(PlainTextResponse("no\u202e\nway", status_code=400), "400 Bad Request: no way", id="text"),
        pytest.param(
            Response("<html>", status_code=503, media_type="text/html", headers={"retry-after": "30"}),
            "503 Service Unavailable; try again after 30",
            id="a page",
        ),
        pytest.param(Response(status_code=300), "300 Multiple Choices", id="a choice"),
        pytest.param(Response(status_code=599), "599 ", id="a number that nobody knows"),
    ],
)
async def test_a_failure_is_data(api: Api, answer: Response, error: str) -> None:
    api.answer = lambda _: answer
    step = await call(tools_at(api), "listPets")
    assert (step.status, error_of(step).fault) == ("failed", "tool")
    assert error_of(step).message == f"listPets failed: {error}"


async def test_a_failure_is_cut(api: Api) -> None:
    api.answer = lambda _: JSONResponse({"detail": "long " * 100_000}, status_code=400)
    step = await call(tools_at(api), "listPets")
    assert len(error_of(step).message) < 700


@pytest.mark.parametrize(
    ("name", "arguments", "status", "told"),
    [
        pytest.param("listPets", {}, "failed", "has more than 1000000 bytes", id="of a read"),
        pytest.param("createPet", {"name": "Rex"}, "ok", "It was done.", id="of a change"),
    ],
)
async def test_a_huge_answer_is_not_read(
    api: Api, name: str, arguments: dict[str, Any], status: str, told: str
) -> None:
    api.answer = lambda _: streamed(200, "application/json")
    step = await call(tools_at(api), name, arguments)
    assert step.status == status
    assert told in f"{step.output} {step.error}"


async def test_an_answer_that_is_compressed_unasked_is_not_unpacked(api: Api) -> None:
    api.answer = lambda _: Response(b"\x1f\x8b" + b"0" * 50, headers={"content-encoding": "gzip"})
    step = await call(tools_at(api), "listPets")
    assert step.status == "failed"


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("answer", "name", "arguments", "unknown"),
    [
        pytest.param(Response(status_code=504), "createPet", {"name": "Rex"}, True, id="a proxy gave up on a change"),
        pytest.param(Response(status_code=504), "listPets", {}, False, id="a proxy gave up on a read"),
        pytest.param(
            Response(status_code=500), "createPet", {"name": "Rex"}, False, id="the server says that it failed"
        ),
    ],
)
async def test_what_may_have_been_done_is_unknown(
    api: Api, answer: Response, name: str, arguments: dict[str, Any], *, unknown: bool
) -> None:
    api.answer = lambda _: answer
    step = await call(tools_at(api), name, arguments)
    assert (step.status, error_of(step).unknown) == ("failed", unknown)


@pytest.mark.parametrize(("name", "unknown"), [("listPets", False), ("createPet", True)])
async def test_a_server_that_does_not_answer_is_not_waited_for(api: Api, name: str, *, unknown: bool) -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    api.answer = lambda _: StreamingResponse(never())
    tools = tools_at(api, timeout_s=0.2)
    step = await call(tools, name, {"name": "Rex"} if name == "createPet" else {})
    assert (step.status, error_of(step).unknown) == ("failed", unknown)
    assert "within 0.2 s" in error_of(step).message


async def test_a_server_that_is_not_there_was_not_asked() -> None:
    tools = tools_from_openapi(document())
    step = await call(tools, "createPet", {"name": "Rex"})
    assert (step.status, error_of(step).unknown) == ("failed", False)
    assert "its server cannot be reached" in error_of(step).message


# --- who is asked ---------------------------------------------------------------------


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("name", "target", "told"),
    [
        pytest.param(
            "listPets", "http://127.0.0.1:1/v1", "redirects to http://127.0.0.1:1/v1, another host", id="a port"
        ),
        pytest.param("listPets", "//localhost/x", "another host", id="another name of this machine"),
        pytest.param("listPets", "file:///etc/passwd", "another host", id="a file"),
        pytest.param("createPet", "/v1/other", "only reads follow that", id="a change"),
        pytest.param("listPets", "/v1/pets", "it redirects more than 5 times", id="a circle"),
    ],
)
async def test_a_redirect_leads_nowhere_else(api: Api, name: str, target: str, told: str) -> None:
    api.answer = lambda _: RedirectResponse(target)
    step = await call(tools_at(api, auth={"token": SECRET}), name, {"name": "Rex"} if name == "createPet" else {})
    assert (step.status, told in error_of(step).message) == ("failed", True), step.error


async def test_a_redirect_of_a_read_on_the_same_host_is_followed(api: Api) -> None:
    def answer(request: Request) -> Response:
        return (
            JSONResponse({"at": request.url.path}) if request.url.path == "/v2/pets" else RedirectResponse("/v2/pets")
        )

    api.answer = answer
    assert (await call(tools_at(api), "listPets")).output == {"at": "/v2/pets"}


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("servers", "path"),
    [
        pytest.param([{"url": "/api/v2"}], "/api/v2/pets", id="relative to the host"),
        pytest.param([{"url": "v3/"}], "/docs/v3/pets", id="relative to the document"),
        pytest.param([], "/pets", id="not named"),
        pytest.param(
            [{"url": "https://api.example.com"}, {"url": "/api"}], "/api/pets", id="the first on its own host"
        ),
        pytest.param([{"url": "/{v}", "variables": {"v": {"default": "v4"}}}], "/v4/pets", id="with a variable"),
    ],
)
async def test_a_document_that_was_fetched_names_its_own_host(api: Api, servers: list[Any], path: str) -> None:
    api.documents["/docs/openapi.json"] = document(servers=servers)
    tools = await asyncio.to_thread(tools_from_openapi, f"{api.url}/docs/openapi.json")
    assert (await call(tools, "listPets")).status == "ok"
    assert api.last["path"] == path
    assert tools[0].title == "List pets"  # and not its summary: a stranger does not word what users agree to


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param(document(), "names a server on another host, http://localhost:1/v1", id="another host"),
        pytest.param(
            document(servers=[{"url": "http://127.0.0.1:1/v1"}]),
            "names a server on another one, http://127.0.0.1:1/v1",
            id="another port",
        ),
        pytest.param(
            lambda: RedirectResponse("http://localhost:1/x?k=1"),
            "it redirects to http://localhost:1/x, another host",
            id="a redirect",
        ),
        pytest.param(lambda: RedirectResponse("/openapi.json"), "redirects more than 5 times", id="a circle"),
        pytest.param(lambda: Response(status_code=403), "the server answered 403", id="refused"),
        pytest.param(lambda: Response(b"\xff\xfe{"), "not UTF-8", id="no text"),
        pytest.param(lambda: streamed(200, "application/json"), "larger than 16 MiB", id="huge"),
        pytest.param(lambda: Response("<html>", media_type="text/html"), "one mapping", id="a page"),
    ],
)
async def test_a_document_that_cannot_be_fetched_is_refused(api: Api, found: Any, problem: str) -> None:
    api.documents["/openapi.json"] = found
    with pytest.raises(ToolError, match=problem) as refused:
        await asyncio.to_thread(tools_from_openapi, f"{api.url}/openapi.json?token={SECRET}")
    assert SECRET not in str(refused.value)


async def test_the_program_may_name_another_host(api: Api) -> None:
    api.documents["/openapi.json"] = document()
    fetched = await asyncio.to_thread(tools_from_openapi, f"{api.url}/openapi.json", servers=[f"{api.url}/v9/"])
    await call(fetched, "listPets")
    assert api.last["path"] == "/v9/pets"


# --- in an agent ----------------------------------------------------------------------


@pytest.mark.spec("020.3")
async def test_an_agent_reads_at_once_and_asks_before_it_changes_something(api: Api) -> None:
    made = secured("token")
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="rehome", tools=["delete_pets_petId"], chain=("delete_pets_petId",), registry=registry)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    selector = FlowSelector(None, registry, memory, "desk", policy=Policy(max_error=1))
    agent = Agent(selector, tools_at(api, made))
    context = {"token": SECRET, "petId": "7"}
    begun = await agent.turn("rehome it", context=context)
    first = await agent.turn("yes", begun.conversation, context=context)
    assert (first.status, api.requests) == ("confirming", [])
    assert SECRET not in first.text + repr(first.trace) + first.conversation.to_json()
    second = await agent.turn("yes", first.conversation, context={**context, "token": "renewed"})
    assert (second.status, api.last["verb"], api.last["path"]) == ("done", "DELETE", "/v1/pets/7")
    assert api.last["headers"]["authorization"] == "Bearer renewed"  # a token that is renewed is the same call


async def test_an_executor_hands_on_what_an_api_answers(api: Api) -> None:
    api.answer = lambda _: JSONResponse({"petId": "7"})
    tools = tools_at(api, secured("key"))
    run = await FlowExecutor(tools).run(["createPet", "showPet"], {"name": "Rex"}, context={"key": SECRET})
    assert (run.status, api.last["path"]) == ("ok", "/v1/pets/7")
    assert SECRET not in json.dumps([record.arguments for record in run.records])
