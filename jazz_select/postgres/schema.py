"""The tables in PostgreSQL, by version: each version is one script, and a start applies what is missing, once."""

from typing import Any, Final

from psycopg import AsyncConnection, Connection

from jazz_select.errors import DatabaseError

_LOCK: Final = 0x4A5A5343
"""The advisory lock of migrations: of replicas that start at once, one migrates and the others wait."""
_FIRST: Final = """
CREATE TABLE jazz_select.claims (
    scope text NOT NULL,
    call bytea NOT NULL,
    fingerprint text NOT NULL,
    claimant uuid NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    outcome text,
    PRIMARY KEY (scope, call)
);
CREATE INDEX claims_at ON jazz_select.claims (claimed_at);

CREATE TABLE jazz_select.entries (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log text NOT NULL,
    id text NOT NULL,
    at double precision NOT NULL,
    agent text NOT NULL,
    request text NOT NULL,
    alone boolean NOT NULL,
    chosen jsonb NOT NULL,
    candidates jsonb NOT NULL,
    confidences jsonb NOT NULL,
    p_none double precision,
    reason text NOT NULL,
    tier text NOT NULL,
    asked boolean NOT NULL,
    sure boolean NOT NULL,
    model text NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    took_s double precision NOT NULL,
    source_kind text NOT NULL,
    source_name text NOT NULL,
    key text NOT NULL,
    UNIQUE (log, id)
);
CREATE INDEX entries_of_log ON jazz_select.entries (log, n);
CREATE INDEX entries_at ON jazz_select.entries (log, at);
CREATE INDEX entries_sure ON jazz_select.entries (log, agent, n) WHERE sure;

CREATE TABLE jazz_select.feedback (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log text NOT NULL,
    entry text NOT NULL,
    at double precision NOT NULL,
    "right" jsonb NOT NULL,
    note text NOT NULL,
    source_kind text NOT NULL,
    source_name text NOT NULL,
    key text NOT NULL,
    person text GENERATED ALWAYS AS (CASE source_kind WHEN 'person' THEN source_name ELSE '' END) STORED,
    UNIQUE (log, entry, source_kind, key, person)
);

CREATE TABLE jazz_select.moves (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log text NOT NULL,
    agent text NOT NULL,
    after bigint NOT NULL,
    at double precision NOT NULL,
    kind text NOT NULL,
    flow text NOT NULL,
    threshold double precision NOT NULL,
    promise double precision NOT NULL,
    measured double precision,
    requests bigint NOT NULL,
    why text NOT NULL
);
CREATE INDEX moves_of_log ON jazz_select.moves (log, agent, n);

CREATE TABLE jazz_select.documents (
    scope text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    content text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, name)
);

CREATE TABLE jazz_select.conversations (
    scope text NOT NULL,
    id text NOT NULL,
    version bigint NOT NULL,
    content text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (scope, id)
);
CREATE INDEX conversations_at ON jazz_select.conversations (expires_at);

CREATE TABLE jazz_select.catalogues (
    scope text PRIMARY KEY,
    number bigint NOT NULL,
    digest text NOT NULL,
    flows bigint NOT NULL,
    synced_by text NOT NULL,
    synced_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE jazz_select.replicas (
    scope text NOT NULL,
    replica text NOT NULL,
    digest text NOT NULL,
    problem text NOT NULL DEFAULT '',
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, replica)
);
"""
VERSIONS: Final = (_FIRST,)
"""The script of each version, from 1. A script that was released is never changed."""


_HAS_SCHEMA: Final = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'jazz_select')"
_IS_THERE: Final = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'jazz_select' AND tablename = 'versions')"
"""These scan the catalogue. `to_regclass` would answer from a cache, by what was so before a lock was waited for."""
_NEWEST: Final = "SELECT coalesce(max(number), 0) FROM jazz_select.versions"


async def migrate(connection: AsyncConnection[tuple[Any, ...]], place: str) -> None:
    """Bring the schema to the version of this program, in one transaction under an advisory lock.

    A schema of this version is only read: its user needs no right to create anything then.

    Raises:
        DatabaseError: The schema is of a later version, and nothing was changed.
    """
    if not _is_older(await _stored_version(connection), place):
        return
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = '60s'")
        await connection.execute("SET LOCAL statement_timeout = '60s'")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Another replica may have migrated while this one waited for the lock.
        current = await _stored_version(connection)
        if not _is_older(current, place):
            return
        found = await connection.execute(_HAS_SCHEMA)
        if await found.fetchone() != (True,):
            # Even with IF NOT EXISTS it asks for a right that an administrator's schema makes unnecessary.
            await connection.execute("CREATE SCHEMA jazz_select")
        await connection.execute("CREATE TABLE IF NOT EXISTS jazz_select.versions (number integer PRIMARY KEY)")
        for number in range(current + 1, len(VERSIONS) + 1):
            await connection.execute(VERSIONS[number - 1].encode())
            await connection.execute("INSERT INTO jazz_select.versions VALUES (%s)", (number,))


def require_current(connection: Connection[tuple[Any, ...]], place: str) -> None:
    """Raise unless the schema is of the version of this program; nothing is changed.

    Raises:
        DatabaseError: It is of another version, or there is none.
    """
    current = 0
    if connection.execute(_IS_THERE).fetchone() == (True,):
        row = connection.execute(_NEWEST).fetchone()
        current = 0 if row is None else int(row[0])
    if _is_older(current, place):
        problem = (
            "it has no schema jazz_select" if current == 0 else f"its schema is of version {current}, an older one"
        )
        raise DatabaseError(place, problem, advice="jazz-select serve and jazz-select sync make it")


async def _stored_version(connection: AsyncConnection[tuple[Any, ...]]) -> int:
    """Return the version of the schema; 0 where there is none."""
    found = await connection.execute(_IS_THERE)
    if await found.fetchone() != (True,):
        return 0
    found = await connection.execute(_NEWEST)
    row = await found.fetchone()
    return 0 if row is None else int(row[0])


def _is_older(current: int, place: str) -> bool:
    """Whether a version is before that of this program.

    Raises:
        DatabaseError: It is a later one.
    """
    if current > len(VERSIONS):
        raise DatabaseError(
            place,
            f"its schema is of version {current}, and this jazz-select knows versions up to {len(VERSIONS)}",
            advice="Use the version of jazz-select that made it, or a later one",
        )
    return current < len(VERSIONS)
