# The public names, each with its home: they stand here and nowhere else.
from jazz_select.client.remote_selector import RemoteAgent as RemoteAgent
from jazz_select.client.remote_selector import RemoteSelector as RemoteSelector
from jazz_select.errors import ServiceBusyError as ServiceBusyError
from jazz_select.errors import ServiceError as ServiceError
from jazz_select.errors import ServiceKeyError as ServiceKeyError
from jazz_select.errors import ServiceReplyError as ServiceReplyError
from jazz_select.errors import ServiceTimeoutError as ServiceTimeoutError
from jazz_select.errors import ServiceUnavailableError as ServiceUnavailableError

__all__: list[str]
