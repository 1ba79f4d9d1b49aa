"""What is learned, tried and drifts, in a notebook: tables of HTML in which every text is shown as text."""

import pytest

from jazz_select.evaluation import Learned
from jazz_select.evaluation.corrections import Correction
from jazz_select.evaluation.drifting import Accuracy, Alarm, Drift, FlowDrift, Share, Window
from jazz_select.evaluation.trial import Change, Trial

EVIL = "<script>alert(1)</script>"
NOW = Window(
    since=0.0,
    until=1.0,
    requests=2,
    asked=Share(count=1, of=2),
    none=Share(count=0, of=2),
    accuracy=Accuracy(requests=2),
)
RESULTS = {
    "learned": Learned(
        learned=(Correction(request=EVIL, right=("refund",), first="track", ids=("1",)),), nothing="nothing"
    ),
    "tried": Trial(version=1, live=0, requests=2, changed=1, changes=(Change(request=EVIL, before="a", after="b"),)),
    "drift": Drift(
        days=7,
        now=NOW,
        before=NOW,
        flows=(FlowDrift(flow="refund", now=Accuracy(requests=2), before=Accuracy(requests=0)),),
        alarms=(Alarm(kind="silent", subject="refund", message=EVIL),),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_table_that_runs_nothing(name: str) -> None:
    shown = RESULTS[name]._repr_html_()  # pyright: ignore[reportPrivateUsage] - what a notebook calls
    assert "</caption><thead>" in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
