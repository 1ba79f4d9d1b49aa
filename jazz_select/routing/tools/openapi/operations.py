"""The operations of an OpenAPI document: a name that models take, one schema, and how each input is sent."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal, cast

from jazz_select.errors import ToolError
from jazz_select.json_values import is_array, is_object
from jazz_select.routing.schemas.fields import mapping
from jazz_select.routing.schemas.validity import schema_problem
from jazz_select.routing.tools.openapi.document import ApiDocument, is_seen, seen_text
from jazz_select.routing.tools.openapi.schemas import SchemaReader
from jazz_select.routing.tools.tool import CALL_ID, SECRETS
from jazz_select.text import beginning, cut, describe_error

Place = Literal["path", "query", "header", "cookie"]
LONGEST_NAME: Final = 64
"""Characters of a name that every provider of models takes."""
READING_VERBS: Final = frozenset(("get", "head"))
_VERBS: Final = ("get", "head", "post", "put", "patch", "delete")
"""Of the others, TRACE and OPTIONS are about the connection and not about what is on it."""
_BODIES: Final = frozenset(("post", "put", "patch", "delete", "get"))
_DIGITS: Final = 6
_LONGEST_DESCRIPTION, _LONGEST_TITLE, _LONGEST_GROUP = 20_000, 120, 200
_LONGEST_INPUT_DESCRIPTION: Final = 1_000
_LARGEST_SCHEMA: Final = 500_000
_MOST_OPERATIONS: Final = 10_000
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_INPUT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PATH: Final = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{[^{}/]+\})*)+")
_IN_PATH: Final = re.compile(r"\{([^{}/]+)\}")
_DOTS: Final = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_IGNORED_HEADERS: Final = frozenset(("accept", "content-type", "authorization"))
"""Headers that OpenAPI says are not parameters: they follow from bodies and security."""
_KEPT_HEADERS: Final = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "cookie"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "accept-encoding", "content-encoding"),
    )
)
"""Headers that say how a request is sent, which nobody but the client may."""
METHOD_OVERRIDES: Final = frozenset(("x-http-method", "x-http-method-override", "x-method-override", "_method"))
"""By these a GET becomes something else at some servers."""
_IDEMPOTENCY: Final = frozenset(("idempotency-key", "x-idempotency-key"))
_STYLES: Final[Mapping[Place, frozenset[str]]] = {
    "path": frozenset(("simple",)),
    "query": frozenset(("form", "spaceDelimited", "pipeDelimited", "deepObject")),
    "header": frozenset(("simple",)),
    "cookie": frozenset(("form",)),
}
_WORKED: Final = ("200", "201", "202", "203", "2XX", "2xx", "default")
"""Statuses of an answer that a call worked, the most telling first."""
_FORM: Final = "application/x-www-form-urlencoded"
_COMPOSED: Final = frozenset(
    (
        *("$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
    )
)
"""With one of these a body says more than which fields it has, so it stays whole."""
_RESERVED: Final = frozenset((CALL_ID, SECRETS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParameter:
    """One input that is sent outside of the body.

    Attributes:
        key: The input's name.
        name: Its name in the request.
        place: Where it is sent.
        required: Whether it must be given.
        style: How a list or an object is written, as OpenAPI calls it.
        explode: Whether each part of a list or an object is written by itself.
        as_json: Whether it is written as JSON.
    """

    key: str
    name: str
    place: Place
    required: bool = False
    style: str = "simple"
    explode: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiBody:
    """What is sent as the body.

    Attributes:
        media_type: Its type.
        key: The input that is the whole body, where `fields` is empty.
        fields: The inputs that are the fields of the body.
    """

    media_type: str
    key: str = ""
    fields: tuple[str, ...] = ()

    @property
    def is_form(self) -> bool:
        """Whether it is sent as a form, and not as JSON."""
        return self.media_type == _FORM


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """One operation.

    Attributes:
        name: Its name for models.
        own_name: Its `operationId`; empty if it has none.
        verb: Its verb, in lower case.
        path: Its path, with names in braces.
        title: Its summary.
        description: What it does.
        group: Its tags.
        parameters: The inputs that are sent outside of the body.
        body: How the body is made of the other inputs; None without one.
        input_schema: JSON Schema of all inputs.
        output_schema: JSON Schema of what it answers; None if unknown.
        security: Alternatives of schemes that are sent together; empty if nothing is asked for.
        servers: Its own servers, if it has any.
        call_id_header: The header that gets the id of the call, so that one made twice is done once.
        is_read: Whether it only reads, by its verb.
    """

    name: str
    own_name: str
    verb: str
    path: str
    title: str
    description: str
    group: str
    parameters: tuple[ApiParameter, ...]
    body: ApiBody | None
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    security: tuple[tuple[str, ...], ...]
    servers: tuple[Mapping[str, Any], ...]
    call_id_header: str
    is_read: bool

    @property
    def names(self) -> frozenset[str]:
        """All names that a program may know it by."""
        names = {self.name, f"{self.verb.upper()} {self.path}"}
        if self.own_name:
            names.add(self.own_name)
        return frozenset(names)


def read_operations(document: ApiDocument) -> tuple[list[ApiOperation], list[ToolError]]:
    """Return the operations that can be called, and the others, each with what is wrong with it.

    Raises:
        ToolError: There are more than 10,000.
    """
    listed = list(_list_operations(document))
    if len(listed) > _MOST_OPERATIONS:
        problem = f"it must have at most {_MOST_OPERATIONS} operations, got more; take what is needed into a document"
        raise ToolError(document.name, problem)
    found: dict[str, ApiOperation] = {}
    left_out: list[ToolError] = []
    for path, verb, item, own in listed:
        place = f"{verb.upper()} {seen_text(path)}"
        try:
            operation = _operation(document, path, verb, item, own)
        except ValueError as error:
            left_out.append(ToolError(beginning(place, LONGEST_NAME * 2), str(error)))
        except RecursionError:
            left_out.append(ToolError(beginning(place, LONGEST_NAME * 2), "it is nested too deeply"))
        else:
            operation = _with_free_name(operation, found)
            found[operation.name] = operation
    return list(found.values()), left_out


def _list_operations(document: ApiDocument) -> Iterator[tuple[str, str, Mapping[str, Any], object]]:
    for path, given in cast("Mapping[str, object]", document.content["paths"]).items():
        if path.startswith("x-"):
            continue
        try:
            item = document.resolve(given)
        except ValueError as error:
            yield path, "get", {}, str(error)
            continue
        if not is_object(item):
            continue
        for verb in _VERBS:
            if verb in item:
                yield path, verb, item, item[verb]


def _operation(document: ApiDocument, path: str, verb: str, item: Mapping[str, Any], given: object) -> ApiOperation:
    if isinstance(given, str):
        raise ValueError(given)  # noqa: TRY004 - what was wrong with its path
    if not is_object(given):
        raise ValueError("an operation must be a mapping")
    _check_path(path)
    models = models_of(document.version)
    parsed = _validate(models.Operation, {**given, **_READ_ELSEWHERE})
    for text in (parsed.operationId or "", *(parsed.tags or ())):
        if not is_seen(text):
            raise ValueError(f"its operationId or tag has characters that cannot be seen: {text!a:.80}")
    reader = SchemaReader(document, hidden="readOnly")
    inputs = _Inputs(reader)
    call_id_header, is_override = _read_parameters(document, inputs, path, item, given)
    body = _read_body(document, inputs, given.get("requestBody"), verb)
    schema = reader.whole(inputs.schema())
    if len(str(schema)) > _LARGEST_SCHEMA:
        raise ValueError(f"its schema has more than {_LARGEST_SCHEMA} characters")
    problem = schema_problem(schema)
    if problem:
        raise ValueError(f"its schema: {problem}")
    summary = " ".join(seen_text(parsed.summary or "").split())
    return ApiOperation(
        name=operation_name(parsed.operationId or "", verb, path),
        own_name=parsed.operationId or "",
        verb=verb,
        path=path,
        title=beginning(summary, _LONGEST_TITLE),
        description=_description(summary, seen_text(parsed.description or ""), deprecated=parsed.deprecated),
        group=beginning(", ".join(parsed.tags or ()), _LONGEST_GROUP),
        parameters=tuple(inputs.parameters),
        body=body,
        input_schema=schema,
        output_schema=_output_schema(document, given.get("responses")),
        security=_security(given.get("security", document.content.get("security"))),
        servers=tuple(given.get("servers") or item.get("servers") or ()),
        call_id_header=call_id_header,
        is_read=verb in READING_VERBS and not is_override,
    )


_READ_ELSEWHERE: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("parameters", "requestBody", "callbacks", "externalDocs", "servers", "security")),
    "responses": dict[str, Any](),
}
"""What of an operation is read piece by piece, or not at all: a fault in it costs that piece."""


def models_of(version: str) -> Any:
    """Return the models of openapi-pydantic for a version.

    Raises:
        MissingExtraError: The package is not installed.
    """
    from importlib import import_module

    from jazz_select.errors import MissingExtraError

    try:
        return import_module(f"openapi_pydantic.v3.v{version.replace('.', '_')}")
    except ImportError as error:
        raise MissingExtraError("openapi_pydantic", extra="openapi", purpose="tools_from_openapi") from error


def operation_name(own: str, verb: str, path: str) -> str:
    """Return a name that models take: of an `operationId`, else of verb and path; at most 64 characters."""
    whole = own if _plain(own) else f"{verb} {path}"
    plain = _plain(whole)
    if len(plain) <= LONGEST_NAME:
        return plain
    return _shorten_name(plain, whole)


def _plain(name: str) -> str:
    return _UNFIT.sub("_", name).strip("_-")


def _shorten_name(plain: str, whole: str) -> str:
    """Return the beginning of a name, and digits that tell it from others that begin alike."""
    digits = sha256(whole.encode(errors="replace")).hexdigest()[:_DIGITS]
    return f"{plain[: LONGEST_NAME - _DIGITS - 1]}_{digits}"


def _with_free_name(operation: ApiOperation, taken: Mapping[str, object]) -> ApiOperation:
    """Return an operation whose name no earlier one has; it stays the same however the document is ordered after it."""
    if operation.name not in taken:
        return operation
    name = operation_name("", operation.verb, operation.path)
    if name in taken:
        name = _shorten_name(name, f"{operation.verb} {operation.path}")
    return replace(operation, name=name)


def _check_path(path: str) -> None:
    if not _PATH.fullmatch(path):
        problem = "its path must be one of a URL, without a query, a host or characters that are not written there"
        raise ValueError(problem)
    segments = path.split("/")[1:]
    # A client or a proxy resolves these, and another operation would be called than the one that was agreed to.
    if any(_DOTS.fullmatch(segment) for segment in segments) or "" in segments[:-1]:
        raise ValueError("its path leads to another one: it has a segment '.', '..' or an empty one")
    if re.search(r"%(?:2f|5c|00)", path, re.IGNORECASE):
        raise ValueError("its path hides a slash or an end in its encoding")


def _validate(model: Any, given: Mapping[str, Any]) -> Any:
    """Return a part of a document as a model of the parser; what is wrong with it is a ValueError in one line."""
    try:
        return model.model_validate(dict(given))
    except ValueError as error:
        raise ValueError(f"it is no valid OpenAPI: {_first_problem(error)}") from error


def _first_problem(error: ValueError) -> str:
    listed = getattr(error, "errors", None)
    if listed is None:
        return describe_error(error)
    first: Any = listed(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _description(summary: str, description: str, *, deprecated: bool) -> str:
    text = description.strip()
    if summary and not text.startswith(summary):
        text = f"{summary.rstrip('.')}. {text}" if text else summary
    if deprecated:
        text = f"Deprecated. {text}".strip()
    return cut(text, _LONGEST_DESCRIPTION)


# --- inputs ---------------------------------------------------------------------------


class _Inputs:
    """The inputs of one operation: their schemas by name, and how those outside of the body are sent."""

    def __init__(self, reader: SchemaReader) -> None:
        self.reader = reader
        self.parameters: list[ApiParameter] = []
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []

    def free_name(self, name: str, place: str) -> str:
        """Return the name of an input that providers of models take, and no other input has."""
        plain = _UNFIT.sub("_", name).strip("_")[: LONGEST_NAME - len(place) - 1] or place
        if plain not in self.properties and plain not in _RESERVED:
            return plain
        number, found = 1, f"{plain}_{place}"
        while found in self.properties or found in _RESERVED:
            number += 1
            found = f"{plain}_{place}{number}"
        return found

    def add(self, key: str, schema: Any, *, description: str, required: bool) -> None:
        """Add an input."""
        about = cut(seen_text(description), _LONGEST_INPUT_DESCRIPTION)
        if about and schema is not False and "description" not in mapping(schema):
            schema = {**mapping(schema), "description": about}
        self.properties[key] = schema
        if required:
            self.required.append(key)

    def schema(self) -> dict[str, Any]:
        """Return the schema of all inputs."""
        required = {"required": self.required} if self.required else {}
        return {"type": "object", "properties": self.properties, **required, "additionalProperties": False}


def _read_parameters(
    document: ApiDocument, inputs: _Inputs, path: str, item: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[str, bool]:
    """Add the parameters. Return the header that takes the call's id, and whether one may change the verb."""
    models = models_of(document.version)
    found: dict[tuple[str, str], tuple[Any, Mapping[str, Any]]] = {}
    for given in (*_list_of(item, "parameters"), *_list_of(own, "parameters")):
        raw = document.resolve(given)
        if not is_object(raw):
            raise ValueError("a parameter must be a mapping")
        without_schema = {**raw, "schema": None, "content": None, "examples": None, "example": None}
        parsed = _validate(models.Parameter, without_schema)
        found[parsed.name, str(parsed.param_in.value)] = (parsed, raw)  # an operation's own replaces its path's
    call_id_header, is_override = "", False
    for (name, place), (parsed, raw) in found.items():
        folded = name.lower()
        if place == "header" and folded in _IGNORED_HEADERS:
            continue
        if not is_seen(name) or not name.isascii() or (place == "header" and folded in _KEPT_HEADERS):
            raise ValueError(f"its parameter {name!a:.80} is none that may be set")
        is_override |= folded in METHOD_OVERRIDES
        if place == "header" and folded in _IDEMPOTENCY:
            call_id_header = name  # it gets the id of the call, and no model is asked for it
            continue
        _add_parameter(inputs, parsed, raw, cast("Place", place))
    in_path = set(_IN_PATH.findall(path))
    declared = {each.name for each in inputs.parameters if each.place == "path"}
    if in_path != declared:
        odd = min(in_path ^ declared)
        raise ValueError(f"its path and its parameters do not agree about {odd!r:.80}")
    return call_id_header, is_override


def _add_parameter(inputs: _Inputs, parsed: Any, raw: Mapping[str, Any], place: Place) -> None:
    style = parsed.style or ("form" if place in {"query", "cookie"} else "simple")
    if style not in _STYLES[place]:
        problem = f"its parameter {parsed.name!r:.80} is written in the style {style!r:.40}, which is not supported"
        raise ValueError(problem)
    content = raw.get("content")
    as_json = is_object(content)
    schema: object = raw.get("schema", True)
    if is_object(content):
        media_type = next(filter(_is_json, content), None)
        if media_type is None:
            raise ValueError(f"its parameter {parsed.name!r:.80} must be written as JSON, got {', '.join(content):.80}")
        schema = content[media_type].get("schema", True)
    key = inputs.free_name(parsed.name, place)
    required = parsed.required or place == "path"
    inputs.add(key, inputs.reader.read(schema), description=parsed.description or "", required=required)
    inputs.parameters.append(
        ApiParameter(
            key=key,
            name=parsed.name,
            place=place,
            required=required,
            style=style,
            explode=style == "form" if parsed.explode is None else parsed.explode,
            as_json=as_json,
        )
    )


def _read_body(document: ApiDocument, inputs: _Inputs, given: object, verb: str) -> ApiBody | None:
    """Add the body: its fields as inputs of their own where that says the same, else as one input."""
    if given is None or verb not in _BODIES:
        return None
    raw = document.resolve(given)
    if not is_object(raw):
        raise ValueError("its requestBody must be a mapping")
    parsed = _validate(models_of(document.version).RequestBody, {**raw, "content": {}})
    typed = mapping(raw.get("content"))
    media_type = next(filter(_is_json, typed), None)
    if media_type is None and _FORM in typed:
        media_type = _FORM
    if media_type is None:
        if not parsed.required:
            return None
        raise ValueError(f"its body must be sent as JSON or as a form, got {', '.join(typed)[:80] or 'nothing'}")
    part = typed[media_type]
    schema: object = part.get("schema", True) if is_object(part) else True
    sent_as = "application/json" if media_type == "*/*" else media_type.partition(";")[0].strip().lower()
    read = inputs.reader.read(document.resolve(schema))
    fields = _fields_of(read, inputs) if parsed.required else ()
    if fields:
        needed = set(read.get("required", ()))
        for name in fields:
            inputs.add(name, read["properties"][name], description="", required=name in needed)
        return ApiBody(media_type=sent_as, fields=fields)
    key = inputs.free_name("body", "whole")
    inputs.add(key, read, description=parsed.description or "", required=parsed.required)
    return ApiBody(media_type=sent_as, key=key)


def _fields_of(schema: Any, inputs: _Inputs) -> tuple[str, ...]:
    """Return the names of a body's fields if they can be inputs by themselves; none if the body has to stay whole."""
    if not is_object(schema):
        return ()
    properties = schema.get("properties")
    if schema.get("type") != "object" or not is_object(properties) or not _COMPOSED.isdisjoint(schema):
        return ()
    if schema.get("additionalProperties", False) not in {False, True}:
        return ()
    taken = inputs.properties.keys() | _RESERVED
    for name in properties:
        if name in taken or not _INPUT.fullmatch(name):
            return ()
    required: object = schema.get("required", [])
    return tuple(properties) if is_array(required) and set(required) <= properties.keys() else ()


def _output_schema(document: ApiDocument, responses: object) -> Mapping[str, Any] | None:
    """Return the schema of what a call that worked answers as JSON; None where the document does not say, or badly."""
    if not is_object(responses):
        return None
    status = next((each for each in _WORKED if each in responses), "")
    try:
        typed = mapping(mapping(document.resolve(responses.get(status, {}))).get("content"))
        media_type = next(filter(_is_json, typed), "")
        written = mapping(typed.get(media_type)).get("schema")
        reader = SchemaReader(document, hidden="writeOnly")
        read: object = reader.read(document.resolve(written))
        schema = reader.whole(mapping(read))
    except (ValueError, TypeError, RecursionError):
        return None
    if not schema or len(str(schema)) > _LARGEST_SCHEMA or schema_problem(schema):
        return None
    return schema


def _security(given: object) -> tuple[tuple[str, ...], ...]:
    listed: Sequence[object] = given if is_array(given) else ()
    return tuple(tuple(map(str, each)) for each in listed if is_object(each))


def _list_of(part: Mapping[str, Any], name: str) -> list[object]:
    value = part.get(name)
    if value is None:
        return []
    if not is_array(value):
        raise ValueError(f"its {name} must be a list")
    return value


def _is_json(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain in {"application/json", "*/*", "text/json"} or plain.endswith("+json")
