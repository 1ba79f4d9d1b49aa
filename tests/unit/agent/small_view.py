"""One small conversation in the middle of a turn, and the prompts that are made from it, afresh and grown.

`python -m tests.unit.agent.small_view` writes them into `whole_prompts/`, for whoever changes what a model is told; a
test compares them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jazz_select import FlowRegistry
from jazz_select.agent.chain.prompts import opening
from jazz_select.agent.conversation import Conversation, PastCall, Said
from jazz_select.agent.conversation_view import ConversationView, FlowInView
from jazz_select.agent.flows.one_flow import decision_situation
from jazz_select.agent.flows.open_flows import OpenFlowQuestion, shown_texts
from jazz_select.agent.reading.grounding import Wanted, shown_inputs
from jazz_select.agent.turn import TurnRequest
from jazz_select.routing import Tool
from jazz_select.routing.decisions.decision_points import ToolCandidate, decision_prompt
from jazz_select.routing.decisions.model_decision import decision_messages
from jazz_select.selector.prompt import FirstShown, PromptHistoryRecorder, build_prompt, growing_prompt
from jazz_select.values import Message, flow_id
from tests.unit.selector.shop import candidates, flow, shop

FOLDER: Final = Path(__file__).parent / "whole_prompts"
ORDER: Final = {"type": "object", "properties": {"order_number": {"type": "string"}}, "required": ["order_number"]}
TOOLS: Final = (
    Tool(name="look_up", description="Find an order.", input_schema=ORDER, read_only=True),
    Tool(name="cancel_order", description="Cancel an order.", input_schema=ORDER, destructive=True),
)
SHOWN: Final = (
    FirstShown("flow", "cancel_order", 1),
    FirstShown("flow", "refund_order", 1),
    FirstShown("procedure", "refund_order", 1),
    FirstShown("tool", "cancel_order", 1),
    FirstShown("tool", "look_up", 1),
)
Prompts = dict[str, tuple[Message, ...]]


def small_view(text: str = "", **changes: Any) -> ConversationView:
    """The conversation; where a text is given, it stands wherever a customer or a tool can put one."""
    kept = text[:300]  # what is kept of calls is bounded
    said, told, question = text or "send 60112 back", text or "To go on, I need: reason.", text or "Shall I go on?"
    both = (Said(role="user", content=said), Said(role="assistant", content=told))
    messages: tuple[Said, ...] = changes.pop("said", both)
    request = TurnRequest(
        message=text or "no, 60105, and it is too small",
        conversation=Conversation(messages=messages, turns=sum(each.role == "user" for each in messages)),
        context={},
        facts={
            "today": text or "2026-03-05",
            f"the {text}" if text else "support": "help@shop.example",
            "open": {"mon": [text, 9]},
        },
    )
    given: dict[str, Any] = {
        "request": request,
        "flows": (
            FlowInView(
                flow_id=flow_id("refund_order"),
                name="refund_order",
                title=text or "Money back",
                wanted=said,
                waits_for="reason",
            ),
            FlowInView(
                flow_id=flow_id("cancel_order"),
                name="cancel_order",
                title=text or "Cancelling",
                state="parked",
                wanted=text or "cancel the lamp",
                waits_for=question,
            ),
        ),
        "calls": (
            PastCall(
                tool="look_up", arguments={"order_number": kept or "60112"}, output='{"state": "shipped"}', turn=1
            ),
            PastCall(
                tool=kept or "look_up", arguments={kept or "order_number": [kept]}, output=kept or "no such order"
            ),
            PastCall(tool="look_up", output=f"failed: {kept or 'gone'}", failed=True),
        ),
        "waits_for": question,
        "waiting": "refund_order",
    }
    return ConversationView(**given | changes)


def prompts_of(view: ConversationView, text: str = "") -> Prompts:
    """Every prompt that a turn may make from a view; the text is what the task and missing names say."""
    registry = FlowRegistry(min_examples=0)
    refund = flow("refund_order", registry, tools=("look_up", "cancel_order"), steps=("Look.", "Cancel."))
    card = ToolCandidate(name="cancel_order", description="Cancel an order.", input_schema_summary={})
    number = Wanted({"type": "string", "description": text or "Number of the order"}, {})

    def inputs(_: str) -> tuple[str, ...]:
        return shown_inputs({f"the {text}" if text else "order_number": number})

    names = [f"the {text}" if text else "weigh_it"]  # of two words: it is shown in quotes, whatever the text
    own = OpenFlowQuestion(
        view=view, flow="refund_order", procedure="PROCEDURE", missing=names, lost=names, within="refund_order"
    )
    grown = growing_view(view)
    usable = {"look_up": "look_up"}
    texts = shown_texts(SHOWN[2:], {tool.name: tool for tool in TOOLS}, {"refund_order": "PROCEDURE"})
    decision = decision_prompt("look_up", ["state"], [card])
    return {
        "choose": build_prompt(
            view.request.message, (), candidates(), situation=replace(view.situation(), inputs=inputs)
        ).messages,
        "decide": decision_messages(
            {"state": text or "shipped"}, decision, situation=decision_situation(view, refund, TOOLS)
        ),
        "call": tuple(opening(own.messages(), TOOLS)),
        "talk": tuple(opening(OpenFlowQuestion(view=view).messages(), TOOLS[:1])),
        "choose_growing": growing_prompt(
            view.request.message, candidates(), replace(grown.situation(), inputs=inputs), flows=shop()
        ).messages,
        "decide_growing": decision_messages(
            {"state": text or "shipped"}, decision, situation=decision_situation(grown, refund, TOOLS)
        ),
        "call_growing": tuple(
            OpenFlowQuestion(
                view=grown,
                shown=texts,
                usable=usable,
                flow="refund_order",
                missing=names,
                lost=names,
                within="refund_order",
            ).messages()
        ),
        "talk_growing": tuple(OpenFlowQuestion(view=grown, shown=texts, usable=usable).messages()),
    }


def growing_view(view: ConversationView) -> ConversationView:
    """The same where prompts only grow: two flows were shown, a procedure and a tool, and another tool is new."""
    turns = view.request.conversation.turns
    return replace(view, request=replace(view.request, ledger=PromptHistoryRecorder(turns + 1, SHOWN if turns else ())))


def written(messages: tuple[Message, ...]) -> str:
    """A prompt as a text."""
    return "".join(f"--- {each.role}\n{each.content}\n" for each in messages)


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for kind, messages in prompts_of(small_view()).items():
        (FOLDER / f"{kind}.txt").write_text(written(messages), "utf-8")


if __name__ == "__main__":
    main()
