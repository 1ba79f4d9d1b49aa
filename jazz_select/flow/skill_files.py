"""An Agent Skill as its author publishes it: `SKILL.md`, held against the published rules, and the files beside it."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import category

from jazz_select.data_files import documents_of, read_text
from jazz_select.errors import DataFileError, SkillError
from jazz_select.flow.origin import short_path
from jazz_select.json_values import as_json, is_array, is_object
from jazz_select.text import at_word, describe_value, json_line

SKILL_FILE: Final = "SKILL.md"
READ_TOOL: Final = "read_skill_file"
"""The tool that reads a file of a skill."""
EXAMPLES_KEY: Final = "jazz-select.examples"
"""The key of `metadata` that holds requests in users' words, one a line."""
LARGEST_SKILL: Final = 256 << 10
"""The most bytes of a `SKILL.md`; the published advice is 500 lines."""
MOST_FILES, LARGEST_TOGETHER = 512, 16 << 20
"""The most files of a skill, and bytes of all of them: what every host of MCP's skills extension takes."""
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_COMPATIBILITY = 64, 1_024, 500
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_FENCE: Final = re.compile(r"---[ \t]*")
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(.+?)[ \t#]*")
_ALLOWED: Final = re.compile(r"[^\s,(]+(?:\([^)]*\))?")
_LONGEST_SECTION: Final = 600
"""Characters of the body's first section that recall reads."""
_FENCE_READ: Final = 64
"""Bytes in which a line that opens front matter ends."""
_LONGEST_TOOL: Final = 64
"""Characters of a tool's name that every provider takes."""
_RUN_BY: Final = frozenset((".py", ".sh", ".bash", ".js", ".mjs"))
_JOINERS: Final = "\u200c\u200d"
"""Scripts and emoji need them between letters."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that show nothing, though their category does not say so."""
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f]{2}|[\U000e0100-\U000e01ef]")
"""One variation selector belongs to an emoji; a row of them, or one of the second block, may hide a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """An Agent Skill that keeps the published rules.

    Attributes:
        name: Its name, which is that of its folder.
        description: What it does, and when to use it.
        body: The instructions, as Markdown.
        folder: The folder that it lies in.
        license: The name of a licence, or of a file that holds it.
        compatibility: What it needs of its environment.
        metadata: What its author adds, as texts.
        allowed_tools: The names of the tools that it may use; None where it names none, and so is not narrowed.
        files: The paths of the files beside `SKILL.md`, as seen from the folder.
        front_matter: All fields, as they were written.
    """

    name: str
    description: str
    body: str
    folder: Path
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()
    front_matter: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def examples(self) -> tuple[str, ...]:
        """The requests under `jazz-select.examples` of its metadata, one a line."""
        requests: dict[str, None] = {}
        for line in self.metadata.get(EXAMPLES_KEY, "").splitlines():
            request = line.strip().removeprefix("- ").strip()
            if request:
                requests[request] = None
        return tuple(requests)

    @property
    def first_section(self) -> str:
        """The body's first heading and the first paragraph below it."""
        return first_section(self.body)

    @property
    def scripts(self) -> Mapping[str, str]:
        """The paths of the scripts that can be run, by the name of the tool that runs each."""
        found: dict[str, str] = {}
        for path in self.files:
            if path.startswith("scripts/") and PurePosixPath(path).suffix.lower() in _RUN_BY:
                found[self._tool_name(path, found)] = path
        return found

    def _tool_name(self, path: str, taken: Mapping[str, str]) -> str:
        """Return `skill_script`: a skill's name has no underscore, so no two skills share one."""
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", path.removeprefix("scripts/").rpartition(".")[0]) or "script"
        name = f"{self.name}_{stem}"
        if name not in taken and len(name) <= _LONGEST_TOOL:
            return name
        mark = sha256(path.encode(errors="replace")).hexdigest()[:8]
        return f"{name[: _LONGEST_TOOL - len(mark) - 1]}_{mark}"


def is_skill_folder(folder: Path) -> bool:
    """Return whether a folder has a `SKILL.md`, or a file that is meant to be one, such as `skill.md`."""
    file = folder / SKILL_FILE
    if file.is_file() or file.is_symlink():
        return True
    other = _file_in_other_case(folder)
    if other is None:
        return False
    try:
        with other.open("rb") as opened:
            return opened.readline(_FENCE_READ).strip() == b"---"
    except OSError:
        return False


def _file_in_other_case(folder: Path) -> Path | None:
    """Return the file that is called `SKILL.md` but for the case of its letters, if there is no other one."""
    try:
        named = [each for each in folder.iterdir() if each.name.casefold() == SKILL_FILE.casefold()]
    except OSError:
        return None
    if any(each.name == SKILL_FILE for each in named):
        return None
    return next((each for each in named if each.is_file()), None)


def read_skill(folder: Path) -> Skill:
    """Read the skill of a folder.

    Raises:
        SkillError: It breaks a published rule, or cannot be read; the message names the field.
    """
    file = folder / SKILL_FILE
    check = _Checker(folder.name, short_path(str(file)))
    text = _text_of(file, folder, check)
    hidden = hidden_character(text)
    if hidden:
        raise check.error(SKILL_FILE, f"{hidden}; take it out, since nobody who reviews the skill sees it")
    front, body = _parts_of(text, check)
    fields = _front_matter(file, front, check)
    return Skill(
        name=check.name(fields),
        description=check.description(fields),
        body=body.strip(),
        folder=folder,
        license=check.text(fields, "license"),
        compatibility=check.compatibility(fields),
        metadata=check.metadata(fields),
        allowed_tools=check.allowed_tools(fields),
        files=tuple(_files_of(folder, check)),
        front_matter=fields,
    )


def front_matter_of(text: str, skill: str) -> dict[str, Any]:
    """Return the fields of a `SKILL.md` that was read from elsewhere, as they are written.

    Raises:
        SkillError: There is no front matter, or it is no mapping.
    """
    check = _Checker(skill, SKILL_FILE)
    front, _ = _parts_of(text, check)
    return _front_matter(Path(SKILL_FILE), front, check)


def first_section(body: str) -> str:
    """Return the first heading of a Markdown text and the first paragraph below it, in one line."""
    heading = ""
    paragraph: list[str] = []
    for line in body.splitlines():
        text = line.strip()
        found = _HEADING.fullmatch(text)
        if found is not None and not paragraph:
            heading = found[1]  # of several headings in a row, the innermost
            continue
        if found is not None or (not text and paragraph):
            break
        if text:
            paragraph.append(text)
    words = " ".join(" ".join(paragraph).split())
    return at_word(": ".join(filter(None, (heading, words))), _LONGEST_SECTION)


def hidden_character(text: str) -> str:
    """Return where a text holds a character that a reader cannot see, or ""."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        return ""
    row = _SELECTORS.search(text)
    if row is not None:
        return _hidden_at(text, row.start())
    for at, character in enumerate(text):
        if not _is_seen(character, text[at - 1 : at], text[at + 1 : at + 2]):
            return _hidden_at(text, at)
    return ""


def _is_seen(character: str, before: str, after: str) -> bool:
    if character in "\n\r\t":
        return True
    if character in _JOINERS:
        return bool(before and after) and not (before.isascii() or after.isascii())
    return category(character) not in {"Cc", "Cf", "Cs", "Co"} and character not in _BLANK


def _hidden_at(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line} holds a character that cannot be seen, U+{ord(text[at]):04X}"


def _text_of(file: Path, folder: Path, check: "_Checker") -> str:
    try:
        other = _file_in_other_case(folder)
        if other is not None:
            raise check.error(SKILL_FILE, f"is called {other.name}; rename it, since that is the published name")
        real = file.resolve(strict=True)
        if not real.is_relative_to(folder.resolve(strict=True)):
            raise check.error(SKILL_FILE, "is a link to another folder; put the file itself here")
        if not real.is_file():
            raise check.error(SKILL_FILE, "is no plain file, so reading it might never end")
        size = real.stat().st_size
        if size > LARGEST_SKILL:
            limit = f"{LARGEST_SKILL >> 10} KiB"
            problem = f"is larger than {limit} ({size >> 10} KiB); move what is long into files under references/"
            raise check.error(SKILL_FILE, problem)
        return read_text(real, LARGEST_SKILL)
    except DataFileError as error:
        raise check.error(SKILL_FILE, error.problem) from error
    except (OSError, RuntimeError) as error:  # the latter for a circle of links
        raise check.error(SKILL_FILE, f"cannot be read: {error}") from error


def _parts_of(text: str, check: "_Checker") -> tuple[str, str]:
    """Return the front matter and the body."""
    lines = _LINE_END.split(text)
    if not _FENCE.fullmatch(lines[0]):
        problem = "does not begin with front matter; its first line is ---, then name: and description:"
        raise check.error(SKILL_FILE, problem)
    for number, line in enumerate(lines[1:], start=1):
        if _FENCE.fullmatch(line):
            front = "\n".join(lines[1:number])
            # YAML begins a line there, where a reader sees none.
            if "\u2028" in front or "\u2029" in front:
                raise check.error("front matter", "holds the line end U+2028 or U+2029; write it as a plain one")
            return front, "\n".join(lines[number + 1 :])
    raise check.error(SKILL_FILE, "has front matter without an end; close it with a line ---")


def _front_matter(file: Path, text: str, check: "_Checker") -> dict[str, Any]:
    try:
        # The line of the fence stands before it, so that an error names the line of the file.
        documents = documents_of(file, f"\n{text}", suffix=".yaml")
    except DataFileError as error:
        raise check.error("front matter", f"is no YAML: {error.problem}") from error
    value: object = documents[0].value if len(documents) == 1 else None
    if not is_object(value):
        raise check.error("front matter", "must be a mapping with name: and description:")
    try:
        return as_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise check.error("front matter", f"holds what JSON has no form for: {error}") from error


def _files_of(folder: Path, check: "_Checker") -> Iterator[str]:
    """Yield the files beside `SKILL.md`, by path. No link is followed, and hidden files are none of the skill's."""
    count, size = 1, 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != "__pycache__")
        for name in sorted(names):
            path = Path(at, name)
            if name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            seen = path.relative_to(folder).as_posix()
            if seen == SKILL_FILE:
                continue
            count += 1
            size += path.stat().st_size
            if count > MOST_FILES:
                problem = f"are more than {MOST_FILES}; split the skill, or take out what it does not need"
                raise check.error("files", problem)
            if size > LARGEST_TOGETHER:
                limit = f"{LARGEST_TOGETHER >> 20} MiB"
                raise check.error("files", f"are larger than {limit} together; take out what the skill does not need")
            # A path is shown to models: one that looks like another, or like a line of its own, is left out.
            if not hidden_character(seen) and "\n" not in seen:
                yield seen


@dataclass(frozen=True, slots=True)
class _Checker:
    """The published rules for the fields of one skill."""

    skill: str
    place: str

    def error(self, field: str, problem: str) -> SkillError:
        return SkillError(self.skill, field, problem, place=self.place)

    def name(self, fields: Mapping[str, Any]) -> str:
        name = self._required_text(fields, "name", _LONGEST_NAME)
        if not _NAME.fullmatch(name):
            shown = json_line(name)
            problem = f"must be lower-case letters and digits with single hyphens between them, got {shown}"
            raise self.error("name", problem)
        if name != self.skill:
            raise self.error("name", f"is {name}, and its folder {json_line(self.skill)}; give both one name")
        return name

    def description(self, fields: Mapping[str, Any]) -> str:
        return " ".join(self._required_text(fields, "description", _LONGEST_DESCRIPTION).split())

    def _required_text(self, fields: Mapping[str, Any], field: str, most: int) -> str:
        text = self.text(fields, field)
        if not text:
            raise self.error(field, "is missing or empty; every skill has one")
        if len(text) > most:
            raise self.error(field, f"has {len(text):,} characters, and at most {most:,} are allowed; say it shorter")
        return text

    def text(self, fields: Mapping[str, Any], field: str) -> str:
        value: object = fields.get(field, "")
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(field, f"must be a text, got {describe_value(value)}; put quotes around it")
        return value.strip()

    def compatibility(self, fields: Mapping[str, Any]) -> str:
        text = self.text(fields, "compatibility")
        if "compatibility" in fields and not 0 < len(text) <= _LONGEST_COMPATIBILITY:
            problem = f"has {len(text):,} characters, and 1 to {_LONGEST_COMPATIBILITY} are allowed"
            raise self.error("compatibility", f"{problem}; say it shorter, or take it out")
        return text

    def metadata(self, fields: Mapping[str, Any]) -> Mapping[str, str]:
        value: object = fields.get("metadata")
        if value is None:
            return {}
        if not is_object(value):
            raise self.error("metadata", f"must be a mapping of names to texts, got {describe_value(value)}")
        # The rule says texts; `version: 1.0` is common, and means one.
        return {name: each if isinstance(each, str) else json_line(each) for name, each in value.items()}

    def allowed_tools(self, fields: Mapping[str, Any]) -> tuple[str, ...] | None:
        value: object = fields.get("allowed-tools")
        if value is None:
            return None
        entries = value if is_array(value) else [value]
        names: dict[str, None] = {}
        for entry in entries:
            if not isinstance(entry, str):
                raise self.error("allowed-tools", "must be names of tools in one text, or a list of them")
            for named in _ALLOWED.findall(entry):
                # "Bash(git:*)" allows a part of what a tool can do; here a tool is allowed or not.
                names[named.partition("(")[0]] = None
        return tuple(names)
