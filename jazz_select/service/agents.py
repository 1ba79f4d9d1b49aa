"""Who is served: several agents behind one door, each with keys of its own, none of which opens another's."""

import hmac
from collections.abc import Iterator, Mapping
from hashlib import sha256

from jazz_select.errors import ConfigError
from jazz_select.service.running import RunningCatalogue


def digest_of(key: str) -> str:
    """What is kept of a key: its SHA-256, in hexadecimal."""
    return sha256(key.encode(errors="surrogatepass")).hexdigest()


class ServedAgents(Mapping[str, RunningCatalogue]):
    """Agent id to what is served of it. Keys are kept as digests alone."""

    def __init__(
        self,
        catalogues: Mapping[str, RunningCatalogue],
        keys: Mapping[str, str] | None = None,
        *,
        is_open: bool = False,
    ) -> None:
        """Take who is served.

        Args:
            catalogues: Agent id to catalogue.
            keys: SHA-256 of a key, in hexadecimal, to the id of the agent that it opens.
            is_open: Whether the only agent is there for whoever asks, without a key: on loopback, or behind a socket.

        Raises:
            ConfigError: A key opens an agent that is not there, or several agents are to be open.
        """
        self._catalogues, self._keys = dict(catalogues), dict(keys or {})
        unknown = sorted(set(self._keys.values()) - self._catalogues.keys())
        if unknown:
            msg = f"there are keys of agents that are not served: {', '.join(unknown[:5])}"
            raise ConfigError(msg)
        if is_open and len(self._catalogues) != 1:
            msg = "several agents are served: each needs a key, since without one nobody can tell whom a request is for"
            raise ConfigError(msg)
        self.is_open = is_open

    def of_key(self, key: str | None) -> RunningCatalogue | None:
        """What a key opens, in a time that says nothing of the key; None where it opens nothing."""
        if self.is_open:
            return next(iter(self._catalogues.values()))
        digest = digest_of(key or "")
        found = None
        for known, agent_id in self._keys.items():
            if hmac.compare_digest(known, digest) and key:
                found = self._catalogues[agent_id]
        return found

    def __getitem__(self, agent_id: str) -> RunningCatalogue:
        return self._catalogues[agent_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._catalogues)

    def __len__(self) -> int:
        return len(self._catalogues)
