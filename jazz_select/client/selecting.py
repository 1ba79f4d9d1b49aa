"""`RemoteSelector`: what a `FlowSelector` does, asked of a service; and arguments as what is sent to one.

Nothing is sent as its text that is no JSON: a guard or a tool at the other end would get something else than it was
given here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from jazz_select.agent.conversation import Conversation
from jazz_select.client.connection import Connection
from jazz_select.errors import ConfigError, ServiceReplyError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import as_json, plain
from jazz_select.selector.asking import NO_QUESTION, question_in
from jazz_select.selector.options import TopK
from jazz_select.selector.prompt import Situation
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.retrieval import SelectRequest, check_request
from jazz_select.selector.select import FlowSelector
from jazz_select.stages import UserQuestion
from jazz_select.text import describe_error
from jazz_select.values import Decision, Message, RecallResult

_TIMEOUT_S: Final = 30.0


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

    takes_situation = False

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        agent_id: str = "",
        registry: Mapping[str, BaseFlow] | None = None,
        timeout_s: float | None = _TIMEOUT_S,
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
        self._service = Connection(
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
        situation: Situation | None = None,
        asked: Decision | UserQuestion | None = None,
    ) -> FlowSelectionResult:
        """Find the flows for a request; arguments and result are those of `FlowSelector.select`.

        Raises:
            ConfigError: An argument is of the wrong kind, or cannot be sent.
            ServiceError: There was no answer.
        """
        check_request(enhanced_query=enhanced_query, episode_summaries=episode_summaries, context=context)
        if situation is not None:
            msg = "a situation does not travel: a RemoteAgent has the service's own agent select within a conversation"
            raise ConfigError(msg)
        one = SelectRequest(enhanced_query, candidates, episode_summaries, only, asked)
        body = {**_one(one), "context": sent_json(context, "context")}
        return self._read(await self._service.ask("POST", "/v1/select", body), one)

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
        for each in asked:
            check_request(enhanced_query=each.enhanced_query, episode_summaries=each.episode_summaries, context=context)
        body = {"requests": [_one(each) for each in asked], "context": sent_json(context, "context"), "ask": ask}
        results = (await self._service.ask("POST", "/v1/select_many", body)).get("results")
        if not isinstance(results, list) or len(cast("list[Any]", results)) != len(asked):
            raise ServiceReplyError(self._service.url, f"it was asked {len(asked)} requests, and answered others")
        return [self._read(*each) for each in zip(cast("list[Any]", results), asked, strict=True)]

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
        check_request(enhanced_query=query, episode_summaries=episode_summaries, context=None)
        body = {
            **_said(query, episode_summaries),
            "top_k": top_k,
            "rrf_k": rrf_k,
            "coverage": coverage,
            "exclude": [*exclude],
        }
        found = await self._service.ask("POST", "/v1/recall", body)
        with self._service.reading():
            return RecallResult.from_dict(found)

    async def feedback(self, result: FlowSelectionResult | str, *, right: Sequence[str] | str, note: str = "") -> None:
        """Keep what was right for a selection, in the service's log; arguments are those of `FlowSelector.feedback`.

        Raises:
            ConfigError: The service keeps no log, or there is no such entry, or no such flow.
            ServiceError: There was no answer.
        """
        logged = result.logged if isinstance(result, FlowSelectionResult) else result
        if not logged:
            msg = "this selection was not logged, so nothing can be said of it: the service keeps no log"
            raise ConfigError(msg)
        body = {"selection": logged, "right": right if isinstance(right, str) else [*right], "note": note}
        await self._service.ask("POST", "/v1/feedback", body)

    async def flows(self) -> list[dict[str, Any]]:
        """What there is to choose from: each flow in short, as the service tells it, by name.

        Raises:
            ServiceError: There was no answer.
        """
        listed = (await self._service.ask("GET", "/v1/flows")).get("flows")
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in cast("list[Any]", listed)):
            raise ServiceReplyError(self._service.url, "it listed no flows")
        return cast("list[dict[str, Any]]", listed)

    def _read(self, data: Any, asked: SelectRequest) -> FlowSelectionResult:
        with self._service.reading():
            result = FlowSelectionResult.from_dict(data, registry=self._live)
        if asked.asked is None or question_in(asked.asked) is not None:
            return result
        decision = result.decision
        return replace(result, decision=replace(decision, notes=(NO_QUESTION, *decision.notes)))


def _one(asked: SelectRequest) -> dict[str, Any]:
    """What is not said is left out: a service of an earlier version need not know of it."""
    said = _said(asked.enhanced_query, asked.episode_summaries)
    question = plain(question_in(asked.asked))
    only = {} if asked.only is None else {"only": [*asked.only]}
    more = {**only, **({} if question is None else {"asked": question})}
    return {**said, "candidates": sent_objects(asked.candidates, "candidates"), **more}


def _said(request: str, summaries: Sequence[str] | None) -> dict[str, Any]:
    return {"request": request, "episode_summaries": None if summaries is None else [*summaries]}


def sent_json(given: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """A mapping as JSON values, without those that are None, which count as not known.

    Raises:
        ConfigError: A value of it is none.
    """
    if given is None:
        return None
    wrong = next((key for key in cast("Mapping[object, object]", given) if not isinstance(key, str)), None)
    if wrong is not None:
        msg = f"{name} is a mapping of names to values, and {wrong!r:.80} is no name"
        raise ConfigError(msg)
    return {key: _json(value, f"{name}[{key!r:.80}]") for key, value in given.items() if value is not None}


def sent_objects(given: Sequence[Mapping[str, Any]] | None, name: str) -> list[Any] | None:
    """Mappings as JSON values.

    Raises:
        ConfigError: One of them is none.
    """
    if given is None:
        return None
    return [_json({**each}, f"{name}[{place}]") for place, each in enumerate(given)]


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

    A conversation that the service has signed goes back as the text that came. One that was begun here, which it has
    not, goes as messages: the service would not believe anything else of it.

    Raises:
        ConfigError: The history is neither a conversation nor messages.
    """
    if history is None:
        return None, conversation_id
    conversation = Conversation.of(history)
    if conversation.signed_text:
        return conversation.signed_text, conversation_id
    if conversation.flows or conversation.failed or conversation.pending or conversation.calls:
        return conversation.to_json(), conversation_id
    said = [{"role": each.role, "content": each.content} for each in conversation.messages]
    return said or None, conversation_id or ("" if said else conversation.id)
