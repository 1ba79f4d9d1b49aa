"""Reading the flows and tools of an agent again and again, each time as they are written then."""

from collections.abc import Callable, Sequence
from pathlib import Path

from jazz_select.errors import FlowLoadError
from jazz_select.service.reload.modules import Modules
from jazz_select.service.reload.places import Seen, look
from jazz_select.service.running import Sources
from jazz_select.text import describe_error


class ReadAnew:
    """Calls what reads a catalogue, so that it gets what is written now, and notes what that was.

    Attributes:
        places: Where it is read from: folders, files, and names of what can be imported.
        seen: What lay there when it was last read, whether or not it could be.
    """

    def __init__(self, read: Callable[[], Sources], places: Sequence[str | Path]) -> None:
        """Wrap what reads; nothing is read yet."""
        self.places = tuple(places)
        self.seen = Seen()
        self._read, self._modules = read, Modules(self.places)

    def __call__(self) -> Sources:
        """What it reads; see there for what it raises.

        Raises:
            FlowLoadError: Code there raised what is no `Exception`, which would end more than the reading.
        """
        self.seen = look(self.places)
        try:
            with self._modules.as_written():
                return self._read()
        except Exception:
            raise
        except BaseException as error:
            raise FlowLoadError(str(self.places[0]), f"running it raised {describe_error(error)}") from error
