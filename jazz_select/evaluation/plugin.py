"""A pytest plugin that makes each labelled request of a file a test.

pytest imports it in every run, so heavy imports wait for the first test that needs them. `pytest -p no:jazz_select`
disables it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from jazz_select.evaluation.cases import Case
    from jazz_select.evaluation.route import Routed, RouteOptions
    from jazz_select.flow.base import FlowRegistry

_MARKER: Final = "jazz_cases"
_Test = TypeVar("_Test", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where the flows are, and how they are routed to."""

    flows: str
    routing: "RouteOptions | None"
    index: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The requests of one test, routed together when the first route is asked for."""

    cases: "Sequence[Case]"
    registry: "FlowRegistry"
    routing: "RouteOptions | None"
    index: Mapping[str, Any]

    @cached_property
    def routes(self) -> "dict[int, Routed]":
        """The routes by the identity of their cases."""
        import asyncio

        from jazz_select.evaluation.route import Query, route_with_temp_index

        asked = [Query.from_case(case) for case in self.cases]

        def run() -> "list[Routed]":
            return asyncio.run(route_with_temp_index(self.registry, asked, self.routing, **self.index))

        with ThreadPoolExecutor(1) as thread:  # in the thread of the test a loop may run
            found = thread.submit(run).result()
        return dict(zip(map(id, self.cases), found, strict=True))


_BATCHES: Final = pytest.StashKey[dict[int, _Batch]]()
"""By the identity of their cases."""


def jazz_cases(
    file: str | Path,
    *,
    flows: str | Path,
    routing: "RouteOptions | None" = None,
    embedder: str = "auto",
    language: str = "english",
) -> Callable[[_Test], _Test]:
    """Turn one test into a test for each labelled request of a file.

    The test may take `case`, the `Case`, and `route`, the `Routed` of its request before a model is asked. Paths are
    relative to the test's file, or else to the directory where pytest was started.

    Args:
        file: Labelled requests, as YAML.
        flows: A package, folder or file of flows.
        routing: How the deployment selects; None uses the defaults.
        embedder: As for `ProceduralMemory.open`.
        language: As for `ProceduralMemory.open`.
    """
    source = _Source(flows=str(flows), routing=routing, index={"embedder": embedder, "language": language})
    return cast("Callable[[_Test], _Test]", getattr(pytest.mark, _MARKER)(str(file), source))


# --- what pytest calls -------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{_MARKER}(file, source): a test for each labelled request; see jazz_cases")
    config.stash[_BATCHES] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a marked test with its cases."""
    marks = list(metafunc.definition.iter_markers(_MARKER))
    if not marks:
        return
    if len(marks) > 1:
        msg = "one @jazz_cases a test: put the requests into one file, or what the tests share into a function"
        raise pytest.Collector.CollectError(msg)
    metafunc.parametrize("case", _params(metafunc, *_arguments(marks[0])))


def _params(metafunc: pytest.Metafunc, file: str, source: _Source) -> list[Any]:
    """Return a parameter for each case, named by its unique id, or by its number and words."""
    from jazz_select.errors import JazzSelectError
    from jazz_select.evaluation.cases import load_cases
    from jazz_select.evaluation.conversations import slug
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.flow.flow_loading import load_flows

    config, registry = metafunc.config, FlowRegistry()
    place = _place(metafunc, source.flows)
    try:
        load_flows(place if place.exists() else source.flows, registry)
        cases = load_cases(_place(metafunc, file), registry, flows=source.flows)
    except JazzSelectError as error:
        raise pytest.Collector.CollectError(f"jazz_cases: {error}") from error
    cache: Path | None = None
    if getattr(config, "cache", None) is not None:  # `-p no:cacheprovider` leaves none
        cache = config.cache.mkdir("jazz_select")
    batch = _Batch(cases=cases, registry=registry, routing=source.routing, index={**source.index, "cache": cache})
    config.stash[_BATCHES].update((id(case), batch) for case in cases)
    often = Counter(case.id for case in cases)
    params: list[Any] = []
    for number, case in enumerate(cases, 1):
        name = case.id
        if not name or often[name] > 1:
            name = f"{number}-{slug(case.id or case.request)}"
        params.append(pytest.param(case, id=name))
    return params


@pytest.fixture
def route(case: "Case", request: pytest.FixtureRequest) -> "Routed":
    """Return the route of the case's request before a model is asked."""
    batch = request.config.stash[_BATCHES].get(id(case))
    if batch is None:
        pytest.fail("route needs @jazz_cases(file, flows=…) above the test: it says which flows", pytrace=False)
    return batch.routes[id(case)]


# --- where things are --------------------------------------------------------------


def _arguments(mark: pytest.Mark) -> tuple[str, _Source]:
    if len(mark.args) == 2 and isinstance(mark.args[1], _Source):  # noqa: PLR2004 - the file, and the flows
        return mark.args[0], mark.args[1]
    msg = "above the test put @jazz_cases(file, flows=…) of jazz_select.evaluation.plugin, not pytest.mark.jazz_cases"
    raise pytest.Collector.CollectError(msg)


def _place(metafunc: pytest.Metafunc, name: str) -> Path:
    """Return a path beside the test, or else below the directory where pytest was started."""
    there = metafunc.definition.path.parent / name
    return there if there.exists() else metafunc.config.invocation_params.dir / name
