"""Journeys: one wish of the customer that takes several of the flows next door.

A composite is found like any other flow. Its parts remain flows of their own, so a
customer who needs one part only gets that one. It needs no guard: where one of its
parts is withheld, so is the whole.
"""

from flows.account import ChangeAccountAddress, ReplaceSecondFactor, ResetPassword, UnlockAccount
from flows.billing import UnknownCharge
from flows.orders import ChangeOrderAddress
from jazz_select import ConditionalFlow, ParallelFlow, SequentialFlow


class RecoverLogin(ConditionalFlow):
    """For those who do not say *why* they cannot sign in. Those who do get the part itself."""

    name = "recover_login"
    title = "Help with signing in"
    description = "Find out why a customer cannot sign in, and take the one way back that fits."
    condition = "The customer cannot sign in and does not say whether password, lock or sign-in code is the reason."
    desired_effects = ["The reason is known", "The customer is signed in again"]
    examples = [
        "I can't log in.",
        "login broken??",
        "Your site won't let me into my account and I have no idea why.",
        "Trying to sign in since this morning, all I get is an error page.",
        "help me get back in please",
        "My daughter set up the account for me, and now I cannot get into it at all. I don't know what it wants.",
    ]
    branches = [
        ("the page says that the account is locked, blocked or suspended", UnlockAccount),
        ("the password is accepted and a code is asked for", ReplaceSecondFactor),
    ]
    otherwise = ResetPassword
    steps = [
        "Ask what the page says at the moment it stops: a wrong password, a lock, or a question for a code.",
        "Go on with the one part that fits the answer. Do not try the others on suspicion.",
    ]


class MoveHouse(ParallelFlow):
    """Both addresses at once. Those who name only one get the part itself."""

    name = "move_house"
    title = "Move to a new address"
    description = "Change the address everywhere after a move: in the account and on the orders under way."
    condition = "The customer has moved or is moving, and both the saved address and orders under way have to follow."
    desired_effects = ["The account holds the new address", "Every order under way goes to the new address"]
    examples = [
        "I'm moving next week and have an order on its way.",
        "we moved!! new address for everything please, incl the parcel thats coming",
        "Change of address as of May 1st, for my profile and for whatever hasn't been delivered yet.",
        "By the time my two orders arrive I'll be living somewhere else, and you should also save that for later.",
        "I've got a new home and an open order.",
        "relocating to Hamburg, what do I have to update with you so that nothing ends up at the old place",
    ]
    flows = [ChangeAccountAddress, ChangeOrderAddress]
    steps = ["Take the new address once and use it for both parts.", "List at the end what goes where."]


class SecureAccount(SequentialFlow):
    """The order matters: shut the intruder out first, then count the damage."""

    name = "secure_account"
    title = "Securing an account"
    description = "Take back an account that somebody else got into, and undo what was done with it."
    condition = "Somebody else got into the account, or may have: hacked, phished, unknown sign-ins or orders."
    desired_effects = [
        "Only the customer can sign in",
        "Orders and charges by the intruder are stopped and disputed",
    ]
    examples = [
        "My account was hacked!",
        "someone changed my email and ordered stuff to an address i dont know",
        "I clicked on a link in a mail that looked like yours and entered my password. I fear it was phishing.",
        "There's a sign-in from another country in my account and I haven't travelled anywhere.",
        "Please freeze everything, an intruder is shopping with my login as we speak",
        "I got a confirmation for a gaming PC that I didn't order, and my password no longer works.",
    ]
    flows = [ResetPassword, ReplaceSecondFactor, UnknownCharge]
    tools = ["send_verification_code", "verify_identity", "restore_contact_details", "sign_out_everywhere"]
    priority = (1, 0)
    steps = [
        "Call send_verification_code, which writes to what was on file before the break-in, then verify_identity.",
        "Call sign_out_everywhere, and restore_contact_details if the email address or phone number was changed.",
        "Then take the parts in order. Do not look into charges while somebody else may still be signed in.",
    ]
