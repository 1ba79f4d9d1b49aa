"""Calls in the text of a reply, and in a provider's own form: the same comes of both."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from jazz_select.agent import run_chain
from jazz_select.agent.chain.transcript import AssistantText, Chain, ToolRequest, ToolResult
from jazz_select.routing import Allow, Tool
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, NativeCall, Reply

Calls = Sequence[tuple[str, str, Any]]
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "string", "pattern": "^[0-9]+$"}},
    "required": ["order"],
}


class Shop:
    """Tools that say what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.tools = [
            Tool(name="shop.look_up", description="Looks up.", input_schema=ORDER, function=self.find, read_only=True),
            Tool(name="note", description="Notes.", input_schema={"type": "object"}, function=self.note),
            Tool(name="cancel", description="Cancels.", input_schema=ORDER, function=self.cancel, destructive=True),
        ]

    def find(self, order: str) -> dict[str, str]:
        self.done.append(f"found {order}")
        return {"state": f"{order} is sent"}

    def note(self) -> str:
        self.done.append("noted")
        return "noted"

    def cancel(self, order: str) -> str:
        self.done.append(f"cancelled {order}")
        return "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A reply, which can be written in both forms."""

    calls: Calls = ()
    text: str = ""
    finish_reason: str = "stop"

    def as_text(self) -> Reply:
        called = [{"id": own, "tool": tool, "arguments": given} for own, tool, given in self.calls]
        told = {"tool_calls": called, **({"text": self.text} if self.text else {})}
        text = json.dumps(told) if called else self.text
        return Reply(text=text[:-4] if self.finish_reason == "length" else text, finish_reason=self.finish_reason)

    def as_calls(self) -> Reply:
        called = tuple(NativeCall(id=own, name=tool, arguments=given) for own, tool, given in self.calls)
        return Reply(text=self.text, tool_calls=called, finish_reason=self.finish_reason)


def _found(number: str, own: str = "a") -> tuple[str, str, Any]:
    return own, "shop.look_up", {"order": number}


CASES: dict[str, tuple[Said, ...]] = {
    "one call": (Said(calls=[_found("7")]),),
    "several calls": (Said(calls=[_found("7"), ("b", "note", {}), _found("8", "c")]),),
    "arguments as text": (Said(calls=[("a", "shop.look_up", '{"order": "7"}')]),),
    "arguments that are no object": (Said(calls=[("a", "shop.look_up", "[1]"), ("b", "note", {})]),),
    "arguments that are no JSON": (Said(calls=[("a", "shop.look_up", '{"order": ')]),),
    "arguments left out": (Said(calls=[("a", "note", "")]),),
    "arguments against the schema": (Said(calls=[_found("seven")]),),
    "an unknown tool": (Said(calls=[("a", "fly to the moon", {}), ("b", "note", {})]),),
    "an id of no form": (Said(calls=[_found("7", "a # b"), _found("8", "# " * 250)]),),
    "text beside a call": (Said(calls=[_found("7")], text="I look it up."),),
    "a call after a call": (Said(calls=[_found("7")]), Said(calls=[_found("8")])),
    "the same call again": (Said(calls=[("a", "cancel", {"order": "7"})]),) * 2,
    "what destroys, twice at once": (Said(calls=[("a", "cancel", {"order": "7"}), ("b", "cancel", {"order": "7"})]),),
    "what destroys, beside others": (Said(calls=[_found("7"), ("b", "cancel", {"order": "7"}), ("c", "note", {})]),),
    "an output of another call": (Said(calls=[("a", "note", {}), ("b", "shop.look_up", {"order": {"$ref": "a#"}})]),),
    "a reference to nowhere": (Said(calls=[("b", "shop.look_up", {"order": {"$ref": "z#"}})]),),
    "nothing": (Said(),),
    "JSON of its own that names a tool": (Said(text='{"note": 1}'),),
    "an answer at once": (Said(text="Hello."),),
}


def _told(chain: Chain) -> list[Any]:
    """What was said and done; how a reply that could not be read was written is left out."""
    calls = [each for each in chain.entries if isinstance(each, ToolRequest | ToolResult)]
    return [chain.status, chain.answer, [replace(each, round=each.round) for each in calls]]


def _done(shop: Shop) -> tuple[list[str], list[str]]:
    """What was changed, in its order, and what was found: calls that only read run side by side."""
    return [each for each in shop.done if not each.startswith("found")], sorted(shop.done)


async def _played(said: Sequence[Said], *, native: bool, **options: Any) -> tuple[Chain, Shop, ScriptedModel]:
    shop = Shop()
    replies = [each.as_calls() if native else each.as_text() for each in (*said, Said(text="Done."))]
    model = ScriptedModel(*replies, repeat=True, takes_tools=native)
    given: dict[str, Any] = {"approval": "never", **options}
    chain = await run_chain(model, "Where is order 7?", shop.tools, **given)
    return chain, shop, model


@pytest.mark.spec("011.10")
@pytest.mark.parametrize("policy", ["never", "destructive"])
@pytest.mark.parametrize("said", CASES.values(), ids=CASES)
async def test_the_same_comes_of_both_forms(said: tuple[Said, ...], policy: str) -> None:
    text, at_text, _ = await _played(said, native=False, approval=policy)
    native, at_native, model = await _played(said, native=True, approval=policy)
    assert _told(native) == _told(text)
    assert _done(at_native) == _done(at_text)
    assert [each.name for each in model.tools[0]] == ["shop_look_up", "note", "cancel"]
    for messages in model.calls:
        _whole(messages)


def _whole(messages: Sequence[Message]) -> None:
    """Every call has just one result, right behind it, by an id of its own: providers refuse anything else."""
    waiting: list[str] = []
    for each in messages:
        if each.role == "tool":
            assert waiting.pop(0) == each.call_id
        else:
            assert not waiting
            waiting = [call.id for call in each.tool_calls]
            assert len(set(waiting)) == len(waiting)
            assert all(call.name for call in each.tool_calls)
    assert not waiting


async def test_calls_by_the_names_that_were_offered() -> None:
    chain, shop, _ = await _played([Said(calls=[("a", "shop_look_up", {"order": "7"})])], native=True)
    assert shop.done == ["found 7"]
    assert [each.tool for each in chain.entries if isinstance(each, ToolRequest)] == ["shop.look_up"]


async def test_the_model_hears_of_results_in_its_own_form() -> None:
    said = Reply(text="I look.", tool_calls=(NativeCall(id="c7", name="shop_look_up", arguments='{"order":"7"}'),))
    said = replace(said, origin="opaque")
    model = ScriptedModel(said, "It is sent.", takes_tools=True)
    chain = await run_chain(model, "Where is order 7?", Shop().tools)
    first, second = model.calls
    assert "shop_look_up" not in str(first)
    assert second[: len(first)] == first
    assert model.tools[1] == model.tools[0]
    asked, result = second[len(first) :]
    assert (asked.content, asked.origin, [each.id for each in asked.tool_calls]) == ("I look.", "opaque", ["c7"])
    assert (result.role, result.call_id, result.tool) == ("tool", "c7", "shop_look_up")
    assert json.loads(result.content) == {"ok": True, "result": {"state": "7 is sent"}}
    assert chain.answer == "It is sent."
    assert "I look." in chain.records[0].reply
    assert "shop_look_up" in chain.records[0].reply


async def test_a_model_of_somebodys_own_may_call_anything() -> None:
    shop = Shop()
    odd: Any = ("note", None, NativeCall(id="a", name="note", arguments={"x": 1}))
    model = ScriptedModel(Reply(text="", tool_calls=odd), "Done.", takes_tools=True)
    chain = await run_chain(model, "Note it.", shop.tools)
    assert chain.status == "answered"


async def test_what_the_model_says_of_a_refused_schema_is_noted_once() -> None:
    note = "tools are told plainer"
    calls = (NativeCall(id="a", name="note"),)
    model = ScriptedModel(
        Reply(text="", tool_calls=calls, notes=(note,)), Reply(text="Done.", notes=(note,)), takes_tools=True
    )
    assert (await run_chain(model, "Note it.", Shop().tools)).notes == (note,)


@pytest.mark.parametrize(("begun", "ended"), [(True, True), (True, False), (False, True)])
async def test_a_chain_is_gone_on_with_in_either_form(begun: bool, ended: bool) -> None:
    said = Said(calls=[_found("7"), ("b", "cancel", {"order": "7"})], text="I would cancel it.")
    chain, shop, _ = await _played([said], native=begun, approval="destructive", until_asked=True)
    assert chain.status == "asked"
    model = ScriptedModel("Done.", takes_tools=ended)
    kept: Mapping[str, Any] = json.loads(json.dumps(chain.to_dict()))
    after = await run_chain(model, "Where is order 7?", shop.tools, after=Chain.from_dict(kept), answer=Allow())
    assert shop.done == ["found 7", "cancelled 7"]
    assert after.answer == "Done."
    _whole(model.calls[0])
    assert "I would cancel it." in str(model.calls[0])
    assert [each.text for each in after.entries if isinstance(each, AssistantText)] == ["I would cancel it.", "Done."]
