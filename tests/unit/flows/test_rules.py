"""What the shop refuses, and that a refusal says what to do next and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from flows.shop import NotFoundError, RefusedError, Shop, TooLateError
from tests.unit.flows.walks import ADA, BEN, CLEO, DINA, EMIL, FAY, GUS, HANA, HOME, JO

Do = Callable[[Shop], Any]
IVO = "ivo@example.org"


def code_of(shop: Shop) -> str:
    """What the customer reads in the message."""
    return shop.rows()["codes"][-1]["code"]


def verified(shop: Shop, email: str, last_order: str = "") -> Shop:
    shop.send_verification_code(email)
    shop.verify_identity(email, code_of(shop), last_order)
    return shop


def with_claim(shop: Shop, order: str = "60136", kind: Any = "damaged") -> Shop:
    shop.request_photos(order)
    shop.create_claim(order, kind, "It is so.")
    return shop


def a_link(shop: Shop) -> None:
    shop.send_password_reset(ADA)


def after(shop: Shop, *calls: Do) -> Shop:
    for call in calls:
        call(shop)
    return shop


ORDERS: dict[str, tuple[Do, type[Exception], str]] = {
    "an order of nobody": (lambda s: s.lookup_order("nobody@example.org"), NotFoundError, "ask for the email address"),
    "another customer's order": (
        lambda s: s.lookup_order(ADA, "60127"),
        NotFoundError,
        "ada@example.org has no order 60127",
    ),
    "another customer's item": (lambda s: s.lookup_order(ADA, item="rug"), NotFoundError, "nothing like 'rug'"),
    "number and item contradict": (lambda s: s.lookup_order(ADA, "60112", "lamp"), RefusedError, "60105 of 2025-03-02"),
    "several orders hold it": (lambda s: s.lookup_order(DINA, item="lamp"), RefusedError, "60143 .*60133 .*ask which"),
    "several of one order": (
        lambda s: after(s, lambda s: s.update_order_items("60142", "LMP-9", 1)).lookup_order(DINA, "60142", "s"),
        RefusedError,
        "60142 holds",
    ),
    "an item of no words": (lambda s: s.lookup_order(ADA, item="my last order"), NotFoundError, "ask which is meant"),
    "orders of nobody": (lambda s: s.list_orders("x@example.org"), NotFoundError, "ask for the email address"),
    "cancel what has left": (lambda s: s.cancel_order("60140"), TooLateError, "refused at the door"),
    "cancel what was delivered": (lambda s: s.cancel_order("60112"), TooLateError, "is delivered"),
    "cancel twice": (
        lambda s: after(s, lambda s: s.cancel_order("60144")).cancel_order("60144"),
        TooLateError,
        "is cancelled",
    ),
    "release before cancelling": (lambda s: s.release_payment("K-60144"), NotFoundError, "cancel the order"),
    "release twice": (lambda s: s.release_payment("K-60129"), RefusedError, "was released already"),
    "items of a packed order": (
        lambda s: s.update_order_items("60143", "CND-3", 1),
        TooLateError,
        "is packed; only while",
    ),
    "take the last item out": (
        lambda s: s.update_order_items("60144", "LMP-9", 0),
        RefusedError,
        "cancel_order instead",
    ),
    "more than there are": (lambda s: s.update_order_items("60142", "TBL-O", 3), RefusedError, "only 2 left"),
    "below zero": (lambda s: s.update_order_items("60142", "CHR-O", -1), RefusedError, "0 to 50"),
    "what is there already": (
        lambda s: s.update_order_items("60142", "CHR-O", 2),
        RefusedError,
        "nothing is to be changed",
    ),
    "instead of what is not there": (
        lambda s: s.update_order_items("60142", "CND-3", 1, "JU-S"),
        NotFoundError,
        "does not hold JU-S",
    ),
    "difference of nothing": (lambda s: s.charge_difference("U-1"), NotFoundError, "there is no exchange U-1"),
    "difference twice": (
        lambda s: after(
            s, lambda s: s.update_order_items("60142", "CHR-O", 3), lambda s: s.charge_difference("U-40001")
        ).charge_difference("U-40001"),
        RefusedError,
        "was charged already",
    ),
    "address of what has left": (
        lambda s: s.update_order_address("60140", HOME),
        TooLateError,
        "is shipped; only while",
    ),
    "no address": (lambda s: s.validate_address("somewhere"), RefusedError, "an address is 'street"),
    "postcode of another city": (
        lambda s: s.validate_address("Weg 1, 04103 Berlin, DE"),
        RefusedError,
        "04103 is Leipzig",
    ),
    "postcode of nowhere": (
        lambda s: s.update_order_address("60144", "Weg 1, 99999 Berlin, DE"),
        RefusedError,
        "no postcode",
    ),
    "redirect what has not left": (
        lambda s: s.redirect_parcel("60144", HOME),
        TooLateError,
        "only while it is shipped",
    ),
    "redirect abroad": (lambda s: s.redirect_parcel("60140", "Rue 1, 67000 Strasbourg, FR"), RefusedError, "within DE"),
    "redirect twice": (
        lambda s: after(s, lambda s: s.redirect_parcel("60140", HOME)).redirect_parcel("60140", HOME),
        RefusedError,
        "does it once",
    ),
    "wrap what is packed": (lambda s: s.add_gift_options("60143", "stars"), TooLateError, "is packed"),
    "a card that is too long": (
        lambda s: s.add_gift_options("60142", "stars", "x" * 201),
        RefusedError,
        "200 characters",
    ),
}

RETURNS: dict[str, tuple[Do, type[Exception], str]] = {
    "one of several articles": (lambda s: s.create_return("60098"), RefusedError, "JU-M .*TB-1 .*name its sku"),
    "opened hygiene article": (lambda s: s.create_return("60098", "TB-1"), RefusedError, "opened_hygiene"),
    "before delivery": (lambda s: s.create_return("60140"), RefusedError, "not_delivered"),
    "credit within the window": (lambda s: s.offer_store_credit("60134"), RefusedError, "create_return"),
    "swap for the same": (lambda s: s.create_exchange("60112", "HP-200"), RefusedError, "already"),
    "swap after the window": (lambda s: s.create_exchange("60127", "RUG-1"), RefusedError, "too_late"),
    "refund of nothing": (lambda s: s.issue_refund("60112"), NotFoundError, "there is no return 60112"),
    "refund twice": (lambda s: s.issue_refund("R-30002"), RefusedError, "was refunded already"),
    "refund a claim twice": (
        lambda s: after(with_claim(s), lambda s: s.issue_refund("L-40001")).issue_refund("L-40001"),
        RefusedError,
        "was refunded already",
    ),
    "replace what was refunded": (
        lambda s: after(with_claim(s), lambda s: s.issue_refund("L-40001")).send_replacement("L-40001"),
        RefusedError,
        "was refunded already",
    ),
    "refund what was replaced": (
        lambda s: after(with_claim(s), lambda s: s.send_replacement("L-40001")).issue_refund("L-40001"),
        RefusedError,
        "has a replacement already",
    ),
    "return what is claimed": (lambda s: with_claim(s).create_return("60136"), RefusedError, "has a claim already"),
    "calling off what has arrived": (lambda s: s.cancel_return("R-40001"), RefusedError, "arrived on 2025-03-20"),
    "calling off what was refunded": (
        lambda s: after(s, lambda s: s.create_return("60112"), lambda s: s.issue_refund("R-40002")).cancel_return(
            "R-40002"
        ),
        RefusedError,
        "was refunded already",
    ),
    "calling off nothing": (lambda s: s.cancel_return("R-1"), NotFoundError, "there is no return R-1"),
    "label of an arrived parcel": (lambda s: s.create_return_label("R-40001"), RefusedError, "needs no label"),
    "label of what is kept": (
        lambda s: with_claim(s).create_return_label("L-40001"),
        RefusedError,
        "need not come back",
    ),
    "no postcode": (lambda s: s.find_dropoff_points("Leipzig"), RefusedError, "four or five digits"),
    "accounting too early": (lambda s: s.hand_to_accounting("R-30003"), RefusedError, "has not arrived"),
    "accounting twice": (
        lambda s: after(s, lambda s: s.hand_to_accounting("R-40001")).hand_to_accounting("R-40001"),
        RefusedError,
        "lies with accounting",
    ),
    "claim without photos": (
        lambda s: s.create_claim("60122", "damaged", "Dents."),
        RefusedError,
        "request_photos first",
    ),
    "claim after a month": (lambda s: s.create_claim("60127", "damaged", "Holes."), RefusedError, "check_warranty"),
    "claim before delivery": (lambda s: s.create_claim("60140", "damaged", "?"), RefusedError, "not been delivered"),
    "part of a whole thing": (
        lambda s: with_claim(s).send_spare_part("L-40001", "leg"),
        RefusedError,
        "send_replacement",
    ),
    "pickup on a Sunday": (
        lambda s: with_claim(s, "60122", "wrong_item").book_pickup("L-40001", "2025-06-15"),
        RefusedError,
        "Sundays",
    ),
    "pickup of what is kept": (
        lambda s: with_claim(s).book_pickup("L-40001", "2025-06-13"),
        RefusedError,
        "may keep it",
    ),
    "pickup on no day": (lambda s: with_claim(s).book_pickup("L-40001", "Friday"), RefusedError, "such as 2025-06-20"),
    "repair of wear": (lambda s: s.create_repair_case("60031", "Worn.", "wear"), RefusedError, "at cost for 42.00 EUR"),
    "replace what can be repaired": (
        lambda s: after(s, lambda s: s.create_repair_case("60031", "Dead.")).send_replacement("W-40001"),
        RefusedError,
        "settled by repair",
    ),
    "slot of another parcel": (
        lambda s: s.book_delivery_slot("TR-1140", "SL-40004"),
        RefusedError,
        "list_delivery_slots",
    ),
    "slot for what is there": (lambda s: s.list_delivery_slots("TR-1112"), RefusedError, "is delivered"),
    "late before its day": (lambda s: s.report_delay("60140"), RefusedError, "is not late"),
    "late but lost": (lambda s: s.report_delay("60138"), RefusedError, "open_carrier_investigation"),
    "fee twice": (
        lambda s: after(s, lambda s: s.refund_shipping_fee("60121")).refund_shipping_fee("60121"),
        RefusedError,
        "was refunded already",
    ),
    "fee of standard delivery": (lambda s: s.refund_shipping_fee("60138"), RefusedError, "only an express fee"),
    "lost but moving": (lambda s: s.open_carrier_investigation("60121"), RefusedError, "report_delay"),
    "looked for twice": (lambda s: s.open_carrier_investigation("60133"), RefusedError, "V-40001"),
    "not waiting for the carrier": (
        lambda s: after(s, lambda s: s.open_carrier_investigation("60131")).issue_refund("V-40002"),
        RefusedError,
        "by 2025-06-13",
    ),
    "ship to nowhere": (lambda s: s.quote_shipping("XX"), NotFoundError, "we ship to"),
    "a day long past": (lambda s: s.quote_shipping("DE", wanted_day="2020-01-01"), RefusedError, "between today"),
}

PEOPLE: dict[str, tuple[Do, type[Exception], str]] = {
    "account of nobody": (lambda s: s.lookup_account("x@example.org"), NotFoundError, "do not say whether"),
    "a fourth link": (
        lambda s: after(s, *[a_link] * 3).send_password_reset(ADA),
        RefusedError,
        "3 links",
    ),
    "unlock a stranger's": (lambda s: s.unlock_account(EMIL), RefusedError, "send_verification_code"),
    "unlock what fraud locked": (lambda s: verified(s, IVO).unlock_account(IVO), RefusedError, "do not unlock"),
    "unlock what is open": (lambda s: s.unlock_account(ADA), RefusedError, "is active and not locked"),
    "device on one proof": (
        lambda s: verified(s, EMIL).remove_second_factor(EMIL),
        RefusedError,
        "number of the last order",
    ),
    "setup beside the old one": (
        lambda s: s.send_second_factor_setup(EMIL),
        RefusedError,
        "remove_second_factor first",
    ),
    "the code of another": (lambda s: verified(s, ADA).close_account(JO), RefusedError, "not verified"),
    "close with a parcel": (lambda s: verified(s, BEN).close_account(BEN), RefusedError, "60140"),
    "close with a gift card": (lambda s: verified(s, GUS).close_account(GUS), RefusedError, "31.50 EUR"),
    "close twice": (
        lambda s: after(verified(s, JO), lambda s: s.close_account(JO)).close_account(JO),
        RefusedError,
        "it is closed",
    ),
    "close a guest's": (lambda s: s.close_account(HANA), RefusedError, "it is guest"),
    "sign out a stranger": (lambda s: s.sign_out_everywhere(FAY), RefusedError, "not verified"),
    "a whole card number": (lambda s: s.search_charges("2025-06-10", 18890, "4111111111117788"), RefusedError, "never"),
    "a charge that fits in part": (
        lambda s: s.search_charges("2025-06-10", 18890, "4242"),
        NotFoundError,
        "check all three",
    ),
    "dispute twice": (
        lambda s: after(s, lambda s: s.open_fraud_case("CH-40025")).open_fraud_case("CH-40025"),
        RefusedError,
        "is disputed already",
    ),
    "block a wallet": (lambda s: s.block_card("CH-40009"), RefusedError, "not by card"),
    "excess of nothing": (lambda s: s.issue_refund("CH-40005"), RefusedError, "charged what it costs"),
    "excess twice": (
        lambda s: after(s, lambda s: s.issue_refund("CH-40014")).issue_refund("CH-40015"),
        RefusedError,
        "refunded already",
    ),
    "a reservation": (lambda s: s.issue_refund("CH-40023"), RefusedError, "is reserved"),
    "invoice of a basket": (lambda s: s.create_invoice_pdf("60147"), RefusedError, "is basket"),
    "another's invoice": (lambda s: s.send_email(BEN, "s", "t", "invoice-I-40001.pdf"), RefusedError, "no document of"),
    "a letter of nothing": (lambda s: s.send_email(BEN, "s", " "), RefusedError, "a letter has"),
    "link for an order": (lambda s: s.create_payment_link("60144"), RefusedError, "not a basket"),
    "a code of the spring": (lambda s: s.apply_discount("SPRING20", "60142"), RefusedError, "valid from 2025-03-01"),
    "a code for a first order": (lambda s: s.apply_discount("WELCOME10", "60142"), RefusedError, "first order only"),
    "a code without the brand": (
        lambda s: s.apply_discount("SUMMER15", "60146"),
        RefusedError,
        "not for articles of Aria",
    ),
    "a code for too little": (lambda s: s.apply_discount("SUMMER15", "60141"), RefusedError, "50.00 EUR"),
    "a code for an old order": (lambda s: s.apply_discount("SUMMER15", "60112"), RefusedError, "for 3 days"),
    "a code twice": (
        lambda s: after(s, lambda s: s.apply_discount("SUMMER15", "60142")).apply_discount("SUMMER15", "60142"),
        RefusedError,
        "already",
    ),
    "no such code": (lambda s: s.lookup_promo_code("FREE"), NotFoundError, "exactly as it is written"),
    "a card that expired": (lambda s: s.redeem_gift_card("G-40002", ADA), RefusedError, "expired since"),
    "a card twice": (
        lambda s: after(s, lambda s: s.redeem_gift_card("G-40003", ADA)).redeem_gift_card("G-40003", BEN),
        RefusedError,
        "is redeemed",
    ),
    "a card of another": (lambda s: s.replace_gift_card("G-40001", ADA, "60090"), RefusedError, "does not show"),
    "a card from nowhere": (lambda s: s.replace_gift_card("G-40003", ADA, ""), RefusedError, "does not show"),
    "one of two subscriptions": (lambda s: s.lookup_subscription(EMIL), RefusedError, "S-40001 .*S-40002 .*ask which"),
    "no such subscription": (lambda s: s.lookup_subscription(EMIL, "tea"), NotFoundError, "Coffee Harbour"),
    "a pause of a year": (lambda s: s.pause_subscription("S-40001", "2026-06-11"), RefusedError, "a pause ends"),
    "end it twice": (lambda s: s.cancel_subscription("S-40004"), RefusedError, "has ended already"),
    "change a packed box": (lambda s: s.update_subscription("S-40002", quantity=2), RefusedError, "is packed"),
    "subscribe to a rug": (lambda s: s.update_subscription("S-40001", sku="RUG-1"), RefusedError, "not sold as"),
    "change nothing": (lambda s: s.update_subscription("S-40001"), RefusedError, "say what is to change"),
    "notice of what is there": (lambda s: s.create_stock_alert(ADA, "JU-S"), RefusedError, "is in stock"),
    "notice of what is gone": (lambda s: s.create_stock_alert(ADA, "TEA-1"), RefusedError, "TEA-2"),
    "compare one": (lambda s: s.compare_products(["HP-200", "HP-200"]), RefusedError, "two to 4"),
    "nothing like it": (lambda s: s.search_products("unicorn"), NotFoundError, "fewer or other words"),
    "a manual that is not there": (lambda s: s.get_manual("VAS-1", "clean"), NotFoundError, "do not guess"),
    "a fourth attempt": (lambda s: s.run_diagnostics_guide("SPK-1", "E5", 4), RefusedError, "check_warranty"),
    "transfer without a summary": (
        lambda s: s.transfer_conversation("Z-1", "Mira"),
        NotFoundError,
        "summarise_conversation",
    ),
    "transfer to nobody": (
        lambda s: after(s, lambda s: s.summarise_conversation("", "A person.", "")).transfer_conversation(
            "Z-40001", "Tariq"
        ),
        RefusedError,
        "not at the desk",
    ),
    "a call to nowhere": (
        lambda s: after(s, lambda s: s.summarise_conversation("", "A call.", "")).book_callback(
            "Z-40001", "CS-40001", "my phone"
        ),
        RefusedError,
        "with its prefix",
    ),
    "a slot that is taken": (
        lambda s: after(
            s,
            lambda s: s.summarise_conversation("", "A call.", ""),
            lambda s: s.summarise_conversation("", "Another.", ""),
            lambda s: s.book_callback("Z-40001", "CS-40001", "0151 5550101"),
        ).book_callback("Z-40002", "CS-40001", "0151 5550102"),
        RefusedError,
        "is taken",
    ),
}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [pytest.param(*each, id=name) for table in (ORDERS, RETURNS, PEOPLE) for name, each in table.items()],
)
def test_the_shop_refuses_and_says_what_to_do_next(call: Do, error: type[Exception], words: str) -> None:
    with Shop() as shop, pytest.raises(error, match=words) as refused:
        call(shop)
    assert type(refused.value) is error


SAFE: dict[str, Do] = {
    name: table[name][0]
    for table in (ORDERS, RETURNS, PEOPLE)
    for name in table
    if not any(word in table[name][0].__code__.co_names for word in ("after", "verified", "with_claim"))
}


@pytest.mark.parametrize("call", SAFE.values(), ids=SAFE)
def test_what_is_refused_changes_nothing(call: Do) -> None:
    with Shop() as shop:
        before = shop.rows()
        with pytest.raises((NotFoundError, RefusedError)):
            call(shop)
        assert shop.rows() == before


def test_three_wrong_codes_shut_the_door_and_a_new_code_opens_it() -> None:
    with Shop() as shop:
        shop.send_verification_code(EMIL)
        code = code_of(shop)
        for _ in range(3):
            with pytest.raises(RefusedError, match="not right"):
                shop.verify_identity(EMIL, "nothing")
        with pytest.raises(RefusedError, match="too many wrong codes"):
            shop.verify_identity(EMIL, code)
        shop.send_verification_code(EMIL)
        assert shop.verify_identity(EMIL, code_of(shop)).proofs == 1


def test_no_code_is_told_to_whoever_asks_for_it() -> None:
    with Shop() as shop:
        sent = shop.send_verification_code(EMIL, "phone")
        assert code_of(shop) not in repr(sent)
        assert sent.code_sent_to == "***0105"


def test_codes_go_to_what_was_on_file_before_a_break_in() -> None:
    with Shop() as shop:
        assert shop.send_verification_code(FAY).code_sent_to == "f***@example.org"
        shop.verify_identity(FAY, code_of(shop), "60122")  # the intruder's order is no proof
        assert shop.rows()["verifications"][-1]["proofs"] == 2


def test_a_link_says_the_same_whether_there_is_an_account_or_not() -> None:
    with Shop() as shop:
        known, unknown = shop.send_password_reset(CLEO), shop.send_password_reset("c@example.org")
        assert (known, len(shop.rows()["outbox"])) == (unknown, 1)
