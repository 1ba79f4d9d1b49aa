"""`RemoteSelector` and `RemoteAgent`: what a selector and an agent do, asked of a service."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self, cast

from jazz_select.agent.agent_options import Facts
from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike, output_schema
from jazz_select.agent.chain.responder import OwnLoop, in_events, in_own_loop
from jazz_select.agent.chain.transcript import Finished, OnEvent, tell
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.part_checks import checked_facts, resolve_facts
from jazz_select.agent.turn import TurnResult, checked_input
from jazz_select.agent.turn_events import event_of
from jazz_select.arguments import check_argument
from jazz_select.client.connection import ServiceLink
from jazz_select.errors import ConfigError, ServiceReplyError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import as_json, is_array, plain
from jazz_select.selector.asking import NO_QUESTION, question_in
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.selector.prompt import ConversationContext
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import Context, TimeLimit
from jazz_select.stages import UserQuestion
from jazz_select.text import describe_error
from jazz_select.values import Decision, Message, RecallResult, Source, TopK

_SELECT_S: Final = 30.0


class RemoteSelector(FlowSelector):
    """Finds the flows for a request in the catalogue of a service, as a `FlowSelector` does in that of its process.

    ```python
    selector = RemoteSelector("http://127.0.0.1:8420", key="…")
    result = await selector.select("I want my money back")
    ```

    It is one wherever one is wanted, but for what only the service can do: how it selects is the service's to say, a
    `situation` does not travel, and an `Agent` over it takes it for a selector without a model and needs the flows
    themselves, as `registry`. A `RemoteAgent` asks the service's own agent.

    One may be used by many tasks at once, in several event loops, each of which has connections of its own.
    """

    capabilities = ()

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        agent_id: str = "",
        registry: Mapping[str, BaseFlow] | None = None,
        timeout_s: float | None = _SELECT_S,
        max_retries: int = 2,
        uds: str | None = None,
    ) -> None:
        """Take where the service is; it is not asked before something is to be selected.

        Args:
            url: Its address, such as `http://127.0.0.1:8420`; https where it is not on this machine. None with `uds`.
            key: Opens the agent; none where the service needs none. Blanks and line ends around it do not count.
            agent_id: Whose flows are meant. Where it is given, the first call sees that the key opens these.
            registry: The flows that live here, by id: a chosen one of them comes as itself, any other one as a `Flow`
                made of what it says.
            timeout_s: The most that one call may take, asking again included; None for as long as it likes.
            max_retries: How often a call is made again that failed for a passing reason.
            uds: The file of the socket that the service listens at, instead of a port.

        Raises:
            ConfigError: An argument cannot work.
        """
        super().__init__(None, {} if registry is None else registry, None, agent_id)
        self._live = registry
        self._service = ServiceLink(
            url, key=key, agent_id=agent_id, timeout_s=timeout_s, max_retries=max_retries, uds=uds
        )

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._service.aclose()

    async def select(  # noqa: PLR0913 - options with a name
        self,
        enhanced_query: str,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        episode_summaries: Sequence[str] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        only: Collection[str] | None = None,
        situation: ConversationContext | None = None,
        asked: Decision | UserQuestion | None = None,
    ) -> FlowSelectionResult:
        """Find the flows for a request; arguments and result are those of `FlowSelector.select`.

        Raises:
            ConfigError: An argument is of the wrong kind, or cannot be sent.
            ServiceError: There was no answer.
        """
        request = SelectRequest(enhanced_query, candidates, episode_summaries, only, asked)
        check_argument("context", context, Context)
        if situation is not None:
            msg = "a situation does not travel: a RemoteAgent has the service's own agent select within a conversation"
            raise ConfigError(msg)
        body = {**_request_fields(request), "context": sent_json(context, "context")}
        data = await self._service.ask("POST", "/v1/select", body)
        return self._parse_result(data, request)

    async def select_many(
        self,
        requests: Sequence[str | SelectRequest],
        *,
        context: Mapping[str, Any] | None = None,
        ask: bool = True,
    ) -> list[FlowSelectionResult]:
        """Find the flows for several requests; arguments and results are those of `FlowSelector.select_many`.

        Raises:
            ConfigError: An argument is of the wrong kind, or cannot be sent.
            ServiceError: There was no answer.
        """
        asked = [each if isinstance(each, SelectRequest) else SelectRequest(each) for each in requests]
        check_argument("context", context, Context)
        body = {
            "requests": [_request_fields(each) for each in asked],
            "context": sent_json(context, "context"),
            "ask": ask,
        }
        answer = await self._service.ask("POST", "/v1/select_many", body)
        results = answer.get("results")
        if not is_array(results) or len(results) != len(asked):
            raise ServiceReplyError(self._service.url, f"it was asked {len(asked)} requests, and answered others")
        return [self._parse_result(*each) for each in zip(results, asked, strict=True)]

    async def recall(
        self,
        query: str,
        episode_summaries: Sequence[str] | None = None,
        *,
        top_k: TopK | None = None,
        rrf_k: int | None = None,
        coverage: float | None = None,
        exclude: Sequence[str] = (),
    ) -> RecallResult:
        """Candidates alone, best first: nobody chooses among them.

        Args:
            query: What the user wants.
            episode_summaries: What was said before.
            top_k: How many, or "auto"; by default as the service selects.
            rrf_k: The constant of the rank fusion; likewise.
            coverage: What "auto" promises; likewise.
            exclude: Ids of flows that must not come back.

        Raises:
            ConfigError: An argument is of the wrong kind.
            ServiceError: There was no answer.
        """
        SelectRequest(query, episode_summaries=episode_summaries)  # raises for arguments of the wrong kind
        body = {
            **_query_fields(query, episode_summaries),
            "top_k": top_k,
            "rrf_k": rrf_k,
            "coverage": coverage,
            "exclude": [*exclude],
        }
        found = await self._service.ask("POST", "/v1/recall", body)
        with self._service.reading():
            return RecallResult.from_dict(found)

    async def feedback(
        self,
        result: FlowSelectionResult | str,
        *,
        right: Sequence[str] | str,
        note: str = "",
        source: Source | None = None,
    ) -> None:
        """Keep what was right for a selection, in the service's log; arguments are those of `FlowSelector.feedback`.

        A `source` that is a person needs a key that may teach; its `key` is the one that this selector asks with.

        Raises:
            ConfigError: The service keeps no log, or there is no such entry made with this key, or no such flow.
            ServiceError: There was no answer.
        """
        logged = result.logged if isinstance(result, FlowSelectionResult) else result
        if not logged:
            raise ConfigError("this selection was not logged, so nothing can be said of it: the service keeps no log")
        body: dict[str, Any] = {
            "selection": logged,
            "right": right if isinstance(right, str) else [*right],
            "note": note,
        }
        if source is not None:
            body["source"] = {"kind": source.kind, "name": source.name}
        await self._service.ask("POST", "/v1/feedback", body)

    async def flows(self) -> list[dict[str, Any]]:
        """What there is to choose from: each flow in short, as the service tells it, by name.

        Raises:
            ServiceError: There was no answer.
        """
        answer = await self._service.ask("GET", "/v1/flows")
        listed = answer.get("flows")
        if not is_array(listed) or not all(isinstance(each, dict) for each in listed):
            raise ServiceReplyError(self._service.url, "it listed no flows")
        return cast("list[dict[str, Any]]", listed)

    def _parse_result(self, data: Any, asked: SelectRequest) -> FlowSelectionResult:
        with self._service.reading():
            result = FlowSelectionResult.from_dict(data, registry=self._live)
        # A decision without a question is not sent, so the service could not note that it is none.
        if asked.asked is None or question_in(asked.asked) is not None:
            return result
        decision = result.decision
        return replace(result, decision=replace(decision, notes=(NO_QUESTION, *decision.notes)))


def _request_fields(asked: SelectRequest) -> dict[str, Any]:
    candidates = None
    if asked.candidates is not None:
        candidates = [_json({**each}, f"candidates[{place}]") for place, each in enumerate(asked.candidates)]
    return {
        **_query_fields(asked.enhanced_query, asked.episode_summaries),
        "candidates": candidates,
        "only": None if asked.only is None else [*asked.only],
        "asked": plain(question_in(asked.asked)),
    }


def _query_fields(request: str, summaries: Sequence[str] | None) -> dict[str, Any]:
    return {"request": request, "episode_summaries": None if summaries is None else [*summaries]}


def sent_json(given: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """A mapping as JSON values, without those that are None, which count as not known."""
    if given is None:
        return None
    sent: dict[str, Any] = {}
    for key, value in given.items():
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            raise ConfigError(f"{name} is a mapping of names to values, and {key!r:.80} is no name")
        if value is not None:
            sent[key] = _json(value, f"{name}[{key!r:.80}]")
    return sent


def _json(value: object, name: str) -> Any:
    try:
        return as_json(value)
    except Exception as error:  # whatever a value trips over
        msg = f"{name} is no JSON, so that it cannot be sent to a service: {describe_error(error)}"
        raise ConfigError(msg) from error


def sent_history(
    history: Conversation | Sequence[Message] | None, conversation_id: str
) -> tuple[str | list[dict[str, str]] | None, str]:
    """A history as a service takes it, and the id that a new conversation is to be known by.

    A conversation that the service has signed goes back as the text that came. One that was started here, which it has
    not, goes as messages: the service would not believe anything else of it.
    """
    if history is None:
        return None, conversation_id
    conversation = Conversation.from_history(history)
    if conversation.signed_text:
        return conversation.signed_text, conversation_id
    if conversation.flows or conversation.failed or conversation.pending or conversation.calls:
        return conversation.to_json(), conversation_id
    messages = [{"role": each.role, "content": each.content} for each in conversation.messages]
    if messages:
        return messages, conversation_id
    return None, conversation_id or conversation.id  # an empty one is only its id


_TURN_S: Final = 90.0
_LATER_S: Final = 5.0
"""How much longer than a turn may take it is waited for: it says itself that its time ran out."""


class RemoteAgent:
    """Answers messages as the agent of a service does. It keeps nothing between turns: the conversation is a value.

    ```python
    agent = RemoteAgent("http://127.0.0.1:8420", key="…")
    result = await agent.turn("I want my money back")
    result = await agent.turn("yes", result.conversation)
    ```

    A turn is not begun twice: it is asked for again only where the connection was refused or the service had no room.
    """

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        agent_id: str = "",
        registry: Mapping[str, BaseFlow] | None = None,
        timeout_s: float | None = _TURN_S,
        max_retries: int = 2,
        uds: str | None = None,
    ) -> None:
        """Take where the service is; arguments are those of `RemoteSelector`.

        The agent of the service has a limit of its own, beside `timeout_s`.

        Raises:
            ConfigError: An argument cannot work.
        """
        self.own_loop = OwnLoop()  # where `turn_sync` runs
        self._live = registry
        self._service = ServiceLink(
            url, key=key, agent_id=agent_id, timeout_s=timeout_s, max_retries=max_retries, uds=uds
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._service.aclose()

    async def turn(  # noqa: PLR0913 - options with a name
        self,
        message: str,
        history: Conversation | Sequence[Message] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        facts: Facts | None = None,
        schema: SchemaLike | None = None,
        conversation_id: str = "",
        timeout_s: float | Literal["agent"] | None = "agent",
        on_event: OnEvent | None = None,
    ) -> TurnResult:
        """Answer one message; arguments and result are those of `Agent.turn`.

        What is sent is JSON: `context` and `facts` too; facts that are functions are called here. A turn without any
        limit is not to be had from a service.

        Raises:
            ConfigError: An argument is of the wrong kind, or cannot be sent.
            SnapshotError: The conversation is none that this service has signed.
            ServiceError: There was no answer; the turn may have been begun, unless the error says otherwise.
        """
        check = await output_schema(schema) if schema is not None else None
        if timeout_s is None:
            raise ConfigError("a service lets no turn take for ever: give timeout_s in seconds, or leave it out")
        limit_s = None if timeout_s == "agent" else timeout_s
        if limit_s is not None:
            check_argument("timeout_s", limit_s, TimeLimit)
        sent, sent_id = sent_history(history, conversation_id)
        own_facts = await resolve_facts(checked_facts(facts)) if facts is not None else None
        body = {
            "message": message,
            "history": sent,
            "context": sent_json(checked_input(message, context), "context"),
            "facts": sent_json(own_facts, "facts"),
            "schema": None if check is None else check.json,
            "conversation_id": sent_id,
            "timeout_s": limit_s,
        }
        wait_s = None if limit_s is None else limit_s + _LATER_S
        if on_event is None:
            data = await self._service.ask("POST", "/v1/turn", body, twice=False, timeout_s=wait_s)
            return self._parse_turn(data, check)
        result = await self._stream_turn(body, on_event, check, wait_s)
        await tell(on_event, Finished(answer=result))
        return result

    turn_sync = in_own_loop(turn)
    """`turn`, without async: in a loop that the agent keeps, and that ends with it."""
    stream = in_events(turn, "stream")
    """What `turn` does, event by event; the last one, `Finished`, holds the `TurnResult`: as `Agent.stream`."""

    async def _stream_turn(
        self, body: Mapping[str, Any], on_event: OnEvent, check: OutputSchema | None, wait_s: float | None
    ) -> TurnResult:
        found: list[TurnResult] = []

        async def handle(name: str, data: Any) -> bool:
            if name == "finished":
                found.append(self._parse_turn(data, check))
                return True
            with self._service.reading():
                event = event_of(name, data, registry=self._live)
            if event is not None:  # a newer service may have events that are not known here
                await tell(on_event, event)
            return False

        await self._service.stream_events("/v1/turn", body, handle, timeout_s=wait_s)
        return found[0]

    def _parse_turn(self, data: Any, check: OutputSchema | None) -> TurnResult:
        """Read a result; with a class as schema, its value becomes an instance."""
        with self._service.reading():
            result = TurnResult.from_dict(data, registry=self._live)
        if check is None or check.model is None or result.value is None:
            return result
        read = check.check(result.value)
        if read.problem:
            raise ServiceReplyError(self._service.url, f"the value is not of the schema: {read.problem}")
        return replace(result, value=read.value)
