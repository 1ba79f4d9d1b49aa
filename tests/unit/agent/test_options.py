"""The options of a chain: what is wrong with one is told when they are made, by its name."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from jazz_select.agent import finalize, respond, run_chain, stream_respond
from jazz_select.agent.chain.prompts import ChainOptions
from jazz_select.errors import ConfigError

DEFAULTS = {each.name: each.default for each in fields(ChainOptions)}
OF_THE_LOOP = {"chain_limit", "before_call", "approval", "approve", "after_call", "conversation_id"} | {
    "tool_timeout_s",
    "at_once",
}
OF_ONE_CHAIN = {"schema", "until_asked", "after", "answer", "context"}
OF_THE_SCHEMA = {"prompt", "max_chars", "on_limit", "max_reasks"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"strategy": "odd"}, """strategy must be "deferred", "native" or "tool", got 'odd'"""),
        ({"approval": "odd"}, """approval must be "destructive", "always" or "never", got 'odd'"""),
        ({"on_limit": "odd"}, """on_limit must be "format" or "raise", got 'odd'"""),
        ({"chain_limit": 0}, "chain_limit must be a whole number from 1, got 0"),
        ({"chain_limit": True}, "chain_limit must be a whole number from 1, got True"),
        ({"at_once": 1.5}, "at_once must be a whole number from 1, got 1.5"),
        ({"at_once": 0}, "at_once must be a whole number from 1, got 0"),
        ({"tool_timeout_s": 0}, "tool_timeout_s must be a number of seconds above 0, or None for no limit, got 0"),
        ({"model_timeout_s": -1}, "model_timeout_s must be a number of seconds above 0, or None for no limit, got -1"),
        (
            {"model_timeout_s": "3"},
            "model_timeout_s must be a number of seconds above 0, or None for no limit, got '3'",
        ),
        ({"max_retries": -1}, "max_retries must be a whole number from 0, got -1"),
        ({"max_reasks": "1"}, "max_reasks must be a whole number from 0, got '1'"),
        ({"max_chars": 10}, "max_chars must be a whole number from 500, got 10"),
        ({"prompt": 3}, "prompt must be a text, a function that makes one, or None, got 3"),
        ({"before_call": 3}, "before_call must be a function, sync or async, or None, got 3"),
        ({"approve": "yes"}, "approve must be a function, sync or async, or None, got 'yes'"),
        ({"after_call": 3}, "after_call must be a function, sync or async, or None, got 3"),
        ({"on_event": []}, "on_event must be a function, sync or async, or None, got []"),
    ],
    ids=repr,
)
def test_an_option_that_cannot_work_is_told_by_its_name(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ChainOptions(**options)
    assert str(caught.value) == problem


def test_no_limit_is_an_option() -> None:
    options = ChainOptions(tool_timeout_s=None, model_timeout_s=None, max_reasks=0, max_retries=0)
    assert (options.tool_timeout_s, options.max_reasks) == (None, 0)


@pytest.mark.parametrize(
    ("function", "lacking"),
    [
        (respond, set[str]()),
        (stream_respond, set[str]()),
        (run_chain, OF_THE_SCHEMA),
        (finalize, OF_THE_LOOP),
    ],
    ids=["respond", "stream_respond", "run_chain", "finalize"],
)
def test_functions_take_the_options_by_name_with_the_same_defaults(
    function: Callable[..., Any], lacking: set[str]
) -> None:
    named = {
        name: each.default
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is inspect.Parameter.KEYWORD_ONLY and name not in OF_ONE_CHAIN
    }
    assert MISSING not in DEFAULTS.values()
    assert named == {name: value for name, value in DEFAULTS.items() if name not in lacking}
