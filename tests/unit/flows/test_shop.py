"""The shop itself: its database in memory or in a file, which order is meant, and many hands at once."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from flows.shop import RefusedError, Shop, changes
from flows.tools import shop_tools
from jazz_select.routing import Tool
from tests.unit.flows.walks import ADA, BEN, CLEO, DINA, EMIL, GUS

# --- the database ---------------------------------------------------------------------


def test_a_file_keeps_what_was_done_and_can_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with Shop(file) as shop:
        untouched = shop.rows()
        shop.cancel_order("60144")
    with sqlite3.connect(file) as looked_at:
        assert looked_at.execute("SELECT status FROM orders WHERE number = '60144'").fetchone() == ("cancelled",)
    looked_at.close()
    with Shop(str(file)) as again:
        assert again.lookup_order(CLEO, "60144").status == "cancelled"
        again.reload()
        assert again.rows() == untouched
    with Shop(file) as reloaded, Shop() as fresh:
        assert reloaded.rows() == fresh.rows()


@pytest.mark.parametrize("content", [b"", None], ids=["an empty file", "no file"])
def test_a_new_file_is_filled(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "shop.db"
    if content is not None:
        file.write_bytes(content)
    with Shop(file) as shop:
        assert len(shop.rows()["orders"]) >= 18


def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.db", tmp_path / "other.db"
    text.write_text("These are notes, and no database. " * 40, "utf-8")
    with sqlite3.connect(other) as made:
        made.execute("CREATE TABLE songs (title TEXT)")
    made.close()
    for file, words in ((text, "no SQLite file"), (other, "other tables")):
        before = file.read_bytes()
        with pytest.raises(ValueError, match=f"{words}.*name another"):
            Shop(file)
        assert file.read_bytes() == before


def test_two_shops_on_one_file_do_not_give_the_same_thing_twice(tmp_path: Path) -> None:
    with Shop(tmp_path / "shop.db") as first, Shop(tmp_path / "shop.db") as second:
        first.issue_refund("CH-40014")
        with pytest.raises(RefusedError, match="refunded already"):
            second.issue_refund("CH-40014")


def test_the_data_is_whole() -> None:
    with Shop() as shop:
        rows = shop.rows()
    states = Counter(order["status"] for order in rows["orders"])
    assert set(states) == {"basket", "placed", "packed", "shipped", "delivered", "cancelled"}
    assert (len(rows["customers"]) >= 6, len(rows["orders"]) >= 18) == (True, True)
    several = Counter(order["email"] for order in rows["orders"])
    assert sum(count > 2 for count in several.values()) >= 3, "the latest order is not always the one that is meant"
    for order in rows["orders"]:
        lines = [line for line in rows["order_items"] if line["order_number"] == order["number"]]
        charged = [each for each in rows["charges"] if each["order_number"] == order["number"]]
        due = sum(line["price"] * line["quantity"] for line in lines) + order["shipping_fee"]
        assert lines
        assert order["status"] == "basket" or all(each["amount"] == due for each in charged), order["number"]


# --- what differs -----------------------------------------------------------------------

TABLES: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]] = [
    ("nothing", [{"n": 1, "a": "x"}], [{"n": 1, "a": "x"}], {}),
    ("a row more", [], [{"n": 1}], {"t": {"added": [{"n": 1}]}}),
    ("a row less", [{"n": 1}], [], {"t": {"removed": [{"n": 1}]}}),
    ("a column", [{"n": 1, "a": "x"}], [{"n": 1, "a": "y"}], {"t": {"changed": {"1": {"a": ("x", "y")}}}}),
    (
        "rows without a key",
        [{"n": 1, "a": "x"}, {"n": 1, "a": "x"}],
        [{"n": 1, "a": "x"}, {"n": 1, "a": "z"}],
        {"t": {"added": [{"n": 1, "a": "z"}], "removed": [{"n": 1, "a": "x"}]}},
    ),
    ("the order of rows", [{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], {}),
]


@pytest.mark.parametrize(("before", "after", "found"), [each[1:] for each in TABLES], ids=[each[0] for each in TABLES])
def test_changes_are_the_rows_that_differ(
    before: list[dict[str, Any]], after: list[dict[str, Any]], found: dict[str, Any]
) -> None:
    assert changes({"t": before}, {"t": after}) == found


def test_changes_tell_of_tables_that_came_and_went() -> None:
    assert changes({"old": [{"n": 1}]}, {"new": [{"n": 1}]}) == {
        "new": {"added": [{"n": 1}]},
        "old": {"removed": [{"n": 1}]},
    }


def test_rows_are_copies() -> None:
    with Shop() as shop:
        shop.rows()["orders"][0]["status"] = "stolen"
        assert "stolen" not in {order["status"] for order in shop.rows()["orders"]}


# --- which order is meant -----------------------------------------------------------------

MEANT: dict[str, tuple[str, str, str, str, str | None]] = {
    "the latest where nothing is named": (ADA, "", "", "60112", "HP-200"),
    "by number": (ADA, "60105", "", "60105", "LMP-9"),
    "by a number as people write it": (ADA, " #60105 ", "", "60105", "LMP-9"),
    "an address as people write it": (" Ada@Example.org ", "", "", "60112", "HP-200"),
    "by an item of an older order": (ADA, "", "lamp", "60105", "LMP-9"),
    "by an item among others": (ADA, "", "the wool jumper I ordered", "60098", "JU-M"),
    "by number and an item in it": (ADA, "60098", "toothbrush", "60098", "TB-1"),
    "an order of several has no one article": (ADA, "60098", "", "60098", None),
    "by a word that some write as two": (BEN, "", "my tooth brush", "60140", "TB-1"),
    "several of a thing": (DINA, "", "teapots", "60134", "TEA-2"),
    "by brand": (BEN, "", "Fjord rug", "60127", "RUG-2"),
    "a basket is not the latest order": (GUS, "", "", "60090", "GC-50"),
    "but can be named": (GUS, "60147", "", "60147", "SPK-1"),
    "or found by what is in it": (GUS, "", "speaker", "60147", "SPK-1"),
}


@pytest.mark.parametrize(("email", "number", "item", "found", "sku"), MEANT.values(), ids=MEANT)
def test_an_order_is_found_by_what_was_said(email: str, number: str, item: str, found: str, sku: str | None) -> None:
    with Shop() as shop:
        order = shop.lookup_order(email, number, item)
        assert (order.order_number, order.sku) == (found, sku)
        assert {order.order_number, *order.other_orders} == {
            each.order_number for each in shop.list_orders(email).orders
        }


def test_all_orders_are_listed_the_latest_first() -> None:
    with Shop() as shop:
        listed = shop.list_orders(ADA).orders
    assert [order.order_number for order in listed] == ["60112", "60098", "60105"]


# --- many hands ---------------------------------------------------------------------------


def a_claim(shop: Shop) -> None:
    shop.create_claim("60136", "damaged", "In a thousand pieces.")


ONCE: dict[str, tuple[Callable[[Shop], Any], Callable[[Shop], Any], str]] = {
    "a return": (lambda s: s.create_return("60112"), lambda s: s.issue_refund("R-40002"), "refunds"),
    "a claim": (a_claim, lambda s: s.issue_refund("L-40001"), "refunds"),
    "an excess": (lambda _: None, lambda s: s.issue_refund("CH-40014"), "refunds"),
    "a fee": (lambda _: None, lambda s: s.refund_shipping_fee("60121"), "refunds"),
    "a cancelled order": (lambda s: s.cancel_order("60142"), lambda s: s.release_payment("K-60142"), "refunds"),
    "a subscription": (lambda _: None, lambda s: s.cancel_subscription("S-40002"), "refunds"),
    "a gift card": (lambda _: None, lambda s: s.redeem_gift_card("G-40003", ADA), "customers"),
    "a replacement": (a_claim, lambda s: s.send_replacement("L-40001"), "replacements"),
    "a discount": (lambda _: None, lambda s: s.apply_discount("SUMMER15", "60142"), "discounts"),
    "a difference": (
        lambda s: s.create_exchange("60112", "HP-300"),
        lambda s: s.charge_difference("X-40001"),
        "charges",
    ),
    "a return's label": (lambda _: None, lambda s: s.create_return("60112"), "returns"),
    "store credit": (lambda _: None, lambda s: s.offer_store_credit("60127"), "credits"),
    "an exchange": (lambda _: None, lambda s: s.create_exchange("60131", "JU-M"), "exchanges"),
    "an order": (lambda _: None, lambda s: s.cancel_order("60144"), "cancellations"),
}


@pytest.mark.parametrize(("prepare", "call", "table"), ONCE.values(), ids=ONCE)
def test_of_eight_at_once_one_is_granted(
    prepare: Callable[[Shop], Any], call: Callable[[Shop], Any], table: str
) -> None:
    with Shop() as shop:
        prepare(shop)
        before, ready = shop.rows(), Barrier(8)

        def granted() -> bool:
            ready.wait()
            try:
                call(shop)
            except RefusedError:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            found = [each.result() for each in [threads.submit(granted) for _ in range(8)]]
        difference = changes(before, shop.rows())[table]
        assert found.count(True) == 1
        assert len(difference.get("added", [])) + len(difference.get("changed", {})) == 1


def test_two_doors_do_not_pay_one_order_back_twice() -> None:
    with Shop() as shop:
        shop.apply_discount("SUMMER15", "60142")
        shop.cancel_order("60142")
        assert shop.release_payment("K-60142").released_cents == 19_200
        with pytest.raises(RefusedError, match=r"0\.00 EUR are left"):
            shop.issue_refund("D-40001")


def test_what_was_paid_back_before_is_not_paid_back_by_a_cancellation() -> None:
    with Shop() as shop:
        shop.apply_discount("SUMMER15", "60142")
        shop.issue_refund("D-40001")
        shop.cancel_order("60142")
        assert shop.release_payment("K-60142").released_cents == 19_200 - 2880


def test_what_was_bought_with_a_code_goes_back_for_what_was_paid() -> None:
    with Shop(today=date(2025, 6, 1)) as shop:
        assert shop.check_return_window("60131").refundable_cents == 6900
        assert shop.apply_discount("SUMMER15", "60131").to_be_refunded
        assert shop.create_return("60131").refundable_cents == 5865


def test_a_code_on_what_is_only_reserved_lowers_the_reservation() -> None:
    with Shop() as shop:
        assert not shop.apply_discount("SUMMER15", "60144").to_be_refunded
        with pytest.raises(RefusedError, match="taken off what is reserved"):
            shop.issue_refund("D-40001")
        shop.cancel_order("60144")
        assert shop.release_payment("K-60144").released_cents == 5900 - 885


# --- the tools ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tools() -> list[Tool]:
    return shop_tools(Shop())


def test_each_tool_says_in_one_line_what_it_does_and_of_what_form_its_arguments_are(tools: list[Tool]) -> None:
    for tool in tools:
        assert tool.description, tool.name
        assert "\n" not in tool.description, tool.name
        assert tool.read_only is not None, tool.name
        assert not (tool.read_only and tool.destructive), tool.name
        assert tool.output_schema is not None, tool.name


def test_money_and_what_cannot_be_taken_back_is_told_as_destructive(tools: list[Tool]) -> None:
    assert {tool.name for tool in tools if tool.destructive} == {
        "issue_refund",
        "refund_shipping_fee",
        "charge_difference",
        "cancel_order",
        "release_payment",
        "remove_second_factor",
        "close_account",
        "cancel_subscription",
    }


AGAIN: dict[str, dict[str, Any]] = {
    "update_order_address": {"order_number": "60144", "address": "Lindenweg 14, 04109 Leipzig, DE"},
    "add_gift_options": {"order_number": "60142", "paper": "plain"},
    "book_delivery_slot": {"tracking_number": "TR-1140", "slot_number": "SL-40001"},
    "request_photos": {"order_number": "60122"},
    "create_stock_alert": {"email": ADA, "wanted_sku": "JU-L"},
    "update_account_address": {"email": ADA, "address": "Lindenweg 14, 04109 Leipzig, DE"},
    "restore_contact_details": {"email": EMIL},
    "sign_out_everywhere": {"email": EMIL},
    "block_card": {"charge_number": "CH-40025"},
    "create_invoice_pdf": {"order_number": "60105", "name": "Winter GmbH"},
    "create_payment_link": {"basket_number": "60147"},
    "pause_subscription": {"subscription_number": "S-40001", "until": "2025-09-01"},
    "update_subscription": {"subscription_number": "S-40001", "every_weeks": 8},
}


def test_what_is_told_as_idempotent_changes_nothing_the_second_time() -> None:
    with Shop() as shop:
        found = {tool.name: tool.function for tool in shop_tools(shop) if tool.idempotent}
        assert set(found) == set(AGAIN)
        shop.send_verification_code(EMIL)
        shop.verify_identity(EMIL, shop.rows()["codes"][-1]["code"])
        for name, arguments in AGAIN.items():
            function = found[name]
            assert function is not None
            function(**arguments)
            after = shop.rows()
            function(**arguments)
            assert changes(after, shop.rows()) == {}, name


@pytest.mark.parametrize(
    ("today", "said"),
    [
        pytest.param(date(2025, 6, 11), "We expect it on 2025-06-12.", id="before"),
        pytest.param(date(2025, 6, 12), "We expect it on 2025-06-12.", id="on the day"),
        pytest.param(date(2025, 6, 13), "It was expected on 2025-06-12.", id="after"),
    ],
)
def test_a_day_that_has_passed_is_no_day_on_which_a_parcel_is_expected(today: date, said: str) -> None:
    with Shop(today=today) as shop:
        assert shop.get_tracking("TR-1140").expectation == said
