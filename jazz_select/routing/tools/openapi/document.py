"""An OpenAPI document: read from a file, a URL or a mapping within bounds, with references that stay inside of it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, cast
from urllib.parse import unquote, urljoin, urlsplit

from jazz_select.data_files import documents_of
from jazz_select.errors import DataFileError, ToolError
from jazz_select.json_values import as_json, is_array, is_object
from jazz_select.routing.question import JOINERS, is_visible
from jazz_select.text import beginning, describe_error, in_one_line

LARGEST: Final = 16 << 20
"""The most bytes of a document. GitHub's, one of the largest in use, has 12 million as JSON."""
MOST_VALUES: Final = 1_500_000
"""The most values of a document as JSON; one of YAML has the bounds of every file of YAML."""
FETCH_S: Final = 30.0
"""Seconds in which a document has to be there."""
_MOST_REDIRECTS: Final = 5
_MOST_HOPS: Final = 20
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_OK: Final = 200
_LONGEST_SHOWN: Final = 200

Version = Literal["3.0", "3.1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDocument:
    """A document of OpenAPI 3.0 or 3.1.

    Attributes:
        name: What errors call it.
        content: All of it, as JSON values.
        version: Which OpenAPI it follows.
        url: Where it was fetched from; empty for a file or a mapping.
    """

    name: str
    content: Mapping[str, Any]
    version: Version
    url: str = ""

    def resolve_reference(self, reference: object) -> object:
        """Return the part that a `$ref` names, which is no reference itself.

        Raises:
            ValueError: It leads outside of the document, to nothing, or in a circle.
        """
        for _ in range(_MOST_HOPS):
            part = self._part(reference)
            further = _reference_of(part)
            if further is None:
                return part
            reference = further
        shown = _quote_value(reference)
        raise ValueError(f"the reference {shown} leads through more than {_MOST_HOPS} others, or in a circle")

    def resolve(self, part: object) -> object:
        """Return a part, or the one that it refers to. Raises what `resolve_reference` does."""
        reference = _reference_of(part)
        return part if reference is None else self.resolve_reference(reference)

    def _part(self, reference: object) -> object:
        if not isinstance(reference, str):
            raise ValueError(f"a $ref must be a text, got {_quote_value(reference)}")  # noqa: TRY004 - the document's fault
        if not reference.startswith("#/"):
            problem = f"the $ref {_quote_value(reference)} leads outside of the document"
            raise ValueError(f"{problem}, and no other file or host is read; bundle the document into one file first")
        part: object = self.content
        for step in reference[2:].split("/"):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if is_object(part) and name in part:
                part = part[name]
            elif is_array(part) and name.isdecimal() and int(name) < len(part):
                part = part[int(name)]
            else:
                raise ValueError(f"the $ref {_quote_value(reference)} names nothing in the document")
        return part


def read_document(source: str | Path | Mapping[str, Any]) -> ApiDocument:
    """Return the document at a URL, in a file, or given as a mapping.

    Raises:
        ToolError: It cannot be read, is too large, or is no document of OpenAPI 3.0 or 3.1.
    """
    if isinstance(source, Mapping):
        return _check_document("the document", _as_data(dict(source)))
    text = str(source)
    if isinstance(source, str) and urlsplit(text).scheme.lower() in {"http", "https"}:
        name = without_credentials(text)
        return _check_document(name, _parse_text(name, _fetch(text)), url=text)
    path = Path(text)
    return _check_document(str(path), _content_of(path, None, path.suffix.lower(), name=str(path)))


def _content_of(path: Path, text: str | None, suffix: str, *, name: str) -> object:
    """Return the only value of a file, or of a text in its place; None if it holds none, or several."""
    bounds: dict[str, Any] = {}
    if suffix == ".json":  # one of YAML takes longer to read, and has the bounds of every file of YAML
        bounds = {"largest": LARGEST, "most_values": MOST_VALUES}
    try:
        found = documents_of(path, text, suffix=suffix, **bounds)
    except DataFileError as error:
        raise ToolError(name, error.problem) from error
    return _as_data(found[0].value) if len(found) == 1 else None


def is_openapi(content: object) -> bool:
    """Tell whether a file's content is an OpenAPI document of any version."""
    return isinstance(content, Mapping) and "paths" in content and ("openapi" in content or "swagger" in content)


def without_credentials(url: str) -> str:
    """Return a URL without user, password, query and fragment, any of which may hold a secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return in_one_line(beginning(f"{parts.scheme}://{host}{parts.path}", _LONGEST_SHOWN))


def is_seen(text: str) -> bool:
    """Tell whether a reader sees every character of a text."""
    if text.isascii():
        return text.isprintable()
    return all(char in JOINERS or is_visible(char) for char in text)


def seen_text(text: str) -> str:
    """Return a text without the characters that no reader sees; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or is_seen(char))


def _reference_of(part: object) -> object | None:
    return part.get("$ref") if is_object(part) else None


def _check_document(name: str, content: object, *, url: str = "") -> ApiDocument:
    if not is_object(content):
        raise ToolError(name, "an OpenAPI document must be one mapping with openapi:, info: and paths:")
    stated = content.get("openapi", content.get("swagger"))
    version = ".".join(str(stated).split(".")[:2])
    if version not in {"3.0", "3.1"}:
        raise ToolError(name, f"it must be OpenAPI 3.0 or 3.1, got {_quote_value(stated)}; convert it first")
    if not is_object(content.get("paths")):
        raise ToolError(name, "it has no paths:, so there are no operations in it")
    return ApiDocument(name=name, content=content, version=cast("Version", version), url=url)


def _as_data(value: object) -> object:
    """Return a value as JSON has it: YAML also reads status codes as numbers, and dates as dates."""
    if isinstance(value, Mapping):
        return {_key(name): _as_data(each) for name, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_as_data(each) for each in cast("list[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if isinstance(value, date) else as_json(value)


def _key(name: object) -> str:
    if isinstance(name, bool):  # YAML reads `on:` and `yes:` as booleans
        return "true" if name else "false"
    return str(name)


def _parse_text(name: str, text: str) -> object:
    suffix = ".json" if text.lstrip("\ufeff \t\r\n").startswith("{") else ".yaml"
    return _content_of(Path(name), text, suffix, name=name)


def _fetch(url: str) -> str:
    """Return the text at a URL. Redirects are followed on the same scheme, host and port only."""
    import httpx

    name = without_credentials(url)
    first = httpx.URL(url)
    ends_at = monotonic() + FETCH_S
    with httpx.HTTPTransport() as transport:  # an httpx.Client would log the URL, whose query may hold a secret
        for _ in range(_MOST_REDIRECTS + 1):
            headers = {"Accept": "application/json, application/yaml, */*;q=0.5", "Accept-Encoding": "identity"}
            extensions = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), FETCH_S)}
            request = httpx.Request("GET", url, headers=headers, extensions=extensions)
            try:
                response = transport.handle_request(request)
                try:
                    if response.status_code not in _REDIRECTS:
                        return _body_of(name, response, ends_at)
                    url = urljoin(url, response.headers.get("location", ""))
                finally:
                    response.close()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ToolError(name, f"the document cannot be fetched: {describe_error(error)}") from error
            target = httpx.URL(url)
            if (target.scheme, target.host, target.port) != (first.scheme, first.host, first.port):
                elsewhere = without_credentials(url)
                raise ToolError(name, f"it redirects to {elsewhere}, another host; name that URL if you trust it")
    raise ToolError(name, f"it redirects more than {_MOST_REDIRECTS} times")


def _body_of(name: str, response: Any, ends_at: float) -> str:
    if response.status_code != _OK:
        raise ToolError(name, f"the document cannot be fetched: the server answered {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ToolError(name, "the document is sent compressed, though it was asked for as it is")
    found = bytearray()
    for piece in cast("Iterator[bytes]", response.iter_raw()):
        found += piece
        if len(found) > LARGEST:
            raise ToolError(name, f"the document is larger than {LARGEST >> 20} MiB")
        if monotonic() > ends_at:
            raise ToolError(name, f"the document was not there within {FETCH_S:g} s")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ToolError(name, "the document is not UTF-8") from error


def _quote_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return repr(in_one_line(beginning(seen_text(text), _LONGEST_SHOWN)))
