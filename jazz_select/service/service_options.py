"""What a service may be told of itself: its limits, and which parts of it there are."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from jazz_select.arguments import Constraint, Positive, Seconds, checked

_Rate: TypeAlias = Annotated[float, Constraint("a number of requests a second, above 0", gt=0, allow_inf_nan=False)]
_Drain: TypeAlias = Annotated[float, Constraint("a number of seconds from 0", ge=0, allow_inf_nan=False)]


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Limits of a service, each for all of its agents unless it says otherwise.

    Attributes:
        max_body: Bytes of a request's body; more is refused with 413.
        max_values: Values of JSON and names of fields in a body; more is refused with 413.
        max_in_flight: Requests that are answered at once. One more is refused with 503, but for that of a key which
            has fewer than its part of them; where there are several keys, one that has three quarters of the places
            for itself is refused with 429.
        max_connections: Connections that are open at once. One more takes the place of the oldest by which nobody came
            who was let in; where there is none, that of the least used idle one of the key with the most; where none is
            idle, it is refused with 503.
        max_connections_of_one: Likewise of one address.
        max_streams: Streams that are held open at once beside these, such as a client of MCP that listens. Each key
            has its part of them; beyond it, one more is refused with 503.
        max_streams_of_one: Likewise of one key, where there are several; one more is refused with 429. None for three
            quarters of them.
        max_sessions: Sessions of MCP that each agent may have at once; each of its keys has its part of them, and
            beyond it one more is refused with 503.
        max_sessions_of_one: Likewise of one key, where an agent has several; one more is refused with 429. None for
            three quarters of them.
        session_idle_s: Seconds without a request after which such a session is over; its client begins a new one.
        max_log_bytes_of_one: Bytes that each key may add to the log of its agent within an hour: beyond it selections
            are not kept, and feedback is refused with 429.
        rate: Requests of each key per second, on average; None for no limit. More is refused with 429.
        burst: How many may come at once before `rate` counts; None for as many as in two seconds.
        body_timeout_s: Seconds in which a body has to be there; a slower one is refused with 408.
        head_timeout_s: Seconds in which a request's head has to be there; then the connection is closed.
        send_timeout_s: Seconds in which a piece of a stream has to be read; then the connection is cut.
        stop_s: Seconds that requests in flight have to end when the service stops.
        drain_s: Seconds before that in which it still answers, and `/readyz` says that it will not for long.
        max_turn_s: Seconds that a client may ask for with a turn's `timeout_s`.
        conversations: Seconds for which a conversation is kept in the database after its last turn, so that its id is
            all that a client sends; None leaves conversations to clients.
        panel: Whether the panel is served at `/panel/`.
        mcp: Whether MCP is served at `/mcp`.
    """

    max_body: Positive = 1 << 20
    max_values: Positive = 20_000
    max_in_flight: Positive = 256
    max_connections: Positive = 2_000
    max_connections_of_one: Positive = 1_000
    max_streams: Positive = 256
    max_streams_of_one: Positive | None = None
    max_sessions: Positive = 1_000
    max_sessions_of_one: Positive | None = None
    session_idle_s: Seconds = 1_800.0
    max_log_bytes_of_one: Positive = 256 << 20
    rate: _Rate | None = None
    burst: Positive | None = None
    body_timeout_s: Seconds = 10.0
    head_timeout_s: Seconds = 10.0
    send_timeout_s: Seconds = 30.0
    stop_s: Seconds = 10.0
    drain_s: _Drain = 0.0
    max_turn_s: Seconds = 300.0
    conversations: Seconds | None = None
    panel: bool = True
    mcp: bool = True
