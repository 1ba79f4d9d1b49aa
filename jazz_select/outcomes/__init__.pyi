# The public names, each with its home: they stand here and nowhere else.
from jazz_select.outcomes.file import Logged as Logged
from jazz_select.outcomes.file import labels as labels
from jazz_select.outcomes.log import OutcomeLog as OutcomeLog

__all__: list[str]
