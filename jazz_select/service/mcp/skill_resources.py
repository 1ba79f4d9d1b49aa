"""Flows and skills as MCP's skills extension serves them: entries with digests, files as `skill://` resources.

The extension is `io.modelcontextprotocol/skills` (stable since September 2026). The SDK has no types of it, so requests
and results are written here as the specification has them.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from mimetypes import guess_type
from pathlib import PurePosixPath
from typing import Any, Final

import yaml
from mcp import MCPError, types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.types import INVALID_PARAMS

from jazz_select.errors import ToolError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.skill_files import LARGEST_TOGETHER, SKILL_FILE, Skill
from jazz_select.flow.skill_flows import SkillFlow
from jazz_select.routing.tools.skill_tools import read_skill_bytes
from jazz_select.selector.result import prompt_of
from jazz_select.service.mcp.gateway import Gateway
from jazz_select.service.mcp.untrusted_text import description_of, plain_text
from jazz_select.service.mcp.upstream_skills import EXTENSION, SCHEME, UpstreamSkill
from jazz_select.service.running import RunningCatalogue
from jazz_select.text import beginning
from jazz_select.threads import in_thread

_PAGE: Final = 100
_TTL_MS: Final = 10_000
"""How long a client may take a list for current: changed files are live within a second."""
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_SHOWN = 64, 1_024, 200
_DIRECTORY: Final = "inode/directory"
_OTHERS: Final = re.compile(r"[^a-z0-9]+")
Context = ServerRequestContext[Any, Any]
Place = tuple[str, str]
"""A skill by the first part of its URIs, and the path of a file of it."""


class _SkillParams(types.RequestParams):
    uri: str


class _DirectoryParams(types.PaginatedRequestParams):
    uri: str


@dataclass(frozen=True, slots=True)
class _OwnSkill:
    """A flow as a skill: its files by path, read when they are asked for."""

    name: str
    flow: BaseFlow

    @property
    def skill(self) -> Skill | None:
        return self.flow.skill if isinstance(self.flow, SkillFlow) else None

    @property
    def paths(self) -> tuple[str, ...]:
        return (SKILL_FILE, *(() if self.skill is None else self.skill.files))

    @property
    def description(self) -> str:
        if self.skill is not None:
            return self.skill.description
        whole = plain_text(f"{self.flow.description} {self.flow.condition}") or self.flow.display_name
        return beginning(whole, _LONGEST_DESCRIPTION - 1)

    @property
    def front_matter(self) -> Mapping[str, Any]:
        if self.skill is not None:
            return self.skill.front_matter
        return {"name": self.name, "description": self.description, "metadata": {"jazz-select.flow": self.flow.name}}

    async def content(self, path: str) -> bytes:
        """Return what is in a file of it now.

        Raises:
            ToolError: It has no such file.
        """
        if self.skill is not None:
            return await in_thread(partial(read_skill_bytes, self.skill, path, LARGEST_TOGETHER))
        front = yaml.safe_dump(dict(self.front_matter), allow_unicode=True, sort_keys=False, width=1_000)
        title = plain_text(self.flow.display_name)
        return f"---\n{front}---\n\n# {title}\n\n{await prompt_of(self.flow)}\n".encode(errors="replace")


class SkillResources:
    """The skills of one agent, as clients of MCP find and read them: its own, and those of servers behind a gateway."""

    def __init__(self, running: RunningCatalogue, gateway: Gateway | None = None) -> None:
        self._running, self._gateway = running, gateway
        self._known: tuple[int, Mapping[str, _OwnSkill]] = (0, {})

    def attach(self, server: Server[Any]) -> None:
        """Answer the requests of the extension and those for resources, and declare the extension."""
        server.add_request_handler("resources/list", types.PaginatedRequestParams, self._list_resources)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read_resource)
        server.add_request_handler("skills/list", types.PaginatedRequestParams, self._list_skills)
        server.add_request_handler("skills/get", _SkillParams, self._get_skill)
        server.add_request_handler("resources/directory/read", _DirectoryParams, self._read_directory)
        server.extensions[EXTENSION] = {"directoryRead": True}

    # --- requests ----------------------------------------------------------------------

    async def _list_skills(self, _: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        page, following = self._page(params.cursor)
        entries = [await self._entry(root) for root in page]
        return _cacheable({"skills": entries}, following)

    async def _get_skill(self, _: Context, params: _SkillParams) -> dict[str, Any]:
        root, path = self._place(params.uri)
        if path != SKILL_FILE:
            raise _unknown_skill(params.uri)
        return _cacheable({"skill": await self._entry(root)})

    async def _list_resources(self, _: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
        page, following = self._page(params.cursor)
        listed = [self._resource(root, SKILL_FILE) for root in page]
        return types.ListResourcesResult(resources=listed, next_cursor=following, ttl_ms=_TTL_MS)

    async def _read_resource(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        root, path = self._place(params.uri)
        content = await self._content(root, path, params.uri)
        mime = _mime(path)
        try:
            text = content.decode()
        except UnicodeDecodeError:
            blob = b64encode(content).decode()
            made: Any = types.BlobResourceContents(uri=params.uri, mime_type=mime, blob=blob)
        else:
            made = types.TextResourceContents(uri=params.uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[made], ttl_ms=_TTL_MS)

    async def _read_directory(self, _: Context, params: _DirectoryParams) -> dict[str, Any]:
        uri = params.uri.rstrip("/")
        for root in self._roots():
            if uri == root or uri.startswith(f"{root}/"):
                within = uri[len(root) + 1 :]
                prefix = f"{within}/" if within else ""
                inside = [path[len(prefix) :] for path in self._paths(root) if path.startswith(prefix)]
                if inside:
                    return {"resources": [_child(f"{root}/{prefix}", name) for name in _names(inside)]}
        raise MCPError(INVALID_PARAMS, f"{_printable_uri(params.uri)} is not a directory resource")

    # --- what there is -----------------------------------------------------------------

    def _own_skills(self) -> Mapping[str, _OwnSkill]:
        """Return the agent's flows by the first part of their URIs."""
        number = self._running.number
        if self._known[0] != number:
            flows = sorted(self._running.live.registry.values(), key=lambda each: each.name)
            self._known = (number, {f"{SCHEME}{name}": _OwnSkill(name, flow) for name, flow in _name_skills(flows)})
        return self._known[1]

    def _foreign(self) -> Mapping[str, UpstreamSkill]:
        return {} if self._gateway is None else self._gateway.skills

    def _roots(self) -> list[str]:
        return sorted([*self._own_skills(), *self._foreign()])

    def _page(self, cursor: str | None) -> tuple[list[str], str | None]:
        rest = [root for root in self._roots() if root > (cursor or "")]
        page = rest[:_PAGE]
        return page, page[-1] if len(rest) > _PAGE else None

    def _place(self, uri: str) -> Place:
        """Return the skill and the file of a URI.

        Raises:
            MCPError: No skill is served there, or it has no such file.
        """
        for root in self._roots():
            if uri.startswith(f"{root}/") and uri[len(root) + 1 :] in self._paths(root):
                return root, uri[len(root) + 1 :]
        raise _unknown_skill(uri)

    def _paths(self, root: str) -> tuple[str, ...]:
        own = self._own_skills().get(root)
        return own.paths if own is not None else self._foreign()[root].paths

    async def _entry(self, root: str) -> dict[str, Any]:
        own = self._own_skills().get(root)
        if own is None:
            return self._foreign()[root].entry(root)
        resources: list[dict[str, Any]] = []
        for path in own.paths:
            try:
                content = await own.content(path)
            except ToolError:  # it is gone since the skill was read
                continue
            digest = await in_thread(partial(_digest, content))
            resources.append({"uri": f"{root}/{path}", "digest": digest, "size": len(content)})
        return {"uri": f"{root}/{SKILL_FILE}", "frontmatter": dict(own.front_matter), "resources": resources}

    async def _content(self, root: str, path: str, uri: str) -> bytes:
        own = self._own_skills().get(root)
        try:
            return await own.content(path) if own is not None else await self._foreign()[root].read_file(path)
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, f"{_printable_uri(uri)} cannot be read: {error.problem}") from error

    def _resource(self, root: str, path: str) -> types.Resource:
        own = self._own_skills().get(root)
        skill = own if own is not None else self._foreign()[root]
        return types.Resource(
            uri=f"{root}/{path}", name=skill.name, description=description_of(skill.description), mime_type=_mime(path)
        )


def _name_skills(flows: list[BaseFlow]) -> Iterator[tuple[str, BaseFlow]]:
    """Yield flows with their names as skills: a skill keeps its own, others get one by the published rules."""
    taken = {flow.name for flow in flows if isinstance(flow, SkillFlow)}
    for flow in flows:
        if isinstance(flow, SkillFlow):
            yield flow.name, flow
            continue
        plain = _OTHERS.sub("-", flow.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
        mark = sha256(flow.name.encode(errors="replace")).hexdigest()[:8]
        if not plain:
            plain = f"flow-{mark}"
        elif plain in taken:
            plain = f"{plain[: _LONGEST_NAME - len(mark) - 1].strip('-')}-{mark}"
        taken.add(plain)
        yield plain, flow


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def _names(paths: list[str]) -> list[str]:
    """Return the direct children among paths; a folder ends in a slash."""
    children = (f"{first}{slash}" for first, slash, _ in (path.partition("/") for path in paths))
    return sorted(set(children))


def _child(prefix: str, name: str) -> dict[str, str]:
    plain = name.rstrip("/")
    mime = _DIRECTORY if name.endswith("/") else _mime(plain)
    return {"uri": f"{prefix}{plain}", "name": plain, "mimeType": mime}


def _mime(path: str) -> str:
    if PurePosixPath(path).suffix.lower() == ".md":
        return "text/markdown"
    return guess_type(path, strict=False)[0] or "application/octet-stream"


def _cacheable(result: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    more = {"nextCursor": following} if following is not None else {}
    # Whose skills they are depends on the key, so that no shared cache may keep them.
    return {"resultType": "complete", **result, **more, "ttlMs": _TTL_MS, "cacheScope": "private"}


def _unknown_skill(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"No skill is served at {_printable_uri(uri)}; skills/list names those there are")


def _printable_uri(uri: str) -> str:
    return plain_text(beginning(uri, _LONGEST_SHOWN))
