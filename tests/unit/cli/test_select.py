"""`jazz-select select`: what was offered, what was chosen, and why."""

from typing import Any

import orjson
import pytest

from jazz_select.cli.shared_options import context_of
from tests.unit.chat.decision_protocols import SYSTEM_ONE
from tests.unit.chat.loopback import Provider
from tests.unit.cli import shapes
from tests.unit.cli.conftest import MODEL_STRING, Jazz
from tests.unit.cli.shop import INVOICE, TRACK, write_flows
from tests.vectors import NEEDS_STATIC


def chosen(selection: dict[str, Any]) -> list[str]:
    return [flow["flow_name"] for flow in selection["chosen"]]


def offered(selection: dict[str, Any]) -> set[str]:
    return {candidate["flow_name"] for candidate in selection["candidates"]}


def test_the_table_marks_the_choice_and_says_why(shared: Jazz) -> None:
    lines = shared("select", "give me my money back", "--episode", "The order came on Monday.").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    facts = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in lines if len(line.split()) > 1}
    assert facts["request"] == "give me my money back"
    assert facts["earlier"] == "The order came on Monday."
    assert [line.split()[:3] for line in lines if line.startswith(" ✓")] == [["✓", "1", "refund_order"]]
    assert [line.split()[1] for line in lines if line.split()[:1] == ["2"]] == ["track_order"]
    assert facts["chosen"] == "refund_order"
    assert facts["why"].startswith("the likeliest by recall, as no stage was sure enough")
    assert facts["decided"] == "deterministic, semantic"
    assert "recall" in facts["took"]


def test_json_holds_the_decision_and_what_led_to_it(shared: Jazz) -> None:
    selection = shared.json(
        shapes.Selection, "select", "give me my money back", "--context", "n=3", "--context", "r=eh"
    )
    assert chosen(selection) == ["refund_order"]
    assert selection["context"] == {"n": 3, "r": "eh"}
    assert selection["decision"]["reason"] == "semantic"
    assert selection["decision"]["raw_reply"] is None
    assert selection["decision"]["latency"]["total_s"] > 0
    first, second = selection["candidates"]
    assert (first["chosen"], second["chosen"]) == (True, False)
    assert first["ranks"] == {"dense": 1, "bm25": 1}
    assert first["scores"].keys() == {"dense", "bm25"}
    assert first["score"] > second["score"]
    assert selection["decision"]["chosen_ids"] == [first["flow_id"]]
    assert selection["combined_prompt"] == selection["chosen"][0]["prompt"]


def test_the_prompt_alone_is_what_json_calls_combined_prompt(shared: Jazz) -> None:
    prompt = shared("select", "money back", "--prompt").stdout
    assert prompt.startswith('<flow name="refund_order"')
    assert prompt == shared.json(shapes.Selection, "select", "money back")["combined_prompt"] + "\n"
    assert "pass either --json or --prompt" in shared("select", "money back", "--prompt", "--json", code=2).stderr


def test_episodes_say_what_a_vague_request_is_about(shared: Jazz) -> None:
    vague = "yes, do that"
    for episode, name in [("They want a refund of money.", "refund_order"), ("Their parcel is late.", "track_order")]:
        assert chosen(shared.json(shapes.Selection, "select", vague, "--episode", episode)) == [name]


def test_a_request_can_come_from_stdin(shared: Jazz) -> None:
    assert "✓  1  track_order" in shared("select", "-", stdin="where is my parcel\n").stdout


@pytest.mark.parametrize(
    ("known", "open_"), [([], False), (["authenticated=true"], True), (["authenticated=1"], False)]
)
def test_guards_read_the_context(shared: Jazz, known: list[str], *, open_: bool) -> None:
    pairs = [part for pair in known for part in ("--context", pair)]
    selection = shared.json(shapes.Selection, "select", "close my account", *pairs)
    assert ("close_account" in offered(selection)) is open_
    assert (chosen(selection) == ["close_account"]) is open_


CONTEXTS: list[tuple[str, object]] = [
    *((text, True) for text in ("true", "True", "YES", "yes", "on", " On ")),
    *((text, False) for text in ("false", "FALSE", "no", "No", "off", "OFF")),
    ("3", 3),
    ('["a"]', ["a"]),
    ("null", None),
    ('"yes"', "yes"),
    ("yes please", "yes please"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "value"), CONTEXTS, ids=[ascii(text) for text, _ in CONTEXTS])
def test_the_values_of_a_context(text: str, value: object) -> None:
    assert context_of([f"key={text}"]) == {"key": value}


def test_flows_that_changed_since_the_last_sync_are_counted(jazz: Jazz) -> None:
    jazz = Jazz(jazz.folder)  # what the environment says is a part of the command that is told
    jazz("sync")
    assert "last sync" not in jazz("select", "where is my parcel").output
    write_flows(jazz.flows, TRACK.replace("Say where", "Tell where"), INVOICE)
    note = f"3 flows changed since the last sync: run jazz-select sync --flows {jazz.flows} --index {jazz.index}"
    shown = jazz("select", "where is my parcel", COLUMNS="500").stdout
    assert f"note {note}" in " ".join(shown.split())
    result = jazz("select", "where is my parcel", "--json")
    assert result.stderr == f"{note}\n"
    assert note in result.stdout
    jazz("sync")
    assert "last sync" not in jazz("select", "where is my parcel", "--json").output


@NEEDS_STATIC
@pytest.mark.spec("006.2")
def test_a_cascade_says_which_embedder_found_the_candidates(jazz: Jazz) -> None:
    jazz("sync", "--embedder", "cascade")
    shown = jazz("select", "where is my parcel", "--embedder", "cascade", COLUMNS="500").stdout
    assert "recalled by minilm: static is not calibrated" in " ".join(shown.split())


@pytest.mark.parametrize("name", ["auto", "cascade", "minilm", "multilingual", "static"])
def test_the_help_names_every_embedder(shared: Jazz, name: str) -> None:
    told = shared("select", "--help", COLUMNS="200").stdout.partition("--embedder")[2]
    assert name in told


@pytest.mark.parametrize(
    ("options", "env", "count"),
    [
        pytest.param([], {}, 2, id="default"),
        pytest.param(["--top-k", "1"], {}, 1, id="option"),
        pytest.param([], {"JAZZ_TOP_K": "1"}, 1, id="environment"),
        pytest.param(["--top-k", "2"], {"JAZZ_TOP_K": "1"}, 2, id="the option wins"),
    ],
)
def test_top_k(shared: Jazz, options: list[str], env: dict[str, str], count: int) -> None:
    selection = shared.json(shapes.Selection, "select", "money back parcel", *options, **env)
    assert len(selection["candidates"]) == count
    assert selection["decision"]["reason"] == ("single" if count == 1 else "semantic")


def test_rrf_k_reaches_the_fusion(shared: Jazz) -> None:
    scores = [
        shared.json(shapes.Selection, "select", "money back", "--rrf-k", k)["candidates"][0]["score"]
        for k in ("1", "60")
    ]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("request_", ["", "   ", "\n"])
def test_nothing_asked_is_an_empty_answer_and_no_error(shared: Jazz, request_: str) -> None:
    selection = shared.json(shapes.Selection, "select", request_)
    assert selection["chosen"] == selection["candidates"] == []
    assert (selection["decision"]["tier"], selection["decision"]["reason"]) == ("open", "none")
    text = shared("select", request_).stdout
    assert "no candidates" in text


HOSTILE = "[red]refund[/red] \x1b]0;title\x07\x1b[31m \u202egnp \udcff"


def test_a_request_cannot_act_on_the_terminal(shared: Jazz) -> None:
    text = shared("select", HOSTILE, "--episode", HOSTILE).stdout
    assert "[red]refund[/red]" in text
    assert not {"\x1b", "\x07", "\u202e", "\udcff"} & set(text)


def test_json_is_utf_8_whatever_the_request(shared: Jazz) -> None:
    assert shared.json(shapes.Selection, "select", HOSTILE)["request"] == HOSTILE.replace("\udcff", "?")


def test_a_long_request_is_cut_on_the_screen_alone(shared: Jazz) -> None:
    long = "money back " * 9_000
    assert len(shared("select", "-", stdin=long).stdout) < 4_000
    assert shared.json(shapes.Selection, "select", long)["request"] == long


def test_a_flow_that_is_gone_is_told_and_not_run(jazz: Jazz) -> None:
    jazz("sync")
    write_flows(jazz.flows, TRACK)
    selection = orjson.loads(jazz("select", "money back", "--json").stdout)
    assert chosen(selection) == ["track_order"]
    assert selection["unresolved_ids"] == [selection["candidates"][0]["flow_id"]]
    words = " ".join(jazz("select", "money back").stdout.split())
    assert "no stage was sure enough, passing over refund_order, which is not among the flows decided" in words
    sync = f"run jazz-select sync --flows {jazz.flows} --index {jazz.index}"
    told = f"unresolved refund_order is in the index, but not among the flows: {sync}"
    assert told.replace(" ", "") in words.replace(" ", ""), "the path is folded"


def test_the_model_that_is_configured_chooses(shared: Jazz, provider: Provider) -> None:
    provider.says('["track_order", "refund_order"]')
    selection = shared.json(shapes.Selection, "select", "money back", "--llm", MODEL_STRING)
    assert chosen(selection) == ["track_order", "refund_order"]
    assert (selection["decision"]["tier"], selection["decision"]["reason"]) == ("guided", "llm")
    assert selection["decision"]["raw_reply"] == '["track_order", "refund_order"]'
    assert selection["decision"]["usage"] == {"input_tokens": 11, "output_tokens": 3, "cached_tokens": 0}
    words = " ".join(shared("select", "money back", JAZZ_LLM=MODEL_STRING).stdout.split())
    assert "chosen track_order, refund_order why chosen by the model" in words
    assert "tokens 11 in, 3 out" in words


@pytest.mark.parametrize(("on_empty", "names"), [("none", []), ("top1", ["refund_order"])])
def test_on_empty(shared: Jazz, provider: Provider, on_empty: str, names: list[str]) -> None:
    provider.says("[]")
    options = ("--llm", MODEL_STRING, "--on-empty", on_empty)
    assert chosen(shared.json(shapes.Selection, "select", "money back", *options)) == names


def test_a_model_that_fails_is_no_error_of_the_command(shared: Jazz, provider: Provider) -> None:
    provider.fails(500)
    result = shared("select", "money back", "--llm", MODEL_STRING)
    assert "the top candidate, as the model failed" in " ".join(result.stdout.split())
    assert result.stderr == ""
    selection = shared.json(shapes.Selection, "select", "money back", "--llm", MODEL_STRING)
    assert selection["decision"]["error"]


def test_no_model_is_asked_where_the_option_says_none(shared: Jazz, provider: Provider) -> None:
    shared("select", "money back", "--llm", "none", JAZZ_LLM=MODEL_STRING)
    assert provider.requests == []


@pytest.mark.spec("009.2")
@pytest.mark.parametrize(
    "env", [{}, {"JAZZ_MAX_ERROR": "0.01"}, {"JAZZ_LLM": MODEL_STRING, "JAZZ_MAX_ERROR": "0.3"}], ids=str
)
def test_a_decision_model_is_asked_with_a_budget_and_without(
    shared: Jazz, provider: Provider, env: dict[str, str]
) -> None:
    provider.gives = lambda labels: {label: float(label == "none") for label in labels}
    provider.says("[]")
    selection = shared.json(shapes.Selection, "select", "is this the right shop", JAZZ_DECIDER=SYSTEM_ONE.model, **env)
    assert provider.paths[0] == SYSTEM_ONE.path
    assert "decider" in [each["name"] for each in selection["decision"]["stages"]]


def test_no_decision_model_is_asked_where_the_setting_says_none(shared: Jazz, provider: Provider) -> None:
    shared("select", "money back", JAZZ_DECIDER="none")
    assert provider.requests == []


def test_a_trace_shows_every_step_of_it(shared: Jazz) -> None:
    lines = shared("select", "give me my money back", "--trace").stdout.splitlines()
    assert lines[-2].startswith("decision select ")
    assert "tier=deterministic" in lines[-2]
    assert lines[-1].startswith("  recall recall ")
    selection = shared.json(shapes.Selection, "select", "give me my money back", "--trace")
    assert [(span["kind"], span["name"]) for span in selection["trace"]] == [
        ("decision", "select"),
        ("recall", "recall"),
    ]
    assert shared.json(shapes.Selection, "select", "give me my money back")["trace"] is None
