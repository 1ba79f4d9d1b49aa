# The public names, each with its home: they stand here and nowhere else.
from jazz_select.outcomes.log import Logged as Logged
from jazz_select.outcomes.log import OutcomeLog as OutcomeLog
from jazz_select.outcomes.log import labels as labels

__all__: list[str]
