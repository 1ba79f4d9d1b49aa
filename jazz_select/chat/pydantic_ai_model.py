"""Chat and decision models of every provider that pydantic-ai knows: translators, and thin calls of its own API.

pydantic-ai takes about a second to import, so it is imported when a model is made.
"""

import asyncio
import copy
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from jazz_select.chat.outgoing import (
    ANTHROPIC,
    COMMON,
    GOOGLE,
    MISTRAL,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    Dialect,
    shape_messages,
)
from jazz_select.chat.pydantic_ai_errors import FORM, is_refused, refuses_schema, to_config_error, to_model_error
from jazz_select.errors import (
    ConfigError,
    DecisionAskError,
    DecisionReplyError,
    JazzSelectError,
    MissingExtraError,
    ModelTimeoutError,
)
from jazz_select.json_values import is_object
from jazz_select.questions import NO, YES, ChoiceQuestion, DecisionReply, Question
from jazz_select.text import as_text, describe_error
from jazz_select.values import INCOMPLETE, Message, NativeCall, OfferedTool, Reply, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.decision import DecisionModel, DecisionQuestion, DecisionResponse
    from pydantic_ai.settings import ModelSettings

_PLAIN: Final = ("type", "description")
"""The schema keywords of an input that every provider accepts."""
DECISION_PROVIDERS: Final = frozenset({"google-decisions", "openai-decisions", "system-one", "typesafe"})
"""The providers of pydantic-ai that serve only decision models."""
_CANNOT_STREAM: Final = (NotImplementedError, AssertionError)
"""What a custom model that cannot stream raises: in general, and in a `FunctionModel`."""
_PLAINER = "the provider refuses the schema of a tool, so tools are told plainer"
_ASKED = "Which of these fits?"
"""The default question: some providers refuse a question without words."""
_DIALECTS: Final = {
    "AnthropicModel": ANTHROPIC,
    "GoogleModel": GOOGLE,
    "MistralModel": MISTRAL,
    "OpenAIChatModel": OPENAI_CHAT,
    "OpenAIResponsesModel": OPENAI_RESPONSES,
}
_TAGGING: Final = frozenset({"GroqModel", "HuggingFaceModel", "OpenAIChatModel"})
"""The models whose replies pydantic-ai searches for tags of reasoning."""
_NO_TAGS: Final = ("<reasoning-of-the-model>", "</reasoning-of-the-model>")
_UNSTREAMED_TOKENS = 16_384
"""The limit that pydantic-ai sends if it does not know a model's; it lowers this to the known limits."""


class PydanticAIAdapter:
    """A model string or a model of pydantic-ai, with connections per event loop, since they belong to a loop.

    The constructor reports a missing package, an unknown provider, a missing key, or a model of the other kind. Later
    failures are `ModelError`s with the vendor's error as their cause; among them a refused key (401), which only the
    provider knows. One call is one request, without retries of the vendor's client, because its waits would count
    against the caller's timeout.

    A ready model is shared by all loops, is as good at that as its client, and is closed by its owner.

    Attributes:
        name: The model string, or the name of a ready model.
    """

    def __init__(
        self, model: "str | Model", *, settings: "ModelSettings | None" = None, timeout_s: float | None = None
    ) -> None:
        """Find the provider and make its client; send nothing.

        Args:
            model: `"provider:model"`, as pydantic-ai names them, or a `Model`.
            settings: Passed to pydantic-ai: `{"temperature": 0.0, "max_tokens": 500}`.
            timeout_s: The limit of a whole call. (`settings["timeout"]` limits each read, which a provider that
                trickles never exceeds.)

        Raises:
            ConfigError: The provider is unknown, or lacks its key or package, or the model is of the other kind; the
                message holds the fix.
            MissingExtraError: pydantic-ai is not installed.
        """
        self._refuse_other_kind(model)
        if isinstance(model, str) and ":" not in model and model != "test":  # pydantic-ai's own double
            raise ConfigError(f"the model {model!r} cannot be used: it names no provider ({FORM})")
        if find_spec("pydantic_ai") is None:
            raise MissingExtraError("pydantic_ai", extra="llm", purpose=f"the model {model!r}")
        self._source = model
        self._first = _with_tags_in_text(_build(model) if isinstance(model, str) else model)
        self._refuse_other_kind(self._first)
        self.name = model if isinstance(model, str) else model.model_name
        self._spare: Model | None = self._first
        self._models: dict[asyncio.AbstractEventLoop, Model] = {}
        self._deadline_s = timeout_s
        own: dict[str, Any] = {**(self._first.settings or {}), **(settings or {})}
        self._settings: Any = {**_plain_settings(self._first, own), **own}

    def _refuse_other_kind(self, model: "str | Model") -> None:
        raise NotImplementedError

    def _model_of_loop(self) -> "Model":
        if not isinstance(self._source, str):
            return self._first
        loop = asyncio.get_running_loop()
        model = self._models.get(loop)
        if model is None:
            # The first loop gets the model that the constructor made to check the name.
            spare, self._spare = self._spare, None
            model = spare or _with_tags_in_text(_build(self._source))
            alive = {each: its for each, its in self._models.items() if not each.is_closed()}
            self._models = {**alive, loop: model}
        return model

    async def aclose(self) -> None:
        """Close this event loop's connections if the client is ours; a later call opens new ones."""
        if isinstance(self._source, str):
            model = self._models.pop(asyncio.get_running_loop(), None)
            if model is not None:
                async with model:
                    pass  # leaving the block closes pydantic-ai's client


class PydanticAIModel(PydanticAIAdapter):
    """A `ChatModel` for a model string such as `"openai:gpt-5-mini"` or a pydantic-ai `Model`.

    `takes_schema` is True if the provider can hold a reply to a JSON schema. If it refuses a schema, that call is a
    retryable error, and later ones are sent without. If it refuses a tool's schema, the call is sent again at once with
    simpler schemas, and so are later ones.
    """

    def __init__(
        self, model: "str | Model", *, settings: "ModelSettings | None" = None, timeout_s: float | None = None
    ) -> None:
        """Find the provider and make its client; send nothing. See `PydanticAIAdapter`."""
        super().__init__(model, settings=settings, timeout_s=timeout_s)
        self._read_timeout_s = _timeout_s(self._settings)
        self._takes_schema = _supports(self._first, "supports_json_schema_output", otherwise=False)
        self._takes_tools = _supports(self._first, "supports_tools", otherwise=True)
        self._takes_both = _supports(self._first, "google_supports_tool_combination", otherwise=True)
        self._plain_tools = False
        self._dialect = dialect_of(self._first)

    def _refuse_other_kind(self, model: "str | Model") -> None:
        refuse_decision_model(model, argument="model")

    @property
    def takes_schema(self) -> bool:
        """Whether this provider can hold a reply to a schema, and has not refused one."""
        return self._takes_schema

    @property
    def takes_tools(self) -> bool:
        """Whether this provider has native tool calling."""
        return self._takes_tools

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[OfferedTool] = (),
    ) -> Reply:
        """Ask the model once; `schema` constrains its reply if `takes_schema`, and is left out otherwise.

        `tools` are what it may call. Failures are `ModelError`s; a `ConfigError` if pydantic-ai rejects the
        configuration.
        """
        theirs = self._model_messages(messages)
        sent_schema = self._schema_to_send(schema, tools)
        self._check_schemas(sent_schema, tools)
        limit = asyncio.timeout(self._deadline_s)
        try:
            async with limit:
                response = await self._request(theirs, sent_schema, tools)
        except Exception as error:  # each provider has its own errors; any counts as a failed call
            if limit.expired():
                raise ModelTimeoutError(self.name, timeout_s=self._deadline_s or 0.0) from error
            raise self._translate_error(error, sent_schema) from error
        return self._with_note(self._read_response(response), tools)

    def _model_messages(self, messages: Sequence[Message]) -> "list[ModelMessage]":
        return to_model_messages(shape_messages(messages, self._dialect))

    def _check_schemas(self, schema: Mapping[str, Any] | None, tools: Sequence[OfferedTool]) -> None:
        """Raise for a schema that no request can hold, before anything is sent."""
        if schema is not None:
            _check_schema("the schema of the answer", schema)
        for tool in tools:
            _check_schema(f"the schema of the tool {tool.name!r:.80}", tool.schema)

    def _read_response(self, response: "ModelResponse", *, streamed: bool = False) -> Reply:
        try:
            reply = to_reply(response, model=self.name)
        except Exception as error:  # a model of one's own may return anything
            raise self._translate_error(error, None) from error
        # pydantic-ai takes a stream without a finish reason for a whole reply; only the provider's own word counts.
        details = response.provider_details or {}
        has_reason = "finish_reason" in details or reply.finish_reason not in {"", "stop"}
        if streamed and self._dialect and not has_reason:
            return replace(reply, finish_reason=INCOMPLETE)
        return reply

    def _schema_to_send(
        self, schema: Mapping[str, Any] | None, tools: Sequence[OfferedTool]
    ) -> Mapping[str, Any] | None:
        # Some Google models take a schema or tools, but not both.
        if self._takes_schema and (self._takes_both or not tools):
            return schema
        return None

    def _with_note(self, reply: Reply, tools: Sequence[OfferedTool]) -> Reply:
        if tools and self._plain_tools:
            return replace(reply, notes=(_PLAINER,))
        return reply

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[OfferedTool] = (),
    ) -> AsyncGenerator[str | Reply]:
        """Yield the text as it is written, and then the whole reply; only the reply if the model cannot stream.

        The time limit applies to each piece. Errors are as for `complete`.
        """
        from pydantic_ai.direct import model_request_stream

        sent_schema = self._schema_to_send(schema, tools)
        self._check_schemas(sent_schema, tools)
        parameters = to_parameters(sent_schema, tools, plain=self._plain_tools)
        streaming = model_request_stream(
            self._model_of_loop(),
            self._model_messages(messages),
            model_settings=self._settings,
            model_request_parameters=parameters,
        )
        try:
            async with streaming as response:
                pieces = aiter(response)
                while True:
                    # Limit each piece: a limit around the `yield` would count the reader's time too.
                    async with asyncio.timeout(self._deadline_s):
                        event = await anext(pieces, None)
                    if event is None:
                        break
                    if text := _text_of(event):
                        yield text
                reply = self._with_note(self._read_response(response.get(), streamed=True), tools)
        except TimeoutError as error:
            raise ModelTimeoutError(self.name, timeout_s=self._deadline_s or 0.0) from error
        except Exception as error:
            # A custom model may be unable to stream. Whether the tools were refused, `complete` finds out.
            if not isinstance(error, _CANNOT_STREAM) and not (tools and is_refused(error)):
                raise self._translate_error(error, sent_schema) from error
            reply = await self.complete(messages, schema=schema, tools=tools)
            yield reply.text
        yield reply

    def _translate_error(self, error: Exception, schema: Mapping[str, Any] | None) -> Exception:
        """Translate an error to ours, and stop sending schemas if one was refused."""
        from pydantic_ai.exceptions import UserError

        refused = schema is not None and refuses_schema(error)
        self._takes_schema = self._takes_schema and not refused
        if isinstance(error, UserError) and not refused:
            return to_config_error(error, model=self.name)
        return to_model_error(error, model=self.name, timeout_s=self._read_timeout_s, mended=refused)

    async def _request(
        self, messages: "list[ModelMessage]", schema: Mapping[str, Any] | None, tools: Sequence[OfferedTool]
    ) -> "ModelResponse":
        """Send one request; if one with tools is refused, send it once more with simpler tool schemas.

        Vendors have no code for an unsupported schema: only the second request shows whether that was the reason.
        """
        from pydantic_ai.direct import model_request

        async def request_once(*, plain: bool) -> "ModelResponse":
            return await model_request(
                self._model_of_loop(),
                messages,
                model_settings=self._settings,
                model_request_parameters=to_parameters(schema, tools, plain=plain),
            )

        try:
            return await request_once(plain=self._plain_tools)
        except Exception as error:
            if not tools or self._plain_tools or not is_refused(error):
                raise
            try:
                response = await request_once(plain=True)
            except Exception as again:
                if is_refused(again):
                    raise error from None
                raise
            self._plain_tools = True
            return response


class PydanticAIDecisions(PydanticAIAdapter):
    """A `DecisionModel` for a model string such as `"system-one:clm-latest"` or a pydantic-ai `DecisionModel`."""

    def _refuse_other_kind(self, model: "str | Model") -> None:
        refuse_chat_model(model, argument="model")

    @property
    def most_options(self) -> int | None:
        """The most options of a question, as pydantic-ai knows it of the model or its provider."""
        model = self._decision_model(self._first)
        most: object = model.profile.get("decision_max_choice_options", model.max_choice_options)
        return most if isinstance(most, int) else None

    @property
    def most_questions(self) -> int | None:
        """The most questions of a call, as pydantic-ai knows it of the provider."""
        return self._decision_model(self._first).max_questions

    @property
    def most_tokens(self) -> int | None:
        """The most tokens of the text and a question, as pydantic-ai knows it of the model, or its profile says it."""
        return self._decision_model(self._first).context_window

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """Ask the model once.

        Raises:
            DecisionAskError: There are more questions than the provider takes at once; nothing was sent.
            DecisionReplyError: It declined, or its answer does not fit the questions.
        """
        from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
        from pydantic_ai.models import check_allow_model_requests
        from pydantic_ai.models.decision import DecisionRequest

        model = self._decision_model(self._model_of_loop())
        most = model.max_questions
        if most is not None and len(questions) > most:
            problem = f"there are {len(questions)} questions, and its provider takes {most} at once: ask fewer"
            raise DecisionAskError(self.name, problem)
        asked = {name: to_question(each) for name, each in questions.items()}
        request = DecisionRequest(state=as_text(state), questions=asked)
        limit = asyncio.timeout(self._deadline_s)
        try:
            check_allow_model_requests()
            async with limit:
                response = await model.decide(request, self._settings)
            return to_decision_reply(response, model=self.name)
        except JazzSelectError:
            raise
        except UnexpectedModelBehavior as error:  # use its message: its text may hold the whole answer
            raise DecisionReplyError(self.name, " ".join(error.message.split())[:300]) from error
        except UserError as error:
            raise to_config_error(error, model=self.name) from error
        except Exception as error:  # each provider has its own errors
            if limit.expired():
                raise ModelTimeoutError(self.name, timeout_s=self._deadline_s or 0.0) from error
            raise to_model_error(error, model=self.name) from error

    def _decision_model(self, model: "Model") -> "DecisionModel[Any]":
        found = decision_model_in(model)
        if found is None:  # pragma: no cover - refused at construction
            raise ConfigError(_not_for_decisions(repr(self.name), "model"))
        return found


def is_pydantic_ai_model(value: object) -> "TypeGuard[Model]":
    """Whether this is a pydantic-ai `Model`; does not import pydantic-ai, which its maker has imported."""
    models = sys.modules.get("pydantic_ai.models")
    return models is not None and isinstance(value, models.Model)


def decision_model_in(model: object) -> "DecisionModel[Any] | None":
    """Return the pydantic-ai decision model that this is or wraps, or None."""
    decisions = sys.modules.get("pydantic_ai.models.decision")  # imported by then, if such a model exists
    if decisions is None or not is_pydantic_ai_model(model):
        return None
    here: Any = model
    while here is not None and not isinstance(here, decisions.DecisionModel):
        here = getattr(here, "wrapped", None)
    return here


def names_decision_model(model: str) -> bool:
    """Whether a model string names a decision model, judged by its provider alone; needs no key and no package."""
    return model.removeprefix("gateway/").partition(":")[0] in DECISION_PROVIDERS


def refuse_decision_model(model: object, *, argument: str) -> None:
    """Raise if a decision model is given where a chat model is needed."""
    if isinstance(model, str):
        if names_decision_model(model):
            raise ConfigError(not_for_chat(repr(model), argument))
    elif is_pydantic_ai_model(model):
        # A model that falls back must not fall back to one that writes no text.
        for each in (model, *getattr(model, "models", ())):
            if decision_model_in(each) is not None:
                name = getattr(each, "model_name", type(each).__name__)
                raise ConfigError(not_for_chat(repr(name), argument))


def refuse_chat_model(model: "str | Model", *, argument: str) -> None:
    """Raise if a chat model is given where a decision model is needed."""
    if isinstance(model, str):
        if ":" in model and not names_decision_model(model) and _names_chat_model(model):
            raise ConfigError(_not_for_decisions(repr(model), argument))
    elif getattr(model, "models", ()):
        raise ConfigError(f"{argument} cannot be a model that falls back from one to another: give one decision model")
    elif decision_model_in(model) is None:
        raise ConfigError(_not_for_decisions(repr(getattr(model, "model_name", type(model).__name__)), argument))


def _names_chat_model(model: str) -> bool:
    """Whether the provider is known and serves no decision models; pydantic-ai reports unknown ones."""
    try:
        from pydantic_ai.providers import infer_provider_class

        infer_provider_class(model.partition(":")[0])
    except ValueError:  # an unknown provider
        return False
    except ImportError:  # a known provider without its package, or without pydantic-ai
        return "pydantic_ai" in sys.modules
    return True


def _not_for_decisions(model: str, argument: str) -> str:
    return (
        f"{argument} cannot be {model:.80}: it is a chat model, which writes text. Give it as llm=, and as {argument} "
        f"a decision model: one of {', '.join(sorted(DECISION_PROVIDERS))}."
    )


def not_for_chat(model: str, argument: str) -> str:
    """Return the message for a decision model given as `argument`, which takes a chat model."""
    return (
        f"{argument} cannot be {model:.80}: it is a decision model, which answers typed questions and writes no text. "
        f"Give it as decider=, and as {argument} a chat model."
    )


def to_model_messages(messages: Sequence[Message]) -> "list[ModelMessage]":
    """Translate our messages to theirs; the messages between two answers form one request."""
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, ToolReturnPart, UserPromptPart

    theirs: list[ModelMessage] = []
    for is_answer, group in groupby(messages, lambda each: each.role == "assistant"):
        if is_answer:
            theirs += map(_to_response, group)
            continue
        parts: list[SystemPromptPart | UserPromptPart | ToolReturnPart] = []
        for each in group:
            if each.role == "tool":
                parts.append(ToolReturnPart(each.tool, each.content, tool_call_id=each.call_id))
            elif each.role == "system":
                parts.append(SystemPromptPart(each.content))
            else:
                parts.append(UserPromptPart(each.content))
        theirs.append(ModelRequest(parts=parts))
    return theirs


def _to_response(reply: Message) -> "ModelResponse":
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    if isinstance(reply.origin, ModelResponse):
        return replace(reply.origin, parts=_origin_parts(reply))
    parts: list[ModelResponsePart] = []
    if reply.content or not reply.tool_calls:
        parts.append(TextPart(reply.content))
    for call in reply.tool_calls:
        parts.append(ToolCallPart(call.name, _plain_arguments(call), call.id))
    return ModelResponse(parts=parts)


def _plain_arguments(call: NativeCall) -> str | dict[str, Any]:
    return call.arguments if isinstance(call.arguments, str) else dict(call.arguments)


def _origin_parts(message: Message) -> "list[ModelResponsePart]":
    """Return the parts of the reply that a message repeats, with the message's text and calls in place of theirs.

    The other parts, such as signed reasoning, stay as they came.
    """
    from pydantic_ai.messages import TextPart, ToolCallPart

    parts: list[ModelResponsePart] = []
    calls = iter(message.tool_calls)
    text = message.content
    for part in message.origin.parts:
        if isinstance(part, TextPart):
            if text:
                parts.append(part if part.content == text else replace(part, content=text))
            text = ""
        elif isinstance(part, ToolCallPart):
            call = next(calls, None)
            if call is not None:
                own = cast("Any", part)
                parts.append(replace(own, tool_name=call.name, args=_plain_arguments(call), tool_call_id=call.id))
        else:
            parts.append(part)
    return parts


def to_parameters(
    schema: Mapping[str, Any] | None, tools: Sequence[OfferedTool] = (), *, plain: bool = False
) -> "ModelRequestParameters | None":
    """Translate a JSON schema to the provider's output format, and tools to its native form.

    With `plain`, the schemas of tools are reduced to what every provider accepts.
    """
    if schema is None and not tools:
        return None
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    offered: list[ToolDefinition] = []
    for tool in tools:
        parameters = _plainer(tool.schema) if plain else {**tool.schema}
        offered.append(
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=parameters,
                strict=False if plain else None,
            )
        )
    if schema is None:
        return ModelRequestParameters(function_tools=offered)
    output = OutputObjectDefinition(json_schema=dict(schema), name="reply")
    return ModelRequestParameters(function_tools=offered, output_mode="native", output_object=output)


def _check_schema(what: str, schema: Mapping[str, Any]) -> None:
    try:
        json.dumps(dict(schema), allow_nan=False)
    except Exception as error:  # whatever the encoder trips over
        problem = f"{what} cannot be sent to a model ({describe_error(error)}); give it as plain JSON values"
        raise ConfigError(problem) from error


def _plainer(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only names, types and descriptions of a schema's top level."""
    properties: Any = schema.get("properties")
    inputs: Mapping[str, Any] = properties if is_object(properties) else {}
    plain = {name: _plain_input(part) for name, part in inputs.items()}
    required = [name for name in schema.get("required", ()) if name in plain]
    return {"type": "object", "properties": plain, "required": required}


def _plain_input(part: Any) -> dict[str, Any]:
    schema: Mapping[str, Any] = part if is_object(part) else {}
    plain: dict[str, Any] = {key: schema[key] for key in _PLAIN if isinstance(schema.get(key), str)}
    if plain.get("type") == "array":
        plain["items"] = {}  # some providers refuse an array without it
    return plain


def to_reply(response: "ModelResponse", *, model: str) -> Reply:
    """Translate their response to ours; without token counts there is no usage."""
    theirs = response.usage
    usage = Usage(
        input_tokens=theirs.input_tokens, output_tokens=theirs.output_tokens, cached_tokens=theirs.cache_read_tokens
    )
    calls: list[NativeCall] = []
    for call in response.tool_calls:
        calls.append(NativeCall(id=call.tool_call_id, name=call.tool_name, arguments=call.args or ""))
    return Reply(
        text=response.text or "",
        usage=usage if usage != Usage() else None,
        model=response.model_name or model,
        finish_reason=response.finish_reason or "",
        tool_calls=tuple(calls),
        origin=response if response.tool_calls else None,
    )


def to_question(question: Question) -> "DecisionQuestion":
    """Translate our question to theirs, without empty fields and lone surrogates, which no request can hold."""
    from pydantic_ai.models import decision as theirs

    asked = as_text(question.asked) or _ASKED
    if isinstance(question, ChoiceQuestion):
        meanings = {label: as_text(meaning) or None for label, meaning in question.options.items()}
        return theirs.ChoiceQuestion(instructions=asked, criteria=cast("Any", meanings))
    criteria = None
    if question.yes or question.no:
        criteria = theirs.NoulCriteria(true=as_text(question.yes) or None, false=as_text(question.no) or None)
    return theirs.NoulQuestion(instructions=asked, criteria=criteria)


def to_decision_reply(response: "DecisionResponse", *, model: str) -> DecisionReply:
    """Translate their response to ours; the caller checks whether the answers fit the questions.

    Raises:
        DecisionReplyError: An answer is of another kind than its question.
    """
    from pydantic_ai.models.decision import ChoiceAnswer, NoulAnswer

    probabilities: dict[str, Mapping[str, float]] = {}
    for name, answer in response.answers.items():
        if isinstance(answer, NoulAnswer):
            probabilities[name] = {YES: answer.noul, NO: 1 - answer.noul}
        elif isinstance(answer, ChoiceAnswer):
            probabilities[name] = answer.probabilities
        else:
            raise DecisionReplyError(model, "it is neither yes or no nor one of the options", question=name)
    usage = Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)
    return DecisionReply(probabilities, usage if usage != Usage() else None, response.model_name or model)


def _text_of(event: object) -> str:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def dialect_of(model: "Model") -> Dialect | None:
    """Return what the provider of a model accepts; None for a model of one's own, which is sent all as it is."""
    if getattr(model, "models", ()):  # any of them may get the call
        return COMMON
    inner: Any = getattr(model, "wrapped", None)
    if inner is not None:
        return dialect_of(inner)
    # Compare names of base classes: importing the classes would need every vendor's package.
    for kind in type(model).__mro__:
        if kind.__name__ in _DIALECTS:
            return _DIALECTS[kind.__name__]
    return COMMON if hasattr(model, "client") else None


def _with_tags_in_text(model: "Model") -> "Model":
    """Return a model that leaves tags of reasoning in the text, for the client to remove.

    pydantic-ai looks for one spelling, knows a tag in a stream only if it comes alone, and drops one that is never
    closed while it keeps the text. A copy shares the connections of the model.
    """
    inner: Any = getattr(model, "wrapped", None)
    if inner is not None:
        return _copy_model(model, wrapped=_with_tags_in_text(inner))
    several: Sequence[Model] = getattr(model, "models", ())
    if several:
        return _copy_model(model, models=[_with_tags_in_text(each) for each in several])
    if not any(each.__name__ in _TAGGING for each in type(model).__mro__):
        return model
    return _copy_model(model, profile={**model.profile, "thinking_tags": _NO_TAGS})


def _copy_model(model: "Model", **changes: object) -> "Model":
    copied = copy.copy(model)
    vars(copied).update(changes)
    return copied


def _supports(model: "Model", what: str, *, otherwise: bool) -> bool:
    try:
        profile: Mapping[str, Any] = model.profile
    except NotImplementedError:  # a router has no profile: any of its models may get the call
        routed: Sequence[Model] = getattr(model, "models", ())
        return bool(routed) and all(_supports(each, what, otherwise=otherwise) for each in routed)
    return profile.get(what, otherwise)


def _plain_settings(model: "Model", own: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for one plain request without retries, unless its `own` ones say otherwise."""
    ours: dict[str, Any] = {}
    # The owner's client of a ready model stays unchanged, so each call carries this.
    if getattr(getattr(model, "client", None), "max_retries", 0):
        ours["max_retries"] = 0
    # pydantic-ai streams a plain call to Anthropic if the maximum reply is long.
    if model.system == "anthropic" and not any(name == "max_tokens" or "thinking" in name for name in own):
        ours["max_tokens"] = _UNSTREAMED_TOKENS
    return ours


def _timeout_s(settings: Mapping[str, Any]) -> float | None:
    value = settings.get("request_timeout") or settings.get("timeout")
    return float(value) if isinstance(value, int | float) else None


def _build(name: str) -> "Model":
    from pydantic_ai.models import infer_model

    try:
        model = infer_model(name)
    except Exception as error:  # the provider's package, key or credentials: each vendor has its own error for it
        raise to_config_error(error, model=name) from error
    client: Any = getattr(model.provider, "client", None)
    if hasattr(client, "max_retries"):
        client.max_retries = 0
    return model
