"""Small flows for the tests of memory."""

from jazz_select.values import FlowCard, flow_id

TOPICS = {
    "refund_order": "give money back for a delivered order",
    "track_parcel": "tell where a parcel is now",
    "reset_password": "let a customer choose a new password",
    "change_address": "deliver to another address",
}


def card(name: str, about: str | None = None, *, priority: tuple[int, int] = (0, 0)) -> FlowCard:
    """A flow with five examples."""
    about = about or TOPICS.get(name, name)
    examples = tuple(f"{opening} {about}" for opening in ("please", "can you", "I want you to", "help me:", "now"))
    return FlowCard(
        id=flow_id(name),
        name=name,
        description=about,
        condition=f"The customer asks to {about}.",
        desired_effects=(f"done: {about}",),
        examples=examples,
        priority=priority,
        text=" ".join((name, about, *examples)),
        checksum=f"{name}:{about}",
    )


CARDS = tuple(card(name) for name in TOPICS)
