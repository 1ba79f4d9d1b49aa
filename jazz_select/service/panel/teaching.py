"""A correction kept with one click: as a case to judge by, or as an example that is learned; and told to the log."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import Field

from jazz_select.data_files import documents_of, read_text
from jazz_select.errors import ConfigError, DataFileError, JazzSelectError, OutcomeLogError, UnreadableFileError
from jazz_select.evaluation.cases import NONE, Case, read_cases
from jazz_select.evaluation.corrections import LONGEST, tell_unlearned, why_unfit
from jazz_select.evaluation.learner import estimate_cost, with_example, without_requests
from jazz_select.evaluation.overlay import (
    Overlay,
    OverlayStore,
    Version,
    examples_of,
    now,
    spelling_key,
    takes_examples,
    yaml_text,
)
from jazz_select.evaluation.route import RouteOptions
from jazz_select.evaluation.whole_files import file_lock
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import is_array, plain
from jazz_select.outcomes.callers import Caller
from jazz_select.outcomes.entries import Logged
from jazz_select.outcomes.evidence import same_request
from jazz_select.outcomes.log import OutcomeLog, current_source
from jazz_select.selector.policy import Policy
from jazz_select.selector.select import FlowSelector
from jazz_select.service.api.models import RequestBody
from jazz_select.service.panel.runs import PanelFiles, replace_file
from jazz_select.service.panel.try_and_talk import LONGEST_REQUEST
from jazz_select.service.running import RunningCatalogue
from jazz_select.text import describe_error
from jazz_select.threads import compute
from jazz_select.values import flow_id

_MOST_SHOWN: Final = 30
_FULL: Final = "move it to another name, which `cases` of serve takes, and a new one is begun"
_CASE_FIELDS: Final = {"request", "expect", "why"}
_log = logging.getLogger(__name__)


_Text = Annotated[str, Field(max_length=LONGEST_REQUEST)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class CorrectionBody(RequestBody):
    """What was right for a request, and what is to be made of it."""

    request: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    right: list[_Name] = Field(default=[], max_length=10)
    """Names of flows; none where nothing fits."""
    make: Literal["case", "example"] = "case"
    episodes: list[_Text] = Field(default=[], max_length=20)
    note: Annotated[str, Field(max_length=LONGEST)] = ""
    by: Annotated[str, Field(max_length=200)] = ""
    """Who says so. Needed to overrule what was learned for another flow."""
    logged: Annotated[str, Field(max_length=100)] = ""
    """The entry of the log that it is about; one is made where there is none."""


class UndoBody(RequestBody):
    """What is to be taken back: an example that was learned, or all that the last version brought."""

    request: Annotated[str, Field(max_length=LONGEST_REQUEST)] = ""
    """The example; empty for the last version."""
    by: Annotated[str, Field(max_length=200)] = ""
    """Who says so."""


async def save_correction(catalogue: RunningCatalogue, files: PanelFiles, body: CorrectionBody) -> dict[str, Any]:
    """Write what was right for a request, and tell what was written where.

    Raises:
        ConfigError: There is no such flow, it contradicts what is known, or a file cannot be written. Nothing was.

    What goes wrong once it is written is told in `problems`: what is kept and not live, a log that could not be told.
    """
    right = _right_flows(catalogue, body)
    if not body.request.strip():
        raise ConfigError("request: it is blank; write what a user would say")
    if body.make == "case":
        answer = await compute(add_case, catalogue.live.registry, files, body, right)
        entry = await _selection_id(catalogue, body)
    else:
        await compute(_teachable_text, catalogue, files, body, right)
        entry = await _selection_id(catalogue, body)  # as it was selected before anything is taught
        answer = await compute(_save_example, catalogue, files, body.model_copy(update={"logged": entry}), right)
    problems: list[str] = []
    if answer["is_new"] and body.make == "example":
        answer |= await _make_live(catalogue, problems)
    try:
        if catalogue.log is not None:
            person = current_source("person", body.by.strip())
            await catalogue.live.selector.feedback(entry, right=right, note=body.note, source=person)
    except JazzSelectError as error:
        _log.error("agent_id=<%s> | a correction is kept, and the log not told", catalogue.agent_id, exc_info=error)
        entry = ""
        problems.append(f"kept, and the log could not be told: {describe_error(error)}")
    return {**answer, "logged": entry, "problems": problems}


async def _make_live(catalogue: RunningCatalogue, problems: list[str]) -> dict[str, Any]:
    """Read the flows with what was written, and tell the generation; else add why it is not live to the problems."""
    try:
        return {"generation": (await catalogue.reload()).number}
    except Exception as error:  # noqa: BLE001 - it is written: whatever it is, whoever wrote it is to hear of it
        _log.error("agent_id=<%s> | what was written is not live", catalogue.agent_id, exc_info=error)
        problems.append(f"kept, not live: {catalogue.problem or describe_error(error)}")
        return {}


def _right_flows(catalogue: RunningCatalogue, body: CorrectionBody) -> tuple[str, ...]:
    for name in body.right:
        if flow_id(name) not in catalogue.live.registry:
            raise ConfigError(f"right: there is no flow {name!r:.80}; none at all says that nothing fits")
    return tuple(dict.fromkeys(body.right))


def recent_lessons(catalogue: RunningCatalogue, files: PanelFiles, caller: Caller) -> dict[str, Any]:
    """Return what was collected and learned, and the last entries of the log that the caller may correct. Blocking."""
    cases = _cases(files.collected)
    collected = {
        "file": files.collected.as_posix(),
        "count": len(cases),
        "cases": [case.model_dump(include=_CASE_FIELDS) for case in reversed(cases[-_MOST_SHOWN:])],
    }
    return {"collected": collected, "learned": _recently_learned(catalogue), "log": _recent_log(catalogue, caller)}


def _recently_learned(catalogue: RunningCatalogue) -> dict[str, Any]:
    learned = catalogue.learned
    overlay = Overlay() if learned is None else learned.load()
    live = overlay.version("live")
    return {
        "file": "" if learned is None else learned.name,
        "version": overlay.live,
        "count": 0 if live is None else live.count,
        "can_undo": bool(overlay.was_live),
        "examples": {} if live is None else {name: list(texts) for name, texts in live.examples.items()},
    }


def _recent_log(catalogue: RunningCatalogue, caller: Caller) -> dict[str, Any] | None:
    log = catalogue.log
    if log is None:
        return None
    own = None if caller.may_teach else caller.key
    entries = list(log.read(agent_id=catalogue.agent_id, last=_MOST_SHOWN, key=own))
    return {
        "count": log.agents().get(catalogue.agent_id, 0),
        "entries": [_entry_data(entry) for entry in reversed(entries)],
    }


def _entry_data(entry: Logged) -> dict[str, Any]:
    by = entry.corrected_by
    return {**entry.to_dict(), "by": {"chosen": str(entry.chosen_by), "corrected": "" if by is None else str(by)}}


# --- cases -----------------------------------------------------------------------


def add_case(
    registry: Mapping[str, BaseFlow], files: PanelFiles, body: CorrectionBody, right: Sequence[str]
) -> dict[str, Any]:
    """Append a case to the file where they are collected, and say what was written. Blocking."""
    file = files.collected
    entry: dict[str, Any] = {"request": body.request.strip(), "expect": list(right) or NONE}
    if body.episodes:
        entry["episodes"] = list(body.episodes)
    if body.note.strip():
        entry["why"] = body.note.strip()
    case = Case.model_validate(entry)
    if owner := _example_of(registry, case.request):
        msg = f"this request is an example of {owner} word for word, so as a case it would measure nothing: reword it"
        raise ConfigError(msg)
    with file_lock(file):
        for known_file in dict.fromkeys((*files.cases, file)):
            for known in _cases(known_file):
                if _spelled_requests(known) != _spelled_requests(case):
                    continue
                if set(known.expect) != set(case.expect):
                    expects = ", ".join(known.expect) or NONE
                    raise ConfigError(f"{known_file} has this request already, and expects {expects}: change it there")
                return {"is_new": False, "file": known_file.as_posix(), "text": "", "make": "case"}
        written: str = yaml.safe_dump(entry, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**9)
        text = f"- {written.strip()}"
        before = read_text(file) if file.is_file() else ""
        replace_file(file, _append_entry(before, text, file), partial(read_cases, registry=None), advice=_FULL)
    return {"is_new": True, "file": file.as_posix(), "text": text, "make": "case"}


def _append_entry(before: str, text: str, file: Path) -> bytes:
    ending = "" if not before or before.endswith("\n") else "\n"
    after = f"{before}{ending}{text}\n"
    # The file may end in the middle of something else, such as a block of text: then the entry would become part of it.
    if _count(file, after) != _count(file, before) + 1:
        raise ConfigError(f"nothing can be added at the end of {file}: it is no list with an entry a line")
    return after.encode()


def _count(file: Path, text: str | None = None) -> int:
    """Return the number of entries in a file; negative if it is no list."""
    try:
        found = next((document.value for document in documents_of(file, text, suffix=".yaml")), None)
    except DataFileError as error:
        if not error.is_syntax and text is not None:
            raise UnreadableFileError(str(file), error.problem, advice=_FULL) from error
        return -2
    if found is None:
        return 0
    return len(found) if is_array(found) else -2


def _cases(file: Path) -> tuple[Case, ...]:
    if not file.is_file() or not _count(file):
        return ()
    return read_cases(file, None).cases


def _spelled_requests(case: Case) -> tuple[str, ...]:
    return tuple(map(spelling_key, (case.request, *case.episodes)))


# --- examples ----------------------------------------------------------------------


def _teachable_text(
    catalogue: RunningCatalogue, files: PanelFiles, body: CorrectionBody, right: Sequence[str]
) -> str | None:
    """Return the text as an example to learn; None if the flow has it as an example already.

    Raises:
        ConfigError: It can be no example.
    """
    text = yaml_text(body.request)
    if catalogue.learned is None:
        msg = "this service has no file of what is learned, so no example is kept: start it with --config learned=FILE"
        raise ConfigError(msg)
    if len(right) != 1 or body.episodes:
        msg = "an example is a request that is for one flow by itself: choose one flow, or make it a case"
        raise ConfigError(msg)
    if why := why_unfit(text):
        raise ConfigError(f"it can be no example, since {why}: reword it, or make it a case")
    registry = catalogue.live.registry
    (name,) = right
    if not all(takes_examples(flow) for flow in registry.values() if flow.name == name):
        raise ConfigError(f"{name} makes its own examples, so none can be added: make it a case")
    if (owner := _example_of(registry, text)) and owner != name:
        msg = f"it is an example of {owner} already, and one request leads to one flow: take it out there first"
        raise ConfigError(msg)
    for cases in dict.fromkeys((*files.cases, files.collected)):
        if any(spelling_key(case.request) == spelling_key(text) for case in _cases(cases)):
            msg = f"it is a case of {cases}, which would measure nothing any more: reword it, or leave it a case"
            raise ConfigError(msg)
    return None if owner == name else text


def _learned_of(catalogue: RunningCatalogue) -> OverlayStore:
    if catalogue.learned is None:
        raise ConfigError("this service has no file of what is learned: start it with --config learned=FILE")
    return catalogue.learned


def _save_example(
    catalogue: RunningCatalogue, files: PanelFiles, body: CorrectionBody, right: Sequence[str]
) -> dict[str, Any]:
    text = _teachable_text(catalogue, files, body, right)
    learned = _learned_of(catalogue)
    (name,) = right
    answer: dict[str, Any] = {"is_new": False, "file": learned.name, "text": "", "make": "example"}
    if text is None:
        return answer
    versions_before: list[int] = []

    def teach(overlay: Overlay) -> Overlay:
        versions_before.append(overlay.live)
        return _add_example(overlay, name=name, text=text, ids=body.logged, by=body.by)

    answer["version"] = learned.change(teach).live
    if answer["version"] in versions_before:  # it was learned already
        return answer
    return {**answer, "is_new": True, "text": f"{name}: {text}"}


def _add_example(overlay: Overlay, *, name: str, text: str, ids: str, by: str) -> Overlay:
    """Return the overlay with a live version that has one more example; a version on trial stays."""
    before = examples_of(overlay.version("live"))
    owners = _owners(before, text)
    if owners == [name]:
        return overlay
    if owners and not by.strip():
        raise ConfigError(f"{owners[0]} has learned it already: say who you are (by) to overrule that")
    return _with_live(overlay, with_example(before, name, text, ids))


def _with_live(overlay: Overlay, examples: Mapping[str, Mapping[str, str]]) -> Overlay:
    """Return the overlay with these examples in a new live version; a version on trial stays."""
    made = overlay.start_trial(Version(number=1, at=now(), after=overlay.live, examples=examples)).promote()
    on_trial = overlay.shadow if made.version(overlay.shadow) else 0
    return made.model_copy(update={"shadow": on_trial})


def _example_of(registry: Mapping[str, BaseFlow], text: str) -> str:
    wanted = spelling_key(text)
    for flow in registry.values():
        if any(spelling_key(each) == wanted for each in flow.examples):
            return flow.name
    return ""


# --- the log -------------------------------------------------------------------------


async def _selection_id(catalogue: RunningCatalogue, body: CorrectionBody) -> str:
    if catalogue.log is None or body.logged:
        return body.logged
    live, top_k = catalogue.live, catalogue.settings.top_k
    selector = FlowSelector(
        None,
        live.registry,
        catalogue.memory,
        catalogue.agent_id,
        top_k,
        log=catalogue.log,
        policy=Policy(on_empty="none"),
    )
    try:
        result = await selector.select(body.request, episode_summaries=body.episodes or None)
    except JazzSelectError as error:
        _log.error("agent_id=<%s> | what a correction is about is not logged", catalogue.agent_id, exc_info=error)
        return ""
    return result.logged


# --- what it costs, and back ------------------------------------------------------------


async def rehearse_example(catalogue: RunningCatalogue, files: PanelFiles, body: CorrectionBody) -> dict[str, Any]:
    """Tell what an example would cost, and which flow's example it would be no more. It takes seconds.

    The cost is told by all cases that the panel knows, and is None if those are too few.

    Raises:
        ConfigError: It can be no example, or a file of cases cannot be read.
        EmbeddingError: The embedder failed.
    """
    right = _right_flows(catalogue, body)
    found = await compute(_teachable_text, catalogue, files, body, right)
    if found is None:  # the flow has it already
        return {"cost": None, "overrules": ""}
    overlay = await compute(_learned_of(catalogue).load)
    owners = _owners(examples_of(overlay.version("live")), found)
    others = [owner for owner in owners if owner != right[0]]
    live, settings = catalogue.live, catalogue.settings
    # A case of a flow that is gone says nothing of these flows.
    cases: list[Case] = []
    for file in files.known.values():
        for case in await compute(_cases, file):
            if all(flow_id(name) in live.registry for name in case.expect):
                cases.append(case)
    corrections: list[Logged] = []
    if catalogue.log is not None:
        corrections = await compute(_read_corrections, catalogue.log, catalogue.agent_id)
    cost = await estimate_cost(
        live.registry,
        found,
        right[0],
        entries=corrections,
        overlay=overlay,
        gate_cases=cases,
        embedder=catalogue.memory.encoder.embedder,
        language=settings.language,
        routing=RouteOptions.from_settings(settings),
    )
    overrules = others[0] if others else ""
    return {"cost": plain(cost), "overrules": overrules}


def _owners(learned: Mapping[str, Mapping[str, str]], text: str) -> list[str]:
    """Return the flows that have learned a request."""
    wanted = same_request(text)
    return [flow for flow, texts in learned.items() if any(same_request(each) == wanted for each in texts)]


def _read_corrections(log: OutcomeLog, agent_id: str) -> list[Logged]:
    """Return what people corrected; nothing from a log that cannot be read, as a log never stops a correction."""
    try:
        return list(log.read(agent_id=agent_id, corrected=True))
    except OutcomeLogError as error:
        _log.error("agent_id=<%s> | an example is judged without the log", agent_id, exc_info=error)
        return []


async def undo_teaching(catalogue: RunningCatalogue, body: UndoBody) -> dict[str, Any]:
    """Take back an example, or make the version live that was so before the last one; and read it anew.

    The log is told, so that `learn` keeps to it. What goes wrong once it is written is told in `problems`.

    Raises:
        ConfigError: Nothing is learned here, or there is nothing to take back.
    """
    store = _learned_of(catalogue)
    learned: list[Mapping[str, Mapping[str, str]]] = []

    def undo(overlay: Overlay) -> Overlay:
        before = examples_of(overlay.version("live"))
        if body.request:
            kept = without_requests(before, {same_request(body.request)})
            if kept == before:
                raise ConfigError(f"nothing like {body.request!r:.80} is learned: look at what is")
            made = _with_live(overlay, kept)
        else:
            made = overlay.roll_back()
        learned[:] = [before, examples_of(made.version("live"))]
        return made

    changed = await compute(store.change, undo)
    problems: list[str] = []
    answer = await _make_live(catalogue, problems)
    try:
        if catalogue.log is not None:
            person = current_source("person", body.by.strip())
            await compute(partial(tell_unlearned, source=person), catalogue.log, *learned)
    except JazzSelectError as error:
        _log.error("agent_id=<%s> | what was taken back is not told to the log", catalogue.agent_id, exc_info=error)
        problems.append(f"taken back, and the log could not be told: {describe_error(error)}")
    return {"version": changed.live, "can_undo": bool(changed.was_live), "problems": problems, **answer}
