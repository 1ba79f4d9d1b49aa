"""The tests' own tools: the fuse and the claims on the specification."""

import socket
from collections.abc import Callable

import pytest

from tests.fuse import NetworkUsedError, is_local
from tests.specification import all_lines, claims, marked, report

OUTSIDE = "192.0.2.1"  # reserved for documentation; nobody is there


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        pytest.param(b"localhost", True, id="bytes"),
        (None, True),
        (OUTSIDE, False),
        ("example.org", False),
        ("localhost.example.org", False),
        ("::", False),
    ],
)
def test_the_fuse_knows_this_machine(host: str | bytes | None, local: bool) -> None:
    assert is_local(host) is local


REACH: list[Callable[[socket.socket], object]] = [
    lambda sock: sock.connect((OUTSIDE, 80)),
    lambda sock: sock.connect_ex((OUTSIDE, 80)),
    lambda _: socket.getaddrinfo("example.org", 80),
    lambda _: socket.create_connection((OUTSIDE, 80), timeout=1),
]


@pytest.mark.parametrize("reach", REACH, ids=["connect", "connect_ex", "getaddrinfo", "create_connection"])
def test_the_fuse_blows_before_anything_leaves_this_machine(reach: Callable[[socket.socket], object]) -> None:
    with socket.socket() as sock, pytest.raises(NetworkUsedError):
        reach(sock)


def test_the_fuse_lets_this_machine_talk_to_itself() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as client,
    ):
        assert client.getpeername() == server.getsockname()


def test_claims_count_the_cases_of_a_table_once() -> None:
    found = claims([("a", ["003.7", "003.8"]), ("a", ["003.7", "003.8"]), ("b", ["003.8"]), ("c", [])])
    assert found == {"003.7": ["a"], "003.8": ["a", "b"]}


@pytest.mark.parametrize("line", ["003.19", "003.0", "3.7", "023.1", "003"])
def test_a_line_that_does_not_exist_cannot_be_claimed(line: str) -> None:
    with pytest.raises(pytest.UsageError, match="no line of the specification"):
        claims([("a", ["003.1", line])])


@pytest.mark.parametrize("case", ["one", "two"])
def test_a_test_is_known_by_its_name_without_the_case(request: pytest.FixtureRequest, case: str) -> None:
    test, lines = marked(request.node)
    assert test.endswith("test_house.py::test_a_test_is_known_by_its_name_without_the_case")
    assert lines == []


def test_the_report_names_what_nothing_proves() -> None:
    rows = report({"003.1": ["tests/a.py::test_a"]})
    assert "003: 1 of 18 lines proven" in rows
    assert "  003.1   tests/a.py::test_a" in rows
    assert "  003.2   - nothing proves this line" in rows
    assert "004: 0 of 13 lines proven" in rows
    assert not any(row.startswith("  004") for row in rows)


def test_the_specification_has_its_lines() -> None:
    assert len(all_lines()) == len(set(all_lines())) == 88 + 57 + 28 + 56
