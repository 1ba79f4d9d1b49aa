"""Products: finding one, its facts, whether there is one, and how it works."""

from sqlite3 import Row
from typing import Final

from flows.shop.database import NotFoundError, RefusedError, words
from flows.shop.records import (
    Availability,
    DiagnosticStep,
    ManualPassage,
    Product,
    ProductComparison,
    ProductList,
    StockAlert,
)
from flows.shop.rules import Rules

_MOST_FOUND: Final = 5
_MOST_COMPARED: Final = 4


class Catalogue(Rules):
    """What the shop sells."""

    def search_products(self, looked_for: str, max_cents: int = 0) -> ProductList:
        """Find products by words of their title, brand and facts, the best fitting first.

        Args:
            looked_for: Words, such as "wool jumper size L".
            max_cents: The most it may cost, in cents; 0 for no limit.
        """
        wanted = words(looked_for)
        scored = [
            (len(wanted & words(f"{row['sku']} {row['title']} {row['brand']} {row['facts']}")), row)
            for row in self._all("SELECT * FROM products ORDER BY price, sku")
            if not max_cents or row["price"] <= max_cents
        ]
        best = max((score for score, _ in scored), default=0)
        if not best:
            msg = f"no product is like {looked_for[:80]!r}; try fewer or other words, or a higher limit"
            raise NotFoundError(msg)
        return ProductList(products=tuple(_product(row) for score, row in scored if score == best)[:_MOST_FOUND])

    def get_product_details(self, wanted_sku: str) -> Product:
        """The facts of a product; what is not among them is not known.

        Args:
            wanted_sku: The product, as search_products gives its sku.
        """
        return _product(self._product(wanted_sku))

    def compare_products(self, skus: list[str]) -> ProductComparison:
        """Two to four products beside each other, the cheapest first, with the facts in which they differ.

        Args:
            skus: The products, as search_products gives their skus.
        """
        if not 2 <= len(dict.fromkeys(skus)) <= _MOST_COMPARED:  # noqa: PLR2004
            msg = f"compare two to {_MOST_COMPARED} different products, not {len(dict.fromkeys(skus))}"
            raise RefusedError(msg)
        found = sorted((_product(self._product(sku)) for sku in dict.fromkeys(skus)), key=lambda each: each.price_cents)
        shared = set[str].intersection(*(set(each.facts) for each in found))
        return ProductComparison(
            products=tuple(found),
            differences={each.sku: tuple(fact for fact in each.facts if fact not in shared) for each in found},
        )

    def check_stock(self, wanted_sku: str) -> Availability:
        """How many of an article are in stock, what it costs, when new ones come, or what follows it.

        Args:
            wanted_sku: The article, as search_products gives its sku.
        """
        row = self._product(wanted_sku)
        return Availability(
            wanted_sku=wanted_sku,
            in_stock=row["stock"],
            wanted_cents=row["price"],
            expected_on=row["expected_on"],
            discontinued=row["successor"] is not None,
            successor_sku=row["successor"],
        )

    def create_stock_alert(self, email: str, wanted_sku: str) -> StockAlert:
        """Write to somebody once an article that is sold out is back; asking twice sets one notice.

        Args:
            email: Where to write to.
            wanted_sku: Article that is sold out and not discontinued.
        """
        with self._writing():
            row, address = self._product(wanted_sku), email.strip().lower()
            if row["stock"]:
                msg = f"{row['title']} is in stock, {row['stock']} of them; no notice is needed"
                raise RefusedError(msg)
            if row["successor"]:
                msg = f"{row['title']} does not come back; offer {row['successor']} instead"
                raise RefusedError(msg)
            if "@" not in address:
                msg = f"a notice goes to an email address, not to {email[:60]!r}"
                raise RefusedError(msg)
            known = self._maybe(
                "SELECT number FROM stock_alerts WHERE email = :email AND sku = :sku", email=address, sku=wanted_sku
            )
            number = (
                known["number"]
                if known
                else self._insert("stock_alerts", "SA", email=address, sku=wanted_sku, asked_on=self._today.isoformat())
            )
            return StockAlert(alert_number=number, alert_goes_to=address, expected_on=row["expected_on"])

    def get_manual(self, wanted_sku: str, topic: str) -> ManualPassage:
        """The passage of a product's manual about something.

        Args:
            wanted_sku: The product, as search_products gives its sku.
            topic: What the customer wants to do, such as "connect to the wifi" or "clean".
        """
        product = self._product(wanted_sku)
        rows = self._all("SELECT * FROM manuals WHERE sku = :sku", sku=wanted_sku)
        if not rows:
            msg = f"there is no manual of {product['title']}; say so, and do not guess"
            raise NotFoundError(msg)
        score, row = max(
            ((len(words(topic) & words(f"{row['topic']} {row['text']}")), row) for row in rows),
            key=lambda each: each[0],
        )
        if not score:
            topics = ", ".join(row["topic"] for row in rows)
            msg = f"the manual of {product['title']} says nothing of {topic[:60]!r}; it has: {topics}"
            raise NotFoundError(msg)
        return ManualPassage(topic=row["topic"], text=row["text"])

    def run_diagnostics_guide(self, wanted_sku: str, error_code: str, attempt: int = 1) -> DiagnosticStep:
        """What to try for an error code of a device, three attempts at most.

        Args:
            wanted_sku: The device, as search_products gives its sku.
            error_code: What its display shows, such as E5.
            attempt: 1 at first; one more after each step that did not help.
        """
        product = self._product(wanted_sku)
        rows = self._all(
            "SELECT * FROM diagnostics WHERE sku = :sku AND code = :code ORDER BY round",
            sku=wanted_sku,
            code=error_code.strip().upper(),
        )
        if not rows:
            msg = f"there is no guide for {error_code[:20]!r} of {product['title']}; look into get_manual"
            raise NotFoundError(msg)
        if not 1 <= attempt <= len(rows):
            msg = f"the guide has {len(rows)} steps; if none of them helped it is a defect: go on with check_warranty"
            raise RefusedError(msg)
        return DiagnosticStep(step=rows[attempt - 1]["step"], attempt=attempt, attempts_left=len(rows) - attempt)


def _product(row: Row) -> Product:
    return Product(
        sku=row["sku"],
        title=row["title"],
        brand=row["brand"],
        price_cents=row["price"],
        stock=row["stock"],
        facts=tuple(row["facts"].split("; ")),
    )
