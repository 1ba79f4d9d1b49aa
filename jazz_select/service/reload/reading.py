"""Reading the flows and tools of an agent again and again, each time as they are written then."""

from collections.abc import Callable, Sequence
from pathlib import Path

from jazz_select.errors import FlowLoadError
from jazz_select.service.reload.modules import PATIENCE_S, Modules
from jazz_select.service.reload.places import Seen, look
from jazz_select.service.running import Sources
from jazz_select.text import describe_error


class ReadAnew:
    """Calls what reads a catalogue, so that it gets what is written now, and notes what that was.

    Attributes:
        places: Where it is read from: folders, files, and names of what can be imported.
        seen: What lay there when it was last read, whether or not it could be.
    """

    def __init__(
        self, read: Callable[[], Sources], places: Sequence[str | Path], *, patience_s: float = PATIENCE_S
    ) -> None:
        """Wrap what reads; nothing is read yet. Other catalogues are waited for so many seconds."""
        self.places = tuple(places)
        self.seen = Seen()
        self._read, self._modules = read, Modules(self.places, patience_s)

    def __call__(self) -> Sources:
        """What it reads; see there for what it raises.

        Raises:
            FlowLoadError: Code there raised what is no `Exception`, which would end more than the reading; or another
                catalogue is being read, and does not come to its end.
        """
        seen, self.seen = look(self.places), Seen()
        try:
            with self._modules.as_written():
                self.seen = seen  # not before: what could not even begin is to be tried again
                return self._read()
        except Exception:
            raise
        except BaseException as error:
            raise FlowLoadError(str(self.places[0]), f"running it raised {describe_error(error)}") from error
