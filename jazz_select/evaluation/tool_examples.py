"""Examples of requests for connected tools: written by a model and kept in a file that people review, or out of a log.

Bare tools have a name, a description and a schema, so recall finds them by what their authors say. Examples say what
users would ask. Each belongs to the definition that it was written for: a tool that changes is asked about again.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from jazz_select.arguments import read_as
from jazz_select.chat.client import ChatClient, client_for
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ConfigError, FlowError, JazzSelectError
from jazz_select.evaluation.cases import read_entries
from jazz_select.evaluation.checks.nearness import Field as Placement
from jazz_select.evaluation.checks.suggesting import LONGEST_EXAMPLE, Drafts, Target, Writer
from jazz_select.evaluation.checks.wording import DuplicateIndex
from jazz_select.evaluation.corrections import why_unfit
from jazz_select.evaluation.overlay import yaml_text
from jazz_select.evaluation.whole_files import file_lock, write_readable
from jazz_select.flow.base import BaseFlow, Flow, FlowRegistry
from jazz_select.json_values import canonical_bytes
from jazz_select.memory.encoder import Encoder
from jazz_select.outcomes.evidence import read_evidence, witnessed_hints
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.routing.tools.tool import Tool
from jazz_select.routing.tools.tool_memory import tool_card, tools_scope
from jazz_select.text import describe_error, nfc
from jazz_select.threads import in_thread

FORMAT: Final = 1
_MOST: Final = 50
"""Most examples of one tool in a file."""
_MOST_TOOLS: Final = 5_000
_MOST_READ: Final = 10_000
"""Searches in a log that are read, the newest."""
_DIGITS: Final = 16
"""Hexadecimal digits of a definition's digest."""
_AT_ONCE: Final = 4
"""Calls of the model in flight."""
_TIMEOUT_S: Final = 60.0
_ADVICE: Final = "delete tools that are not connected any more, or name another file"
_HEAD = """\
# Requests that connected tools are for, written by a model and filtered: nothing nearer to another tool, no copies, no
# instructions to models. Read them, change them, add yours; search and confidence rest on them. A tool with
# `examples: []` is left without any. `definition` is what they were written for: a tool that says otherwise of itself
# is asked about again.
"""


class ExamplesOfTool(BaseModel):
    """The examples of one tool, and the digest of the definition that they were written for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    definition: str = Field(min_length=1, max_length=64)
    examples: tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_EXAMPLE)], ...] = Field(
        default=(), max_length=_MOST
    )


class ToolExamples(BaseModel):
    """Examples by the name of the tool. Methods return a changed copy; `save` writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = FORMAT
    tools: Mapping[str, ExamplesOfTool] = Field(default_factory=dict[str, ExamplesOfTool], max_length=_MOST_TOOLS)

    @field_validator("tools")
    @classmethod
    def _in_one_spelling(cls, given: Mapping[str, ExamplesOfTool]) -> Mapping[str, ExamplesOfTool]:
        return {nfc(name): each for name, each in given.items()}

    def examples_for(self, tools: Iterable[Tool]) -> dict[str, tuple[str, ...]]:
        """Return the examples by name of the tools that are what they were written for."""
        return {tool.name: self.tools[tool.name].examples for tool in tools if self._is_known(tool)}

    def missing(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools that nothing was written for, or for another definition."""
        return [tool for tool in tools if not self._is_known(tool)]

    def with_texts(self, texts: Iterable[tuple[Tool, Sequence[str]]]) -> "ToolExamples":
        """Return a copy with these texts in place of those of the same tools."""
        tools = dict(self.tools)
        for tool, each in texts:
            tools[tool.name] = ExamplesOfTool(definition=definition_of(tool), examples=tuple(map(yaml_text, each)))
        return self.model_copy(update={"tools": tools})

    def save(self, file: Path) -> None:
        """Replace the file atomically.

        Raises:
            ConfigError: The file cannot be written.
            UnreadableFileError: There are more examples than one file can hold and be read again.
        """
        text = _HEAD + yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=110)
        try:
            write_readable(file, text.encode(), load_tool_examples, advice=_ADVICE)
        except OSError as error:
            raise ConfigError(f"cannot write examples of tools to {file}: {error.strerror or error}") from error

    def _is_known(self, tool: Tool) -> bool:
        return tool.name in self.tools and self.tools[tool.name].definition == definition_of(tool)


def definition_of(tool: Tool) -> str:
    """Return a digest of what a tool says of itself to models: name, description and schema."""
    return sha256(canonical_bytes([tool.name, tool.description, tool.input_schema])).hexdigest()[:_DIGITS]


def load_tool_examples(file: Path) -> ToolExamples:
    """Return the content of a file; empty if the file does not exist.

    Raises:
        ConfigError: The file is unreadable or invalid.
    """
    if not file.exists():
        return ToolExamples()
    entries = read_entries(file, "examples of tools")
    return read_as(ToolExamples, {} if entries is None else entries, str(file))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenExamples:
    """What a model wrote for tools.

    Attributes:
        texts: The tools that it was asked about and their examples, which may be none.
        asked: The number of tools that it was asked about, calls that failed included.
        dropped: Counts of rejected texts by reason.
        notes: What went wrong; a tool whose call failed is in no `texts`.
        took_s: How long it took, in seconds.
    """

    texts: Sequence[tuple[Tool, tuple[str, ...]]] = ()
    asked: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)


async def write_tool_examples(  # noqa: PLR0913 - what is written and how
    tools: Collection[Tool],
    known: ToolExamples,
    model: "ModelLike | ChatClient",
    *,
    encoder: Encoder,
    most: int = 5,
    most_tools: int = 500,
    timeout_s: float = _TIMEOUT_S,
) -> WrittenExamples:
    """Have a model write examples for the tools that have none for what they are now.

    The texts pass the filters of `suggest`: none is longer than an example may be, instructs a model, repeats another
    one, or lies nearer to another of the tools.

    Args:
        tools: All connected tools, since examples are compared with the others.
        known: What was written before.
        model: The writer; an object of the caller's is not closed.
        encoder: Compares texts as recall does, such as `ProceduralMemory.encoder`.
        most: Most examples for each tool.
        most_tools: Most tools that the model is asked about: each is a call of it.
        timeout_s: Timeout of each call, in seconds.

    Raises:
        ConfigError: `most` is not from 1 to 50.
        EmbeddingError: The embedder failed before anything was asked.
    """
    began = perf_counter()
    if not 1 <= most <= _MOST:
        raise ConfigError(f"most must be from 1 to {_MOST}, got {most}")
    missing = known.missing(tools)
    if not missing:
        return WrittenExamples()
    flows = _as_flows(tools, known)
    possible = [tool for tool in missing if tool.name in flows]
    asked = possible[:most_tools]
    if not asked:
        return WrittenExamples()
    placement = await in_thread(Placement, [*flows.values()], encoder)
    drafts = Drafts(placement, DuplicateIndex((), numbers=False), most)
    client = client_for(model)
    writer = Writer(client=client, timeout_s=timeout_s)
    places = asyncio.Semaphore(_AT_ONCE)
    filtering = asyncio.Lock()  # a text is compared with those that were taken before it

    async def write(flow: BaseFlow) -> bool:
        async with places:
            texts = await drafts.ask_examples(flow, writer)
        if texts is None:
            return False
        # Filter the texts as the file has them, since the filters check their length.
        as_saved = [yaml_text(text) for text in texts]
        async with filtering:
            try:
                await in_thread(drafts.take, flow, as_saved)
            except JazzSelectError as error:
                drafts.notes.append(f"no examples were kept for {flow.name}: {describe_error(error)}")
                return False
        return True

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [(tool, group.create_task(write(flows[tool.name]))) for tool in asked]
    finally:
        if client is not model:
            await client.aclose()
    notes = list(drafts.notes)
    if len(possible) > len(asked):
        skipped = len(possible) - len(asked)
        notes.append(f"{skipped} of {len(possible)} tools were not asked about: write again for these")
    # A tool whose call failed is left out, so that it is asked about again.
    return WrittenExamples(
        texts=[(tool, _texts(drafts, tool.name)) for tool, task in tasks if task.result()],
        asked=len(asked),
        dropped=dict(drafts.dropped),
        notes=tuple(notes),
        took_s=perf_counter() - began,
    )


def keep_examples(file: Path, written: WrittenExamples) -> ToolExamples:
    """Add what was written to a file, under a lock, and return its new content.

    Raises:
        ConfigError: The file cannot be read or written, or another process holds the lock for ten seconds.
    """
    with file_lock(file):
        changed = load_tool_examples(file).with_texts(written.texts)
        changed.save(file)
        return changed


def examples_in_log(
    log: OutcomeLog, agent_id: str, tools: Collection[Tool], *, most: int = _MOST
) -> dict[str, tuple[str, ...]]:
    """Return the requests of a log that tools are right for, by the tool's name, the latest first. Blocking.

    These are searches after which a tool was called, and what persons said of them (`read_evidence`): of what clients
    did, two independent witnesses have to agree, and it never counts for a tool that may change something. A text that
    tells a model what to do counts for none.

    Args:
        log: A log of outcomes.
        agent_id: Whose tools.
        tools: All that there are now.
        most: Most requests of one tool.

    Raises:
        OutcomeLogError: The log cannot be read.
    """
    entries = log.read(agent_id=tools_scope(agent_id), last=_MOST_READ)
    names = {tool.name for tool in tools}
    may_change = {tool.name for tool in tools if not tool.reads}
    evidence = read_evidence(entries, flows=names, may_change=may_change, why_unfit=why_unfit)
    counted = [*evidence.certain, *witnessed_hints(evidence.hints, may_change=may_change)]
    found: dict[str, list[str]] = {}
    for each in sorted(counted, key=lambda one: -one.at):  # the latest first
        if each.right not in names:
            continue
        texts = found.setdefault(each.right, [])
        if len(texts) < most:
            texts.append(each.request)
    return {name: tuple(texts) for name, texts in found.items()}


def _as_flows(tools: Collection[Tool], known: ToolExamples) -> dict[str, BaseFlow]:
    """Return a flow for each tool by its name, with what is known of it, as the filters compare flows.

    A tool whose texts no flow may have is left out.
    """
    examples = known.examples_for(tools)
    made: dict[str, BaseFlow] = {}
    for tool in tools:
        about = tool_card(tool).description
        with suppress(FlowError):
            made[tool.name] = Flow(
                name=tool.name,
                description=about,
                examples=examples.get(tool.name, ()),
                registry=FlowRegistry(min_examples=0),  # not the default one, where it would be a flow of the user
            )
    return made


def _texts(drafts: Drafts, name: str) -> tuple[str, ...]:
    return tuple(each.text for each in drafts.made if each.flow == name and each.part is Target.EXAMPLE)
