"""One shop: all its desks over one database."""

from flows.shop.accounts import Accounts
from flows.shop.billing import Billing
from flows.shop.catalogue import Catalogue
from flows.shop.claims import Claims
from flows.shop.delivery import Delivery
from flows.shop.desk import Desk
from flows.shop.giftcards import GiftCards
from flows.shop.orders import Orders
from flows.shop.returns import Returns
from flows.shop.saying import Saying
from flows.shop.subscriptions import Subscriptions


class Shop(Saying, Orders, Returns, Claims, Delivery, Catalogue, Accounts, Billing, GiftCards, Subscriptions, Desk):
    """One shop with a database of its own. Its tools may be called from any thread.

    In memory, and so anew each time, or in a file: `Shop("shop.db")` goes on as it was left, `reload()` takes back all
    that was done. `rows()` are all its tables, and `flows.shop.changes` says what differs between two of these.

    Close it, or use it in a `with` block. A shop whose tools nobody holds any more closes itself.
    """
