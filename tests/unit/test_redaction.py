"""Nothing leaves a trace before it was redacted: not to a hook, not to the log, not in an error's text."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select.telemetry import Span, Trace
from jazz_select.testing import ScriptedModel
from tests.unit.spans import CHOICE, SAID, everything_fails, exported, selector


async def test_redaction_comes_before_everyone() -> None:
    heard: list[dict[str, Any]] = []

    class Hook:
        def on_start(self, span: Span) -> None:
            heard.append(dict(span.content))

        def on_end(self, span: Span) -> None:
            heard.append(dict(span.content))

    def redact(name: str, content: dict[str, Any]) -> Mapping[str, Any]:
        return {} if name == "recall" else dict.fromkeys(content, "***")

    with Trace([Hook()], redact=redact) as trace:
        await selector(ScriptedModel(CHOICE)).select("my secret")
    assert "secret" not in str(heard)
    assert "secret" not in str(trace.as_json())
    assert trace.spans[0].content["request"] == "***"


async def test_a_redaction_that_fails_lets_nothing_out(caplog: pytest.LogCaptureFixture) -> None:
    def broken(name: str, content: dict[str, Any]) -> Mapping[str, Any]:
        raise ValueError

    with caplog.at_level(logging.DEBUG, logger="jazz_select.trace"), Trace(redact=broken) as trace:
        await selector(ScriptedModel(CHOICE)).select("my secret")
    assert "secret" not in str(trace.as_json())
    assert "secret" not in caplog.text


async def test_the_texts_of_errors_are_redacted_like_all_content(caplog: pytest.LogCaptureFixture) -> None:
    def redact(name: str, content: dict[str, Any]) -> Mapping[str, Any]:
        return dict.fromkeys(content, "***")

    hook, exporter = exported(with_content=True)
    with caplog.at_level(logging.DEBUG, logger="jazz_select.trace"), Trace([hook], redact=redact) as trace:
        await everything_fails()
    lines = [record.getMessage() for record in caplog.records if record.name == "jazz_select.trace"]
    told = [str(trace), str(trace.as_json()), *lines, *(each.to_json() for each in exporter.get_finished_spans())]
    assert [each for each in told if SAID in each] == []
    assert [each.error for each in trace if each.error] == [
        *("ValueError", "tool"),
        "DecisionCallbackError",
        "open",
        "tool",
        "ModelError",
        "ValueError",
    ]
