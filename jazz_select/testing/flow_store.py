"""The contract of `FlowStore`, for every engine adapter."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from jazz_select.ports import FlowPoint, FlowStore, HybridQuery, Legs, SparseVector

_EAST, _NORTH, _BETWEEN = (1.0, 0.0), (0.0, 1.0), (0.8, 0.6)
_RED, _BLUE = 7, 9


def _point(flow_id: str, dense: tuple[float, float] | None, *words: int, agent_id: str = "a") -> FlowPoint:
    sparse = SparseVector(indices=words, values=(1.0,) * len(words))
    payload = {"flow_id": flow_id, "flow_name": f"name of {flow_id}"}
    return FlowPoint(
        agent_id=agent_id, flow_id=flow_id, fingerprint=f"mark-{flow_id}", dense=dense, sparse=sparse, payload=payload
    )


def _query(
    dense: tuple[float, float] | None, *words: int, agent_id: str = "a", depth: int = 10, exclude: tuple[str, ...] = ()
) -> HybridQuery:
    sparse = SparseVector(indices=words, values=(1.0,) * len(words)) if words else None
    return HybridQuery(agent_id=agent_id, dense=dense, sparse=sparse, depth=depth, exclude=exclude)


async def _ask(store: FlowStore, query: HybridQuery) -> Legs:
    (legs,) = await store.search([query])
    return legs


async def _names(store: FlowStore, leg: Mapping[int, float]) -> list[str]:
    payloads = await store.retrieve(list(leg))
    return [payloads[key]["flow_id"] for key in leg]


async def check_flow_store(store: FlowStore) -> None:
    """Raise `AssertionError` unless an empty store of two-dimensional vectors keeps the port's contract."""
    await _check_empty(store)
    await store.upsert([_point("east", _EAST, _RED), _point("north", _NORTH, _BLUE)])
    await store.upsert([_point("between", _BETWEEN, _RED, _BLUE), _point("words only", None, _RED)])
    await _check_contents(store)
    await _check_search(store)
    await _check_notes(store)
    await _check_agents(store)
    await _check_changes(store)


async def _marks(store: FlowStore, agent_id: str) -> dict[str, str]:
    return {each["flow_id"]: each["fingerprint"] for each in (await store.payloads(agent_id)).values()}


async def _check_empty(store: FlowStore) -> None:
    assert await store.payloads("a") == {}
    assert await store.count("a") == 0
    assert await store.terms("a", 10) == []
    assert await store.elsewhere("a") == []
    await store.discard("a", [store.key("a", "nothing")])
    legs = await _ask(store, _query(_EAST, _RED))
    assert (legs.dense, legs.bm25) == ({}, {})
    assert await store.search([]) == []
    assert await store.retrieve([store.key("a", "nothing")]) == {}
    assert await store.read_note("a") is None
    await store.delete("a", ["nothing"])
    await store.upsert([])


async def _check_contents(store: FlowStore) -> None:
    flows = ("between", "east", "north", "words only")
    assert await _marks(store, "a") == {flow: f"mark-{flow}" for flow in flows}
    payloads = await store.payloads("a")
    assert sorted(payload["flow_name"] for payload in payloads.values()) == [f"name of {flow}" for flow in flows]
    assert sorted(payloads) == sorted(store.key("a", flow) for flow in flows)
    assert await store.count("a") == len(flows)
    words = {"between": (_RED, _BLUE), "east": (_RED,), "north": (_BLUE,), "words only": (_RED,)}
    assert sorted(tuple(sorted(each)) for each in await store.terms("a", 10)) == sorted(words.values())
    lowest = sorted(flows, key=lambda flow: store.key("a", flow))[:3]
    assert sorted(tuple(sorted(each)) for each in await store.terms("a", 3)) == sorted(map(words.__getitem__, lowest))
    key = store.key("a", "east")
    assert (await store.retrieve([key, store.key("a", "never there")]))[key]["flow_name"] == "name of east"


async def _check_search(store: FlowStore) -> None:
    legs = await _ask(store, _query(_EAST, _BLUE))
    assert await _names(store, legs.dense) == ["east", "between", "north"], "best first"
    assert sorted(await _names(store, legs.bm25)) == ["between", "north"], "only flows that share a word"
    cosine = legs.dense[store.key("a", "between")]
    assert abs(cosine - 0.8) < 1e-5, "the raw dense score is the cosine"
    for score in legs.bm25.values():
        assert abs(score - 1.0) < 1e-5, "the raw lexical score is the product of the weights, rare words or not"
    assert list(legs.dense.values()) == sorted(legs.dense.values(), reverse=True)
    assert all(payload["flow_id"] for payload in legs.payloads.values())
    assert (await _ask(store, _query(_EAST))).bm25 == {}, "an arm that was not asked found nothing"
    assert sorted(await _names(store, (await _ask(store, _query(None, _RED))).bm25)) == [
        "between",
        "east",
        "words only",
    ]
    assert len((await _ask(store, _query(_EAST, depth=2))).dense) == 2
    left = await _ask(store, _query(_EAST, _RED, exclude=("east", "between")))
    assert await _names(store, left.dense) == ["north"]
    assert await _names(store, left.bm25) == ["words only"]
    first, second, third = await store.search([_query(_EAST), _query(None), _query(_NORTH, _RED)])
    assert await _names(store, first.dense) == ["east", "between", "north"]
    assert (second.dense, second.bm25) == ({}, {}), "a query that asks nothing finds nothing and shifts nothing"
    assert (await _names(store, third.dense))[0] == "north"


async def _check_notes(store: FlowStore) -> None:
    await store.write_note("a", {"told": [1.5, None, {"deep": "down"}]})
    assert await store.read_note("a") == {"told": [1.5, None, {"deep": "down"}]}
    assert await store.read_note("b") is None
    await store.write_note("a", {"told": "again"})
    assert await store.read_note("a") == {"told": "again"}
    assert len(await store.payloads("a")) == await store.count("a") == 4, "a note is no flow"
    assert len(await store.terms("a", 10)) == 4
    await store.write_note("note", {"of": "an agent of an odd name"})
    await store.upsert([_point("a", _EAST, _RED, agent_id="note")])
    assert await store.read_note("a") == {"told": "again"}, "no flow takes the place of a note"
    await store.delete("note", ["a"])
    assert len((await _ask(store, _query(_EAST))).dense) == 3


async def _check_agents(store: FlowStore) -> None:
    alone = await _ask(store, _query(_EAST, _RED))
    await store.upsert([_point("east", _NORTH, _BLUE, agent_id="b"), _point("only b", _EAST, _RED, agent_id="b")])
    beside = await _ask(store, _query(_EAST, _RED))
    assert list(beside.dense) == list(alone.dense), "another agent's flows never come back"
    assert sorted(beside.bm25) == sorted(alone.bm25)
    for key, score in alone.bm25.items():
        assert abs(beside.bm25[key] - score) < 1e-5, "another agent's words do not change what a word weighs"
    assert len(await store.terms("a", 10)) == len(alone.dense) + 1
    assert store.key("a", "east") != store.key("b", "east")
    assert await _marks(store, "b") == {"east": "mark-east", "only b": "mark-only b"}
    await store.delete("b", ["east"])
    await store.discard("b", [store.key("b", "only b")])
    assert await _marks(store, "b") == {}
    assert len(await _marks(store, "a")) == 4, "one agent's deletes leave another's flows of the same id"


async def _check_changes(store: FlowStore) -> None:
    await store.upsert([_point("north", _EAST, _RED)])
    assert len(await _marks(store, "a")) == 4, "writing a flow again replaces it"
    moved = await _ask(store, _query(_EAST, _RED))
    assert abs(moved.dense[store.key("a", "north")] - 1.0) < 1e-5
    await store.delete("a", ["north", "never there"])
    assert store.key("a", "north") not in (await _ask(store, _query(_EAST, _RED))).dense


async def check_second_vectors(store: FlowStore) -> None:
    """Raise `AssertionError` if an empty store of two dimensions, and three in second vectors, mixes the two up."""
    await store.upsert(
        [
            replace(_point("east", _EAST, _RED), second=(0.0, 0.0, 1.0)),
            replace(_point("north", _NORTH, _RED), second=(0.6, 0.0, 0.8)),
            _point("first only", _BETWEEN, _RED),
        ]
    )
    asked = replace(_query(None, _RED), dense=(1.0, 0.0, 0.0), of_second=True)
    second, first = await store.search([asked, _query(_EAST, _RED)])
    assert await _names(store, second.dense) == ["north", "east"], "a flow without a second vector is not found by one"
    assert abs(second.dense[store.key("a", "north")] - 0.6) < 1e-5, "the raw score is the cosine of the second vectors"
    assert await _names(store, first.dense) == ["east", "first only", "north"], "the first vectors are as they were"
    assert second.bm25 == first.bm25, "words are the same beside either"


async def check_layouts(open_store: Callable[[str], Awaitable[FlowStore]]) -> None:
    """Raise `AssertionError` if vectors of two layouts mix, or one agent's move touches another's flows.

    `open_store` opens the same place with the layout of the given name; one is open at a time.
    """
    old = await open_store("old")
    await old.upsert([_point("east", _EAST, _RED), _point("east", _EAST, _RED, agent_id="b")])
    await old.write_note("a", {"of": "old"})
    await old.close()
    new = await open_store("new")
    assert (await _ask(new, _query(_EAST, _RED))).dense == {}, "flows of another layout never come back"
    assert await new.read_note("a") is None, "nor does its note"
    assert [each["flow_id"] for each in await new.elsewhere("a")] == ["east"]
    await new.upsert([_point("east", _NORTH, _BLUE)])
    await new.forget_other_layouts("a")
    assert await new.elsewhere("a") == []
    assert len(await new.elsewhere("b")) == 1, "the other agent's flows stay where they are"
    await new.forget_other_layouts("b")
    assert await new.elsewhere("b") == []
    assert await _marks(new, "a") == {"east": "mark-east"}
    await new.close()
