"""How each flow of the support pack goes to its end on the shop's data: the calls, and the rows that they change.

Of a row that is added, what matters is told; of one that changes, every column that does.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Call = tuple[str, dict[str, Any]]
Effects = Mapping[str, dict[str, Any]]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Walk(NamedTuple):
    """One way through a flow."""

    flow: str
    calls: tuple[Call, ...]
    effects: Effects = NOTHING
    """Table by table, as `flows.shop.changes` has them; nothing else may change."""
    said: Mapping[str, Any] = NOTHING
    """Fields of what the last call gave."""


ADA, BEN, CLEO = "ada@example.org", "ben@example.org", "cleo@example.org"
DINA, EMIL, FAY = "dina@example.org", "emil@example.org", "fay@example.org"
GUS, HANA, JO = "gus@example.org", "hana@example.org", "jo@example.org"
HOME = "Lindenweg 14, 04109 Leipzig, DE"


def order(email: str, number: str = "", item: str = "") -> Call:
    """Find an order."""
    return "lookup_order", {"email": email, "order_number": number, "item": item}


def of(tool: str, number: str, **more: Any) -> Call:
    """A call about an order."""
    return tool, {"order_number": number, **more}


def added(*rows: dict[str, Any]) -> dict[str, Any]:
    """Rows that are new."""
    return {"added": list(rows)}


def changed(key: str, **columns: tuple[Any, Any]) -> dict[str, Any]:
    """A row that is another."""
    return {"changed": {key: columns}}


ORDERS: list[Walk] = [
    Walk(
        "track_order",
        (order(BEN, item="toothbrush"), ("get_tracking", {"tracking_number": "TR-1140"})),
        {},
        {"expected_on": "2025-06-12"},
    ),
    Walk(
        "cancel_order",
        (
            order(DINA, "60142", "chairs"),
            of("cancel_order", "60142"),
            ("release_payment", {"cancellation_number": "K-60142"}),
        ),
        {
            "orders": changed("60142", status=("placed", "cancelled")),
            "products": {"changed": {"CHR-O": {"stock": (12, 14)}, "CND-3": {"stock": (40, 41)}}},
            "cancellations": added({"number": "K-60142", "released": 1}),
            "refunds": added({"for_number": "K-60142", "amount": 19200, "account": "Mastercard ending in 5454"}),
        },
        {"released_cents": 19200},
    ),
    Walk(
        "cancel_order",
        (order(CLEO), of("cancel_order", "60144"), ("release_payment", {"cancellation_number": "K-60144"})),
        {
            "orders": changed("60144", status=("placed", "cancelled")),
            "products": changed("LMP-9", stock=(11, 12)),
            "cancellations": added({"number": "K-60144", "released": 1}),
            "charges": changed("CH-40024", status=("reserved", "released")),
        },
        {"released_cents": 5900, "back_on": "2025-06-11"},
    ),
    Walk(
        "change_order_items",
        (
            order(DINA, "60142"),
            ("search_products", {"looked_for": "oak chair"}),
            ("check_stock", {"wanted_sku": "CHR-O"}),
            of("update_order_items", "60142", sku="CHR-O", quantity=3),
            ("charge_difference", {"exchange_number": "U-40001"}),
        ),
        {
            "order_items": {"changed": {"21": {"quantity": (2, 3)}}},
            "products": changed("CHR-O", stock=(12, 11)),
            "item_changes": added({"order_number": "60142", "quantity": 3, "difference": 8900}),
            "charges": added({"for_number": "U-40001", "amount": 8900, "status": "booked"}),
        },
        {"charged_cents": 8900},
    ),
    Walk(
        "change_order_address",
        (
            order(HANA, "60141"),
            ("validate_address", {"address": HOME}),
            of("update_order_address", "60141", address=HOME),
        ),
        {"orders": changed("60141", address=("Ufer 1, 20359 Hamburg, DE", HOME))},
    ),
    Walk(
        "change_order_address",
        (order(BEN), ("validate_address", {"address": HOME}), of("redirect_parcel", "60140", address=HOME)),
        {
            "orders": changed("60140", address=("Hafenstrasse 7, 20359 Hamburg, DE", HOME)),
            "redirects": added({"order_number": "60140", "fee": 490}),
        },
    ),
    Walk(
        "gift_wrapping",
        (order(DINA, item="candles"), of("add_gift_options", "60142", paper="stars", card_text="For you!")),
        {
            "gift_options": added(
                {"order_number": "60142", "paper": "stars", "card_text": "For you!", "hide_prices": 1}
            ),
            "orders": changed("60142", gift_fee=(0, 350)),
            "charges": added({"order_number": "60142", "amount": 350}),
        },
    ),
    Walk("holiday_returns", (order(ADA, "60112"),), {}, {"placed_on": "2025-05-28"}),
    Walk("holiday_cutoff", (("quote_shipping", {"country": "DE", "wanted_day": "2025-12-24"}),)),
    Walk("delivery_options", (("quote_shipping", {"country": "ie"}),)),
    Walk(
        "reschedule_delivery",
        (
            order(BEN),
            ("get_tracking", {"tracking_number": "TR-1140"}),
            ("list_delivery_slots", {"tracking_number": "TR-1140"}),
            ("book_delivery_slot", {"tracking_number": "TR-1140", "slot_number": "SL-40002"}),
        ),
        {"delivery_slots": changed("SL-40002", tracking=(None, "TR-1140"))},
        {"booked": {"slot_number": "SL-40002", "day": "2025-06-14", "hours": "09:00-13:00", "place": "at the door"}},
    ),
    Walk(
        "late_delivery",
        (
            order(EMIL, item="speaker"),
            ("get_tracking", {"tracking_number": "TR-1121"}),
            of("report_delay", "60121"),
            of("refund_shipping_fee", "60121"),
        ),
        {
            "delays": added({"order_number": "60121", "promised_on": "2025-06-09"}),
            "refunds": added({"for_number": "60121", "amount": 990, "account": "Visa ending in 9001"}),
        },
        {"refunded": "9.90 EUR"},
    ),
    Walk(
        "lost_parcel",
        (
            order(DINA, item="rug"),
            ("get_tracking", {"tracking_number": "TR-1138"}),
            of("open_carrier_investigation", "60138"),
            ("send_replacement", {"case_number": "V-40002"}),
        ),
        {
            "investigations": added({"order_number": "60138", "kind": "without_a_trace", "answer_by": "2025-06-11"}),
            "replacements": added({"case_number": "V-40002", "sku": "RUG-1"}),
            "products": changed("RUG-1", stock=(4, 3)),
        },
        {"arrives_by": "2025-06-16"},
    ),
    Walk(
        "lost_parcel",
        (
            order(DINA, item="desk lamp"),
            ("get_tracking", {"tracking_number": "TR-1133"}),
            ("issue_refund", {"return_number": "V-40001"}),
        ),
        {"refunds": added({"for_number": "V-40001", "order_number": "60133", "amount": 6390})},
    ),
    Walk(
        "product_advice",
        (
            ("search_products", {"looked_for": "headphones"}),
            ("compare_products", {"skus": ["HP-300", "HP-200"]}),
            ("get_product_details", {"wanted_sku": "HP-200"}),
        ),
        {},
        {"price_cents": 12900},
    ),
    Walk(
        "check_stock",
        (
            ("search_products", {"looked_for": "wool jumper size L"}),
            ("check_stock", {"wanted_sku": "JU-L"}),
            ("create_stock_alert", {"email": ADA, "wanted_sku": "JU-L"}),
        ),
        {"stock_alerts": added({"email": ADA, "sku": "JU-L"})},
        {"expected_on": "2025-06-24"},
    ),
    Walk(
        "troubleshoot_product",
        (
            ("search_products", {"looked_for": "speaker pebble"}),
            ("get_manual", {"wanted_sku": "SPK-1", "topic": "connect it to my wifi"}),
            ("run_diagnostics_guide", {"wanted_sku": "SPK-1", "error_code": "e5"}),
        ),
        {},
        {"step": "Charge it for an hour and start it again.", "attempts_left": 2},
    ),
]

RETURN = {"number": "R-40002", "order_number": "60112", "sku": "HP-200", "refundable": 12900, "arrived_on": None}

RETURNS: list[Walk] = [
    Walk(
        "refund_order",
        (
            order(ADA, item="headphones"),
            of("check_return_window", "60112"),
            of("create_return", "60112"),
            ("issue_refund", {"return_number": "R-40002"}),
        ),
        {
            "returns": added(RETURN),
            "labels": added({"for_number": "R-40002", "form": "pdf"}),
            "outbox": added({"email": ADA, "attachment": "label-R-40002.pdf"}),
            "refunds": added({"for_number": "R-40002", "amount": 12900, "account": "Visa ending in 4242"}),
        },
        {"refunded": "129.00 EUR", "refund_expected_on": "2025-06-16"},
    ),
    Walk(
        "refund_order",
        (order(BEN, item="rug"), of("check_return_window", "60127"), of("offer_store_credit", "60127")),
        {"credits": added({"order_number": "60127", "amount": 24900})},
    ),
    Walk(
        "exchange_item",
        (
            order(ADA, item="jumper"),
            of("check_return_window", "60098", sku="JU-M"),
            ("search_products", {"looked_for": "wool jumper size S"}),
            ("check_stock", {"wanted_sku": "HP-300"}),
            of("create_exchange", "60098", sku="JU-M", wanted_sku="JU-S"),
            ("charge_difference", {"exchange_number": "X-40001"}),
        ),
        {
            "exchanges": added({"order_number": "60098", "sku": "JU-M", "wanted_sku": "JU-S", "difference": 0}),
            "products": changed("JU-S", stock=(8, 7)),
        },
        {"charged_cents": 0},
    ),
    Walk(
        "exchange_item",
        (
            order(ADA, "60112"),
            of("check_return_window", "60112"),
            ("check_stock", {"wanted_sku": "HP-300"}),
            of("create_exchange", "60112", wanted_sku="HP-300"),
            ("charge_difference", {"exchange_number": "X-40001"}),
        ),
        {
            "exchanges": added({"order_number": "60112", "wanted_sku": "HP-300", "difference": 5000}),
            "products": changed("HP-300", stock=(3, 2)),
            "charges": added({"for_number": "X-40001", "amount": 5000, "account": "Visa ending in 4242"}),
        },
    ),
    Walk(
        "return_label",
        (
            order(EMIL, item="blender"),
            of("lookup_return", "60135"),
            ("create_return_label", {"return_number": "R-30003", "form": "qr"}),
            ("find_dropoff_points", {"postcode": "10115"}),
        ),
        {
            "labels": added({"for_number": "R-30003", "form": "qr"}),
            "outbox": added({"email": EMIL, "attachment": "label-R-30003.png"}),
        },
    ),
    Walk(
        "return_label",
        (order(ADA, "60112"), of("create_return", "60112"), ("create_return_label", {"return_number": "R-40002"})),
        {
            "returns": added(RETURN),
            "labels": added({"for_number": "R-40002", "form": "pdf"}),
            "outbox": added({"attachment": "label-R-40002.pdf"}, {"attachment": "label-R-40002.pdf"}),
        },
    ),
    Walk(
        "return_label",
        (order(ADA, "60112"), of("create_return", "60112"), ("cancel_return", {"return_number": "R-40002"})),
        {"outbox": added({"attachment": "label-R-40002.pdf"})},
        {"kept_sku": "HP-200"},
    ),
    Walk(
        "return_status",
        (
            order(FAY, item="floor lamp"),
            of("lookup_return", "60124"),
            ("lookup_refund", {"return_number": "R-30002"}),
            ("hand_to_accounting", {"return_number": "R-30002"}),
        ),
        {"accounting_cases": added({"return_number": "R-30002"})},
        {"answer_by": "2025-06-13"},
    ),
    Walk(
        "return_status",
        (order(EMIL, item="blender"), of("lookup_return", "60135"), ("get_tracking", {"tracking_number": "TR-9001"})),
        {},
        {"last_place": "handed in at a parcel shop"},
    ),
    Walk(
        "damaged_item_claim",
        (
            order(BEN, item="vase"),
            of("request_photos", "60136"),
            of("create_claim", "60136", kind="damaged", description="In a thousand pieces."),
            ("issue_refund", {"return_number": "L-40001"}),
        ),
        {
            "claims": added({"order_number": "60136", "sku": "VAS-1", "kind": "damaged", "must_come_back": 0}),
            "refunds": added({"for_number": "L-40001", "amount": 2600, "account": "PayPal"}),
        },
    ),
    Walk(
        "damaged_item_claim",
        (
            order(HANA, item="table"),
            of("request_photos", "60132"),
            of("create_claim", "60132", kind="missing_part", description="Two screws are missing."),
            ("send_spare_part", {"case_number": "L-40001", "part": "2 screws"}),
        ),
        {
            "photos": added({"order_number": "60132", "status": "requested"}),
            "outbox": added({"email": HANA, "subject": "Photos for order 60132"}),
            "claims": added({"order_number": "60132", "kind": "missing_part", "must_come_back": 0}),
            "spare_parts": added({"case_number": "L-40001", "part": "2 screws"}),
        },
    ),
    Walk(
        "damaged_item_claim",
        (
            order(HANA, item="table"),
            of("request_photos", "60132"),
            of("create_claim", "60132", kind="damaged", description="A scratch across the top."),
            ("send_replacement", {"case_number": "L-40001"}),
            ("create_return_label", {"return_number": "L-40001"}),
        ),
        {
            "photos": added({"order_number": "60132", "status": "requested"}),
            "outbox": added({"subject": "Photos for order 60132"}, {"attachment": "label-L-40001.pdf"}),
            "claims": added({"order_number": "60132", "kind": "damaged", "must_come_back": 1}),
            "replacements": added({"case_number": "L-40001", "sku": "TBL-O", "express": 0}),
            "products": changed("TBL-O", stock=(2, 1)),
            "labels": added({"for_number": "L-40001"}),
        },
    ),
    Walk(
        "wrong_item_received",
        (
            order(FAY, item="kettle"),
            of("request_photos", "60122"),
            of("create_claim", "60122", kind="wrong_item", description="A toaster was in the box."),
            ("send_replacement", {"case_number": "L-40001"}),
            ("book_pickup", {"case_number": "L-40001", "day": "2025-06-13"}),
        ),
        {
            "photos": added({"order_number": "60122"}),
            "outbox": added({"subject": "Photos for order 60122"}),
            "claims": added({"order_number": "60122", "kind": "wrong_item", "must_come_back": 1}),
            "replacements": added({"case_number": "L-40001", "sku": "KET-1", "express": 1}),
            "products": changed("KET-1", stock=(9, 8)),
            "pickups": added(
                {"case_number": "L-40001", "day": "2025-06-13", "address": "Isarweg 9, 80331 Muenchen, DE"}
            ),
        },
        {"collected_on": "2025-06-13"},
    ),
    Walk(
        "warranty_claim",
        (
            order(CLEO, item="blender"),
            of("check_warranty", "60031"),
            of("request_photos", "60031"),
            of("create_repair_case", "60031", fault="It died after eight months."),
        ),
        {
            "photos": added({"order_number": "60031"}),
            "outbox": added({"email": CLEO}),
            "repairs": added({"order_number": "60031", "outcome": "repair", "quote": 0}),
        },
    ),
    Walk(
        "warranty_claim",
        (
            order(ADA, item="toothbrush"),
            of("check_warranty", "60098", sku="TB-1"),
            of("create_repair_case", "60098", sku="TB-1", fault="It does not charge."),
            ("send_replacement", {"case_number": "W-40001"}),
        ),
        {
            "repairs": added({"order_number": "60098", "sku": "TB-1", "outcome": "replace"}),
            "replacements": added({"case_number": "W-40001", "sku": "TB-1"}),
            "products": changed("TB-1", stock=(30, 29)),
        },
    ),
]
