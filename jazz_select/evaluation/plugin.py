"""A pytest plugin that makes each labelled request of a file a test.

pytest imports it in every run, so heavy imports wait for the first test that needs them. `pytest -p no:jazz_select`
disables it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from jazz_select.evaluation.cases import Case
    from jazz_select.evaluation.route import Policy, Routed, Standing

_MARKER: Final = "jazz_cases"
_KNOWN: Final = "xfail:"
"""Prefix of the `why` of a case with a known failure; the reason follows."""
_SHOWN: Final = 10
_STANDINGS: Final = pytest.StashKey["dict[_Source, Standing]"]()
_Test = TypeVar("_Test", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The flows and how they are indexed: the key of an index."""

    flows: str
    policy: "Policy | None" = None
    embedder: str = "auto"
    language: str = "english"


def jazz_cases(
    file: str | Path,
    *,
    flows: str | Path,
    policy: "Policy | None" = None,
    embedder: str = "auto",
    language: str = "english",
) -> Callable[[_Test], _Test]:
    """Turn one test into a test for each labelled request of a file.

    The test may take `case`, the `Case`; `route`, the `Routed` of its request before a model is asked; and
    `jazz_route`, which returns the route of any request. A case whose `why` begins with `xfail:` is expected to fail.
    Paths are relative to the test's file, or else to the directory where pytest was started.

    ```python
    @jazz_cases("cases.yaml", flows="flows")
    def test_routes(route, case):
        assert set(case.expect) <= set(route.candidates)
    ```

    Args:
        file: Labelled requests, as YAML.
        flows: A package, folder or file of flows.
        policy: How the deployment selects; None uses the defaults.
        embedder: As for `ProceduralMemory.open`.
        language: As for `ProceduralMemory.open`.
    """
    source = _Source(flows=str(flows), policy=policy, embedder=embedder, language=language)
    return cast("Callable[[_Test], _Test]", getattr(pytest.mark, _MARKER)(str(file), source))


# --- what pytest calls -------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the table of indexes."""
    config.addinivalue_line("markers", f"{_MARKER}(file, source): a test for each labelled request; see jazz_cases")
    config.stash[_STANDINGS] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the indexes."""
    standings = config.stash.get(_STANDINGS, None)  # none where another plugin stopped the run before it began
    while standings:
        standings.popitem()[1].close()


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

    beside = metafunc.definition.path.parent
    try:
        standing = _standing(metafunc.config, source, beside)
        cases = load_cases(_place(metafunc.config, file, beside), standing.registry, flows=source.flows)
    except JazzSelectError as error:
        raise pytest.Collector.CollectError(f"jazz_cases: {error}") from error
    often = Counter(case.id for case in cases)
    own = [case.id if case.id and often[case.id] == 1 else "" for case in cases]
    return [
        pytest.param(case, id=name or f"{number}-{slug(case.id or case.request)}", marks=_marks(case))
        for number, (case, name) in enumerate(zip(cases, own, strict=True), 1)
    ]


def _marks(case: "Case") -> list[pytest.MarkDecorator]:
    known, prefix, reason = case.why.strip().partition(_KNOWN)
    return [pytest.mark.xfail(reason=reason.strip())] if prefix and not known else []


@pytest.fixture
def jazz_route(request: pytest.FixtureRequest) -> "Callable[..., Routed]":
    """Return the route of a request before a model is asked: `jazz_route("where is my parcel", context={…})`."""
    mark = request.node.get_closest_marker(_MARKER)
    if mark is None:
        pytest.fail(
            "route and jazz_route need @jazz_cases(file, flows=…) above the test: it says which flows", pytrace=False
        )
    standing = _standing(request.config, _arguments(mark)[1], request.path.parent)

    def route(asked: str, *, episodes: tuple[str, ...] = (), context: Mapping[str, Any] | None = None) -> "Routed":
        from jazz_select.evaluation.route import Query

        return standing.route(Query(request=asked, episodes=episodes, context=context or {}))

    return route


@pytest.fixture
def route(case: "Case", jazz_route: "Callable[..., Routed]") -> "Routed":
    """Return the route of the case's request before a model is asked."""
    return jazz_route(case.request, episodes=case.episodes, context=case.context)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> "Generator[None, pytest.TestReport, pytest.TestReport]":
    """Add the request, the expectation and the ranking to the report of a failed test."""
    report = yield
    if report.failed and item.get_closest_marker(_MARKER) is not None:
        given: Mapping[str, Any] = getattr(item, "funcargs", {})
        if "case" in given and "route" in given:
            report.sections.append(("jazz_select route", _shown(given["case"], given["route"])))
    return report


def _shown(case: "Case", route: "Routed") -> str:
    from jazz_select.text import json_line, name_shown

    lines = [
        f"request:  {json_line(case.request)}",
        f"expected: {', '.join(map(name_shown, case.expect)) or 'none'}",
        f"outcome:  {route.outcome.value}" + ("" if route.in_scope is None else f", in scope {route.in_scope:.2f}"),
    ]
    if case.why:
        lines.insert(2, f"why:      {json_line(case.why)}")
    for rank, name in enumerate(route.ranking[:_SHOWN], 1):
        sure = route.confidences[rank - 1] if rank <= len(route.confidences) else None
        confidence = "     " if sure is None else f"{sure:5.2f}"
        which = "candidate" if rank <= route.offered else ""
        right = "<- expected" if name in case.expect else ""
        lines.append(f"{rank:3}. {confidence}  {name_shown(name)}  {which} {right}".rstrip())
    missing = [name_shown(name) for name in case.expect if name not in route.ranking]
    lines += [f"  -         {name}  is not among the first {len(route.ranking)}" for name in missing]
    return "\n".join(lines)


# --- where things are --------------------------------------------------------------


def _arguments(mark: pytest.Mark) -> tuple[str, _Source]:
    """Return the arguments of `jazz_cases` from a mark."""
    if len(mark.args) == 2 and isinstance(mark.args[1], _Source):  # noqa: PLR2004 - the file, and the flows
        return mark.args[0], mark.args[1]
    msg = "above the test put @jazz_cases(file, flows=…) of jazz_select.evaluation.plugin, not pytest.mark.jazz_cases"
    raise pytest.Collector.CollectError(msg)


def _place(config: pytest.Config, name: str, beside: Path) -> Path:
    """Return a path beside the test, or else below the directory where pytest was started."""
    there = beside / name
    return there if there.exists() else config.invocation_params.dir / name


def _standing(config: pytest.Config, source: _Source, beside: Path) -> "Standing":
    """Return the index of these flows, shared by all tests of a run and cached by pytest between runs."""
    from jazz_select.evaluation.route import Standing
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.flow.flow_loading import load_flows

    place = _place(config, source.flows, beside)
    flows = str(place) if place.exists() else source.flows
    key = replace(source, flows=flows)
    standings = config.stash[_STANDINGS]
    if key not in standings:
        cache = config.cache.mkdir("jazz_select") if getattr(config, "cache", None) is not None else None
        registry = FlowRegistry()
        load_flows(flows, registry)
        index = {"embedder": source.embedder, "language": source.language, "cache": cache}
        standings[key] = Standing(registry, source.policy, index)
    return standings[key]
