"""Requests of an API: built of checked arguments, sent to its own host alone, and answered as data within bounds."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, unquote, urlencode, urljoin

import orjson

from jazz_select.errors import ToolAnswerError, ToolArgumentsError, ToolError, ToolOutcomeUnknownError
from jazz_select.json_values import is_array, is_object, json_object, storable_text
from jazz_select.routing.tools.openapi.credentials import Credentials, Signature
from jazz_select.routing.tools.openapi.document import seen_text
from jazz_select.routing.tools.openapi.operations import METHOD_OVERRIDES, ApiOperation, ApiParameter
from jazz_select.text import cut, describe_error, in_one_line, one_line

if TYPE_CHECKING:
    import ssl

    import httpx

_USER_AGENT: Final = "jazz-select"
_ACCEPT: Final = "application/json, application/*+json;q=0.9, text/*;q=0.5, */*;q=0.1"
_LARGEST_ANSWER: Final = 1_000_000
"""Bytes of an answer that are read."""
_LONGEST_TEXT, _LONGEST_ERROR, _READ_OF_ERROR = 100_000, 500, 20_000
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_LOST: Final = frozenset((502, 504))
"""What a proxy answers that heard no end: the server behind it may have done it."""
_UNDONE: Final = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")
"""Failures by which nothing was sent."""
_DOTS: Final = frozenset((".", ".."))
_NO_DOTS: Final = "'.' and '..' cannot stand in the path, where they mean another one"
_SLASHES: Final = re.compile(r"[/\\]")
_MOST_DECODED: Final = 3
"""How often a value is decoded to look for such segments: a proxy and the server behind it may each do so."""
_PROBLEM_FIELDS: Final = ("title", "detail", "error_description", "message", "error", "errors", "code", "type")
_DELIMITERS: Final = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiClient:
    """Calls the operations of one API.

    Attributes:
        credentials: With what it is asked.
        timeout_s: The most that one call may take, redirects included.
    """

    credentials: Credentials = field(repr=False)
    timeout_s: float

    async def call(
        self,
        operation: ApiOperation,
        base: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str,
        secrets: Mapping[str, Any],
    ) -> object:
        """Return what an operation answers.

        Raises:
            ToolArgumentsError: An argument or a credential cannot be sent; nothing was.
            ToolAnswerError: The server answered that it failed.
            ToolOutcomeUnknownError: The request was sent, its outcome is unknown, and it may have changed something.
            ToolError: The server could not be reached, or a read was not heard of.
        """
        import httpx

        signature = await self.credentials.sign(operation.name, operation.security, secrets)
        try:
            request = _request(operation, base, arguments, signature, call_id)
            async with asyncio.timeout(self.timeout_s):
                return await _answer(operation, request, signature)
        except TimeoutError:
            raise _unknown_outcome(operation, f"nothing was answered within {self.timeout_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            problem = signature.hide(describe_error(error))
            if type(error).__name__ in _UNDONE:
                raise ToolError(operation.name, f"its server cannot be reached: {problem}") from None
            raise _unknown_outcome(operation, problem) from None  # the error's own cause may hold the request


def _unknown_outcome(operation: ApiOperation, problem: str) -> ToolError:
    if operation.is_read:
        return ToolError(operation.name, problem)
    return ToolOutcomeUnknownError(operation.name, problem)


# --- what is sent ---------------------------------------------------------------------


def _request(
    operation: ApiOperation, base: str, arguments: Mapping[str, Any], signature: Signature, call_id: str
) -> "httpx.Request":
    import httpx

    headers, query, cookies, path = _place_arguments(operation, arguments)
    _check_segments(operation, path)
    if operation.call_id_header and call_id:
        headers[operation.call_id_header] = call_id
    content, media_type = _body(operation, arguments)
    if content is not None:
        headers["Content-Type"] = media_type
    _check_query(operation, query)
    # No argument takes the place of a credential: of two of one name, some servers read the first.
    query = [pair for pair in query if pair[0] not in signature.query] + [*signature.query.items()]
    cookies = [pair for pair in cookies if pair[0] not in signature.cookies] + [*signature.cookies.items()]
    if cookies:
        headers["Cookie"] = "; ".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in cookies)
    signed = {name.lower() for name in signature.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in signed}
    url = httpx.URL(f"{base}{path}?{urlencode(query, quote_via=quote)}" if query else f"{base}{path}")
    # Once more, of the whole: no piece may have been read otherwise than it was checked.
    if _origin(url) != _origin(httpx.URL(base)):
        raise ToolArgumentsError(operation.name, "they lead to another host")
    return httpx.Request(operation.verb.upper(), url, headers={**headers, **signature.headers}, content=content)


def _place_arguments(
    operation: ApiOperation, arguments: Mapping[str, Any]
) -> tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str]], str]:
    """Return the headers, the query, the cookies and the path that the arguments make."""
    headers = {"User-Agent": _USER_AGENT, "Accept": _ACCEPT, "Accept-Encoding": "identity"}
    query: list[tuple[str, str]] = []
    cookies: list[tuple[str, str]] = []
    path = operation.path
    for parameter in operation.parameters:
        value = arguments.get(parameter.key)
        if value is None:
            continue
        match parameter.place:
            case "path":
                path = path.replace(f"{{{parameter.name}}}", _in_path(operation, parameter, value))
            case "query":
                query += _pairs(parameter, value)
            case "header":
                headers[parameter.name] = _in_header(operation, parameter, value)
            case "cookie":
                cookies += _pairs(parameter, value)
    return headers, query, cookies, path


def _origin(url: "httpx.URL") -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _text_of(value: object) -> str:
    """Return one value as it stands in a URL or a header."""
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _in_path(operation: ApiOperation, parameter: ApiParameter, value: object) -> str:
    text = _simple(parameter, value)
    if not text:
        raise ToolArgumentsError(operation.name, f"{parameter.key!r} must not be empty", (parameter.key,))
    if any(character < " " or character == "\x7f" for character in text):
        problem = f"{parameter.key!r} stands in the path, and must not have control characters"
        raise ToolArgumentsError(operation.name, problem, (parameter.key,))
    if _leads_elsewhere(text):
        raise ToolArgumentsError(operation.name, _NO_DOTS, (parameter.key,))
    return quote(text, safe=",")


def _leads_elsewhere(text: str) -> bool:
    """Return whether a value has a segment of dots once it is decoded, which some servers do before they route."""
    for decoded in range(_MOST_DECODED):
        segments = _SLASHES.split(text)
        # Some servers cut what follows a semicolon off a segment.
        if any(segment.partition(";")[0] in _DOTS for segment in segments):
            return decoded > 0 or len(segments) > 1  # dots that are only a part of a segment are looked at with it
        text = unquote(text)
    return False


def _check_query(operation: ApiOperation, query: list[tuple[str, str]]) -> None:
    """Refuse to have a read become another verb by a name that a free object put into the query."""
    overriding = [name for name, _ in query if name.lower() in METHOD_OVERRIDES]
    if operation.is_read and overriding:
        raise ToolArgumentsError(operation.name, f"{overriding[0]!r} would make another verb of a read")


def _check_segments(operation: ApiOperation, path: str) -> None:
    """Refuse what leads out of the path of the operation, whatever its pieces were."""
    if not _DOTS.isdisjoint(path.split("/")):
        raise ToolArgumentsError(operation.name, _NO_DOTS)


def _in_header(operation: ApiOperation, parameter: ApiParameter, value: object) -> str:
    text = _simple(parameter, value)
    if not text.isascii() or not text.isprintable():
        problem = f"{parameter.key!r} is sent as a header, and must be ASCII in one line"
        raise ToolArgumentsError(operation.name, problem, (parameter.key,))
    return text


def _simple(parameter: ApiParameter, value: object) -> str:
    """Return a value in OpenAPI's style `simple`."""
    if parameter.as_json:
        return orjson.dumps(value).decode()
    if is_array(value):
        return ",".join(map(_text_of, value))
    if is_object(value):
        between = "=" if parameter.explode else ","
        return ",".join(f"{name}{between}{_text_of(each)}" for name, each in value.items())
    return _text_of(value)


def _pairs(parameter: ApiParameter, value: object) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a parameter in a query or a cookie."""
    name = parameter.name
    if parameter.as_json:
        yield name, orjson.dumps(value).decode()
    elif is_array(value):
        listed = [_text_of(each) for each in value]
        if not parameter.explode:
            listed = [_DELIMITERS.get(parameter.style, ",").join(listed)]
        for each in listed:
            yield name, each
    elif is_object(value):
        if parameter.style == "deepObject":
            yield from _nested_pairs(name, value)
        elif parameter.explode:
            for key, each in value.items():
                yield key, _text_of(each)
        else:
            yield name, ",".join(f"{key},{_text_of(each)}" for key, each in value.items())
    else:
        yield name, _text_of(value)


def _nested_pairs(name: str, value: object) -> Iterator[tuple[str, str]]:
    if is_object(value):
        for key, each in value.items():
            yield from _nested_pairs(f"{name}[{key}]", each)
    elif is_array(value):
        for number, each in enumerate(value):
            yield from _nested_pairs(f"{name}[{number}]", each)
    elif value is not None:
        yield name, _text_of(value)


def _body(operation: ApiOperation, arguments: Mapping[str, Any]) -> tuple[bytes | None, str]:
    body = operation.body
    if body is None:
        return None, ""
    if body.fields:
        value: object = {name: arguments[name] for name in body.fields if name in arguments}
    elif body.key in arguments:
        value = arguments[body.key]
    else:
        return None, ""
    if not body.is_form:
        return orjson.dumps(value), body.media_type
    if not is_object(value):
        raise ToolArgumentsError(operation.name, f"{body.key!r} is sent as a form, and must be an object", (body.key,))
    pairs: list[tuple[str, str]] = []
    for name, each in value.items():
        pairs += _nested_pairs(name, each)
    return urlencode(pairs).encode(), body.media_type


# --- what is answered -----------------------------------------------------------------


@cache
def _ssl_context() -> "ssl.SSLContext":
    import httpx

    return httpx.create_ssl_context()


async def _answer(operation: ApiOperation, request: "httpx.Request", signature: Signature) -> object:
    """Send a request, and return what is answered. Redirects of reads are followed on the same host, others never."""
    import httpx

    verify: Any = _ssl_context() if request.url.scheme == "https" else False
    # An httpx.Client would log each URL, whose query may hold a key.
    async with httpx.AsyncHTTPTransport(verify=verify, trust_env=False) as transport:
        for _ in range(_MOST_REDIRECTS + 1):
            response = await transport.handle_async_request(request)
            try:
                if response.status_code not in _REDIRECTS:
                    return await _result(operation, response, signature)
                request = _redirect(operation, request, response, signature)
            finally:
                await response.aclose()
    raise ToolAnswerError(operation.name, f"it redirects more than {_MOST_REDIRECTS} times")


def _redirect(
    operation: ApiOperation, request: "httpx.Request", response: "httpx.Response", signature: Signature
) -> "httpx.Request":
    import httpx

    target = httpx.URL(urljoin(str(request.url), response.headers.get("location", "")))
    host = target.netloc.decode(errors="replace")
    where = signature.hide(in_one_line(f"{target.scheme}://{host}{target.path}"[:200]))
    problem = f"{response.status_code}: it redirects to {where}"
    if _origin(target) != _origin(request.url):  # the credentials would go there, too
        raise ToolAnswerError(operation.name, f"{problem}, another host")
    if not operation.is_read:
        raise ToolAnswerError(operation.name, f"{problem}; only reads follow that")
    return httpx.Request(request.method, target, headers=request.headers)


async def _result(operation: ApiOperation, response: "httpx.Response", signature: Signature) -> object:
    status = response.status_code
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    content, is_whole = await _content(response, _LARGEST_ANSWER)
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        problem = signature.hide(_failure(response, content[:_READ_OF_ERROR], media_type))
        if status in _LOST and not operation.is_read:
            raise ToolOutcomeUnknownError(operation.name, problem)
        raise ToolAnswerError(operation.name, problem)
    if not is_whole:
        if operation.is_read:
            problem = f"{status}: its answer has more than {_LARGEST_ANSWER} bytes; ask for fewer, or page by page"
            raise ToolAnswerError(operation.name, problem)
        return {"status": status, "note": "It was done. The answer is too large to be read."}
    if not content and status == HTTPStatus.ACCEPTED:
        return {"status": status, "note": "accepted, and not done yet"}
    if not content:
        return None
    return _value(content, media_type, signature)


async def _content(response: "httpx.Response", most: int) -> tuple[bytes, bool]:
    """Return the beginning of an answer, and whether it is all of it; one that is compressed was not asked for."""
    if response.headers.get("content-encoding", "identity") not in {"identity", ""}:
        return b"", False
    found = bytearray()
    async for piece in response.aiter_raw():
        found += piece
        if len(found) > most:
            return bytes(found[:most]), False
    return bytes(found), True


def _value(content: bytes, media_type: str, signature: Signature) -> object:
    is_json = media_type in {"application/json", "text/json", ""} or media_type.endswith("+json")
    is_text = is_json or media_type.startswith("text/") or media_type in {"application/xml", "application/yaml"}
    if not is_text:
        return {"type": signature.hide(one_line(media_type)), "bytes": len(content)}
    text = content.decode("utf-8-sig", errors="replace")
    if is_json:
        try:
            # Hidden in what was read: escapes spell a secret in more ways than can be looked for.
            return signature.hide_in(cast("object", orjson.loads(text)))
        except orjson.JSONDecodeError:
            pass  # it says that it is JSON, and is a text
    return cut(signature.hide(text), _LONGEST_TEXT)


def _failure(response: "httpx.Response", content: bytes, media_type: str) -> str:
    """Return a failure in one line: the status, and what the body says of it."""
    status = response.status_code
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    text = _plain(content, media_type)
    if "json" in media_type or content.lstrip()[:1] == b"{":
        text = _problem_text(content)
    problem = cut(in_one_line(seen_text(" ".join(text.split()))), _LONGEST_ERROR)
    failure = f"{status} {phrase}: {problem}" if problem else f"{status} {phrase}"
    wait = response.headers.get("retry-after", "")
    return f"{failure}; try again after {in_one_line(wait[:60])}" if wait else failure


def _problem_text(content: bytes) -> str:
    problem = json_object(content)
    if problem is None:
        return _plain(content, "")
    parts: list[str] = []
    for name in _PROBLEM_FIELDS:
        value = problem.get(name)
        if value and value != "about:blank" and not (name == "type" and parts):
            parts.append(value if isinstance(value, str) else storable_text(value))
    return "; ".join(parts) or storable_text(problem)


def _plain(content: bytes, media_type: str) -> str:
    return "" if media_type == "text/html" else content.decode(errors="replace")
