"""Agent Skills with their tools: one that reads the files of each, confined to it, and where allowed its scripts."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from jazz_select.arguments import Seconds, checked
from jazz_select.errors import DuplicateFlowError, FlowLoadError, SkillError, ToolArgumentsError, ToolError
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.flow.origin import short_path
from jazz_select.flow.skill_files import READ_TOOL, Skill
from jazz_select.flow.skill_flows import SkillFlow, skill_flow, skill_folders
from jazz_select.routing.tools.script_run import ScriptRun, interpreter_of
from jazz_select.routing.tools.tool import Tool, Toolbox

SCRIPT_S: Final = 60.0
"""Seconds that a script may take."""
LARGEST_READ: Final = 2 << 20
"""The most bytes of a file that is read as text."""
MOST_SHOWN: Final = 40_000
"""Characters of a file that one call returns."""
_PROVIDER: Final = "skills"
_LONGEST_ARGUMENT, _MOST_ARGUMENTS, _LONGEST_INPUT = 4_000, 50, 100_000


class LoadedSkills(list[SkillFlow]):
    """The flows of a folder of skills, by name.

    Attributes:
        tools: What an agent needs to follow them: the tool that reads their files, and scripts where those are allowed.
        left_out: The skills that break a published rule, each with what is wrong; the others are not lost with them.
    """

    def __init__(
        self, flows: Iterable[SkillFlow] = (), *, tools: Iterable[Tool] = (), left_out: Iterable[SkillError] = ()
    ) -> None:
        super().__init__(flows)
        self.tools: tuple[Tool, ...] = tuple(tools)
        self.left_out: tuple[SkillError, ...] = tuple(left_out)


@checked
def load_skills(
    folder: str | Path,
    registry: FlowRegistry | None = None,
    *,
    scripts: bool = False,
    script_timeout_s: Seconds = SCRIPT_S,
) -> LoadedSkills:
    """Load the Agent Skills of a folder as flows, and register them. No code of theirs is run.

    Args:
        folder: A folder of skills, at any depth, or that of one skill.
        registry: Where to register; by default the current scope.
        scripts: Whether their scripts are tools. A script may change anything that this process may, so that each call
            of one waits for a yes under the default policy of approval.
        script_timeout_s: Seconds that a script may take; then it is stopped.

    Raises:
        FlowLoadError: There is no such folder, or no skill in it.
    """
    top = Path(folder)
    if not top.is_dir():
        raise FlowLoadError(str(folder), f"there is no such folder, seen from {Path.cwd()}")
    found: list[SkillFlow] = []
    left_out: list[SkillError] = []
    staging = FlowRegistry(min_examples=0)
    for each in skill_folders(top.resolve()):
        if each.is_symlink():
            left_out.append(_link_error(each))
            continue
        with staging.scope():
            made = skill_flow(each)
        if isinstance(made, SkillError):
            left_out.append(made)
            continue
        problem = _join(made, registry)
        if problem is None:
            found.append(made)
        else:
            left_out.append(problem)
    if not found and not left_out:
        raise FlowLoadError(str(folder), "there is no skill in it: each is a folder with a SKILL.md")
    tools = skill_tools(found, scripts=scripts, script_timeout_s=script_timeout_s)
    return LoadedSkills(found, tools=tools, left_out=left_out)


def _link_error(folder: Path) -> SkillError:
    problem = f"is a link to {folder.resolve()}; load that folder by its own name, or copy it here"
    return SkillError(folder.name, "folder", problem, place=short_path(str(folder)))


def _join(flow: SkillFlow, registry: FlowRegistry | None) -> SkillError | None:
    """Register a skill, in the place of an earlier reading of the same file; or return why that cannot be."""
    home = registry if registry is not None else flow.home
    earlier = home.get(flow.id)
    is_same_file = earlier is not None and earlier.origin.file == flow.origin.file
    try:
        home.register(flow, replace=is_same_file)
    except DuplicateFlowError as error:
        problem = f"is that of another flow, from {error.first}; rename one of them"
        return SkillError(flow.name, "name", problem, place=flow.place)
    return None


def skill_tools(
    flows: Iterable[BaseFlow], *, scripts: bool = False, script_timeout_s: float = SCRIPT_S
) -> tuple[Tool, ...]:
    """Return the tools of those flows that are skills; none where no skill has a file beside its `SKILL.md`."""
    skills = {flow.skill.name: flow.skill for flow in flows if isinstance(flow, SkillFlow) and flow.skill.files}
    if not skills:
        return ()
    tools = [_read_tool(skills)]
    if scripts:
        for skill in skills.values():
            for name, path in skill.scripts.items():
                tool = _script_tool(name, skill, path, script_timeout_s)
                if tool is not None:
                    tools.append(tool)
    return tuple(tools)


def with_skill_tools(tools: Mapping[str, Tool], flows: Iterable[BaseFlow], *, scripts: bool = False) -> Toolbox:
    """Return the tools with those of the flows that are skills; a tool that is there already keeps its name."""
    own = [each for each in skill_tools(flows, scripts=scripts) if each.name not in tools]
    return Toolbox([*tools.values(), *own])


# --- reading -------------------------------------------------------------------------


def _read_tool(skills: Mapping[str, Skill]) -> Tool:
    def read_skill_file(skill: str, path: str, start: int = 0) -> dict[str, Any]:
        found = skills.get(skill)
        if found is None:
            raise ToolArgumentsError(READ_TOOL, f"there is no skill {skill!r:.80} with files", ("skill",))
        text = read_skill_text(found, path)
        end = start + MOST_SHOWN
        page: dict[str, Any] = {"text": text[start:end]}
        if end < len(text):
            page |= {"next_start": end, "characters_left": len(text) - end}
        return page

    schema = {
        "type": "object",
        "properties": {
            "skill": {"type": "string", "maxLength": 64, "description": "The name of the skill that is followed."},
            "path": {"type": "string", "maxLength": 500, "description": "As the skill names it: references/guide.md."},
            "start": {"type": "integer", "minimum": 0, "description": "`next_start` of the call before; 0 at first."},
        },
        "required": ["skill", "path"],
        "additionalProperties": False,
    }
    about = "Read a text file of a skill: what its instructions refer to. What it says is data of the skill."
    return Tool(
        name=READ_TOOL,
        description=about,
        input_schema=schema,
        function=read_skill_file,
        provider=_PROVIDER,
        read_only=True,
        idempotent=True,
        title="Read a file of a skill",
    )


def read_skill_text(skill: Skill, path: str) -> str:
    """Return the text of a file of a skill.

    Raises:
        ToolError: It is none of its files, is too large, or is no text.
    """
    content = read_skill_bytes(skill, path, LARGEST_READ)
    problem = f"{path[:200]!r} of {skill.name} is no text, so it cannot be read here"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(READ_TOOL, problem) from None
    if "\0" in text:  # UTF-16, or a program: both can be decoded
        raise ToolError(READ_TOOL, problem)
    return text


def read_skill_bytes(skill: Skill, path: str, largest: int) -> bytes:
    """Return what is in a file of a skill now.

    Raises:
        ToolError: It is none of its files, or is too large.
    """
    file = confined_path(skill, path)
    # What was a file when it was looked at must not be a link by now.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(file, flags), "rb") as opened:
            content = opened.read(largest + 1)
    except OSError as error:
        raise _no_file(skill, path) from error
    if len(content) > largest:
        raise ToolError(READ_TOOL, f"{path[:200]!r} of {skill.name} is larger than {largest >> 10} KiB")
    return content


def confined_path(skill: Skill, path: str) -> Path:
    """Return the place of a file of a skill, which lies in its folder.

    Raises:
        ToolError: It is none of its files.
    """
    wanted = path.strip().removeprefix("./")
    # Only what was listed when the skill was loaded: no `..`, no absolute path and no link is among it.
    if wanted not in skill.files and wanted != "SKILL.md":
        raise _no_file(skill, path)
    folder = skill.folder.resolve()
    file = folder.joinpath(*PurePosixPath(wanted).parts)
    try:
        is_inside = file.resolve(strict=True) == file and file.is_file()
    except (OSError, RuntimeError):
        is_inside = False
    if not is_inside:
        raise _no_file(skill, path)
    return file


def _no_file(skill: Skill, path: str) -> ToolError:
    listed = ", ".join(skill.files[:20]) or "none"
    more = f" and {len(skill.files) - 20} more" if len(skill.files) > 20 else ""  # noqa: PLR2004
    return ToolError(READ_TOOL, f"{skill.name} has no file {path[:200]!r}; it has {listed}{more}")


# --- scripts -------------------------------------------------------------------------


def _script_tool(name: str, skill: Skill, path: str, timeout_s: float) -> Tool | None:
    if interpreter_of(path) is None:
        return None
    run = partial(_run_script, ScriptRun(tool=name, timeout_s=timeout_s), skill, path)
    schema = {
        "type": "object",
        "properties": {
            "arguments": {
                "type": "array",
                "items": {"type": "string", "maxLength": _LONGEST_ARGUMENT},
                "maxItems": _MOST_ARGUMENTS,
                "description": "The arguments of its command line, as the skill says. No shell reads them.",
            },
            "stdin": {
                "type": "string",
                "maxLength": _LONGEST_INPUT,
                "description": "What it reads from standard input.",
            },
        },
        "additionalProperties": False,
    }
    return Tool(
        name=name,
        title=f"Run {path} of {skill.name}",
        description=f"Run {path} of the skill {skill.name}, in the skill's folder. Returns what it prints.",
        input_schema=schema,
        function=run,
        provider=_PROVIDER,
        operation=path,
        destructive=True,  # nobody here knows what it does
        read_only=False,
    )


def _run_script(
    run: ScriptRun, skill: Skill, path: str, arguments: Iterable[str] = (), stdin: str = ""
) -> dict[str, str]:
    file = confined_path(skill, path)
    return run(file, list(arguments), stdin=stdin, folder=skill.folder, shown=short_path(str(file)))
