"""A turn of a conversation that the service keeps: read from the database before it, and kept there after it."""

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from starlette.requests import Request

from jazz_select.agent.conversation import Conversation
from jazz_select.agent.turn import TurnResult
from jazz_select.errors import ConfigError, DatabaseError
from jazz_select.service.http.limits import caller_of, catalogue_of

if TYPE_CHECKING:
    from jazz_select.postgres.conversations import Conversations, KeptConversation

_NOT_KEPT = (
    "this conversation could not be kept: send `conversation` as the `history` of the next message, or it begins anew"
)
_OVERTAKEN = (
    "another message of this conversation was answered meanwhile, and is what the next one goes on from; "
    "send `conversation` as `history` to go on from this answer"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """What a turn goes on from, and where what becomes of it is kept.

    Attributes:
        conversations: Those of the caller; None where the service keeps none, or the client sent its own.
        secret: Signs them: whoever may write to the database still makes none.
        before: What was kept before the turn.
    """

    conversations: "Conversations | None"
    secret: bytes
    before: "KeptConversation | None" = None

    @classmethod
    async def begin(cls, request: Request, given: dict[str, Any]) -> Self:
        """Read the conversation that a client named, into what `Agent.turn` is given.

        Raises:
            ConfigError: The service is to keep conversations, and has no database.
            DatabaseError: It cannot be read, so the turn must not begin: it would begin anew.
            SnapshotError: It was changed by somebody else.
        """
        catalogue, kept_s = catalogue_of(request), request.app.state.options.conversations
        secret = bytes(catalogue.secret) if isinstance(catalogue.secret, bytes) else b""
        conversation_id: str = given["conversation_id"]
        if kept_s is None or not conversation_id or given["history"] is not None:
            return cls(None, secret)
        shared = request.app.state.served.shared
        if shared is None:
            raise ConfigError("conversations needs a database to keep them in: --database, or JAZZ_DATABASE")
        conversations = shared.conversations(catalogue.agent_id, caller_of(request).key, kept_s=kept_s)
        before = await conversations.read(conversation_id)
        if before is not None:
            given["history"] = Conversation.from_json(before.content, secret=catalogue.secret)
        return cls(conversations, secret, before)

    async def end(self, result: TurnResult) -> TurnResult:
        """Keep what became of the turn; where that cannot be done, the answer is given all the same, and says so."""
        if self.conversations is None:
            return result
        content = result.conversation.to_json(secret=self.secret)
        try:
            is_kept = await self.conversations.keep(result.conversation.id, content, after=self.before)
        except DatabaseError as error:
            _log.warning("error=<%s> | a conversation could not be kept", error)
            return replace(result, notes=(*result.notes, _NOT_KEPT))
        return result if is_kept else replace(result, notes=(*result.notes, _OVERTAKEN))
