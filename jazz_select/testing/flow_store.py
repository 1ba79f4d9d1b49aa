"""The contract of `FlowStore`, for every engine adapter."""

from collections.abc import Awaitable, Callable

from jazz_select.ports import FlowPoint, FlowStore, HybridQuery, SparseVector

_EAST, _NORTH, _BETWEEN = (1.0, 0.0), (0.0, 1.0), (0.8, 0.6)
_RED, _BLUE = 7, 9


def _point(flow_id: str, dense: tuple[float, float] | None, *words: int, agent_id: str = "a") -> FlowPoint:
    sparse = SparseVector(indices=words, values=(1.0,) * len(words))
    payload = {"flow_id": flow_id, "flow_name": f"name of {flow_id}"}
    return FlowPoint(
        agent_id=agent_id, flow_id=flow_id, fingerprint=f"mark-{flow_id}", dense=dense, sparse=sparse, payload=payload
    )


def _query(
    dense: tuple[float, float] | None, *words: int, agent_id: str = "a", limit: int = 5, exclude: tuple[str, ...] = ()
) -> HybridQuery:
    sparse = SparseVector(indices=words, values=(1.0,) * len(words)) if words else None
    return HybridQuery(agent_id=agent_id, dense=dense, sparse=sparse, limit=limit, depth=10, rrf_k=10, exclude=exclude)


async def check_flow_store(store: FlowStore) -> None:
    """Raise `AssertionError` where an empty store of two-dimensional vectors does not keep the port's promises."""
    await _check_empty(store)
    await store.upsert([_point("east", _EAST, _RED), _point("north", _NORTH, _BLUE)])
    await store.upsert([_point("between", _BETWEEN, _RED, _BLUE), _point("words only", None, _RED)])
    await _check_contents(store)
    await _check_search(store)
    await _check_agents(store)
    await _check_changes(store)


async def _check_empty(store: FlowStore) -> None:
    assert await store.fingerprints("a") == {}
    assert await store.payloads("a") == []
    assert await store.search(_query(_EAST, _RED)) == ()
    assert await store.other_layouts("a") == {}
    await store.delete("a", ["nothing"])
    await store.upsert([])


async def _check_contents(store: FlowStore) -> None:
    flows = ("between", "east", "north", "words only")
    assert await store.fingerprints("a") == {flow: f"mark-{flow}" for flow in flows}
    payloads = await store.payloads("a")
    assert sorted(payload["flow_name"] for payload in payloads) == [f"name of {flow}" for flow in flows]


async def _check_search(store: FlowStore) -> None:
    both = await store.search(_query(_EAST, _BLUE))
    by_id = {hit.flow_id: hit for hit in both}
    assert by_id["east"].ranks == {"dense": 1}, "an arm that did not find a flow gives it no rank"
    assert by_id["between"].ranks["dense"] == 2
    assert set(by_id["between"].scores) == {"dense", "bm25"}
    assert abs(by_id["between"].scores["dense"] - 0.8) < 1e-5, "the raw dense score is the cosine"
    assert "words only" not in by_id, "a flow that no arm found does not come back"
    assert [hit.score for hit in both] == sorted((hit.score for hit in both), reverse=True)
    assert by_id["between"].payload["flow_name"] == "name of between"
    assert [hit.flow_id for hit in await store.search(_query(_EAST))] == ["east", "between", "north"]
    assert {hit.flow_id for hit in await store.search(_query(None, _RED))} == {"east", "between", "words only"}
    assert len(await store.search(_query(_EAST, _BLUE, limit=1))) == 1
    left = await store.search(_query(_EAST, _RED, limit=2, exclude=("east", "between")))
    assert {hit.flow_id for hit in left} == {"north", "words only"}, "excluded flows take no place"


async def _check_agents(store: FlowStore) -> None:
    alone = await store.search(_query(_EAST, _RED))
    await store.upsert([_point("east", _NORTH, _BLUE, agent_id="b"), _point("only b", _EAST, _RED, agent_id="b")])
    shared = await store.search(_query(_EAST, _RED))
    assert [hit.flow_id for hit in shared] == [hit.flow_id for hit in alone], "another agent's flows never come back"
    assert await store.fingerprints("b") == {"east": "mark-east", "only b": "mark-only b"}
    for hit, before in zip(shared, alone, strict=True):
        for arm, score in before.scores.items():
            assert abs(hit.scores[arm] - score) < 1e-5, "another agent's words do not change what is rare"
    await store.delete("b", ["east", "only b"])
    assert await store.fingerprints("b") == {}
    assert len(await store.fingerprints("a")) == 4, "one agent's deletes leave another's flows of the same id"


async def _check_changes(store: FlowStore) -> None:
    await store.upsert([_point("north", _EAST, _RED)])
    assert len(await store.fingerprints("a")) == 4, "writing a flow again replaces it"
    north = next(hit for hit in await store.search(_query(_EAST, _RED)) if hit.flow_id == "north")
    assert abs(north.scores["dense"] - 1.0) < 1e-5
    await store.delete("a", ["north", "never there"])
    assert "north" not in {hit.flow_id for hit in await store.search(_query(_EAST, _RED))}


async def check_layouts(open_store: Callable[[str], Awaitable[FlowStore]]) -> None:
    """Raise `AssertionError` where vectors of two layouts mix, or one agent's move touches another's flows.

    `open_store` opens the same place with the layout of the given name; one is open at a time.
    """
    old = await open_store("old")
    await old.upsert([_point("east", _EAST, _RED), _point("east", _EAST, _RED, agent_id="b")])
    await old.close()
    new = await open_store("new")
    assert await new.search(_query(_EAST, _RED)) == (), "flows of another layout never come back"
    assert list((await new.other_layouts("a")).values()) == [1]
    await new.upsert([_point("east", _NORTH, _BLUE)])
    await new.forget_other_layouts("a")
    assert await new.other_layouts("a") == {}
    assert list((await new.other_layouts("b")).values()) == [1], "the other agent's flows stay where they are"
    await new.forget_other_layouts("b")
    assert await new.other_layouts("b") == {}
    assert await new.fingerprints("a") == {"east": "mark-east"}
    await new.close()
