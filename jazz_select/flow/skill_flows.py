"""An Agent Skill as a flow: its body is the procedure, its description says when, its files are read on demand."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from jazz_select.errors import DuplicateFlowError, SkillError
from jazz_select.flow.base import BaseFlow, FlowRegistry, current_scope
from jazz_select.flow.definition import Definition, SkillDefinition, SubflowDefinition
from jazz_select.flow.origin import Origin, short_path
from jazz_select.flow.skill_files import READ_TOOL, SKILL_FILE, Skill, is_skill_folder, read_skill

_MOST_FOLDERS = 10_000
"""The most folders that are searched for skills."""


class SkillFlow(BaseFlow):
    """A flow that is an Agent Skill.

    A model that follows it is shown the body, and reads the other files by the tool `read_skill_file`. Its
    `allowed-tools` are the only connected tools that it may use; without this field it may use those that are there
    where no flow fits. A skill that names examples (`jazz-select.examples` in its metadata) is also found by these.

    Attributes:
        skill: What its author published.
    """

    examples_wanted: ClassVar[bool] = False

    def __init__(self, skill: Skill, *, registry: FlowRegistry | None = None, replace: bool = False) -> None:
        """Make the flow of a skill, and register it.

        Args:
            skill: As `read_skill` reads it.
            registry: As of `Flow`.
            replace: As of `Flow`.

        Raises:
            DuplicateFlowError: A different flow of this name is in the registry, and `replace` is false.
        """
        self.skill = skill
        own = [READ_TOOL, *skill.scripts] if skill.files else []
        tools = list(dict.fromkeys((*(skill.allowed_tools or ()), *own)))
        self.takes_open_tools = skill.allowed_tools is None
        super().__init__(
            name=skill.name,
            description=skill.description,
            examples=skill.examples,
            tools=tools,
            optional_tools=tools,  # a skill is written for other products too, whose tools need not be here
            registry=registry,
            replace=replace,
        )
        self._origin = Origin(module=self._origin.module, file=str(skill.folder / SKILL_FILE), line=1)

    @property
    def place(self) -> str:
        """The path of its `SKILL.md`."""
        return short_path(str(self.skill.folder / SKILL_FILE))

    def _with_parts(self, parts: tuple[SubflowDefinition, ...]) -> Definition:
        own = super()._with_parts(parts)
        fields = {name: getattr(own, name) for name in Definition.__slots__}
        return SkillDefinition(
            **fields,
            instructions=self.skill.body,
            first_section=self.skill.first_section,
            reading=f"read one by {READ_TOOL}(skill={self.skill.name}, path=…)",
            files=self.skill.files,
        )


def skill_flow(folder: Path) -> SkillFlow | SkillError:
    """Return the flow of a folder's skill, registered in the current scope; or why there is none."""
    try:
        skill = read_skill(folder)
        scope = current_scope()
        earlier = None if scope is None else scope.by_name(skill.name)
        # A copy with the same text may have other files, and one name must not stand for both.
        if isinstance(earlier, SkillFlow) and earlier.skill.folder != skill.folder:
            return _taken_name(folder, earlier.place)
        return SkillFlow(skill)
    except SkillError as error:
        return error
    except DuplicateFlowError as error:
        return _taken_name(folder, error.first)


def _taken_name(folder: Path, first: str) -> SkillError:
    problem = f"is that of another one, from {first}; rename one of them"
    return SkillError(folder.name, "name", problem, place=short_path(str(folder / SKILL_FILE)))


def skill_folders(top: Path) -> Iterator[Path]:
    """Yield the folders of skills in a folder, or itself if it is one, by name.

    No link to a folder is followed; one to a skill is yielded as it is. What lies within a skill belongs to it, another
    `SKILL.md` too.
    """
    for count, (at, folders, _) in enumerate(os.walk(top)):
        if count == _MOST_FOLDERS:
            return
        here = Path(at)
        if is_skill_folder(here):
            folders.clear()
            yield here
            continue
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in folders:
            link = here / each
            if link.is_symlink() and is_skill_folder(link):
                yield link
