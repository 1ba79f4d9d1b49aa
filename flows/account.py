"""The customer's account: getting in, keeping it right, and closing it."""

from collections.abc import Mapping
from typing import Any

from flows.guards import is_guest, is_signed_in
from jazz_select import BaseFlow


class ResetPassword(BaseFlow):
    """The password is the problem. A warning that the account is locked is `unlock_account`."""

    name = "reset_password"
    title = "New password"
    description = "Send a link with which the customer sets a new password."
    condition = "The customer has forgotten the password, it is not accepted, or the customer wants a new one."
    desired_effects = ["The customer has set a new password and can sign in"]
    examples = [
        "I forgot my password.",
        "pw doesnt work anymore, send me a new one",
        "The reset email never shows up, and yes, I've looked in the spam folder.",
        "How do I change my password to something safer?",
        "It says 'wrong credentials' and I am positive I typed it correctly. Can I set it again?",
        "reset link expired before i could click it",
    ]
    tools = ["lookup_account", "send_password_reset"]
    steps = [
        "Ask for the email address of the account and call lookup_account. Do not reveal whether an account exists.",
        "Call send_password_reset and say that the link is valid for 30 minutes.",
        "If no email arrives: check the spelling, the spam folder and a second address, then send it once more.",
        "Never ask for the old password, and never suggest a new one.",
    ]


class UnlockAccount(BaseFlow):
    """The shop has shut the door, with the right password or without."""

    name = "unlock_account"
    title = "Unlocking an account"
    description = "Unlock an account that was locked or suspended."
    condition = "A message says that the account is locked, blocked, disabled or suspended."
    desired_effects = ["The account is unlocked, or the customer knows why it stays locked"]
    examples = [
        "My account has been locked after too many attempts.",
        "it says suspended?? what did i do",
        "I can't get in: 'Your account has been disabled. Contact support.' So here I am.",
        "blocked out. tried 5 times, now it wants me to wait 24h, cant wait that long",
        "Please reactivate my profile, it was apparently frozen for security reasons.",
        "Why am I banned? I've been a customer since 2016 and never had a problem.",
    ]
    tools = ["lookup_account", "send_verification_code", "verify_identity", "unlock_account"]
    steps = [
        "Read the reason of the lock with lookup_account.",
        "Call send_verification_code to the phone number or email address on file, and verify_identity with that code.",
        "Locked by failed attempts: call unlock_account and recommend a new password.",
        "Locked by the fraud team or for unpaid orders: do not unlock. Say what is needed, and who decides.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld from customers who are signed in: their account is not locked."""
        return not is_signed_in(context)


class ReplaceSecondFactor(BaseFlow):
    """The password is right, the code is what is missing."""

    name = "replace_second_factor"
    title = "New second factor for signing in"
    description = (
        "Let a customer sign in who has lost the phone, app or device for the sign-in code, and set up a new one."
    )
    condition = (
        "The customer cannot get or enter the code of the two-step sign-in: phone lost, number changed, app gone."
    )
    desired_effects = ["The old device no longer counts", "A new second factor is set up"]
    examples = [
        "I lost my phone and now I can't get the login code.",
        "2FA is on my old number, how do i switch",
        "New mobile, authenticator app is empty, backup codes are who knows where.",
        "The text message with the six digits never arrives, so I'm stuck after entering my password.",
        "My phone fell into a lake. Without it your site won't let me through the second step.",
        "otp code always 'invalid'",
    ]
    tools = ["send_verification_code", "verify_identity", "remove_second_factor", "send_second_factor_setup"]
    aliases = ["2FA", "two-factor authentication"]
    steps = [
        "Ask for a backup code first; with one the customer can sign in and change the device alone.",
        "Without one, call send_verification_code, then verify_identity with two proofs: that code and the last order.",
        "Call remove_second_factor, then send_second_factor_setup, and stay until the new device works.",
        "If a proof fails, ask once more. If it fails again, stop and offer a check by a colleague: one working day.",
    ]


class ChangeAccountAddress(BaseFlow):
    """The address book, for orders to come. An order already placed is `change_order_address`."""

    name = "change_account_address"
    title = "Change of the address of an account"
    description = "Change the delivery or billing address that is saved in the account."
    condition = "The customer wants the address that is saved in the account changed, for orders to come."
    desired_effects = ["The saved address is the new one", "Orders that are already placed are unchanged"]
    examples = [
        "Please update my default address.",
        "there's still my old street in my profile, how do i change that",
        "For future orders I'd like everything to go to my workplace.",
        "How can I add a second delivery address to my account?",
        "The billing address you have on file for me is out of date.",
        "delete the address of my ex from my address book pls",
    ]
    tools = ["lookup_account", "list_orders", "validate_address", "update_account_address"]
    steps = [
        "Open the account with lookup_account and read out the saved address that is meant.",
        "Take the new address, check it with validate_address and repeat it back in full.",
        "Ask whether it is for delivery, for billing or for both, then call update_account_address.",
        "If list_orders shows orders on their way, say that they still go to the address that is on them.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld from guests: they have no account."""
        return not is_guest(context)


class CloseAccount(BaseFlow):
    name = "close_account"
    title = "Closing an account"
    description = "Close the account and erase the personal data, as far as the law allows."
    condition = "The customer wants the account closed, or the personal data erased."
    desired_effects = ["The account is closed", "The customer knows which data is kept, why and until when"]
    examples = [
        "Delete my account, please.",
        "I'm exercising my right to erasure under the GDPR.",
        "how do i get rid of my profile, never going to use it again",
        "I don't shop with you any more and would rather you no longer kept my details.",
        "Remove me from your database completely!!",
        "My father passed away. What do we need to do to have his customer account closed?",
    ]
    tools = ["send_verification_code", "verify_identity", "check_open_matters", "close_account"]
    aliases = ["GDPR erasure"]
    steps = [
        "Call send_verification_code, and verify_identity with the code that the customer reads out.",
        "Call check_open_matters: open orders, returns, subscriptions and gift card balance must be settled first.",
        "Say what is lost (order history, points, balance) and what must be kept (invoices, for ten years).",
        "After a clear yes in writing, call close_account. It can be undone for 14 days.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld from guests: they have no account."""
        return not is_guest(context)
