"""A selector of another process gives the answers of the one that is there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from jazz_select import Agent, FlowSelector, tool_from_function
from jazz_select.client import RemoteSelector, ServiceKeyError, ServiceReplyError
from jazz_select.errors import ConfigError
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.selector.prompt import ConversationContext
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.testing import ScriptedModel
from tests.unit.client.serving import KEY, acting, catalogue, close, refund, says, serving, shop_flows, track

REQUESTS = ["I want my money back", "where is my parcel", "delete my account", "what is the weather", "ümlaut € 退款"]


def rounded(value: Any) -> Any:
    """The engine's last digits differ from one recall to the next."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [rounded(each) for each in cast("list[Any]", value)]
    return round(value, 5) if isinstance(value, float) else value


def without_time(result: FlowSelectionResult) -> dict[str, Any]:
    """What does not depend on how long it took."""
    told = rounded(result.to_dict())
    del told["decision"]["latency"]
    for stage in told["decision"]["stages"]:
        del stage["took_s"]
    return told


@pytest.mark.spec("008.2")
async def test_it_answers_as_the_one_in_process() -> None:
    model = ScriptedModel('["refund_order"]', repeat=True)
    async with catalogue(model) as made, serving(made) as url, RemoteSelector(url, key=KEY, agent_id="shop") as remote:
        local = made.live.selector
        for request in REQUESTS:
            ways: list[dict[str, Any]] = [{}, {"episode_summaries": ["They wait."]}, {"context": {"member": True}}]
            for options in ways:
                here = await local.select(request, **options)
                there = await remote.select(request, **options)
                assert without_time(there) == without_time(here)
        many = [*REQUESTS, SelectRequest("my parcel", episode_summaries=["They wait."])]
        here = await local.select_many(many)
        assert [without_time(each) for each in await remote.select_many(many)] == [without_time(each) for each in here]
        foreseen = await remote.select_many(REQUESTS[:2], ask=False)
        assert [each.decision.reason for each in foreseen] == [
            each.decision.reason for each in await local.select_many(REQUESTS[:2], ask=False)
        ]
        found = [each.as_metadata() for each in here[0].decision.candidates][:1]
        given = await remote.select(REQUESTS[0], found)
        assert given.names == (await local.select(REQUESTS[0], found)).names
        one = await remote.select(REQUESTS[0], only=[found[0]["flow_id"]])
        assert [each.flow_id for each in one.decision.candidates] == [found[0]["flow_id"]]


async def test_its_flows_are_live_where_they_live() -> None:
    registry = shop_flows()
    async with catalogue() as made, serving(made) as url:
        async with RemoteSelector(url, key=KEY, registry=registry) as remote:
            result = await remote.select("refund my order")
            assert result.chosen_flows[0] is registry[result.chosen_flows[0].id]
        async with RemoteSelector(url, key=KEY) as remote:
            result = await remote.select("refund my order")
            assert result.chosen_flows[0].definition() == registry[result.chosen_flows[0].id].definition()


async def test_recall_flows_and_feedback(tmp_path: Path) -> None:
    async with catalogue(log=tmp_path / "log") as made, serving(made) as url, RemoteSelector(url, key=KEY) as remote:
        found = await remote.recall("refund my order", top_k=2)
        assert [each["flow_name"] for each in found][:1] == ["refund_order"]
        assert len(found) == 2
        assert found.p_none is None or 0 <= found.p_none <= 1
        rest = await remote.recall("refund my order", exclude=[found[0]["flow_id"]])
        assert "refund_order" not in [each["flow_name"] for each in rest]
        assert [each["flow_name"] for each in await remote.flows()] == ["close_account", "refund_order", "track_order"]
        result = await remote.select("refund my order")
        assert result.logged
        await remote.feedback(result, right="track_order", note="they meant the parcel")
        await remote.feedback(result.logged, right=[])
        with pytest.raises(ConfigError, match="no_such_flow"):
            await remote.feedback(result, right="no_such_flow")
        with pytest.raises(ConfigError, match="not logged"):
            await remote.feedback(FlowSelectionResult(), right=[])


async def test_a_unix_socket_and_no_key(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with catalogue() as made, serving(made, path=path, keyed=False) as url:
        for remote in (RemoteSelector(url, uds=str(path)), RemoteSelector(uds=str(path))):
            assert (await remote.select("refund my order")).names == ["refund_order"]
            await remote.aclose()
        async with RemoteSelector(uds=str(path), agent_id="others") as remote:
            with pytest.raises(ConfigError, match="serves the agent 'shop', not 'others': give its own address"):
                await remote.select("refund")


async def test_a_key_opens_its_own_agent_alone() -> None:
    async with catalogue() as made, serving(made) as url:
        for key, told in ((None, "it requires a key"), ("another", "it rejects this key")):
            async with RemoteSelector(url, key=key) as remote:
                with pytest.raises(ServiceKeyError, match=told) as raised:
                    await remote.select("refund")
            assert raised.value.given is (key is not None)
        async with RemoteSelector(url, key=f" {KEY}\n") as remote:  # as the file of a key has it
            assert (await remote.select("refund my order")).names == ["refund_order"]
        async with RemoteSelector(url, key=KEY, agent_id="others") as remote:
            for _ in range(2):
                with pytest.raises(ConfigError, match="opens the agent 'shop', not 'others'"):
                    await remote.select("refund")


async def test_it_is_a_selector_wherever_one_is_wanted() -> None:
    registry = shop_flows()
    tools = [tool_from_function(each) for each in (refund, track, close)]
    async with catalogue() as made, serving(made) as url, RemoteSelector(url, key=KEY, registry=registry) as remote:
        assert isinstance(remote, FlowSelector)
        assert not remote.has_model
        agent = Agent(remote, tools)
        result = await agent.turn("refund my order", context={"email": "a@example.org"})
        assert (result.status, result.flows) == ("done", ["refund_order"])
        with pytest.raises(ConfigError, match="situation does not travel"):
            await remote.select("yes", situation=ConversationContext())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_may_be_used_in_several_event_loops() -> None:
    found = FlowSelectionResult().to_dict()

    async def main() -> None:
        async with acting(says(200, found)) as script:
            remote = RemoteSelector(script.url)

            def select() -> Any:
                return asyncio.run(remote.select("x"))

            first, second = await asyncio.gather(asyncio.to_thread(select), asyncio.to_thread(select))
            assert first.to_dict() == second.to_dict()
            assert (await remote.select("x")).names == []
            await remote.aclose()
            assert (await remote.select("x")).names == [], "closed, it opens anew"
            await remote.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"context": {"db": object()}}, r"context\['db'\] is no JSON"),
        ({"context": {1: 2}}, "context"),
        ({"candidates": [{"flow_id": {1, 2}, "x": object()}]}, r"candidates\[0\] is no JSON"),
        ({"episode_summaries": [1]}, "episode_summaries"),
    ],
    ids=["value of context", "key of context", "candidate", "summary"],
)
async def test_what_cannot_be_sent_is_not_sent(arguments: dict[str, Any], told: str) -> None:
    async with acting(says(200, {})) as script, RemoteSelector(script.url) as remote:
        with pytest.raises(ConfigError, match=told):
            await remote.select("x", **arguments)
        with pytest.raises(ConfigError, match="enhanced_query"):
            await remote.select(7)  # pyright: ignore[reportArgumentType]
        assert not script.requests


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"url": "127.0.0.1:80"}, "address"),
        ({"url": "ftp://x"}, "address"),
        ({"url": 7}, "address"),
        ({"url": None}, "address"),
        ({"url": "http://me:secret@x"}, "address alone"),
        ({"url": "http://x/?a=b"}, "address alone"),
        ({"key": "two words"}, "key"),
        ({"key": "a\r\nX-Evil: 1"}, "key"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"max_retries": -1}, "max_retries"),
        ({"agent_id": 3}, "agent_id"),
        ({"registry": []}, "flow_registry"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_when_it_is_made(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        RemoteSelector(**cast("Any", {"url": "http://127.0.0.1:1", **arguments}))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"chosen": 1},
        {"chosen": [{"flow_name": "x", "prompt": "", "flow_id": "y"}], "candidates": [7], "decision": {}},
        {"results": []},
        {"candidates": 7},
        {"flows": [1]},
        None,
        b"<html>hello</html>",
        b"\xff\xfe",
        b"",
    ],
    ids=lambda body: str(body)[:30],
)
async def test_an_answer_that_is_not_ours_is_said_to_be_that(body: Any) -> None:
    async with acting(says(200, body)) as script, RemoteSelector(script.url) as remote:
        asked: list[Callable[[], Awaitable[Any]]] = [
            lambda: remote.select("x"),
            lambda: remote.select_many(["x"]),
            lambda: remote.recall("x"),
            remote.flows,
        ]
        for each in asked:
            with pytest.raises(ServiceReplyError, match="jazz-select serve"):
                await each()
        assert len(script.requests) == len(asked), "and is not asked again"


@pytest.mark.parametrize(
    "url",
    [
        "user:hunter2@127.0.0.1:8420",
        "http://user:hunter2#more@127.0.0.1:8420",
        "http://user:hunter2/more@127.0.0.1:8420",
        "ftp://user:hunter2@127.0.0.1",
        "http://user:hunter2@127.0.0.1:8420",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="url must be") as raised:
        RemoteSelector(url)
    assert "hunter2" not in str(raised.value)
