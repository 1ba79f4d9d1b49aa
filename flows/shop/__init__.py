"""The shop behind the flows: what their tools do, on a SQLite database that anybody can look into.

`data.sql` is the data, as of one day. Every `Shop()` loads it anew, so that nothing one run changes is there in the
next; `Shop("shop.db")` keeps what was done in a file. Each module is one desk of the shop; the records are what they
give.
"""

from flows.shop.changes import TableChanges, changes
from flows.shop.database import TODAY, NotFoundError, RefusedError, TooLateError
from flows.shop.shop import Shop

__all__ = ["TODAY", "NotFoundError", "RefusedError", "Shop", "TableChanges", "TooLateError", "changes"]
