"""The arguments of a selector: what cannot work is refused with its name, before anything is asked."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypedDict, cast

from jazz_select.errors import ConfigError
from jazz_select.selector.cascade.calibration import Calibration
from jazz_select.values import COVERAGE, LEAST_COVERAGE, MOST_COVERAGE, is_count, is_number

MOST_EXAMPLES = 3
"""Of each candidate: three gave a model nearly all that more would."""
AUTO: Final = "auto"
TopK = int | Literal["auto"]
"""How many candidates are recalled: so many, or as few as hold the right one with a wished probability."""


def check_parts(*, flow_registry: object, proc_mem: object, agent_id: object) -> None:
    """Refuse parts of the wrong kind.

    Raises:
        ConfigError: One of them cannot be used.
    """
    if not isinstance(flow_registry, Mapping):
        msg = f"flow_registry is a mapping of flow id to flow, such as BaseFlow.registry, not {flow_registry!r:.80}"
        raise ConfigError(msg)
    if proc_mem is not None and not callable(getattr(proc_mem, "recall", None)):
        msg = f"proc_mem needs `async recall(query, agent_id, top_k, rrf_k)`, not {proc_mem!r:.80}"
        raise ConfigError(msg)
    if not isinstance(agent_id, str):
        msg = f"agent_id is a string, not {agent_id!r:.80}"
        raise ConfigError(msg)


class SelectorOptions(TypedDict, total=False):
    """Options of a `FlowSelector` that can be handed on as a whole: `FlowSelector(…, **RECOMMENDED)`."""

    top_k: TopK
    rrf_k: int
    coverage: float
    on_empty: Literal["top1", "none"]
    timeout_s: float | None
    skip_llm_above: float | None
    abstain_below: float | None
    max_error: float | None
    ask_user: bool


RECOMMENDED: Final[SelectorOptions] = {"top_k": AUTO, "coverage": COVERAGE, "on_empty": "none"}
"""What a new selector with a model should have; the figures behind it are in docs/concepts.md.

As few candidates as hold the right flow in 98 of 100 requests, and a model that is believed when it says that none
fits. The command line has it by default. The bare signature of `FlowSelector` keeps the three candidates, and the top
one where nothing fits, that it was published with.
"""


def check_options(*, top_k: object, coverage: object, rrf_k: object, timeout_s: object, on_empty: object) -> None:
    """Refuse numbers and choices outside of what makes sense.

    Raises:
        ConfigError: One of them cannot work.
    """
    for name, value in (("top_k", top_k), ("rrf_k", rrf_k)):
        if value == AUTO and name == "top_k":
            continue
        if not is_count(value) or value < 1:
            or_auto = ', or "auto"' if name == "top_k" else ""
            msg = f"{name} is a whole number from 1{or_auto}, not {value!r:.80}"
            raise ConfigError(msg)
    if not (is_number(coverage) and LEAST_COVERAGE <= coverage <= MOST_COVERAGE):
        msg = f"coverage is a probability from {LEAST_COVERAGE:g} to {MOST_COVERAGE:g}, not {coverage!r:.80}"
        raise ConfigError(msg)
    check_timeout(timeout_s)
    if on_empty not in ("top1", "none"):
        msg = f'on_empty is "top1" or "none", not {on_empty!r:.80}'
        raise ConfigError(msg)


def check_timeout(timeout_s: object) -> None:
    """Refuse a limit that is no time.

    Raises:
        ConfigError: It is neither a number of seconds nor None.
    """
    if timeout_s is not None and not (is_number(timeout_s) and 0 < timeout_s < math.inf):
        msg = f"timeout_s is a number of seconds above 0, or None for no limit, not {timeout_s!r:.80}"
        raise ConfigError(msg)


def check_probabilities(**thresholds: object) -> None:
    """Refuse thresholds that are no probabilities.

    Raises:
        ConfigError: One of them is not in [0, 1].
    """
    for name, value in thresholds.items():
        if value is not None and not (is_number(value) and 0 <= value <= 1):
            msg = f"{name} is a probability from 0 to 1, or None, not {value!r:.80}"
            raise ConfigError(msg)


def check_cascade(*, ask_user: object, calibration: object) -> None:
    """Refuse what no cascade can be made of.

    Raises:
        ConfigError: One of them is of the wrong kind.
    """
    if not isinstance(ask_user, bool):
        msg = f"ask_user is True or False, not {ask_user!r:.80}"
        raise ConfigError(msg)
    if calibration is not None and not isinstance(calibration, Calibration):
        msg = f"calibration is what `await selector.calibrate(cases)` gave, or None, not {calibration!r:.80}"
        raise ConfigError(msg)


def check_choice_options(*, candidate_order: object, examples_shown: object, **counts: object) -> None:
    """Refuse ways of asking a model that cannot work.

    Raises:
        ConfigError: One of them cannot.
    """
    if candidate_order not in ("rank", "stable", "shuffled"):
        msg = f'candidate_order is "rank", "stable" or "shuffled", not {candidate_order!r:.80}'
        raise ConfigError(msg)
    if examples_shown is not None and not (is_count(examples_shown) and 0 <= examples_shown <= MOST_EXAMPLES):
        msg = (
            f"examples_shown is a whole number from 0 to {MOST_EXAMPLES}, or None for as many as there is room for, "
            f"not {examples_shown!r:.80}"
        )
        raise ConfigError(msg)
    check_counts(**counts)


def check_counts(**counts: object) -> None:
    """Refuse counts that are none.

    Raises:
        ConfigError: One of them is no whole number, or too small.
    """
    for name, value in counts.items():
        least = 1 if name in ("prompt_tokens", "max_concurrency") else 0
        if not is_count(value) or value < least:
            msg = f"{name} is a whole number from {least}, not {value!r:.80}"
            raise ConfigError(msg)


def check_request(*, enhanced_query: object, episode_summaries: object, context: object) -> None:
    """Refuse a request of the wrong kind.

    Raises:
        ConfigError: One of its parts cannot be used.
    """
    if not isinstance(enhanced_query, str):
        msg = f"enhanced_query is what the user wants, as a string, not {enhanced_query!r:.80}"
        raise ConfigError(msg)
    if episode_summaries is not None and not _are_texts(episode_summaries):
        msg = f"episode_summaries are strings in a list, or None, not {episode_summaries!r:.80}"
        raise ConfigError(msg)
    if context is not None and not isinstance(context, Mapping):
        msg = f"context is a mapping such as {{'authenticated': True}}, or None, not {context!r:.80}"
        raise ConfigError(msg)


def _are_texts(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(item, str) for item in cast("Sequence[object]", value))
