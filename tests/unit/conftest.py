"""The loopback provider, and the environment that leads the vendors' clients to it."""

from collections.abc import Iterator

import pytest

from tests.unit.chat.decision_protocols import DECISION_PROTOCOLS
from tests.unit.chat.loopback import Loopback, Provider, serving
from tests.unit.chat.protocols import CALLING


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    with serving() as loopback:
        yield loopback


@pytest.fixture
def provider(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Provider:
    provider = loopback.fresh()
    for protocol in (*CALLING, *DECISION_PROTOCOLS):
        for name, value in protocol.environment.items():
            monkeypatch.setenv(name, value.format(root=provider.root))
    return provider
