"""The loaders, on tiny files in the published formats."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import base, catalogue, intents, schemas, tools
from benchmarks.datasets.base import DataFormatError, DataMissingError, Dataset, Entry, Request


def write(root: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def function(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return {"name": name, "description": description, "parameters": {"type": "dict", "properties": properties}}


def package(title: str, server: str, *names: str) -> dict[str, Any]:
    schema = {"properties": {"path": {"description": "where"}}}
    tools = [{"name": name, "description": f"to {name}", "inputSchema": schema} for name in names]
    return {"name": title, "tools": {server: {"tools": tools}}}


def task(question: str, named: list[str], steps: list[str]) -> dict[str, Any]:
    def numbered(lines: list[str]) -> str:
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))

    return {"Question": question, "Annotator Metadata": {"Tools": numbered(named), "Steps": numbered(steps)}}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    labels = [f"{word}_it" for word in ("play", "stop", "pause", "skip", "loop", "sell")]
    train = [[f"train {number} {label}", label] for label in labels for number in range(12)]
    write(
        tmp_path,
        {
            "clinc150/data_full.json": {
                "train": train,
                "test": [["test play", "play_it"], ["test stop", "stop_it"]],
                "oos_test": [["who won", "oos"]],
            },
            "banking77/train.csv": "text,category\n"
            + "".join(f'"wait, {number}",Card_late?\n' for number in range(8))
            + "one,other\none,other\n",
            "banking77/test.csv": 'text,category\n"where is\nmy card",Card_late?\n',
            "nlupp/ontology.json": {
                "intents": {
                    "affirm": {"description": "to affirm?", "domain": ["general"]},
                    "card": {"description": "about a card?", "domain": ["banking"]},
                    "room": {"description": "about a room?", "domain": ["hotels"]},
                }
            },
            "nlupp/banking/fold0.json": [{"text": "zero card", "intents": ["card"]}],
            "nlupp/banking/fold1.json": [{"text": "one card", "intents": ["affirm", "card"]}, {"text": "at nine"}],
            "nlupp/hotels/fold0.json": [{"text": "a room", "intents": ["room"]}],
            "metatool/plugin_des.json": {f"tool{number}": f"does {number}" for number in range(9)},
            "metatool/all_clean_data.csv": "Query,Tool\n" + "".join(f"do {n},tool{n}\n" for n in range(9)),
            "metatool/multi_tool_query_golden.json": [{"query": "both", "tool": ["tool1", "tool2"]}],
            "metatool_examples/examples.json": {
                f"tool{number}": [f"please do {number}, {way}" for way in "abcdef"] for number in range(8)
            },
            "bfcl/BFCL_v4_live_multiple.json": lines(
                {
                    "id": "1",
                    "question": [[{"role": "system", "content": "be nice"}, user("a ride")]],
                    "function": [function("ride", "old words"), function("eat", "food", dish="what to eat")],
                },
                {"id": "2", "question": [[user("again")]], "function": [function("ride", "new words", to="place")]},
                {"id": "3", "question": [[user("more")]], "function": [function("ride", "new words", to="place")]},
            ),
            "bfcl/possible_answer/BFCL_v4_live_multiple.json": lines(
                *({"id": str(number), "ground_truth": [{"ride": {"to": ["x"]}}]} for number in (1, 2, 3))
            ),
            "bfcl/BFCL_v4_live_irrelevance.json": lines(
                {"id": "i", "question": [[user("first")], [user("last")]], "function": []}
            ),
            "sealtools/tool.jsonl": lines(
                {"api_name": "a", "api_description": "A", "parameters": {"p": {"type": "str", "description": "P"}}},
                {"api_name": "b", "api_description": "B", "parameters": {}},
            ),
            "sealtools/test_in_domain.jsonl": lines(
                {"id": "1", "query": "a then b", "calling": [{"api": "a"}, {"api": "b"}, {"api": "a"}]}
            ),
            "sealtools/dev.jsonl": lines({"id": "1", "query": "just b", "calling": [{"api": "b"}]}),
            "livemcpbench/tools.json": [
                package("Files Server", "files", "read", "write"),
                package("Notes Server", "notes", "write", "tag"),
            ],
            "livemcpbench/all_annotations.json": [
                task("Copy it", ["read", "write"], ["Read the text", "Write it down"]),
                task("Tag it", ["tag", "gone"], ["Do it all"]),
                task("Buy it", ["gone"], ["Buy it"]),
            ],
        },
    )
    return tmp_path


def test_clinc_examples_are_drawn_from_train_and_requests_from_test(data: Path) -> None:
    read = intents.clinc150(data, examples=5, seed=1)
    assert {entry.name for entry in read.flows} == {"play it", "stop it", "pause it", "skip it", "loop it", "sell it"}
    for entry in read.flows:
        assert len(set(entry.examples)) == 5
        assert all(text.startswith("train ") and text.endswith(entry.name.replace(" ", "_")) for text in entry.examples)
    assert read.requests == (
        Request(text="test play", gold=frozenset({"play it"})),
        Request(text="test stop", gold=frozenset({"stop it"})),
    )
    assert read.outside == ("who won",)


def test_clinc_pieces_deal_out_all_training_requests(data: Path) -> None:
    read = intents.clinc150_pieces(data, flows=100, examples=5, seed=1)
    assert len(read.flows) == 12
    assert len({text for entry in read.flows for text in entry.examples}) == 60
    assert read.requests[0] == Request(text="test play", gold=frozenset({"play it 0", "play it 1"}))
    assert len(intents.clinc150_pieces(data, flows=7, examples=5, seed=1).flows) == 7


def test_a_task_of_many_servers_names_tools_without_their_server(data: Path) -> None:
    read = tools.livemcpbench(data, seed=1)
    by_name = {entry.name: entry for entry in read.flows}
    assert (by_name["write"].provider, by_name["write"].provider_title) == ("files", "Files Server")
    assert by_name["tag"].parameters == (("path", "where"),)
    assert read.requests == (
        Request(text="Copy it", gold=frozenset({"read", "write"})),
        Request(text="Tag it", gold=frozenset({"tag"})),
    )
    assert dict(read.notes) == {"tools of a name that was listed before": 1, "tools that no server lists": 2}
    alone = tools.livemcpbench(data, seed=1, has_owner=False)
    assert {(entry.provider, entry.provider_title) for entry in alone.flows} == {("", "")}
    listed = schemas.livemcpbench(data, seed=1)
    assert [tool.name for tool in listed.tools] == [entry.name for entry in read.flows]
    assert (listed.by_name["write"].provider, listed.by_name["write"].provider_title) == ("files", "Files Server")
    assert "path" in listed.by_name["write"].input_schema["properties"]


def test_a_step_of_a_task_has_the_tool_in_its_place(data: Path) -> None:
    read = tools.livemcpbench(data, seed=1, by_step=True)
    assert [(each.text, set(each.gold)) for each in read.requests] == [
        ("Read the text", {"read"}),
        ("Write it down", {"write"}),
    ]


def test_banking_reads_quoted_lines_and_humanises_labels(data: Path) -> None:
    read = intents.banking77(data, examples=5, seed=1)
    assert read.requests == (Request(text="where is\nmy card", gold=frozenset({"card late?"})),)
    assert {entry.name: len(entry.examples) for entry in read.flows} == {"card late?": 5, "other": 1}


@pytest.mark.parametrize(
    ("seed", "examples", "requests"),
    [
        pytest.param(
            0,
            {"affirm": (), "card": ("zero card",)},
            (Request(text="one card", gold=frozenset({"affirm", "card"})),),
            id="fold 0 teaches",
        ),
        pytest.param(
            1,
            {"affirm": ("one card",), "card": ("one card",)},
            (Request(text="zero card", gold=frozenset({"card"})),),
            id="fold 1 teaches",
        ),
    ],
)
def test_nlupp_never_asks_what_it_taught(
    data: Path, seed: int, examples: dict[str, tuple[str, ...]], requests: tuple[Request, ...]
) -> None:
    read = intents.nlupp(data, domain="banking", examples=5, seed=seed)
    assert {entry.name: entry.examples for entry in read.flows} == examples
    assert read.requests == requests
    assert read.outside == (("at nine",) if seed == 0 else ())


def test_metatool_sample_is_drawn_with_the_seed(data: Path) -> None:
    whole = tools.metatool_single(data, seed=1, limit=None)
    some = tools.metatool_single(data, seed=1, limit=4)
    assert len(whole.requests) == 9
    assert len(some.requests) == 4
    assert set(some.requests) < set(whole.requests)
    assert some.requests == tools.metatool_single(data, seed=1, limit=4).requests
    assert len({tools.metatool_single(data, seed=seed, limit=4).requests for seed in range(6)}) > 1
    assert some.notes == {"requests left out by sampling": 5}


def test_metatool_multi_has_several_answers(data: Path) -> None:
    assert tools.metatool_multi(data, seed=1).requests == (Request(text="both", gold=frozenset({"tool1", "tool2"})),)


@pytest.mark.parametrize("load", [tools.metatool_single, tools.metatool_multi], ids=["single", "multi"])
def test_metatool_with_written_examples_differs_in_them_alone(data: Path, load: Callable[..., Dataset]) -> None:
    bare, shown = load(data, seed=1), load(data, seed=1, examples=3)
    assert shown.name == f"{bare.name}-3"
    assert shown.requests == bare.requests
    assert [(entry.name, entry.description) for entry in shown.flows] == [
        (entry.name, entry.description) for entry in bare.flows
    ]
    drawn = {entry.name: entry.examples for entry in shown.flows}
    assert {len(set(texts)) for name, texts in drawn.items() if name != "tool8"} == {3}
    assert drawn["tool8"] == ()
    assert shown.sha256.startswith(bare.sha256)
    assert shown.sha256 != bare.sha256
    assert {load(data, seed=seed, examples=3).flows for seed in range(3)} > {shown.flows}


def test_bfcl_pools_functions_by_name_and_counts_conflicts(data: Path) -> None:
    read = tools.bfcl_live(data, seed=1)
    assert sorted(read.flows, key=lambda entry: entry.name) == [
        Entry(name="eat", description="food", parameters=(("dish", "what to eat"),)),
        Entry(name="ride", description="new words", parameters=(("to", "place"),)),
    ]
    assert read.notes == {"names offered with differing wordings": 1}
    assert [request.text for request in read.requests] == ["a ride", "again", "more"]
    assert read.outside == ("last",)


def test_bfcl_without_an_answer_is_an_error(data: Path) -> None:
    (data / "bfcl/possible_answer/BFCL_v4_live_multiple.json").write_text(lines({"id": "1", "ground_truth": []}))
    with pytest.raises(DataFormatError, match="lacks 2 requests, first 2"):
        tools.bfcl_live(data, seed=1)


def test_sealtools_splits(data: Path) -> None:
    test = tools.sealtools(data, seed=1)
    dev = tools.sealtools(data, seed=1, split="dev")
    assert test.requests == (Request(text="a then b", gold=frozenset({"a", "b"})),)
    assert dev.requests == (Request(text="just b", gold=frozenset({"b"})),)
    assert {entry.name: entry.parameters for entry in test.flows} == {"a": (("p", "P"),), "b": ()}


@pytest.mark.parametrize("name", sorted(catalogue.DATASETS))
def test_same_seed_same_data_set(data: Path, name: str) -> None:
    assert catalogue.load(name, data, 3) == catalogue.load(name, data, 3)


@pytest.mark.parametrize("name", ["clinc150-5", "metatool-multi"])
def test_another_seed_another_order(data: Path, name: str) -> None:
    orders = {tuple(entry.name for entry in catalogue.load(name, data, seed).flows) for seed in range(6)}
    assert len(orders) > 1


def test_fingerprint_follows_the_files(data: Path) -> None:
    before = tools.metatool_multi(data, seed=1).sha256
    write(data, {"metatool/multi_tool_query_golden.json": [{"query": "other", "tool": ["tool1"]}]})
    assert before
    assert tools.metatool_multi(data, seed=1).sha256 != before


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("clinc150-5", "clinc/oos-eval", id="clinc"),
        pytest.param("nlupp-banking-5", "PolyAI-LDN/task-specific-datasets", id="nlupp"),
        pytest.param("bfcl-live", "ShishirPatil/gorilla", id="bfcl"),
    ],
)
def test_missing_files_say_where_to_get_them(tmp_path: Path, name: str, source: str) -> None:
    with pytest.raises(DataMissingError, match=source) as caught:
        catalogue.load(name, tmp_path, 0)
    assert "JAZZ_BENCH_DATA" in str(caught.value)


@pytest.mark.parametrize(
    ("flows", "requests", "problem"),
    [
        pytest.param(("a", "a"), [], "share a name", id="two of one name"),
        pytest.param(("a",), [{"b"}], "not in the catalogue", id="answer is no entry"),
        pytest.param(("a",), [set[str]()], "belongs in `outside`", id="no answer"),
    ],
)
def test_a_data_set_that_contradicts_itself_is_an_error(
    flows: tuple[str, ...], requests: list[set[str]], problem: str
) -> None:
    with pytest.raises(DataFormatError, match=problem):
        Dataset(
            name="x",
            flows=tuple(Entry(name=name, description="") for name in flows),
            requests=tuple(Request(text="?", gold=frozenset(gold)) for gold in requests),
        )


def test_sampling_keeps_order() -> None:
    kept = base.sampled(range(100), 10, seed=4)
    assert len(kept) == 10
    assert list(kept) == sorted(kept)
    assert base.sampled(range(3), 10, seed=4) == (0, 1, 2)
