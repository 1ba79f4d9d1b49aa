"""The tools that the tests of tool search share, and what is asked of them."""

from jazz_select import Tool

ABOUT = {
    "get_weather": "Say whether it will rain in a city.",
    "send_mail": "Send an e-mail to somebody.",
    "list_orders": "List the orders of a customer.",
    "refund_order": "Give the money of an order back.",
    "book_flight": "Book a seat on a flight.",
    "translate": "Translate a text into another language.",
    "resize_image": "Change the size of an image.",
    "create_invoice": "Write an invoice for a customer.",
    "play_music": "Play a song.",
    "convert_currency": "Convert an amount into another currency.",
}
"""Name and description."""
SCHEMA = {"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]}
REFUND = "give the money of my order back"
NOTHING = "drill a hole into the moon"


def tools() -> list[Tool]:
    """The tools, new each time."""

    def answer(about: str) -> str:
        return f"done: {about}"

    return [
        Tool(name=name, description=about, input_schema=SCHEMA, function=answer, provider="desk")
        for name, about in ABOUT.items()
    ]
