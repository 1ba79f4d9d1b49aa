"""What three vendors' decisions look like on the wire."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.chat.protocols import INPUT_TOKENS, OUTPUT_TOKENS, SERVED

Gives = Callable[[Sequence[str]], Mapping[str, Any]]
"""What a provider gives each option of a question; those of a yes/no are `yes` and `no`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionProtocol:
    """One protocol: where it is served, which model string leads there, and how it words things."""

    name: str
    path: str
    model: str
    answer: Callable[[Mapping[str, Any], Gives], dict[str, Any]]
    """Of a request."""
    failure: Callable[[str, str], dict[str, Any]]
    """Of code and message."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """What sends the vendor's client there; `{root}` is the server's."""
    needs: str = ""
    """The package without which it is not spoken."""

    def __str__(self) -> str:
        return self.name


def first_likely(labels: Sequence[str]) -> Mapping[str, Any]:
    """The first option at .75, the others share the rest; all of them whole in binary where there are two or three."""
    return {label: 0.75 if label == labels[0] else 0.25 / (len(labels) - 1) for label in labels}


def _by_name(request: Mapping[str, Any], gives: Gives) -> dict[str, Any]:
    """The answers of System One and of Google, who both answer in the protocol's own words."""
    return {name: _answered(question, gives) for name, question in request["questions"].items()}


def _answered(question: Mapping[str, Any], gives: Gives) -> dict[str, Any]:
    if question["type"] == "noul":
        return {"type": "noul", "noul": gives(["yes", "no"]).get("yes")}
    given = gives(list(question["criteria"]))
    best = max(given, key=lambda label: _sortable(given[label]), default="")
    return {"type": "choice", "choice": best, "confidence": given.get(best, 0.0), "probabilities": dict(given)}


def _sortable(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _system_one(request: Mapping[str, Any], gives: Gives) -> dict[str, Any]:
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    return {"model": SERVED, "answers": _by_name(request, gives), "usage": usage}


def _google(request: Mapping[str, Any], gives: Gives) -> dict[str, Any]:
    usage = {"total_input_tokens": INPUT_TOKENS, "total_output_tokens": OUTPUT_TOKENS}
    return {"answers": _by_name(request, gives), "usage": usage}


def _openai(request: Mapping[str, Any], gives: Gives) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    for question in request["questions"]:
        if question["type"] == "predicate":
            found = {"type": "predicate", "probability": gives(["yes", "no"]).get("yes")}
        else:
            given = gives([choice["value"] for choice in question["choices"]])
            best = max(given, key=lambda label: _sortable(given[label]), default="")
            options = [{"value": label, "probability": value} for label, value in given.items()]
            found = {
                "type": "choice",
                "choice": best,
                "confidence": given.get(best, 0.0),
                "probabilities": options,
            }
        answers.append({"name": question["name"], **found})
    usage = {
        "input_tokens": INPUT_TOKENS,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    return {"answers": answers, "model": SERVED, "usage": usage}


SYSTEM_ONE = DecisionProtocol(
    name="System One",
    path="/v1/systemone",
    model="system-one:clm-latest",
    answer=_system_one,
    failure=lambda code, message: {"error": code, "message": message},
    environment={"SYSTEM_ONE_BASE_URL": "{root}", "SYSTEM_ONE_API_KEY": "a-key", "NO_PROXY": "127.0.0.1"},
)
OPENAI = DecisionProtocol(
    name="OpenAI decisions",
    path="/v1/decisions",
    model="openai-decisions:gpt-6-luna",
    answer=_openai,
    failure=lambda code, message: {"error": {"message": message, "type": "error", "param": None, "code": code or None}},
    environment={"OPENAI_BASE_URL": "{root}/v1", "OPENAI_API_KEY": "a-key", "NO_PROXY": "127.0.0.1"},
)
GOOGLE = DecisionProtocol(
    name="Google decisions",
    path="/v1beta/decisions",
    model="google-decisions:gemini-decision-1",
    answer=_google,
    failure=lambda code, message: {"error": {"code": code, "message": message, "status": "FAILED"}},
    environment={"GOOGLE_GEMINI_BASE_URL": "{root}", "GOOGLE_API_KEY": "a-key", "NO_PROXY": "127.0.0.1"},
    needs="google.genai",
)
DECISION_PROTOCOLS = (SYSTEM_ONE, OPENAI, GOOGLE)
