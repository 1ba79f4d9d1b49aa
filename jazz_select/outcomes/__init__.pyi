# The public names, each with its home: they stand here and nowhere else.
from jazz_select.outcomes.entries import Feedback as Feedback
from jazz_select.outcomes.entries import Logged as Logged
from jazz_select.outcomes.entries import labels as labels
from jazz_select.outcomes.log import OutcomeLog as OutcomeLog
from jazz_select.values import Source as Source

__all__: list[str]
