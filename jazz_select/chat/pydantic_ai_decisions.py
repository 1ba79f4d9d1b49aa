"""Decision models that pydantic-ai knows: two translators and one call of `DecisionModel.decide`."""

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from jazz_select.chat.pydantic_ai_errors import to_config_error, to_model_error
from jazz_select.chat.pydantic_ai_model import (
    DECISION_PROVIDERS,
    PydanticAIAdapter,
    decision_model_in,
    names_decision_model,
)
from jazz_select.errors import ConfigError, DecisionAskError, DecisionReplyError, JazzSelectError, ModelTimeoutError
from jazz_select.questions import NO, YES, ChoiceQuestion, DecisionReply, Question
from jazz_select.text import as_text
from jazz_select.values import Usage

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.models.decision import DecisionModel, DecisionQuestion, DecisionResponse

_ASKED = "Which of these fits?"
"""The default question: some providers refuse a question without words."""


class PydanticAIDecisions(PydanticAIAdapter):
    """A `DecisionModel` for a model string such as `"system-one:clm-latest"` or a pydantic-ai `DecisionModel`."""

    def _refuse_other_kind(self, model: "str | Model") -> None:
        refuse_chat_model(model, argument="model")

    @property
    def most_options(self) -> int | None:
        """The most options of a question, as pydantic-ai knows it of the model or its provider."""
        model = self._theirs(self._first)
        most: object = model.profile.get("decision_max_choice_options", model.max_choice_options)
        return most if isinstance(most, int) else None

    @property
    def most_questions(self) -> int | None:
        """The most questions of a call, as pydantic-ai knows it of the provider."""
        return self._theirs(self._first).max_questions

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """Ask the model once.

        Failures are `ModelError`s; a `ConfigError` if pydantic-ai rejects the configuration.

        Raises:
            DecisionAskError: There are more questions than the provider takes at once; nothing was sent.
            DecisionReplyError: It declined, or its answer does not fit the questions.
        """
        from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
        from pydantic_ai.models import check_allow_model_requests
        from pydantic_ai.models.decision import DecisionRequest

        model = self._theirs(self._here())
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

    def _theirs(self, model: "Model") -> "DecisionModel[Any]":
        found = decision_model_in(model)
        if found is None:  # pragma: no cover - refused at construction
            raise ConfigError(_not_for_decisions(repr(self.name), "model"))
        return found


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


def to_question(question: Question) -> "DecisionQuestion":
    """Translate our question to theirs, without empty fields and lone surrogates, which no request can hold."""
    from pydantic_ai.models import decision as theirs

    asked = as_text(question.asked) or _ASKED
    if isinstance(question, ChoiceQuestion):
        meanings = {label: as_text(meaning) or None for label, meaning in question.options.items()}
        return theirs.ChoiceQuestion(instructions=asked, criteria=cast("Any", meanings))
    said = theirs.NoulCriteria(true=as_text(question.yes) or None, false=as_text(question.no) or None)
    return theirs.NoulQuestion(instructions=asked, criteria=said if question.yes or question.no else None)


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
    counted = Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)
    return DecisionReply(probabilities, counted if counted != Usage() else None, response.model_name or model)
