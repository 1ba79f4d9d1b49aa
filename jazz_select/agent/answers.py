"""The end of a turn: a text, and the answer in the schema that was asked for."""

from dataclasses import replace

import orjson

from jazz_select.agent.answering import asked_again, fitted, spaced, worded
from jazz_select.agent.finalizing import finalize
from jazz_select.agent.running import Running
from jazz_select.agent.transcript import AssistantText, Chain, Entry, ToolRequest, ToolResult
from jazz_select.agent.turn import Work
from jazz_select.errors import ChainError, FormatError
from jazz_select.json_values import as_json, storable
from jazz_select.ports import ChatModel
from jazz_select.telemetry import span
from jazz_select.values import Message, Tier


class Answers:
    """Gives the answers of turns."""

    def __init__(self, model: ChatModel | None, running: Running) -> None:
        """Take who puts answers into a schema where what is known does not fill it, if anyone does."""
        self._model = model
        self._running = running

    async def give(self, work: Work) -> None:
        """Put the answer of a turn into words, and into the schema if there is one."""
        told = [worded(run, self._running.flow) for run in work.runs]
        top = work.flows[-1] if work.flows else None
        if top is not None and not work.text and top.status != "active" and (not work.runs or not work.runs[-1].begun):
            work.status, told = "waiting", [asked_again(top, work.context)]
        work.text = "\n\n".join(text for text in (work.text, *told) if text)
        if work.resumed:
            work.text += f"\n\nBack to: {spaced(work.resumed)}."
        if isinstance(work.error, ChainError):
            work.status = "failed"
        work.reason = work.reason or (work.runs[-1].problem if work.runs else "")
        if work.schema is not None and work.status not in {"waiting", "open", "failed"}:
            with span("format", "decision") as traced:
                tier = await self._formatted(work)
                if traced is not None:
                    traced.note({"tier": tier.value, "given": work.value is not None})

    async def _formatted(self, work: Work) -> Tier:
        """By what is known where that fills the schema, else by the model."""
        schema = work.schema
        if schema is None:
            return Tier.OPEN
        filled = fitted(schema, work.runs)
        if filled is not None:
            work.value, work.text = filled.value, orjson.dumps(filled.plain).decode()
            return Tier.DETERMINISTIC
        chain = _transcript(work)
        if self._model is None:
            problem = "what tools returned does not fill the schema, and there is no model to put it there"
            work.error = work.error or FormatError(
                problem, phase="call", prompt="", attempts=0, last_text="", schema=schema.json, chain=chain
            )
            return Tier.OPEN
        try:
            given = await finalize(self._model, chain, schema.model or schema.json)
        except (FormatError, ChainError) as error:
            work.error, work.reason = work.error or error, work.reason or str(error)
            return Tier.OPEN
        work.value, work.text = given.value, given.text
        work.incomplete = work.incomplete or given.incomplete
        return Tier.GUIDED


def _transcript(work: Work) -> Chain:
    """What tools did in this turn, with what a model and its tools did after them, as one chain."""
    entries: list[Entry] = []
    for run in work.runs:
        for number, step in enumerate(run.steps, start=1):
            if not step.tool:
                continue
            own, ok = f"{run.flow}-{number}", step.status == "ok"
            output = storable(as_json(step.output)) if ok else None
            entries.append(ToolRequest(id=own, round=0, tool=step.tool, requested=step.tool))
            entries.append(ToolResult(id=own, round=0, tool=step.tool, ok=ok, output=output, error=step.error))
    if work.chain is not None:
        return replace(work.chain, entries=(*entries, *work.chain.entries))
    said = tuple(each.message() for each in work.conversation.messages)
    entries.append(AssistantText(text=work.text))
    return Chain(messages=(*said, Message(role="user", content=work.message)), entries=tuple(entries), answer=work.text)
