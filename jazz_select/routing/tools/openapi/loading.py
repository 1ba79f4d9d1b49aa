"""Tools from an OpenAPI document: which operations are taken, which may change something, and what runs them."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from jazz_select.arguments import Seconds, checked
from jazz_select.errors import ConfigError, ToolError
from jazz_select.json_values import is_object
from jazz_select.routing.schemas.places import has_place
from jazz_select.routing.tools.openapi.credentials import Auth, Credentials, read_schemes
from jazz_select.routing.tools.openapi.document import ApiDocument, read_document, seen_text
from jazz_select.routing.tools.openapi.operations import ApiOperation, read_operations
from jazz_select.routing.tools.openapi.requests import ApiClient
from jazz_select.routing.tools.openapi.servers import servers_for
from jazz_select.routing.tools.sources import ListedTools, listed_tools
from jazz_select.routing.tools.tool import ContextKeys, Tool, context_keys
from jazz_select.text import beginning, did_you_mean, titled

Names = str | Iterable[str]
"""Operations by `operationId`, by the tool's name, by `VERB /path`, or by a tag written `#tag`."""
_LONGEST_TITLE: Final = 200
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@checked
def tools_from_openapi(  # noqa: PLR0913 - options with a name
    source: str | Path | Mapping[str, Any],
    *,
    auth: Mapping[str, Auth] | None = None,
    servers: Names = (),
    include: Names = (),
    exclude: Names = (),
    read_only: Names = (),
    changes: Names = (),
    headers: Mapping[str, str] | None = None,
    provider: str = "",
    prefix: str = "",
    from_context: ContextKeys = (),
    timeout_s: Seconds = 30.0,
) -> ListedTools:
    """Return the operations of an API as tools, each of which calls the API over HTTP.

    GET and HEAD only read. Everything else counts as destructive, so an agent asks for a yes before it, unless
    `read_only` says otherwise. An operation that cannot be called is left out, and named in `left_out` and a warning.
    Requests go to the hosts of `servers` alone, and redirects to another host are refused.

    A document at a URL is fetched at once, which blocks for as long as that takes: call this before an event loop runs,
    or in a thread.

    Args:
        source: A URL, a file of JSON or YAML, or a document that was read already. OpenAPI 3.0 or 3.1.
        auth: Credentials by the name of the document's security scheme: a token or key, `(user, password)` for HTTP
            Basic, a function that gives one for each call, or `FromContext("key")`. What is not given here, the
            caller's `context=` holds under the scheme's name. No model is shown any of them.
        servers: Base URLs that may be asked, the first one by default. Without them those of the document, but a
            document that was fetched only names its own host.
        include: The operations that are taken: by `operationId`, by the tool's name, as `GET /pets`, or `#tag`. All by
            default.
        exclude: Those that are not.
        read_only: Those that only read, though their verb does not say so.
        changes: Those that change something, though their verb says that they read.
        headers: Sent with each request, as secrets.
        provider: The owner of the tools; by default none but the title of the API.
        prefix: Prefix of each name, if two APIs share names.
        from_context: Inputs that only the caller's context fills, as for `tools_from_mcp`.
        timeout_s: Time limit of each call, beside the limit of a step.

    Raises:
        ToolError: The document cannot be read or names no server that may be asked, or none of its operations can be
            called.
        ConfigError: An argument cannot work, or names an operation that the document has not.
        MissingExtraError: The package `openapi-pydantic` is not installed.
    """
    document = read_document(source)
    options = OpenApiOptions(
        auth=dict(auth or {}),
        servers=_names(servers),
        include=_names(include),
        exclude=_names(exclude),
        read_only=_names(read_only),
        changes=_names(changes),
        headers=dict(headers or {}),
        provider=provider,
        prefix=prefix,
        from_context=context_keys(provider or "?", from_context),
        timeout_s=timeout_s,
    )
    return tools_of_document(document, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiOptions:
    """What `tools_from_openapi` takes beside the document, checked."""

    auth: Mapping[str, Auth] = field(default_factory=dict[str, Auth], repr=False)
    servers: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    provider: str = ""
    prefix: str = ""
    from_context: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 30.0


def tools_of_document(document: ApiDocument, options: OpenApiOptions) -> ListedTools:
    """Return the operations of a document as tools. Raises what `tools_from_openapi` does."""
    operations, left_out = read_operations(document)
    if not operations and not left_out:
        raise ToolError(document.name, "there are no operations in it")
    chosen = _choose_operations(operations, options)
    reading = _operation_names(operations, options.read_only, "read_only")
    changing = _operation_names(operations, options.changes, "changes")
    both = sorted(reading & changing)
    if both:
        raise ConfigError(f"read_only and changes both name {both[0]!r:.80}; take it out of one of them")
    where = servers_for(document, options.servers)
    client = ApiClient(
        credentials=Credentials(read_schemes(document), options.auth, options.headers), timeout_s=options.timeout_s
    )
    title = _title(document)
    tools: list[Tool] = []
    for operation in chosen:
        try:
            base = where.base_for(document, operation.servers)
        except ValueError as error:
            left_out.append(ToolError(operation.name, str(error)))
            continue
        is_read = operation.name in reading or (operation.is_read and operation.name not in changing)
        call = _Call(client, operation, base)
        tools.append(
            Tool(
                name=f"{options.prefix}{operation.name}",
                title=_words_for_users(document, operation),
                description=operation.description,
                input_schema=operation.input_schema,
                output_schema=operation.output_schema,
                function=call.run,
                provider=options.provider,
                provider_title=title,
                group=operation.group,
                operation=f"{operation.verb.upper()} {operation.path}",
                destructive=not is_read,
                read_only=is_read,
                idempotent=is_read or bool(operation.call_id_header),
                from_context={
                    name: key for name, key in options.from_context.items() if has_place(operation.input_schema, name)
                },
                secrets=client.credentials.context_keys(operation.security),
            )
        )
    return listed_tools(tools, left_out, keys=options.from_context)


class _Call:
    """Runs one operation, as the function of its tool."""

    def __init__(self, client: ApiClient, operation: ApiOperation, base: str) -> None:
        self._client, self._operation, self._base = client, operation, base

    async def run(self, /, *, call_id: str = "", secrets: Mapping[str, Any] | None = None, **arguments: Any) -> object:
        """Return what the operation answers to these arguments."""
        return await self._client.call(self._operation, self._base, arguments, call_id=call_id, secrets=secrets or {})


def _words_for_users(document: ApiDocument, operation: ApiOperation) -> str:
    """Return what users are told that an operation is called: its summary, or its name in words.

    Users agree to calls by these words. Whoever keeps a document in a file answers for what it says; one that was
    fetched may say that a deletion is a look.
    """
    in_words = titled(_HUMP.sub(" ", operation.name).lower())
    return in_words if document.url else operation.title or in_words


def _title(document: ApiDocument) -> str:
    info: object = document.content.get("info")
    title: object = info.get("title") if is_object(info) else ""
    return beginning(" ".join(seen_text(title).split()), _LONGEST_TITLE) if isinstance(title, str) else ""


def _names(given: Names) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(cast("object", each), str) for each in listed):
        raise ConfigError(f"the names of operations and servers must be texts, got {listed!r:.80}")
    return tuple(listed)


def _choose_operations(operations: Collection[ApiOperation], options: OpenApiOptions) -> list[ApiOperation]:
    included = _operation_names(operations, options.include, "include")
    excluded = _operation_names(operations, options.exclude, "exclude")
    chosen: list[ApiOperation] = []
    for operation in operations:
        is_included = not options.include or operation.name in included
        if is_included and operation.name not in excluded:
            chosen.append(operation)
    return chosen


def _operation_names(operations: Collection[ApiOperation], names: Iterable[str], option: str) -> set[str]:
    """Return the tools' names of the operations that are named."""
    found: set[str] = set()
    for name in names:
        matching = [each.name for each in operations if name in each.names or name in _tags(each)]
        if not matching:
            known = [each.own_name or each.name for each in operations]
            raise ConfigError(
                f"{option} names {name!r:.80}, which is no operation that can be called{did_you_mean(name, known)}"
            )
        found.update(matching)
    return found


def _tags(operation: ApiOperation) -> set[str]:
    return {f"#{tag.strip()}" for tag in operation.group.split(",")}
