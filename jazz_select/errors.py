"""Every error this library raises, under one root.

```
JazzSelectError
├── ConfigError                 a setting or argument cannot work; the message says what to use instead
│   ├── MessageError            a message cannot be sent to a model
│   ├── MissingExtraError       an optional dependency is missing or does not fit; the message holds the command
│   ├── UnconnectedToolsError   flows need tools that are not connected
│   └── UnreadableFileError     what was to be written to a file could not be read again; the file is as it was
├── DataFileError               a file of YAML, JSON or TOML could not be read
├── FlowError                   something about the flows an author wrote
│   ├── FlowValidationError     a field of one flow is missing or wrong
│   │   └── SkillError          an Agent Skill breaks a published rule, and is left out
│   ├── DuplicateFlowError      two different flows of one name in one registry
│   └── FlowLoadError           a file or package of flows could not be read
├── StoreError                  something about the index
│   ├── IndexLockedError        another process or object has the index open
│   ├── IndexUnusableError      the folder is corrupt, not writable or not an index
│   ├── EmbedderMismatchError   the flows were indexed with other settings than these
│   ├── UnknownFlowError        the flow to update is not in the index
│   ├── SyncDeletesError        a sync would delete most of an agent's flows without `allow_delete`
│   ├── SyncIncompleteError     the index kept losing flows while a sync wrote them
│   ├── OtherFilesError         a replica has other flows than the index that it shares
│   ├── FlowsMissingError       the flows that were synced are gone from the index
│   ├── DiskFullError           there is no room to write to the index
│   └── StoreUnavailableError   the Qdrant server did not answer
├── NotLoadedError              a service could not load an agent's flows yet
├── OutcomeLogError             the file of a log of outcomes cannot be used
│   └── OutcomeQuotaError       a key has written into it what it may in an hour
├── DatabaseError               the PostgreSQL database of a service cannot be used
│   └── DatabaseUnavailableError it does not answer
├── EmbeddingError              the embedder failed
├── RemoteError                   an error of another process, of an unknown class
├── ServiceError                a service could not be asked; `.retryable` says whether to try again
│   ├── ServiceUnavailableError it is not there, went away, or could not answer
│   ├── ServiceTimeoutError     it timed out
│   ├── ServiceKeyError         it rejects the key
│   ├── ServiceBusyError        it is overloaded; `.retry_after` says when to ask again
│   └── ServiceReplyError       its answer does not follow the protocol
├── ToolError                   a tool, or its schema, cannot work
│   ├── DuplicateToolError      two tools of one name
│   ├── ToolArgumentsError      a call's arguments are not valid; the tool was not called
│   ├── ToolAnswerError         the tool's server reported a failure
│   ├── ToolOutcomeUnknownError        a call was sent and its outcome is unknown
│   └── DecisionCallbackError   the choice between tools failed, and there is no fallback
├── HungError                   a function was not called because earlier calls of it hang
├── WrongValue                  a tool or an author's check refuses a value from the user
├── CannotDo                    a tool or an author's check refuses what the user wishes, and says why
├── AgentError                  something about an agent's turn
│   ├── ChainError              a chain of tool calls stopped; `.chain` is what there is of it
│   ├── FormatError             an answer does not fit the requested schema
│   ├── PlanError               a model's reply is not a decision on an action
│   ├── RouterError             a graph of guards and actions cannot work
│   └── SnapshotError           a paused turn cannot be resumed here
└── ModelError                  a call to a model failed; `.retryable` says whether to try again
    ├── DecisionAskError        the question is not valid and was not sent
    ├── DecisionReplyError      a decision model's answer does not fit the question
    ├── ModelTimeoutError       it timed out
    └── ModelUnavailableError   not asked because the model failed lately
```

Errors take data and build their message here, so that callers can read the data and messages are the same everywhere.
The vendor's own error, if there is one, is the cause (`__cause__`).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from jazz_select.text import beginning, count_of, misspelt, some_of

_NAMED: Final = 100
_MOST_NAMES: Final = 10
"""The most names in one message; the error has all."""
_LONGEST: Final = 200
"""The most characters of a name in a message; the error has all."""


def _short(name: str) -> str:
    return repr(beginning(name, _LONGEST))


class JazzSelectError(Exception):
    """The root: `except JazzSelectError` catches all that this library raises. It can be copied and pickled.

    Attributes:
        others: What else was found to be wrong in the same place, such as further fields of a flow.
    """

    others: "tuple[JazzSelectError, ...]" = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the attributes, since the constructor takes other arguments than the message."""
        return BaseException.__new__, (type(self), *self.args), dict(vars(self))


def raise_all(faults: Sequence[JazzSelectError]) -> None:
    """Raise the first of these errors, with the others beside it; none if there are none."""
    if faults:
        first = faults[0]
        first.others = (*first.others, *faults[1:])
        raise first


class ConfigError(JazzSelectError):
    """A setting or argument cannot work. The message says what to use instead."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra from this package's own source: index, wheel, repository or clone."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    direct_url: dict[str, Any] = {}
    with suppress(PackageNotFoundError, ValueError):
        # pip records here where it installed from (PEP 610), except for an index.
        direct_url = json.loads(distribution("jazz-select").read_text("direct_url.json") or "{}")
    url: str = direct_url.get("url", "")
    version: Mapping[str, str] | None = direct_url.get("vcs_info")
    if direct_url.get("dir_info", {}).get("editable"):
        return f"pip install -e '{url2pathname(urlsplit(url).path)}[{extra}]'"
    if version:
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    if url:
        return f"pip install 'jazz-select[{extra}] @ {url}'"
    return f"pip install 'jazz-select[{extra}]'"


class MessageError(ConfigError):
    """A message of a conversation cannot be sent to any model; nothing was sent.

    Attributes:
        number: Its place in the conversation, from 0.
        problem: What is wrong with it.
    """

    def __init__(self, number: int, problem: str, fix: str) -> None:
        self.number, self.problem = number, problem
        super().__init__(f"messages[{number}] cannot be sent to a model: {problem}; {fix}")


class MissingExtraError(ConfigError):
    """An optional dependency is not installed (`found` is empty), or not in a version that is `wanted`."""

    def __init__(self, module: str, *, extra: str, purpose: str, wanted: str = "", found: str = "") -> None:
        self.module, self.extra, self.wanted, self.found = module, extra, wanted, found
        problem = f"{purpose} needs the package {module!r}"
        if wanted:
            problem += f" {wanted}"
        if found:
            problem += f", got {found}"
        super().__init__(f"{problem}: {install_command(extra)}")


class UnconnectedToolsError(ConfigError):
    """Flows need tools that are not connected; `missing` has them by the flow's name."""

    def __init__(self, missing: Mapping[str, Sequence[str]], *, connected: Iterable[str] = ()) -> None:
        self.missing = {flow: tuple(names) for flow, names in missing.items()}
        known, more = list(connected), len(self.missing) - _NAMED
        listed: list[str] = []
        for flow, names in list(self.missing.items())[:_NAMED]:
            listed.append(f"{flow}: {some_of(names, _MOST_NAMES, lambda name: misspelt(name, known))}")
        which = "a flow names" if len(listed) == 1 else f"{len(self.missing)} flows name"
        if more > 0:
            listed.append(f"and {more} more")
        super().__init__(
            f"{which} tools that are not connected: {'; '.join(listed)}. "
            "Connect them or correct the names; list in a flow's optional_tools what it can do without; or set "
            "manual = True on one that a person does."
        )


class DataFileError(JazzSelectError):
    """A file of YAML, JSON or TOML could not be read.

    Attributes:
        file: The file.
        problem: What is wrong, and where.
        is_syntax: Whether its syntax is invalid.
    """

    def __init__(self, file: str, problem: str, *, is_syntax: bool = False) -> None:
        self.file, self.problem, self.is_syntax = file, problem, is_syntax
        super().__init__(f"cannot read {file}: {problem}")


class UnreadableFileError(ConfigError):
    """What was to be written to a file could not be read again, so the file is as it was.

    Attributes:
        file: The file.
        problem: Why it could not be read, with the bound.
        advice: What to do.
    """

    def __init__(self, file: str, problem: str, *, advice: str) -> None:
        self.file, self.problem, self.advice = file, problem, advice
        super().__init__(f"{file} was left as it is, since it could not be read again: {problem}; {advice}")


class FlowError(JazzSelectError):
    """Something is wrong with the flows an author wrote."""


class FlowValidationError(FlowError):
    """One `field` of one `flow` is missing or wrong; `place` is where the flow is defined, if known."""

    def __init__(self, flow: str, field: str, problem: str, *, place: str = "") -> None:
        self.flow, self.field, self.problem, self.place = flow, field, problem, place
        where = f" ({place})" if place else ""
        super().__init__(f"flow {_short(flow)}{where}: {field}: {problem}")


class SkillError(FlowValidationError):
    """An Agent Skill cannot be used: `field` of it breaks a published rule. The others are not lost with it."""

    def __init__(self, skill: str, field: str, problem: str, *, place: str = "") -> None:
        super().__init__(skill, field, problem, place=place)
        where = f" ({place})" if place else ""
        self.args = (f"skill {_short(skill)}{where}: {field}: {problem}",)


class DuplicateFlowError(FlowError):
    """Two different flows of one registry have the same name."""

    def __init__(self, name: str, *, first: str, second: str) -> None:
        self.name, self.first, self.second = name, first, second
        super().__init__(
            f"two different flows are named {_short(name)}: one from {first}, one from {second}. "
            "Rename one, give it a FlowRegistry of its own, or register it with replace=True."
        )


class FlowLoadError(FlowError):
    """A file, folder or package of flows, or a module of tools, could not be read."""

    def __init__(self, source: str, problem: str) -> None:
        self.source, self.problem = source, problem
        super().__init__(f"cannot load {source}: {problem}")


class StoreError(JazzSelectError):
    """Something is wrong with the index."""


class IndexLockedError(StoreError):
    """The embedded index is open elsewhere; it takes one writer at a time."""

    def __init__(self, path: str, *, holder: str = "") -> None:
        self.path, self.holder = path, holder
        super().__init__(
            f"the index {path} is already open by {holder or 'another process'}, and takes one process at a time. "
            "Close the other one, open another folder, or run a Qdrant server and pass url=… to share it."
        )


class IndexUnusableError(StoreError):
    """The index folder cannot be used as it is."""

    def __init__(self, path: str, problem: str, *, advice: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"the index {path} cannot be used: {problem}. {advice}")


class EmbedderMismatchError(StoreError):
    """An agent's flows were indexed with other settings than the current ones.

    Vectors of two embedders cannot be compared, so there is no fallback.
    """

    def __init__(self, agent_id: str, *, indexed: Sequence[str], current: str) -> None:
        self.agent_id, self.indexed, self.current = agent_id, tuple(indexed), current
        if set(indexed) == {current}:
            super().__init__(
                f"the flows of agent {agent_id!r} were indexed by another version of jazz-select, which kept them "
                "in a way that this one does not read. Run sync_registry (jazz-select sync) to index them again; "
                "the same embedder is in use."
            )
            return
        super().__init__(
            f"the flows of agent {agent_id!r} were indexed with {' and '.join(indexed)}, "
            f"but this memory uses {current}. "
            "Open it with the same embedder and language (embedder='static', 'minilm', 'cascade' and so on, or "
            "JAZZ_EMBEDDER, where 'auto' takes what is installed; language=…, or JAZZ_LANGUAGE), or run sync_registry "
            "(jazz-select sync) to index them again."
        )


class UnknownFlowError(StoreError):
    """The flow to update is not in the index."""

    def __init__(self, agent_id: str, flow: str) -> None:
        self.agent_id, self.flow = agent_id, flow
        super().__init__(
            f"agent {agent_id!r} has no flow {flow!r} in the index: memorize it first, or run sync_registry."
        )


class SyncDeletesError(StoreError):
    """A sync would delete most of the `total` flows of `agent_id`: those in `deleted`. Nothing was written."""

    def __init__(self, agent_id: str, *, deleted: Sequence[str], total: int) -> None:
        self.agent_id, self.deleted, self.total = agent_id, tuple(deleted), total
        names = some_of(self.deleted, _NAMED, lambda name: name[:_LONGEST])
        super().__init__(
            f"this sync would delete {len(self.deleted)} of the {total} flows of agent {agent_id!r}: {names}. "
            "Nothing was written. Are these the flows of that agent, and all of them? "
            "If they are: allow_delete=True (jazz-select sync --yes, or serve --config yes=true; where a service runs, "
            'POST /v1/reload with {"allow_delete": true}); dry_run=True (sync --dry-run) shows the whole plan.'
        )


class DiskFullError(StoreError):
    """The disk is too full to write to the index; `path` is its folder, `wanted` and `free` are in bytes."""

    def __init__(self, path: str, *, wanted: int, free: int) -> None:
        self.path, self.wanted, self.free = path, wanted, free
        super().__init__(
            f"there is no room to write to the index {path}: {wanted / 1e6:.1f} MB have to be free on its disk, and "
            f"{free / 1e6:.1f} MB are. Make room, or open an index on another disk, then sync again."
        )


class SyncIncompleteError(StoreError):
    """What a sync wrote was not there afterwards, again and again; `missing` names the flows."""

    def __init__(self, agent_id: str, *, missing: Sequence[str], total: int) -> None:
        self.agent_id, self.missing, self.total = agent_id, tuple(missing), total
        what = "what was learned of the flows"
        if self.missing:
            what = f"{len(self.missing)} of {total} flows ({some_of(self.missing, _MOST_NAMES, _short)})"
        super().__init__(
            f"the sync of agent {agent_id!r} is incomplete: {what} were written and are not in the index. Does "
            "somebody delete the collection, or sync another catalogue at the same time? Run sync_registry "
            "(jazz-select sync) again once that has stopped."
        )


class OtherFilesError(StoreError):
    """A replica has other flows than the index that it shares with others, and wrote nothing.

    Attributes:
        agent_id: Whose flows.
        version: The version of the catalogue that the index holds.
        synced_by: The replica that wrote it; empty where this one's files are a change of it.
        replicas: The replicas that do not have this change.
    """

    def __init__(self, agent_id: str, *, version: int, synced_by: str = "", replicas: Sequence[str] = ()) -> None:
        self.agent_id, self.version, self.synced_by, self.replicas = agent_id, version, synced_by, tuple(replicas)
        if replicas:
            super().__init__(
                f"the flows of agent {agent_id!r} have changed here, and not at {some_of(self.replicas, _MOST_NAMES)}: "
                f"version {version} of the catalogue stays in all replicas. Change the files there too, or run "
                "jazz-select sync with these files, and start the others with them."
            )
            return
        super().__init__(
            f"this replica has other flows of agent {agent_id!r} than version {version} of the catalogue, which "
            f"{synced_by} wrote, so nothing is written. Start it with the files of that version; or run jazz-select "
            "sync with these files, which makes them the next version."
        )


class FlowsMissingError(StoreError):
    """The flows of an agent were in the index, and are gone from it, together with what was noted of them."""

    def __init__(self, agent_id: str, *, known: int) -> None:
        self.agent_id, self.known = agent_id, known
        super().__init__(
            f"the flows of agent {agent_id!r} are gone from the index: {known} were there, and now there is none. Was "
            "the collection deleted? Run sync_registry (jazz-select sync), which writes them again."
        )


class StoreUnavailableError(StoreError):
    """The Qdrant server did not answer, or refused, after bounded retries."""

    def __init__(
        self, url: str, problem: str, *, advice: str = "Is it running, and are url and api_key right?"
    ) -> None:
        self.url, self.problem, self.advice = url, problem, advice
        super().__init__(f"the Qdrant server at {url} cannot be used: {problem.rstrip('.')}. {advice}")


class OutcomeLogError(JazzSelectError):
    """The outcome log file cannot be used; it was not changed."""

    def __init__(self, path: str, problem: str, *, advice: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"the log of outcomes {path} cannot be used: {problem}. {advice}.")


class OutcomeQuotaError(OutcomeLogError):
    """A key has written into the log what it may in an hour; `retry_after` is in seconds."""

    def __init__(self, path: str, key: str, *, retry_after: float) -> None:
        self.path, self.key, self.retry_after = path, key, retry_after
        self.problem = f"the key {key!r} has written into the log what it may in an hour"
        JazzSelectError.__init__(self, f"{self.problem}: try again in {retry_after:.0f} s")


class DatabaseError(JazzSelectError):
    """The PostgreSQL database of a service cannot be used.

    Attributes:
        place: Its host, port and name; neither user nor password.
        problem: What is wrong.
        advice: What to do.
    """

    def __init__(self, place: str, problem: str, *, advice: str) -> None:
        self.place, self.problem, self.advice = place, problem, advice
        end = "" if advice.endswith(("?", ".")) else "."
        super().__init__(f"the database {place} cannot be used: {problem.rstrip('.')}. {advice}{end}")


class DatabaseUnavailableError(DatabaseError):
    """The PostgreSQL database did not answer, after bounded retries; the same may succeed later."""

    def __init__(
        self, place: str, problem: str, *, advice: str = "Is it running, and are its address, user and password right?"
    ) -> None:
        super().__init__(place, problem, advice=advice)


class EmbeddingError(JazzSelectError):
    """The embedder failed on some text, or returned vectors of the wrong shape."""

    def __init__(self, embedder: str, problem: str) -> None:
        self.embedder, self.problem = embedder, problem
        super().__init__(f"the embedder {embedder} failed: {problem}")


class RemoteError(JazzSelectError):
    """An error of another process with an unknown class; `code` is its name and `text` its text."""

    def __init__(self, code: str, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(f"{code[:_LONGEST]}: {text}")


class NotLoadedError(JazzSelectError):
    """The flows of `agent_id` are not served: `problem` says why they could not be loaded; empty if not tried yet."""

    def __init__(self, agent_id: str, problem: str) -> None:
        self.agent_id, self.problem = agent_id, problem
        super().__init__(f"agent {agent_id!r} is not served: {problem or 'it is not loaded yet'}")


class ServiceError(JazzSelectError):
    """The service at `url` could not be asked, or gave no usable answer; `problem` says what happened.

    `retryable` says whether the same request may succeed later; `retry_after` is the requested wait in seconds.
    """

    def __init__(self, url: str, problem: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        self.url, self.problem = url, problem
        self.retryable, self.retry_after = retryable, retry_after
        super().__init__(f"the service at {url} failed: {problem}")


class ServiceUnavailableError(ServiceError):
    """The service is unreachable or failed; it may have carried out the request."""

    def __init__(self, url: str, problem: str, *, retry_after: float | None = None) -> None:
        super().__init__(url, problem, retryable=True, retry_after=retry_after)


class ServiceTimeoutError(ServiceError):
    """The service did not answer within `timeout_s`; it may have carried out the request."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(url, f"no answer within {timeout_s:g} s; timeout_s= gives it more", retryable=True)


class ServiceKeyError(ServiceError):
    """The service rejects the key, or requires one and `given` is False."""

    def __init__(self, url: str, *, given: bool = True) -> None:
        self.given = given
        problem = "it rejects this key" if given else "it requires a key, and got none"
        super().__init__(url, f"{problem}; pass the key of your agent as key=")


class ServiceBusyError(ServiceError):
    """The service is overloaded and did nothing."""

    def __init__(self, url: str, *, retry_after: float | None) -> None:
        when = "later" if retry_after is None else f"in {retry_after:g} s"
        super().__init__(url, f"it has too much to do; ask again {when}", retryable=True, retry_after=retry_after)


class ServiceReplyError(ServiceError):
    """The answer does not follow the protocol of a jazz-select service."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, f"{problem}; is this the address of jazz-select serve, and of this version?")


class AgentError(JazzSelectError):
    """Something about an agent's turn."""


class ChainError(AgentError):
    """A chain of tool calls stopped early where that is not allowed; `.chain` is what there is."""

    def __init__(self, chain: Any, problem: str) -> None:
        self.chain, self.problem = chain, problem
        super().__init__(f"the chain of tool calls did not end: {problem}")


class FormatError(AgentError):
    """An answer does not fit the requested schema. `finalize` can be called on `.chain` again.

    Attributes:
        phase: `call` if the model could not be asked, `reply` if its reply is not valid.
        problem: What is wrong. `prompt`, `attempts`, `last_text` and `schema` have the details.
    """

    def __init__(  # noqa: PLR0913 - data with a name
        self,
        problem: str,
        *,
        phase: Literal["call", "reply"],
        prompt: str,
        attempts: int,
        last_text: str,
        schema: Mapping[str, Any],
        chain: Any,
    ) -> None:
        self.phase, self.problem, self.prompt, self.attempts = phase, problem, prompt, attempts
        self.last_text, self.schema, self.chain = last_text, schema, chain
        times = ""  # the model was not asked at all
        if attempts:
            times = f" after {count_of(attempts, 'attempt')} ({phase})"
        super().__init__(f"no answer fits the schema{times}: {problem}")


class PlanError(AgentError):
    """A model's reply is not a decision on an action."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the model's reply cannot be used: {problem}")


class RouterError(AgentError):
    """A graph of guards and actions cannot work."""


class SnapshotError(AgentError):
    """A paused turn cannot be resumed here; `.missing` names what is missing, if anything."""

    def __init__(self, problem: str, *, missing: tuple[str, ...] = ()) -> None:
        self.problem, self.missing = problem, missing
        super().__init__(f"the snapshot cannot be resumed: {problem}")


class ModelError(JazzSelectError):
    """A call to a model failed.

    Attributes:
        model: The model's name.
        problem: What happened.
        retryable: Whether the same call may succeed later (timeouts, 429, 5xx).
        retry_after: The provider's requested wait in seconds, or None.
    """

    def __init__(self, model: str, problem: str, *, retryable: bool, retry_after: float | None = None) -> None:
        self.model, self.problem = model, problem
        self.retryable, self.retry_after = retryable, retry_after
        super().__init__(f"the model {model} failed: {problem}")


class ModelTimeoutError(ModelError):
    """The model timed out; with `rest`, the limit was the remaining time of the whole turn."""

    def __init__(self, model: str, *, timeout_s: float, rest: bool = False) -> None:
        self.timeout_s = timeout_s
        problem = f"no answer within {timeout_s:g} s"
        if rest:
            problem = f"no answer within the {timeout_s:.3g} s that were left" if timeout_s else "no time was left"
        super().__init__(model, problem, retryable=True)


class ModelUnavailableError(ModelError):
    """The model was not asked because it failed lately.

    Attributes:
        failures: Failed requests in a row.
        wait_s: Seconds until it is asked again.
    """

    def __init__(self, model: str, *, failures: int, wait_s: float) -> None:
        self.failures, self.wait_s = failures, wait_s
        times = "once" if failures == 1 else f"{failures} times in a row"
        problem = f"not asked, since it failed {times}; asked again in {wait_s:.1f} s"
        super().__init__(model, problem, retryable=True, retry_after=wait_s)


class DecisionAskError(ModelError):
    """A request to a decision model is not valid and was not sent; `problem` says how to fix it."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(model, f"not asked: {problem}", retryable=False)


class DecisionReplyError(ModelError):
    """A decision model's answer to `question` cannot be used; without a name, the whole answer."""

    def __init__(self, model: str, problem: str, *, question: str = "") -> None:
        self.question = question
        about = f" to {_short(question)}" if question else ""
        super().__init__(model, f"its answer{about} cannot be used: {problem}", retryable=False)


class ToolError(JazzSelectError):
    """A tool cannot work as described.

    Attributes:
        tool: Its name.
        problem: What is wrong and what would be right.
    """

    def __init__(self, tool: str, problem: str) -> None:
        self.tool, self.problem = tool, problem
        super().__init__(f"tool {tool!r}: {problem}")


class DuplicateToolError(ToolError):
    """Two connected tools have the same name, so a call could mean either."""

    def __init__(self, tool: str, ids: tuple[str, str]) -> None:
        self.ids = ids
        problem = f"two tools have this name ({ids[0]} and {ids[1]}); rename one, or connect only one"
        super().__init__(tool, f"{problem}; prefix= of tools_from_session and tools_from_mcp tells servers apart")


class ToolArgumentsError(ToolError):
    """A call's arguments do not fit the tool's function, which was not called; `names` are those, if that is known."""

    def __init__(self, tool: str, problem: str, names: tuple[str, ...] = ()) -> None:
        self.names = names
        super().__init__(tool, f"the arguments are not valid: {problem}")


class ToolAnswerError(ToolError):
    """The tool's server reported a failure; `answer` is its text, in one line."""

    def __init__(self, tool: str, answer: str) -> None:
        self.answer = answer
        super().__init__(tool, f"its server answered: {answer}")


class ToolOutcomeUnknownError(ToolError):
    """A call was sent and its outcome is unknown: it may have had its effect. `what` is what happened."""

    def __init__(self, tool: str, problem: str) -> None:
        self.what = problem
        super().__init__(tool, f"it may have been done: {problem}")


class HungError(JazzSelectError):
    """A plain function, such as a tool or a hook, was not called because too many earlier calls of it hang.

    Attributes:
        problem: How many hang, and when it can be called again.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"it was not called: {problem}")
        self.problem = problem


class WrongValue(JazzSelectError):  # noqa: N818 - a tool or a check answers by it
    """Values from the user are wrong. The agent shows the message, asks for them again and keeps the rest.

    `WrongValue("email", "No account has this address.")` is about one argument. Several are asked for again together:
    `WrongValue(["start", "end"], "The end is before the start.")`, or each with a message of its own,
    `WrongValue({"start": "…", "end": "…"})`.

    Attributes:
        name: The argument; of several the first.
        message: The message to the user; of several all messages.
        reasons: The message for each argument.
    """

    def __init__(self, name: "str | Sequence[str] | Mapping[str, str]", message: str = "") -> None:
        if isinstance(name, str):
            self.reasons = {name: str(message)}
        elif isinstance(name, Mapping):
            self.reasons = {str(each): str(text) for each, text in name.items()}
        else:
            self.reasons = {str(each): str(message) for each in name}
        self.name = next(iter(self.reasons), "")
        self.message = " ".join(dict.fromkeys(self.reasons.values()))
        super().__init__(self.message)


class CannotDo(JazzSelectError):  # noqa: N818 - a tool or a check answers by it
    """What the user wishes cannot be done, because a precondition does not hold. Nothing was done.

    A tool raises it before it changes anything. So may its `confirm`, the check of an input, `approve` and a guard,
    which run before the user is asked for a yes. It is no failure: the flow ends, nothing is retried or handed over.

    Attributes:
        message: The message to the user, shown as it is, such as "Order 60138 is shipped.".
    """

    def __init__(self, message: str) -> None:
        self.message = str(message)
        super().__init__(self.message)


class DecisionCallbackError(ToolError):
    """A decision callback failed, timed out, or chose something that was not offered; its own error is the cause."""

    def __init__(self, after: str, problem: str) -> None:
        super().__init__(after, f"the choice of what follows it failed: {problem}")
