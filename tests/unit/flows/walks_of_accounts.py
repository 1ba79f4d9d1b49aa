"""How the flows about accounts, money and subscriptions go to their end, as in `walks.py`."""

from tests.unit.flows.walks import ADA, DINA, EMIL, FAY, GUS, HOME, JO, Call, Effects, Walk, added, changed, of, order

CODE = "the code that was sent last"
"""Stands for what the customer reads out."""


def proven(email: str, last_order: str = "") -> tuple[Call, Call]:
    """Somebody shows who they are."""
    return (
        ("send_verification_code", {"email": email}),
        ("verify_identity", {"email": email, "code": CODE, "last_order_number": last_order}),
    )


def proof(email: str, sent_to: str = "", proofs: int = 1) -> Effects:
    """What that leaves behind."""
    return {
        "codes": added({"email": email, "sent_to": sent_to or email, "used": 1, "tries": 0}),
        "verifications": added({"email": email, "proofs": proofs}),
    }


RESET: Call = ("send_password_reset", {"email": FAY})

ACCOUNTS: list[Walk] = [
    Walk(
        "reset_password",
        (("lookup_account", {"email": ADA}), ("send_password_reset", {"email": ADA})),
        {"outbox": added({"email": ADA, "subject": "Set a new password"})},
        {"valid_minutes": 30},
    ),
    Walk(
        "unlock_account",
        (("lookup_account", {"email": EMIL}), *proven(EMIL), ("unlock_account", {"email": EMIL})),
        {
            **proof(EMIL),
            "customers": changed(EMIL, status=("locked", "active"), lock_reason=("failed_attempts", None)),
        },
        {"account_status": "active"},
    ),
    Walk(
        "replace_second_factor",
        (
            *proven(EMIL, "60121"),
            ("remove_second_factor", {"email": EMIL}),
            ("send_second_factor_setup", {"email": EMIL}),
        ),
        {
            **proof(EMIL, proofs=2),
            "customers": changed(EMIL, second_factor=("device", "setup_sent")),
            "outbox": added({"email": EMIL, "subject": "Set up your new device"}),
        },
    ),
    Walk(
        "change_account_address",
        (
            ("lookup_account", {"email": ADA}),
            ("validate_address", {"address": "lindenweg 14, 04109 leipzig, de"}),
            ("update_account_address", {"email": ADA, "address": HOME, "kind": "delivery"}),
            ("list_orders", {"email": ADA}),
        ),
        {"addresses": changed("A-40001", address=("Lindenweg 41, 04103 Leipzig, DE", HOME))},
    ),
    Walk(
        "close_account",
        (*proven(JO), ("check_open_matters", {"email": JO}), ("close_account", {"email": JO})),
        {
            **proof(JO),
            "customers": changed(JO, status=("active", "closed"), closed_on=(None, "2025-06-11")),
            "outbox": added({"email": JO, "subject": "Your account is closed"}),
        },
        {"undo_until": "2025-06-25"},
    ),
    Walk("recover_login", (RESET,), {"outbox": added({"email": FAY, "subject": "Set a new password"})}),
    Walk(
        "move_house",
        (
            ("lookup_account", {"email": DINA}),
            ("validate_address", {"address": HOME}),
            ("update_account_address", {"email": DINA, "address": HOME}),
            order(DINA, "60142"),
            of("update_order_address", "60142", address=HOME),
            of("update_order_address", "60143", address=HOME),
        ),
        {
            "addresses": {
                **changed("A-40005", address=("Am Markt 3, 50667 Koeln, DE", HOME)),
                **added({"email": DINA, "kind": "billing", "address": HOME}),
            },
            "orders": {
                "changed": {
                    "60142": {"address": ("Am Markt 3, 50667 Koeln, DE", HOME)},
                    "60143": {"address": ("Am Markt 3, 50667 Koeln, DE", HOME)},
                }
            },
        },
    ),
    Walk(
        "secure_account",
        (
            *proven(FAY, "60122"),
            ("sign_out_everywhere", {"email": FAY}),
            ("restore_contact_details", {"email": FAY}),
            RESET,
            ("remove_second_factor", {"email": FAY}),
            ("send_second_factor_setup", {"email": FAY}),
            ("search_charges", {"day": "2025-06-10", "amount_cents": 18890, "last_four": "7788"}),
            ("block_card", {"charge_number": "CH-40025"}),
            ("open_fraud_case", {"charge_number": "CH-40025"}),
        ),
        {
            **proof(FAY, proofs=2),
            "sign_ins": {"removed": [{"number": "B-40002"}, {"number": "B-40003"}]},
            "customers": changed(
                FAY,
                contact_email=("fay.l@elsewhere.invalid", FAY),
                phone=("+49 151 5550666", "+49 151 5550106"),
                second_factor=("device", "setup_sent"),
            ),
            "contact_changes": {"changed": {"J-40002": {"restored": (0, 1)}, "J-40003": {"restored": (0, 1)}}},
            "outbox": added({"email": FAY}, {"email": FAY, "subject": "Set up your new device"}),
            "blocked_cards": added({"account": "Visa ending in 7788"}),
            "fraud_cases": added({"charge_number": "CH-40025", "answer_by": "2025-06-13"}),
            "charges": changed("CH-40025", status=("booked", "disputed")),
            "orders": changed("60146", status=("placed", "held")),
        },
        {"shipment_stopped": True},
    ),
]

MONEY: list[Walk] = [
    Walk(
        "duplicate_charge",
        (order(DINA, item="teapot"), of("list_charges", "60134"), ("issue_refund", {"return_number": "CH-40015"})),
        {"refunds": added({"for_number": "CH-40015", "order_number": "60134", "amount": 3890})},
    ),
    Walk("duplicate_charge", (order(DINA, "60143"), of("list_charges", "60143")), {}, {"excess_cents": 0}),
    Walk(
        "unknown_charge",
        (
            ("search_charges", {"day": "2025-06-10", "amount_cents": 18890, "last_four": "7788"}),
            ("block_card", {"charge_number": "CH-40025"}),
            ("open_fraud_case", {"charge_number": "CH-40025"}),
        ),
        {
            "blocked_cards": added({"account": "Visa ending in 7788"}),
            "fraud_cases": added({"charge_number": "CH-40025"}),
            "charges": changed("CH-40025", status=("booked", "disputed")),
            "orders": changed("60146", status=("placed", "held")),
        },
    ),
    Walk(
        "invoice_copy",
        (
            order(ADA, "60105"),
            of("create_invoice_pdf", "60105", name="Winter GmbH", vat_number="DE123456789"),
            (
                "send_email",
                {"email": ADA, "subject": "Invoice", "text": "Here it is.", "attachment": "invoice-I-40003.pdf"},
            ),
        ),
        {
            "invoices": added({"order_number": "60105", "name": "Winter GmbH", "amount": 5900}),
            "outbox": added({"email": ADA, "attachment": "invoice-I-40003.pdf"}),
        },
    ),
    Walk(
        "payment_declined",
        (
            ("lookup_payment_attempts", {"email": GUS}),
            ("list_payment_methods", {"email": GUS}),
            ("create_payment_link", {"basket_number": "60147"}),
        ),
        {
            "payment_links": added({"order_number": "60147", "amount": 9590, "valid_until": "2025-06-12"}),
            "outbox": added({"email": GUS}),
        },
        {"pay_cents": 9590},
    ),
    Walk(
        "apply_promo_code",
        (
            order(DINA, "60142", "oak chairs"),
            ("lookup_promo_code", {"code": "summer15", "order_number": "60142"}),
            of("apply_discount", "60142", code="SUMMER15"),
            ("issue_refund", {"return_number": "D-40001"}),
        ),
        {
            "discounts": added({"order_number": "60142", "code": "SUMMER15", "amount": 2880}),
            "refunds": added({"for_number": "D-40001", "amount": 2880}),
        },
        {"refunded_cents": 2880},
    ),
    Walk(
        "gift_card_help",
        (
            ("lookup_gift_card", {"order_number": "60090"}),
            ("replace_gift_card", {"card_number": "G-40001", "email": GUS, "order_number": "60090"}),
        ),
        {
            "gift_cards": {
                **changed("G-40001", status=("active", "replaced"), balance=(3150, 0)),
                **added({"number": "G-40004", "balance": 3150, "bought_on": "2025-01-10"}),
            },
            "outbox": added({"email": GUS}),
        },
        {"balance_cents": 3150},
    ),
    Walk(
        "gift_card_help",
        (
            ("lookup_gift_card", {"card_number": "g-40003"}),
            ("redeem_gift_card", {"card_number": "G-40003", "email": ADA}),
        ),
        {
            "gift_cards": changed("G-40003", status=("active", "redeemed"), balance=(2000, 0)),
            "customers": changed(ADA, credit_cents=(0, 2000)),
        },
    ),
]

SUBSCRIPTIONS: list[Walk] = [
    Walk(
        "pause_subscription",
        (
            ("lookup_subscription", {"email": EMIL, "item": "coffee"}),
            ("pause_subscription", {"subscription_number": "S-40001", "until": "2025-09-01"}),
        ),
        {
            "subscriptions": changed(
                "S-40001",
                status=("running", "paused"),
                paused_until=(None, "2025-09-01"),
                next_delivery=("2025-06-20", "2025-09-01"),
            )
        },
        {"next_delivery": "2025-09-01"},
    ),
    Walk(
        "cancel_subscription",
        (
            ("lookup_subscription", {"email": EMIL, "item": "the dog food"}),
            ("cancel_subscription", {"subscription_number": "S-40002"}),
            ("send_email", {"email": EMIL, "subject": "It has ended", "text": "One more box comes tomorrow."}),
        ),
        {
            "subscriptions": changed("S-40002", status=("running", "ended"), prepaid_cents=(5600, 0)),
            "refunds": added({"for_number": "S-40002", "amount": 5600, "account": "Visa ending in 9001"}),
            "outbox": added({"email": EMIL, "subject": "It has ended"}),
        },
    ),
    Walk(
        "change_subscription",
        (
            ("lookup_subscription", {"email": ADA}),
            ("search_products", {"looked_for": "decaf"}),
            ("check_stock", {"wanted_sku": "COF-D"}),
            ("update_subscription", {"subscription_number": "S-40003", "sku": "COF-D", "every_weeks": 6}),
        ),
        {
            "subscriptions": changed(
                "S-40003",
                sku=("COF-R", "COF-D"),
                every_weeks=(4, 6),
                next_delivery=("2025-06-18", "2025-07-02"),
            )
        },
        {"box_cents": 1300},
    ),
]

SUMMARY: Call = (
    "summarise_conversation",
    {"email": ADA, "wish": "A complaint about the lamp. She wants a person.", "tried": "nothing"},
)

DESK: list[Walk] = [
    Walk(
        "handover_to_human",
        (
            SUMMARY,
            ("find_free_colleague", {"team": "complaints"}),
            ("transfer_conversation", {"summary_number": "Z-40001", "colleague": "Sofia"}),
        ),
        {
            "summaries": added({"email": ADA, "tried": "nothing"}),
            "transfers": added({"summary_number": "Z-40001", "colleague": "Sofia"}),
        },
        {"waiting_minutes": 6},
    ),
    Walk(
        "schedule_callback",
        (
            ("list_callback_slots", {}),
            SUMMARY,
            ("book_callback", {"summary_number": "Z-40001", "slot_number": "CS-40003", "phone": "+49 (151) 555-0101"}),
        ),
        {
            "summaries": added({"email": ADA}),
            "callbacks": added({"slot_number": "CS-40003", "phone": "+491515550101"}),
        },
        {"call_on": "2025-06-12", "hours": "14:00-15:00"},
    ),
]
