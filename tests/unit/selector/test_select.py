"""The story of a selection: narrow, decide, record."""

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelectionResult, FlowSelector
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message, Reason, RecallResult, Reply, Tier, Usage, flow_id
from tests.unit.selector.shop import CANCEL, EXCHANGE, NAMES, REFUND, STALE, flow, metadata, shop


def array(*ids: str) -> str:
    return "[" + ", ".join(f'"{flow_id}"' for flow_id in ids) + "]"


def ends(result: FlowSelectionResult) -> tuple[list[str], Tier, Reason]:
    return result.names, result.decision.tier, result.decision.reason


NOTHING: tuple[list[str], Tier, Reason] = ([], Tier.OPEN, Reason.NONE)


# --- the signature -------------------------------------------------------------


@pytest.mark.spec("003.1")
def test_the_published_signature() -> None:
    made = inspect.signature(FlowSelector).parameters
    assert list(made)[:6] == ["llm", "flow_registry", "proc_mem", "agent_id", "top_k", "rrf_k"]
    assert [made[name].default for name in ("proc_mem", "agent_id", "top_k", "rrf_k")] == [None, "", 3, 10]
    asked = inspect.signature(FlowSelector.select).parameters
    assert list(asked)[1:4] == ["enhanced_query", "candidates", "episode_summaries"]
    further = [*list(made.values())[6:], *list(asked.values())[4:]]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in further)


# --- narrow --------------------------------------------------------------------

QUERIES = [
    pytest.param("money back", None, "money back", id="no summaries"),
    pytest.param("money back", [], "money back", id="an empty list"),
    pytest.param("help with that", ["A broken item."], "help with that A broken item.", id="one"),
    pytest.param("help", ["One.", "Two."], "help One. Two.", id="two, in order"),
    pytest.param("help", ["", "One.", "  ", "\x00"], "help One.", id="blank ones are skipped"),
    pytest.param("help", ["", " "], "help", id="only blank ones"),
    pytest.param("", ["One."], " One.", id="blank query"),
    pytest.param("help", "One summary.", "help One summary.", id="a lone string"),
    pytest.param("退款 🙏", ["前回"], "退款 🙏 前回", id="any script"),
]


@pytest.mark.spec("003.2")
@pytest.mark.parametrize(("query", "summaries", "text"), QUERIES)
async def test_recall_gets_the_query_with_the_summaries(query: str, summaries: Any, text: str) -> None:
    memory = ListMemory(metadata())
    await FlowSelector(None, shop(), memory, "support").select(query, episode_summaries=summaries)
    assert [call.query for call in memory.calls] == [text]


@pytest.mark.spec("003.2")
async def test_recall_gets_agent_and_numbers() -> None:
    memory = ListMemory(metadata())
    await FlowSelector(None, shop(), memory, "support", top_k=7, rrf_k=2).select("money back")
    (call,) = memory.calls
    assert (call.agent_id, call.top_k, call.rrf_k, call.exclude) == ("support", 7, 2, frozenset())


@pytest.mark.spec("003.2")
async def test_a_memory_that_cannot_exclude_is_enough_where_nothing_is_guarded() -> None:
    class Simple:
        async def recall(self, query: str, agent_id: str, top_k: int, rrf_k: int) -> list[dict[str, Any]]:
            return metadata("refund_order")

    selector = FlowSelector(None, shop(), Simple(), "support")  # pyright: ignore[reportArgumentType]
    assert (await selector.select("money back")).names == ["refund_order"]


@pytest.mark.spec("003.3")
async def test_given_candidates_are_taken_instead_of_recall() -> None:
    memory = ListMemory(metadata("cancel_order"))
    given = metadata("refund_order", "exchange_order")
    result = await FlowSelector(None, shop(), memory, "support").select("money back", given)
    assert memory.calls == []
    assert result.names == ["refund_order"]
    assert result.candidates == given


@pytest.mark.spec("003.3")
@pytest.mark.parametrize(
    "given", [{"flow_id": REFUND}, {"flow_name": "refund_order"}, {"flow_id": REFUND, "condition": None, "score": "?"}]
)
async def test_missing_keys_of_given_candidates_count_as_empty(given: dict[str, Any]) -> None:
    result = await FlowSelector(ScriptedModel(array(REFUND)), shop()).select("x", [given, {"flow_id": EXCHANGE}])
    assert ends(result) == (["refund_order"], Tier.GUIDED, Reason.LLM)
    assert result.candidates == [given, {"flow_id": EXCHANGE}]
    assert result.decision.candidates[0].desired_effects == ()


@pytest.mark.spec("003.3")
async def test_no_candidates_given_is_an_answer_and_not_a_request_for_recall() -> None:
    memory = ListMemory(metadata())
    assert ends(await FlowSelector(None, shop(), memory, "support").select("money back", [])) == NOTHING
    assert memory.calls == []


@pytest.mark.spec("003.4")
@pytest.mark.parametrize(
    ("memory", "agent_id"),
    [(None, "support"), (ListMemory(metadata()), ""), (None, "")],
    ids=["memory", "agent", "both"],
)
async def test_without_memory_or_agent_there_is_nothing(memory: ListMemory | None, agent_id: str) -> None:
    model = ScriptedModel()
    result = await FlowSelector(model, shop(), memory, agent_id).select("money back")
    assert ends(result) == NOTHING
    assert (result.candidates, result.combined_prompt, result.unresolved_ids, model.calls) == ([], "", [], [])
    assert "agent_id" in result.decision.notes[0]


@pytest.mark.spec("003.5")
async def test_an_empty_recall_is_an_empty_result() -> None:
    model = ScriptedModel()
    result = await FlowSelector(model, shop(), ListMemory(), "support").select("money back")
    assert ends(result) == NOTHING
    assert model.calls == []


@pytest.mark.parametrize("query", ["", "  \n", "\x00\x01"], ids=repr)
@pytest.mark.parametrize("given", [None, metadata()], ids=["recall", "given"])
async def test_a_blank_request_selects_nothing(query: str, given: Any) -> None:
    memory, model = ListMemory(metadata()), ScriptedModel()
    result = await FlowSelector(model, shop(), memory, "support").select(query, given, [" "])
    assert ends(result) == NOTHING
    assert (memory.calls, model.calls) == ([], [])


async def test_candidates_that_cannot_be_chosen_are_left_out_and_noted() -> None:
    given: Any = [None, {}, {"flow_id": "\x00 "}, {"flow_id": REFUND, "score": 10**400}, *metadata("cancel_order")]
    result = await FlowSelector(None, shop()).select("x", given)
    assert ends(result) == (["cancel_order"], Tier.DETERMINISTIC, Reason.SINGLE)
    assert result.decision.notes == ("4 candidates without a usable id or name were left out",)


@pytest.mark.parametrize(
    "query", ["x" * 100_000, "\x00\x1b[0m refund \x7f", "💸🙏", "退款请求", "\ud800 refund", "]]></request>"], ids=repr
)
async def test_any_request_is_answered(query: str) -> None:
    model = ScriptedModel(array(EXCHANGE))
    result = await FlowSelector(model, shop(), ListMemory(metadata()), "support").select(query)
    assert result.names == ["exchange_order"]


# --- decide --------------------------------------------------------------------


@pytest.mark.spec("003.6")
async def test_one_candidate_is_chosen_without_the_model() -> None:
    model = ScriptedModel()
    result = await FlowSelector(model, shop(), ListMemory(metadata("cancel_order")), "support").select("stop it")
    assert ends(result) == (["cancel_order"], Tier.DETERMINISTIC, Reason.SINGLE)
    assert model.calls == []


@pytest.mark.spec("003.6")
async def test_the_same_candidate_twice_is_one_candidate() -> None:
    model = ScriptedModel()
    given = metadata("cancel_order", "cancel_order")
    result = await FlowSelector(model, shop()).select("x", given)
    assert ends(result) == (["cancel_order"], Tier.DETERMINISTIC, Reason.SINGLE)
    assert result.candidates == given[:1]


@pytest.mark.spec("003.7")
async def test_several_candidates_take_one_call() -> None:
    model = ScriptedModel(array(EXCHANGE))
    result = await FlowSelector(model, shop(), ListMemory(metadata()), "support").select("swap it")
    assert ends(result) == (["exchange_order"], Tier.GUIDED, Reason.LLM)
    assert len(model.calls) == 1
    assert all(f'name="{name}"' in model.calls[0][-1].content for name in NAMES)


@pytest.mark.spec("003.8")
@pytest.mark.parametrize("order", [(REFUND, CANCEL), (CANCEL, REFUND), (CANCEL, EXCHANGE, REFUND)])
async def test_several_flows_in_the_order_of_the_reply(order: Sequence[str]) -> None:
    result = await FlowSelector(ScriptedModel(array(*order)), shop()).select("both", metadata())
    assert tuple(flow.id for flow in result.chosen_flows) == tuple(order) == result.decision.chosen_ids


@pytest.mark.spec("003.11")
async def test_a_stale_id_is_unresolved_with_a_warning_and_the_others_stay(caplog: pytest.LogCaptureFixture) -> None:
    given = metadata("gift_wrap", *NAMES)
    result = await FlowSelector(ScriptedModel(array(STALE, CANCEL)), shop()).select("x", given)
    assert ends(result) == (["cancel_order"], Tier.GUIDED, Reason.LLM)
    assert result.unresolved_ids == [STALE]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert STALE in caplog.text


@pytest.mark.spec("003.11")
async def test_a_single_stale_candidate_runs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    result = await FlowSelector(ScriptedModel(), shop()).select("x", metadata("gift_wrap"))
    assert ends(result) == NOTHING
    assert result.unresolved_ids == [STALE]
    assert STALE in caplog.text


@pytest.mark.spec("003.12")
async def test_what_was_not_offered_is_never_run(caplog: pytest.LogCaptureFixture) -> None:
    given = metadata("refund_order", "exchange_order")
    result = await FlowSelector(ScriptedModel(array(CANCEL, EXCHANGE, "no-such-id")), shop()).select("x", given)
    assert ends(result) == (["exchange_order"], Tier.GUIDED, Reason.LLM)
    assert result.unresolved_ids == [CANCEL, "no-such-id"]
    assert result.decision.parsed_ids == (CANCEL, EXCHANGE, "no-such-id")
    assert "registered but not offered" in caplog.text


@pytest.mark.spec("003.12")
async def test_duplicates_collapse_and_keep_their_order() -> None:
    reply = array(CANCEL, REFUND, CANCEL, REFUND, "ghost", "ghost")
    result = await FlowSelector(ScriptedModel(reply), shop()).select("x", metadata())
    assert result.names == ["cancel_order", "refund_order"]
    assert result.unresolved_ids == ["ghost"]


async def test_without_a_model_the_top_live_candidate_is_chosen(caplog: pytest.LogCaptureFixture) -> None:
    result = await FlowSelector(None, shop()).select("x", metadata("gift_wrap", "cancel_order", "refund_order"))
    assert ends(result) == (["cancel_order"], Tier.DETERMINISTIC, Reason.SEMANTIC)
    assert result.unresolved_ids == [STALE]
    assert STALE in caplog.text


async def test_any_mapping_may_be_the_registry() -> None:
    registry = dict(shop())
    assert (await FlowSelector(ScriptedModel(array(CANCEL)), registry).select("x", metadata())).names == [
        "cancel_order"
    ]


async def test_a_plain_function_may_be_the_model() -> None:
    async def choose(messages: Sequence[Message]) -> str:
        return array(EXCHANGE) if "swap it" in messages[-1].content else "[]"

    assert (await FlowSelector(choose, shop()).select("swap it", metadata())).names == ["exchange_order"]


async def test_the_registry_is_read_anew_at_each_selection() -> None:
    registry = shop("refund_order")
    selector = FlowSelector(None, registry)
    assert ends(await selector.select("x", metadata("cancel_order"))) == NOTHING
    flow("cancel_order", registry)
    assert (await selector.select("x", metadata("cancel_order"))).names == ["cancel_order"]


async def test_many_tasks_share_one_selector() -> None:
    async def slow(messages: Sequence[Message]) -> str:
        wanted = next(name for name in NAMES if f"<request>{name}</request>" in messages[-1].content)
        await asyncio.sleep(0.001 * NAMES.index(wanted))
        return array(flow_id(wanted))

    selector = FlowSelector(slow, shop(), ListMemory(metadata()), "support")
    asked = [NAMES[i % 3] for i in range(60)]
    results = await asyncio.gather(*(selector.select(name) for name in asked))
    assert [result.names for result in results] == [[name] for name in asked]


# --- record --------------------------------------------------------------------


@pytest.mark.spec("003.13")
async def test_prompts_are_compact_and_joined_by_blank_lines() -> None:
    registry = shop()
    result = await FlowSelector(ScriptedModel(array(CANCEL, REFUND)), registry).select("x", metadata())
    assert result.chosen_flows == [registry[CANCEL], registry[REFUND]]
    assert result.chosen_prompts == [registry[i].build_prompt(verbose=False) for i in (CANCEL, REFUND)]
    assert result.combined_prompt == "\n\n".join(result.chosen_prompts)
    assert result.combined_prompt.count("\n\n") == 1


@pytest.mark.spec("003.13")
async def test_the_decision_records_all_that_led_to_it() -> None:
    facts = {"ranks": {"dense": 1, "bm25": 3}, "scores": {"dense": 0.8}, "confidence": 0.7}
    found = RecallResult([metadata("refund_order")[0] | facts, *metadata("cancel_order")], notes=("dense arm failed",))
    reply = Reply(
        text=f"Sure!\n```json\n{array(CANCEL)}\n```", usage=Usage(input_tokens=5, output_tokens=2), model="m-1"
    )
    memory = ListMemory(found, notes=found.notes)
    decision = (await FlowSelector(ScriptedModel(reply), shop(), memory, "support").select("stop it")).decision
    assert (decision.raw_reply, decision.parsed_ids, decision.chosen_ids) == (reply.text, (CANCEL,), (CANCEL,))
    assert (decision.usage, decision.model, decision.error) == (reply.usage, "m-1", "")
    assert decision.confidence == 0.7
    assert [c.flow_name for c in decision.candidates] == ["refund_order", "cancel_order"]
    assert (decision.candidates[0].ranks, decision.candidates[0].scores) == (facts["ranks"], facts["scores"])
    assert decision.notes == ("dense arm failed",)


@pytest.mark.spec("003.13")
async def test_the_decision_says_where_the_time_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazz_select.selector.select.perf_counter", asyncio.get_running_loop().time)

    class Slow(ListMemory):
        async def recall(self, *args: Any, **options: Any) -> RecallResult:
            await asyncio.sleep(0.02)
            return await super().recall(*args, **options)

    model = ScriptedModel(array(CANCEL), delay_s=0.05)
    took = (await FlowSelector(model, shop(), Slow(metadata()), "support").select("x")).decision.latency
    assert took.recall_s == pytest.approx(0.02)
    assert took.choose_s == pytest.approx(0.05)
    assert took.total_s == pytest.approx(took.recall_s + took.choose_s)


async def test_what_was_cut_from_the_prompt_is_noted() -> None:
    result = await FlowSelector(ScriptedModel(array(CANCEL)), shop()).select("x" * 100_000, metadata())
    assert result.decision.notes == ("the request was cut from 100000 to 8000 characters in the prompt",)


async def test_an_empty_registry_is_no_exception() -> None:
    result = await FlowSelector(None, FlowRegistry()).select("x", metadata())
    assert ends(result) == NOTHING
    assert result.unresolved_ids == [REFUND, EXCHANGE, CANCEL]
