"""Every policy at every stage: who decides, what is chosen, and what each stage says of it, as one table."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from jazz_select import FlowSelector
from jazz_select.chat.client import ChatClient
from jazz_select.errors import ModelError
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.selector.policy import PRESETS, Policy, PolicyLike
from jazz_select.selector.prompt import ConversationContext, UnderWay
from jazz_select.stages import Usage
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel, likely
from jazz_select.values import Reason, Reply
from tests.unit.selector.shop import CANCEL, REFUND, metadata, shop
from tests.unit.selector.test_cascade import Sure

pytestmark = pytest.mark.spec("016.1")

REQUEST: Final = "something with my order"
DOWN: Final = ModelError("model", "down", retryable=False)
POLICIES: Final[Mapping[str, Policy]] = {
    **PRESETS,
    "budget": Policy(max_error=0.01),
    "any error": Policy(max_error=1.0),
    "empty=none": Policy(on_empty="none"),
    "error=likely": Policy(on_error="likely"),
    "error=none": Policy(on_error="none"),
    "error=ask": Policy(on_error="ask"),
    "ask user": Policy(ask_user=True),
}
"""The presets, and policies that set one field."""
RECALLS: Final[Mapping[str, Callable[[], Sure]]] = {
    "sure": lambda: Sure(0.9998, 0.0001, 0.0, p_none=1.1e-06),
    "fairly": lambda: Sure(0.97, 0.02, 0.005, p_none=0.00011),
    "torn": lambda: Sure(0.5, 0.45, 0.01, p_none=0.012),
    "one": lambda: Sure(0.6, p_none=0.012),
    "unlikely": lambda: Sure(0.3, 0.2, 0.1, p_none=0.84),
    "unlikely1": lambda: Sure(0.3, p_none=0.84),
}
"""What recall finds: refund_order first, then exchange_order and cancel_order, or refund_order alone."""
_Models = Callable[[], tuple[ScriptedModel | None, ScriptedDecider | None]]


def decider(wanted: str, probability: float) -> ScriptedDecider:
    """A decision model for the flow of this name, or for refund_order where that is not offered."""

    def answer(_: str, questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        names = {meaning.partition(".")[0]: label for label, meaning in question.options.items()} | {"none": "none"}
        return {asked: likely(question, names.get(wanted, names["refund_order"]), probability)}

    return ScriptedDecider(answer, repeat=True)


def chat(*replies: str | Exception) -> ScriptedModel:
    return ScriptedModel(*replies, repeat=True)


def chooses_the_last() -> ScriptedModel:
    """A chat model that chooses the last candidate it is shown."""
    return ScriptedModel(lambda messages: '["2"]' if "exchange_order" in messages[-1].content else '["1"]', repeat=True)


MODELS: Final[Mapping[str, _Models]] = {
    "nobody": lambda: (None, None),
    "decider sure": lambda: (None, decider("refund_order", 0.999)),
    "decider torn": lambda: (None, decider("exchange_order", 0.55)),
    "decider none": lambda: (None, decider("none", 0.9999)),
    "chat chooses": lambda: (chooses_the_last(), None),
    "chat none": lambda: (chat("[]"), None),
    "chat fails": lambda: (chat(DOWN), None),
    "both choose": lambda: (chooses_the_last(), decider("refund_order", 0.999)),
    "both fail": lambda: (chat(DOWN), ScriptedDecider(DOWN, repeat=True)),
}
SIGNS: Final = {"decided": "=", "handed_on": ">", "none": "0", "failed": "!", "skipped": "-"}


async def outcome(policy: str, recall: str, models: str) -> str:
    """Return the row of the table: the reason, the flow, and each stage with the sign of its outcome."""
    model, decides = MODELS[models]()
    made = FlowSelector(model, shop(), RECALLS[recall](), "shop", policy=POLICIES[policy], decider=decides)
    result = await made.select(REQUEST)
    decision = result.decision
    asked = model is not None and bool(model.calls)
    chats = [each.outcome for each in decision.stages if each.name == "chat"]
    assert asked is bool([each for each in chats if each != "skipped"]), "the record says who was asked"
    assert (decision.question is not None) is (decision.reason is Reason.ASK)
    chosen = ",".join(each.removesuffix("_order") for each in result.names) or "-"
    stages = " ".join(f"{each.name}{SIGNS[each.outcome]}" for each in decision.stages)
    return f"{decision.reason.value:<14} {chosen:<8} {stages}"


TABLE: Final = """
policy       | recall    | models       | reason         flow     stages

default      | sure      | nobody       | semantic       refund   recall=
default      | sure      | decider sure | decider        refund   recall> decider=
default      | sure      | decider torn | decider        refund   recall> decider>
default      | sure      | decider none | decider        refund   recall> decider>
default      | sure      | chat chooses | llm            exchange recall> chat=
default      | sure      | chat none    | fallback_empty refund   recall> chat0
default      | sure      | chat fails   | fallback_error refund   recall> chat!
default      | sure      | both choose  | decider        refund   recall> decider= chat-
default      | sure      | both fail    | fallback_error refund   recall> decider! chat!
default      | fairly    | nobody       | semantic       refund   recall=
default      | fairly    | decider sure | decider        refund   recall> decider=
default      | fairly    | decider torn | decider        refund   recall> decider>
default      | fairly    | decider none | decider        refund   recall> decider>
default      | fairly    | chat chooses | llm            exchange recall> chat=
default      | fairly    | chat none    | fallback_empty refund   recall> chat0
default      | fairly    | chat fails   | fallback_error refund   recall> chat!
default      | fairly    | both choose  | decider        refund   recall> decider= chat-
default      | fairly    | both fail    | fallback_error refund   recall> decider! chat!
default      | torn      | nobody       | semantic       refund   recall=
default      | torn      | decider sure | decider        refund   recall> decider>
default      | torn      | decider torn | decider        exchange recall> decider>
default      | torn      | decider none | decider        refund   recall> decider>
default      | torn      | chat chooses | llm            exchange recall> chat=
default      | torn      | chat none    | fallback_empty refund   recall> chat0
default      | torn      | chat fails   | fallback_error refund   recall> chat!
default      | torn      | both choose  | llm            exchange recall> decider> chat=
default      | torn      | both fail    | fallback_error refund   recall> decider! chat!
default      | one       | nobody       | single         refund   recall=
default      | one       | decider sure | single         refund   recall= decider-
default      | one       | decider torn | single         refund   recall= decider-
default      | one       | decider none | single         refund   recall= decider-
default      | one       | chat chooses | single         refund   recall= chat-
default      | one       | chat none    | single         refund   recall= chat-
default      | one       | chat fails   | single         refund   recall= chat-
default      | one       | both choose  | single         refund   recall= decider- chat-
default      | one       | both fail    | single         refund   recall= decider- chat-
default      | unlikely  | nobody       | semantic       refund   recall=
default      | unlikely  | decider sure | decider        refund   recall> decider>
default      | unlikely  | decider torn | decider        exchange recall> decider>
default      | unlikely  | decider none | decider        refund   recall> decider>
default      | unlikely  | chat chooses | llm            exchange recall> chat=
default      | unlikely  | chat none    | fallback_empty refund   recall> chat0
default      | unlikely  | chat fails   | fallback_error refund   recall> chat!
default      | unlikely  | both choose  | llm            exchange recall> decider> chat=
default      | unlikely  | both fail    | fallback_error refund   recall> decider! chat!
default      | unlikely1 | nobody       | single         refund   recall=
default      | unlikely1 | decider sure | single         refund   recall= decider-
default      | unlikely1 | decider torn | single         refund   recall= decider-
default      | unlikely1 | decider none | single         refund   recall= decider-
default      | unlikely1 | chat chooses | single         refund   recall= chat-
default      | unlikely1 | chat none    | single         refund   recall= chat-
default      | unlikely1 | chat fails   | single         refund   recall= chat-
default      | unlikely1 | both choose  | single         refund   recall= decider- chat-
default      | unlikely1 | both fail    | single         refund   recall= decider- chat-

recommended  | sure      | nobody       | confident      refund   recall=
recommended  | sure      | decider sure | confident      refund   recall= decider-
recommended  | sure      | decider torn | confident      refund   recall= decider-
recommended  | sure      | decider none | confident      refund   recall= decider-
recommended  | sure      | chat chooses | confident      refund   recall= chat-
recommended  | sure      | chat none    | confident      refund   recall= chat-
recommended  | sure      | chat fails   | confident      refund   recall= chat-
recommended  | sure      | both choose  | confident      refund   recall= decider- chat-
recommended  | sure      | both fail    | confident      refund   recall= decider- chat-
recommended  | fairly    | nobody       | semantic       refund   recall>
recommended  | fairly    | decider sure | decider        refund   recall> decider=
recommended  | fairly    | decider torn | decider        refund   recall> decider>
recommended  | fairly    | decider none | decider        refund   recall> decider>
recommended  | fairly    | chat chooses | llm            exchange recall> chat=
recommended  | fairly    | chat none    | none           -        recall> chat0
recommended  | fairly    | chat fails   | fallback_error refund   recall> chat!
recommended  | fairly    | both choose  | decider        refund   recall> decider= chat-
recommended  | fairly    | both fail    | fallback_error refund   recall> decider! chat!
recommended  | torn      | nobody       | semantic       refund   recall>
recommended  | torn      | decider sure | decider        refund   recall> decider>
recommended  | torn      | decider torn | decider        exchange recall> decider>
recommended  | torn      | decider none | decider        refund   recall> decider>
recommended  | torn      | chat chooses | llm            exchange recall> chat=
recommended  | torn      | chat none    | none           -        recall> chat0
recommended  | torn      | chat fails   | fallback_error refund   recall> chat!
recommended  | torn      | both choose  | llm            exchange recall> decider> chat=
recommended  | torn      | both fail    | fallback_error refund   recall> decider! chat!
recommended  | one       | nobody       | single         refund   recall=
recommended  | one       | decider sure | decider        refund   recall> decider>
recommended  | one       | decider torn | decider        refund   recall> decider>
recommended  | one       | decider none | none           -        recall> decider>
recommended  | one       | chat chooses | llm            refund   recall> chat=
recommended  | one       | chat none    | none           -        recall> chat0
recommended  | one       | chat fails   | fallback_error refund   recall> chat!
recommended  | one       | both choose  | llm            refund   recall> decider> chat=
recommended  | one       | both fail    | fallback_error refund   recall> decider! chat!
recommended  | unlikely  | nobody       | none           -        recall>
recommended  | unlikely  | decider sure | none           -        recall> decider>
recommended  | unlikely  | decider torn | none           -        recall> decider>
recommended  | unlikely  | decider none | none           -        recall> decider>
recommended  | unlikely  | chat chooses | llm            exchange recall> chat=
recommended  | unlikely  | chat none    | none           -        recall> chat0
recommended  | unlikely  | chat fails   | none           -        recall> chat!
recommended  | unlikely  | both choose  | llm            exchange recall> decider> chat=
recommended  | unlikely  | both fail    | none           -        recall> decider! chat!
recommended  | unlikely1 | nobody       | none           -        recall>
recommended  | unlikely1 | decider sure | none           -        recall> decider>
recommended  | unlikely1 | decider torn | none           -        recall> decider>
recommended  | unlikely1 | decider none | none           -        recall> decider0
recommended  | unlikely1 | chat chooses | llm            refund   recall> chat=
recommended  | unlikely1 | chat none    | none           -        recall> chat0
recommended  | unlikely1 | chat fails   | none           -        recall> chat!
recommended  | unlikely1 | both choose  | llm            refund   recall> decider> chat=
recommended  | unlikely1 | both fail    | none           -        recall> decider! chat!

cautious     | fairly    | decider sure | decider        refund   recall> decider>
cautious     | fairly    | both choose  | llm            exchange recall> decider> chat=
cautious     | torn      | nobody       | ask            -        recall> user>
cautious     | torn      | decider sure | ask            -        recall> decider> user>
cautious     | torn      | decider torn | ask            -        recall> decider> user>
cautious     | torn      | decider none | ask            -        recall> decider> user>
cautious     | torn      | chat none    | ask            -        recall> chat0 user>
cautious     | torn      | chat fails   | ask            -        recall> chat! user>
cautious     | torn      | both fail    | ask            -        recall> decider! chat! user>
cautious     | one       | nobody       | single         refund   recall>
cautious     | one       | decider none | none           -        recall> decider> user>
cautious     | unlikely  | nobody       | none           -        recall> user>
cautious     | unlikely  | decider sure | ask            -        recall> decider> user>
cautious     | unlikely  | decider torn | ask            -        recall> decider> user>
cautious     | unlikely  | decider none | none           -        recall> decider> user>
cautious     | unlikely1 | nobody       | none           -        recall> user>
cautious     | unlikely1 | decider none | none           -        recall> decider> user>

budget       | sure      | nobody       | confident      refund   recall=
budget       | sure      | decider sure | confident      refund   recall= decider-
budget       | sure      | decider torn | confident      refund   recall= decider-
budget       | sure      | decider none | confident      refund   recall= decider-
budget       | sure      | chat chooses | confident      refund   recall= chat-
budget       | sure      | chat none    | confident      refund   recall= chat-
budget       | sure      | chat fails   | confident      refund   recall= chat-
budget       | sure      | both choose  | confident      refund   recall= decider- chat-
budget       | sure      | both fail    | confident      refund   recall= decider- chat-
budget       | fairly    | nobody       | semantic       refund   recall>
budget       | torn      | nobody       | semantic       refund   recall>
budget       | one       | decider sure | decider        refund   recall> decider>
budget       | one       | decider torn | decider        refund   recall> decider>
budget       | one       | decider none | decider        refund   recall> decider>
budget       | one       | chat chooses | llm            refund   recall> chat=
budget       | one       | chat none    | fallback_empty refund   recall> chat0
budget       | one       | chat fails   | fallback_error refund   recall> chat!
budget       | one       | both choose  | llm            refund   recall> decider> chat=
budget       | one       | both fail    | fallback_error refund   recall> decider! chat!
budget       | unlikely  | nobody       | semantic       refund   recall>
budget       | unlikely1 | decider sure | decider        refund   recall> decider>
budget       | unlikely1 | decider torn | decider        refund   recall> decider>
budget       | unlikely1 | decider none | decider        refund   recall> decider>
budget       | unlikely1 | chat chooses | llm            refund   recall> chat=
budget       | unlikely1 | chat none    | fallback_empty refund   recall> chat0
budget       | unlikely1 | chat fails   | fallback_error refund   recall> chat!
budget       | unlikely1 | both choose  | llm            refund   recall> decider> chat=
budget       | unlikely1 | both fail    | fallback_error refund   recall> decider! chat!

any error    | sure      | nobody       | confident      refund   recall=
any error    | sure      | decider sure | confident      refund   recall= decider-
any error    | sure      | decider torn | confident      refund   recall= decider-
any error    | sure      | decider none | confident      refund   recall= decider-
any error    | sure      | chat chooses | confident      refund   recall= chat-
any error    | sure      | chat none    | confident      refund   recall= chat-
any error    | sure      | chat fails   | confident      refund   recall= chat-
any error    | sure      | both choose  | confident      refund   recall= decider- chat-
any error    | sure      | both fail    | confident      refund   recall= decider- chat-
any error    | fairly    | nobody       | confident      refund   recall=
any error    | fairly    | decider sure | confident      refund   recall= decider-
any error    | fairly    | decider torn | confident      refund   recall= decider-
any error    | fairly    | decider none | confident      refund   recall= decider-
any error    | fairly    | chat chooses | confident      refund   recall= chat-
any error    | fairly    | chat none    | confident      refund   recall= chat-
any error    | fairly    | chat fails   | confident      refund   recall= chat-
any error    | fairly    | both choose  | confident      refund   recall= decider- chat-
any error    | fairly    | both fail    | confident      refund   recall= decider- chat-
any error    | torn      | nobody       | confident      refund   recall=
any error    | torn      | decider sure | confident      refund   recall= decider-
any error    | torn      | decider torn | confident      refund   recall= decider-
any error    | torn      | decider none | confident      refund   recall= decider-
any error    | torn      | chat chooses | confident      refund   recall= chat-
any error    | torn      | chat none    | confident      refund   recall= chat-
any error    | torn      | chat fails   | confident      refund   recall= chat-
any error    | torn      | both choose  | confident      refund   recall= decider- chat-
any error    | torn      | both fail    | confident      refund   recall= decider- chat-
any error    | one       | nobody       | confident      refund   recall=
any error    | one       | decider sure | confident      refund   recall= decider-
any error    | one       | decider torn | confident      refund   recall= decider-
any error    | one       | decider none | confident      refund   recall= decider-
any error    | one       | chat chooses | confident      refund   recall= chat-
any error    | one       | chat none    | confident      refund   recall= chat-
any error    | one       | chat fails   | confident      refund   recall= chat-
any error    | one       | both choose  | confident      refund   recall= decider- chat-
any error    | one       | both fail    | confident      refund   recall= decider- chat-
any error    | unlikely  | nobody       | confident      refund   recall=
any error    | unlikely  | decider sure | confident      refund   recall= decider-
any error    | unlikely  | decider torn | confident      refund   recall= decider-
any error    | unlikely  | decider none | confident      refund   recall= decider-
any error    | unlikely  | chat chooses | confident      refund   recall= chat-
any error    | unlikely  | chat none    | confident      refund   recall= chat-
any error    | unlikely  | chat fails   | confident      refund   recall= chat-
any error    | unlikely  | both choose  | confident      refund   recall= decider- chat-
any error    | unlikely  | both fail    | confident      refund   recall= decider- chat-
any error    | unlikely1 | nobody       | confident      refund   recall=
any error    | unlikely1 | decider sure | confident      refund   recall= decider-
any error    | unlikely1 | decider torn | confident      refund   recall= decider-
any error    | unlikely1 | decider none | confident      refund   recall= decider-
any error    | unlikely1 | chat chooses | confident      refund   recall= chat-
any error    | unlikely1 | chat none    | confident      refund   recall= chat-
any error    | unlikely1 | chat fails   | confident      refund   recall= chat-
any error    | unlikely1 | both choose  | confident      refund   recall= decider- chat-
any error    | unlikely1 | both fail    | confident      refund   recall= decider- chat-

empty=none   | sure      | chat none    | none           -        recall> chat0
empty=none   | fairly    | chat none    | none           -        recall> chat0
empty=none   | torn      | chat none    | none           -        recall> chat0
empty=none   | unlikely  | nobody       | none           -        recall0
empty=none   | unlikely  | decider sure | none           -        recall> decider>
empty=none   | unlikely  | decider torn | none           -        recall> decider>
empty=none   | unlikely  | decider none | none           -        recall> decider0
empty=none   | unlikely  | chat none    | none           -        recall> chat0
empty=none   | unlikely1 | nobody       | none           -        recall0

error=likely | unlikely  | chat fails   | none           -        recall> chat!
error=likely | unlikely  | both fail    | none           -        recall> decider! chat!

error=none   | sure      | chat fails   | none           -        recall> chat!
error=none   | sure      | both fail    | none           -        recall> decider! chat!
error=none   | fairly    | chat fails   | none           -        recall> chat!
error=none   | fairly    | both fail    | none           -        recall> decider! chat!
error=none   | torn      | chat fails   | none           -        recall> chat!
error=none   | torn      | both fail    | none           -        recall> decider! chat!
error=none   | unlikely  | chat fails   | none           -        recall> chat!
error=none   | unlikely  | both fail    | none           -        recall> decider! chat!

error=ask    | torn      | chat fails   | ask            -        recall> chat! user>
error=ask    | torn      | both fail    | ask            -        recall> decider! chat! user>
error=ask    | unlikely  | chat fails   | none           -        recall> chat!
error=ask    | unlikely  | both fail    | none           -        recall> decider! chat!

ask user     | sure      | nobody       | semantic       refund   recall>
ask user     | fairly    | nobody       | semantic       refund   recall>
ask user     | torn      | nobody       | ask            -        recall> user>
ask user     | torn      | decider sure | ask            -        recall> decider> user>
ask user     | torn      | decider torn | ask            -        recall> decider> user>
ask user     | torn      | decider none | ask            -        recall> decider> user>
ask user     | torn      | chat none    | ask            -        recall> chat0 user>
ask user     | torn      | chat fails   | ask            -        recall> chat! user>
ask user     | torn      | both fail    | ask            -        recall> decider! chat! user>
ask user     | one       | nobody       | single         refund   recall>
ask user     | one       | decider sure | decider        refund   recall> decider>
ask user     | one       | decider torn | decider        refund   recall> decider>
ask user     | one       | decider none | decider        refund   recall> decider>
ask user     | one       | chat chooses | llm            refund   recall> chat=
ask user     | one       | chat none    | fallback_empty refund   recall> chat0
ask user     | one       | chat fails   | fallback_error refund   recall> chat!
ask user     | one       | both choose  | llm            refund   recall> decider> chat=
ask user     | one       | both fail    | fallback_error refund   recall> decider! chat!
ask user     | unlikely  | nobody       | none           -        recall> user>
ask user     | unlikely  | decider sure | ask            -        recall> decider> user>
ask user     | unlikely  | decider torn | ask            -        recall> decider> user>
ask user     | unlikely  | decider none | none           -        recall> decider> user>
ask user     | unlikely1 | nobody       | none           -        recall> user>
ask user     | unlikely1 | decider sure | decider        refund   recall> decider>
ask user     | unlikely1 | decider torn | decider        refund   recall> decider>
ask user     | unlikely1 | decider none | none           -        recall> decider> user>
ask user     | unlikely1 | chat chooses | llm            refund   recall> chat=
ask user     | unlikely1 | chat none    | fallback_empty refund   recall> chat0
ask user     | unlikely1 | chat fails   | fallback_error refund   recall> chat!
ask user     | unlikely1 | both choose  | llm            refund   recall> decider> chat=
ask user     | unlikely1 | both fail    | fallback_error refund   recall> decider! chat!
"""
"""`=` decided, `>` handed on, `0` none, `!` failed, `-` skipped. Rows of `cautious` that are as those of `recommended`,
and of other policies that are as those of `default`, are left out."""
_AS: Final[Mapping[str, str | None]] = {"default": None, "recommended": None, "cautious": "recommended"}


def rows() -> dict[tuple[str, str, str], str]:
    """Return the table with all of its rows."""
    written: dict[tuple[str, str, str], str] = {}
    for line in TABLE.strip().splitlines()[1:]:
        if line:
            policy, recall, models, result = (each.strip() for each in line.split("|"))
            written[policy, recall, models] = result
    for policy in POLICIES:
        base = _AS.get(policy, "default")
        for recall in RECALLS:
            for models in MODELS:
                if base is not None:
                    written.setdefault((policy, recall, models), written[base, recall, models])
    return written


@pytest.mark.parametrize(("place", "expected"), [pytest.param(*row, id="-".join(row[0])) for row in rows().items()])
async def test_the_table(place: tuple[str, str, str], expected: str) -> None:
    assert (await outcome(*place)).split() == expected.split()


def test_the_table_has_each_policy_at_each_stage() -> None:
    assert rows().keys() == {(policy, recall, models) for policy in POLICIES for recall in RECALLS for models in MODELS}


# --- a model that fails --------------------------------------------------------

NOT_KNOWN: Final = metadata()
"""Candidates that a caller hands over, without confidences."""


@pytest.mark.spec("016.8")
@pytest.mark.parametrize(
    ("policy", "recall", "names", "reason"),
    [
        pytest.param(Policy(), Sure(0.3, 0.2, p_none=1.0), ["refund_order"], Reason.FALLBACK_ERROR, id="default"),
        pytest.param("recommended", Sure(0.3, 0.2, p_none=1.0), [], Reason.NONE, id="likely, and nothing is"),
        pytest.param("recommended", Sure(0.5, 0.45, p_none=0.012), ["refund_order"], Reason.FALLBACK_ERROR, id="fits"),
        pytest.param(Policy(on_error="likely"), Sure(0.3, p_none=1.0), ["refund_order"], Reason.SINGLE, id="one"),
        pytest.param(Policy(on_error="likely"), NOT_KNOWN, ["refund_order"], Reason.FALLBACK_ERROR, id="likely?"),
        pytest.param(Policy(), NOT_KNOWN, ["refund_order"], Reason.FALLBACK_ERROR, id="default, unknown"),
        pytest.param(Policy(on_error="none"), NOT_KNOWN, [], Reason.NONE, id="none, unknown"),
        pytest.param(Policy(on_error="none"), Sure(0.9, 0.05, p_none=0.0011), [], Reason.NONE, id="none"),
        pytest.param(Policy(on_error="ask"), Sure(0.5, 0.45, p_none=0.012), [], Reason.ASK, id="ask"),
        pytest.param(Policy(on_error="ask"), NOT_KNOWN, [], Reason.ASK, id="ask, unknown"),
        pytest.param("cautious", Sure(0.3, 0.2, p_none=1.0), [], Reason.NONE, id="ask, and nothing is likely"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reply", [DOWN, "I cannot say", ""], ids=["down", "unusable", "empty"])
async def test_a_model_that_fails_leads_where_the_policy_says(
    policy: PolicyLike,
    recall: Sure | list[dict[str, object]],
    names: list[str],
    reason: Reason,
    reply: str | Exception,
) -> None:
    given = recall if isinstance(recall, list) else None
    memory = None if isinstance(recall, list) else recall
    made = FlowSelector(chat(reply), shop(), memory, "shop", policy=policy)
    result = await made.select("Do you allow dogs?", given)
    if reason is Reason.FALLBACK_ERROR and reply is not DOWN:
        reason = Reason.FALLBACK_INVALID
    assert (result.names, result.decision.reason) == (names, reason)
    if reason is Reason.ASK:
        assert result.decision.question is not None
    elif not names:
        assert [each for each in result.decision.notes if each.startswith("the chat model failed")], "and it is told"


# --- costs ---------------------------------------------------------------------


async def test_costs_belong_to_the_stage_whoever_lends_the_model() -> None:
    """A conversation lends its model where the selector has none; what it cost is known when it is not needed."""
    usage = Usage(input_tokens=120, output_tokens=8)
    lent = ScriptedModel(Reply(text='["1"]', usage=usage), repeat=True)
    reader = ChatClient(lent)
    under_way = ConversationContext(under_way=[UnderWay(flow_id=CANCEL)], reader=reader)
    memory = Sure(0.9998, 0.0001, 0.0, p_none=1.1e-06)
    made = FlowSelector(None, shop(), memory, "shop", policy="recommended")
    before = (await made.select(REQUEST)).decision
    assert [each.name for each in before.stages] == ["recall"], "nobody was ever asked"
    asked = (await made.select(REQUEST, situation=under_way)).decision
    assert [(each.name, each.outcome, each.usage) for each in asked.stages if each.name == "chat"] == [
        ("chat", "decided", usage)
    ]
    after = (await made.select(REQUEST)).decision
    (skipped,) = [each for each in after.stages if each.name == "chat"]
    assert (skipped.outcome, skipped.usage) == ("skipped", usage)
    assert skipped.took_s > 0
    assert after.usage is None, "what was not needed is no cost of this selection"
    assert len(lent.calls) == 1


async def test_the_mean_is_of_all_models_that_a_stage_asked() -> None:
    def lend(tokens: int) -> ConversationContext:
        model = ScriptedModel(Reply(text='["1"]', usage=Usage(input_tokens=tokens)), repeat=True)
        return ConversationContext(under_way=[UnderWay(flow_id=REFUND)], reader=ChatClient(model))

    made = FlowSelector(None, shop(), ListMemory(metadata()), "shop")
    for tokens in (100, 300):
        await made.select(REQUEST, situation=lend(tokens))
    (skipped,) = [each for each in (await made.select("refund order")).decision.stages if each.name == "chat"]
    assert skipped.usage == Usage(input_tokens=200)
