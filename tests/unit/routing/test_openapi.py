"""Tools from OpenAPI documents: what becomes of an operation, and what is refused of a document that means harm."""

import json
import re
import traceback
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.errors import ConfigError, ToolError
from jazz_select.routing import Tool, load_tools, tool_schemas, tools_from_openapi
from jazz_select.routing.tools.sources import ListedTools
from tests.unit.routing.openapi_pets import document, secured, with_operation

VERSIONS = ("3.0.3", "3.1.0")
HERE = "http://localhost:1/v1"


def named(tools: ListedTools) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def one(operation: dict[str, Any], path: str = "/x", verb: str = "get", **changes: Any) -> Tool:
    """The tool of one more operation."""
    made = with_operation(path, verb, {"operationId": "extra", **operation}, **changes)
    return named(tools_from_openapi(made))["extra"]


@pytest.mark.spec("020.3")
@pytest.mark.parametrize("version", VERSIONS)
def test_each_operation_is_a_tool(version: str) -> None:
    tools = named(tools_from_openapi(document(version)))
    assert list(tools) == ["listPets", "createPet", "showPet", "replacePet", "delete_pets_petId"]
    listing, creating = tools["listPets"], tools["createPet"]
    assert (listing.description, listing.operation) == ("List the pets", "GET /pets")
    assert (listing.provider_title, listing.group) == ("Pet Shop", "pets")
    assert list(listing.input_schema["properties"]) == ["limit", "tag", "X-Trace", "shop"]
    assert creating.input_schema["required"] == ["name"]
    assert set(creating.input_schema["properties"]) == {"name", "parent", "friends", "nickname"}
    assert "body" in tools["replacePet"].input_schema["properties"]


@pytest.mark.spec("020.3")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_schema_is_whole_and_recursive_ones_stay_finite(version: str) -> None:
    creating = named(tools_from_openapi(document(version)))["createPet"]
    schema = creating.input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    check: Any = jsonschema.Draft202012Validator(schema)
    family = {"name": "Rex", "nickname": None, "parent": {"name": "Ida", "friends": [{"name": "Bo"}]}}
    assert check.is_valid(family)
    assert not check.is_valid({"name": "Rex", "parent": {"name": 5}})
    assert not check.is_valid({"name": "Rex", "id": 5})  # the server gives it
    assert "components" not in json.dumps(schema)
    assert len(json.dumps(schema)) < 2_000


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(
    ("verb", "operation", "options", "destructive"),
    [
        pytest.param("get", {}, {}, False, id="GET reads"),
        pytest.param("head", {}, {}, False, id="HEAD reads"),
        pytest.param("post", {}, {}, True, id="POST asks"),
        pytest.param("patch", {}, {}, True, id="PATCH asks"),
        pytest.param("post", {}, {"read_only": "extra"}, False, id="a POST that is said to read"),
        pytest.param("post", {}, {"read_only": ["POST /x"]}, False, id="named by verb and path"),
        pytest.param("get", {}, {"changes": ["extra"]}, True, id="a GET that is said to change"),
        pytest.param(
            "get",
            {"parameters": [{"name": "X-HTTP-Method-Override", "in": "header", "schema": {"type": "string"}}]},
            {},
            True,
            id="a GET that can be made another verb",
        ),
    ],
)
def test_what_may_change_something_asks(
    verb: str, operation: dict[str, Any], options: dict[str, Any], *, destructive: bool
) -> None:
    made = with_operation("/x", verb, {"operationId": "extra", **operation})
    tool = named(tools_from_openapi(made, **options))["extra"]
    assert (tool.destructive, tool.read_only) == (destructive, not destructive)


@pytest.mark.parametrize(
    ("operation_id", "name"),
    [
        pytest.param("repos/list files", "repos_list_files", id="characters that models do not take"),
        pytest.param("", "get_x_by_part", id="verb and path"),
        pytest.param("…", "get_x_by_part", id="nothing is left of it"),
        pytest.param("x" * 80, f"{'x' * 57}_", id="too long"),
        pytest.param("listPets", "get_x_by_part", id="taken by another"),
    ],
)
def test_a_name_is_one_that_models_take(operation_id: str, name: str) -> None:
    made = with_operation("/x/by-part", "get", {"operationId": operation_id})
    made["paths"]["/x/by_part"] = made["paths"].pop("/x/by-part")
    tools = tools_from_openapi(made)
    assert len({tool.name for tool in tools}) == len(tools) == 6
    assert tools[-1].name.startswith(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tools[-1].name)


@given(st.lists(st.text(max_size=90), min_size=1, max_size=6))
def test_names_are_unique_whatever_ids_there_are(ids: list[str]) -> None:
    paths = {
        f"/p{number}": {"get": {"operationId": each, "responses": {"200": {"description": ""}}}}
        for number, each in enumerate(ids)
    }
    try:
        tools = tools_from_openapi(document(paths=paths))
    except ToolError as error:
        assert "cannot be seen" in str(error)  # noqa: PT017 - either all of them are refused, or the others are tools
        return
    names = [tool.name for tool in tools]
    assert len(set(names)) == len(names) == len(ids) - len(tools.left_out)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


@pytest.mark.parametrize(
    ("parameters", "inputs"),
    [
        pytest.param([("filter[state]", "query")], ["filter_state"], id="odd characters"),
        pytest.param(
            [("call_id", "query"), ("secrets", "query")],
            ["call_id_query", "secrets_query"],
            id="names that a function gets something else by",
        ),
        pytest.param([("id", "query"), ("id", "header")], ["id", "id_header"], id="one name in two places"),
        pytest.param([("Accept", "header")], [], id="headers that are no parameters"),
    ],
)
def test_inputs_have_names_that_models_take(parameters: list[tuple[str, str]], inputs: list[str]) -> None:
    listed = [{"name": name, "in": place, "schema": {"type": "string"}} for name, place in parameters]
    assert list(one({"parameters": listed}).input_schema["properties"]) == inputs


@pytest.mark.parametrize(
    ("schema", "inputs"),
    [
        pytest.param(
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}, ["id", "a", "b"], id="plain"
        ),
        pytest.param(
            {"type": "object", "properties": {"id": {}}}, ["id", "body"], id="a field is called as a parameter"
        ),
        pytest.param({"oneOf": [{"type": "object"}, {"type": "array"}]}, ["id", "body"], id="one of several"),
        pytest.param({"type": "object", "properties": {"a b": {}}}, ["id", "body"], id="a field with a blank"),
        pytest.param({"type": "object", "additionalProperties": {"type": "string"}}, ["id", "body"], id="any names"),
        pytest.param({"type": "array", "items": {}}, ["id", "body"], id="a list"),
    ],
)
def test_a_body_is_one_schema_with_the_parameters(schema: dict[str, Any], inputs: list[str]) -> None:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    parameter = {"name": "id", "in": "query", "schema": {"type": "string"}}
    tool = one({"parameters": [parameter], "requestBody": body}, verb="post")
    assert list(tool.input_schema["properties"]) == inputs
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)


@pytest.mark.parametrize(
    ("given_schema", "read"),
    [
        pytest.param({"type": "string", "nullable": True}, {"type": ["string", "null"]}, id="null"),
        pytest.param(
            {"type": "string", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
            id="enum",
        ),
        pytest.param({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}, id="above"),
        pytest.param({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}, id="at most"),
        pytest.param(
            {"nullable": True, "allOf": [{"type": "string"}]},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
            id="any",
        ),
        pytest.param(
            {"type": "string", "example": "x", "x-go": 1, "xml": {}}, {"type": "string"}, id="said of nothing"
        ),
    ],
)
def test_a_schema_of_3_0_is_said_in_the_words_of_today(given_schema: dict[str, Any], read: dict[str, Any]) -> None:
    parameter = {"name": "p", "in": "query", "schema": given_schema}
    assert one({"parameters": [parameter]}, version="3.0.3").input_schema["properties"]["p"] == read


# --- what is refused ------------------------------------------------------------------


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"a": found}}
    return found


def fan_out(levels: int) -> dict[str, Any]:
    """Schemas of which each refers to the next one twice: written out, the last is there a million times."""
    return {
        f"S{number}": {"type": "object", "properties": {
            side: {"$ref": f"#/components/schemas/S{number + 1}"} for side in ("left", "right")}}
        for number in range(levels)
    } | {f"S{levels}": {"type": "string"}}  # fmt: skip


def query(schema: Any) -> dict[str, Any]:
    return {"parameters": [{"name": "p", "in": "query", "schema": schema}]}


def header(name: str) -> dict[str, Any]:
    return {"parameters": [{"name": name, "in": "header", "schema": {}}]}


ALIASES = "a: &a [x]\n" + "".join(f"k{number}: [*a, *a]\n" for number in range(60_000))
HOSTILE: list[Any] = [
    pytest.param("/../admin", {}, "leads to another one", id="a path that climbs"),
    pytest.param("/a/%2e%2E/b", {}, "leads to another one", id="a path that climbs in disguise"),
    pytest.param("/a/%2Fb", {}, "hides a slash", id="a slash in disguise"),
    pytest.param("//evil.example/x", {}, "an empty one", id="a path that may be a host"),
    pytest.param("/x?admin=1", {}, "without a query", id="a path with a query"),
    pytest.param("/x\u200b", {}, "characters that are not written there", id="a path with what cannot be seen"),
    pytest.param("@evil.example/x", {}, "one of a URL", id="a path that makes the host a user"),
    pytest.param("/x", {"operationId": "get\u200bX"}, "cannot be seen", id="a name with what cannot be seen"),
    pytest.param("/x", query({"$ref": "https://evil.example/s.json#/a"}), "leads outside", id="another host"),
    pytest.param("/x", query({"$ref": "file:///etc/passwd"}), "leads outside", id="a file"),
    pytest.param("/x", query({"$ref": "../../secret.yaml#/a"}), "leads outside", id="a file beside it"),
    pytest.param("/x", query({"$ref": "#/components/schemas/None"}), "names nothing", id="leads nowhere"),
    pytest.param("/x", query({"$ref": "#/components/schemas/Loop"}), "in a circle", id="a circle of references"),
    pytest.param("/x", query({"$ref": ["a"]}), "must be a text", id="a reference that is none"),
    pytest.param("/x", query({"$dynamicRef": "#a"}), "not followed", id="a reference that depends"),
    pytest.param("/x", query(deep(200)), "nested at most 60 levels", id="deep"),
    pytest.param("/x", query({"anyOf": [{}] * 30_000}), "at most 20000 parts", id="wide"),
    pytest.param("/x", query({"type": 5}), "its schema: ", id="no schema"),
    pytest.param("/x", query({"properties": {"a\u202eb": {}}}), "cannot be seen", id="a field turned round"),
    pytest.param("/x", header("Host"), "none that may be set", id="the host"),
    pytest.param("/x", header("a\r\nb"), "none that may be set", id="two headers"),
    pytest.param("/x", {"parameters": [{"in": "query"}]}, "no valid OpenAPI: name", id="a parameter without a name"),
    pytest.param("/x", {"parameters": {}}, "must be a list", id="parameters that are none"),
    pytest.param("/x/{id}", {}, "do not agree about 'id'", id="a place in the path that nothing fills"),
    pytest.param("/x", {"servers": [{"url": "https://evil.example"}]}, "on another host", id="another server"),
    pytest.param("/x", {"tags": "pets"}, "no valid OpenAPI: tags", id="tags that are none"),
]  # fmt: skip


@pytest.mark.spec("020.3")
@pytest.mark.parametrize(("path", "operation", "problem"), HOSTILE)
def test_a_hostile_operation_is_left_out_by_name_and_the_others_stay(
    path: str, operation: dict[str, Any], problem: str
) -> None:
    made = with_operation(path, "get", operation)
    made["components"]["schemas"]["Loop"] = {"$ref": "#/components/schemas/Loop"}
    tools = tools_from_openapi(made)
    (left_out,) = tools.left_out
    assert problem in str(left_out)
    assert left_out.tool.isprintable()
    assert len(tools) == 5


@pytest.mark.spec("020.3")
def test_references_that_fan_out_are_not_written_out() -> None:
    made = with_operation("/x", "get", {"operationId": "extra", **query({"$ref": "#/components/schemas/S0"})})
    made["components"]["schemas"] |= fan_out(40)
    tool = named(tools_from_openapi(made))["extra"]
    assert len(json.dumps(tool.input_schema)) < 10_000


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param({"swagger": "2.0", "paths": {}}, "must be OpenAPI 3.0 or 3.1, got '2.0'", id="another version"),
        pytest.param({"openapi": "3.1.0"}, "no paths:", id="no paths"),
        pytest.param({"openapi": "3.1.0", "paths": {}}, "no operations", id="no operations"),
        pytest.param(document(servers=[{"url": "/v1"}]), "servers=", id="a server that is relative to nothing"),
        pytest.param(
            document(servers=[{"url": "http://api.example.com"}]), "without https", id="a server without https"
        ),
        pytest.param(
            document(servers=[{"url": "https://u:p@api.example.com"}]), "without user", id="a user in a server"
        ),
        pytest.param(document(servers=[{"url": "ftp://api.example.com"}]), "base URL", id="another protocol"),
        pytest.param(
            document(servers=[{"url": "https://{h}.example.com"}]), "variable 'h'", id="a variable of nothing"
        ),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_by_name(source: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolError, match=re.escape(problem)) as refused:
        tools_from_openapi(source)
    assert "u:p" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("a.yaml", ALIASES, "more than 100000", id="aliases"),
        pytest.param("a.json", "[" * 100_000, "nested too deeply", id="deep"),
        pytest.param("a.json", '{"openapi": "3.1.0", "openapi": "3.0.0"}', "stands twice", id="a key twice"),
        pytest.param("a.yaml", "openapi: 3.1.0\n---\nopenapi: 3.1.0\n", "one mapping", id="two documents"),
        pytest.param("a.json", "[1]", "one mapping", id="a list"),
        pytest.param("gone.json", None, "No such file", id="no file"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, name: str, text: str | None, problem: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ToolError, match=problem):
        tools_from_openapi(file)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b" " * ((16 << 20) + 1))
    with pytest.raises(ToolError, match="larger than 16 MiB"):
        tools_from_openapi(file)


def test_a_description_is_data_without_what_cannot_be_seen() -> None:
    tool = one({"summary": "Find\u200b it", "description": "Now\u202e obey.\x00"})
    assert tool.description == "Find it. Now obey."


@pytest.mark.parametrize(
    ("operation", "title"),
    [
        pytest.param({"summary": "Look at it"}, "Look at it", id="the summary of a file"),
        pytest.param({}, "Extra", id="no summary"),
        pytest.param({"operationId": "deleteAllPets"}, "Delete all pets", id="a name in words"),
    ],
)
def test_users_are_asked_in_words(operation: dict[str, Any], title: str) -> None:
    made = with_operation("/x", "delete", {"operationId": "extra", **operation})
    assert tools_from_openapi(made)[-1].display_name == title


# --- what is chosen, and by whom ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        pytest.param({"include": ["listPets", "GET /pets/{petId}"]}, ["listPets", "showPet"], id="some"),
        pytest.param({"include": "#pets"}, ["listPets", "createPet"], id="a tag"),
        pytest.param({"exclude": ["#pets", "delete_pets_petId"]}, ["showPet", "replacePet"], id="without some"),
        pytest.param({"include": ["showPet"], "prefix": "shop_"}, ["shop_showPet"], id="with a prefix"),
    ],
)
def test_operations_are_chosen_by_name(options: dict[str, Any], names: list[str]) -> None:
    assert [tool.name for tool in tools_from_openapi(document(), **options)] == names


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(
            {"include": ["listPet"]}, "'listPet', which is no operation.*did you mean.*listPets", id="a name misspelt"
        ),
        pytest.param({"read_only": ["createPet"], "changes": ["createPet"]}, "both name 'createPet'", id="both"),
        pytest.param({"auth": {"tokn": "abc"}}, "'tokn', which is no security scheme", id="a scheme that is not there"),
        pytest.param({"headers": {"X": "a\nb"}}, "headers: 'X' cannot be sent", id="a header of two lines"),
        pytest.param({"servers": "api.example.com"}, "servers: a base URL", id="a server without a scheme"),
        pytest.param({"timeout_s": 0}, "timeout_s", id="no time"),
    ],
)
def test_an_option_that_cannot_work_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        tools_from_openapi(document(), **options)


@pytest.mark.spec("020.3")
def test_no_model_is_shown_a_secret_or_asked_for_one() -> None:
    made = secured("token")
    tools = tools_from_openapi(made, auth={"token": "abcdef-secret"}, headers={"X-Other": "other-secret"})
    said = json.dumps(tool_schemas(tools)) + repr(tools) + repr([tool.function for tool in tools])
    assert "secret" not in said.replace("secrets=", "")
    assert "token" not in json.dumps(tool_schemas(tools_from_openapi(made)))


# --- from a file ----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["api.json", "api.yaml"])
def test_a_file_of_tools_may_be_an_openapi_document(tmp_path: Path, name: str, version: str) -> None:
    made = document(version)
    file = tmp_path / name
    file.write_text(json.dumps(made) if name.endswith("json") else yaml.safe_dump(made), encoding="utf-8")
    tools = load_tools(file)
    assert list(tools) == [tool.name for tool in tools_from_openapi(made)]
    assert tools["createPet"].destructive


def test_yaml_reads_status_codes_as_numbers_and_dates_as_dates(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(
        f"openapi: 3.0.0\nservers: [{{url: '{HERE}'}}]\npaths:\n  /x:\n    get:\n      operationId: x\n"
        "      parameters: [{name: d, in: query, schema: {type: string, enum: [2020-01-01]}}]\n"
        "      responses: {200: {description: ok, content: {application/json: {schema: {type: object}}}}}\n",
        encoding="utf-8",
    )
    (tool,) = tools_from_openapi(file)
    assert tool.output_schema == {"type": "object"}
    assert tool.input_schema["properties"]["d"]["enum"] == ["2020-01-01"]


@pytest.mark.spec("020.3")
def test_a_file_may_list_apis_with_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_TOKEN", "t0ken-of-pets")
    (tmp_path / "pets.json").write_text(json.dumps(secured("token")), encoding="utf-8")
    file = tmp_path / "tools.yaml"
    file.write_text(
        "tools:\n"
        "  - openapi: pets.json\n    include: [listPets, createPet]\n    read_only: createPet\n    prefix: a_\n"
        "    auth: {token: '${PET_TOKEN}'}\n"
        "  - {openapi: pets.json, include: '#pets', provider: others}\n",
        encoding="utf-8",
    )
    tools = load_tools(file)
    assert list(tools) == ["a_listPets", "a_createPet", "listPets", "createPet"]
    assert (tools["a_createPet"].destructive, tools["createPet"].destructive) == (False, True)
    assert tools["listPets"].provider == "others"
    assert "t0ken" not in repr(tools)


@pytest.mark.parametrize("option", ["servers: '${A_SECRET}'", "headers: {X-Key: '${A_SECRET}'}"], ids=["url", "header"])
def test_the_error_of_an_api_names_its_variable_and_not_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2\n")
    (tmp_path / "pets.json").write_text(json.dumps(document()), encoding="utf-8")
    file = tmp_path / "tools.yaml"
    file.write_text(f"tools:\n  - {{openapi: pets.json, {option}}}\n", encoding="utf-8")
    with pytest.raises(ToolError) as raised:
        load_tools(file)
    shown = "".join(traceback.format_exception(raised.value))
    assert "hunter2" not in shown
    assert ("A_SECRET" if "servers" in option else "X-Key") in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        pytest.param("{openapi: pets.json, includes: [x]}", "includes", id="an option misspelt"),
        pytest.param("{openapi: pets.json, auth: {token: '${NO_SUCH}'}}", "no variable NO_SUCH", id="no variable"),
        pytest.param("{openapi: gone.json}", "No such file", id="no document"),
        pytest.param("{openapi: pets.json, include: [gone]}", "'gone', which is no operation", id="no operation"),
        pytest.param("{openapi: 5}", "openapi", id="a number"),
        pytest.param("{openapi: pets.json}\n  - {name: other}", "must name nothing else", id="another tool beside it"),
    ],
)
def test_a_list_of_apis_that_cannot_be_used_is_refused(tmp_path: Path, entry: str, problem: str) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(document()), encoding="utf-8")
    file = tmp_path / "tools.yaml"
    file.write_text(f"tools:\n  - {entry}\n", encoding="utf-8")
    with pytest.raises(ToolError, match=problem):
        load_tools(file)
