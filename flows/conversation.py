"""When a person should take over: at once, or by phone later."""

from collections.abc import Mapping
from typing import Any

from flows.guards import is_desk_closed
from jazz_select import BaseFlow


class HandoverToHuman(BaseFlow):
    """Live, now. Outside desk hours it is withheld, and `schedule_callback` takes its place."""

    name = "handover_to_human"
    title = "Handover to a colleague"
    handover = True
    description = "Hand the conversation over to a colleague of the support team, live."
    condition = "The customer asks for a person, refuses to talk to a machine, or wants a supervisor, now."
    desired_effects = ["A colleague has taken over, with a summary, and the customer repeats nothing"]
    examples = [
        "I want to speak to a real person.",
        "agent",
        "You don't understand me at all. Get me somebody who does.",
        "is there any human in this company i can chat with??",
        "Please connect me with your supervisor, I wish to make a formal complaint.",
        "no more bots!!!!",
    ]
    tools = ["summarise_conversation", "find_free_colleague", "transfer_conversation"]
    aliases = ["live agent", "operator"]
    steps = [
        "Do not try to talk the customer out of it.",
        "Write a summary with summarise_conversation: who, what, what was tried, what the customer wants.",
        "Call find_free_colleague and name the waiting time honestly. Over ten minutes, offer a callback as well.",
        "Hand over with transfer_conversation, and stay until the colleague has said hello.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld while nobody is at the support desk."""
        return not is_desk_closed(context)


class ScheduleCallback(BaseFlow):
    name = "schedule_callback"
    title = "Callback by phone"
    description = "Book a phone call from the support team at a time that suits the customer."
    condition = "The customer wants to be phoned, or to talk to a person at a later time."
    desired_effects = ["A call is booked, with day, time and number", "The colleague who calls knows what it is about"]
    examples = [
        "Could somebody call me tomorrow afternoon?",
        "ring me back on this number pls",
        "I'd rather explain this over the phone; I'm free after 5.",
        "I've been on hold for half an hour and must leave. Call me later, will you?",
        "What is the phone number of customer service? Or can you phone me?",
        "typing is hard for me with my eyesight, a phone call would be so much easier",
    ]
    tools = ["summarise_conversation", "list_callback_slots", "book_callback"]
    aliases = ["call back"]
    steps = [
        "Ask for the number and the best time, and offer slots from list_callback_slots.",
        "Write a summary with summarise_conversation, and read the first sentence of it to the customer.",
        "Book with book_callback, and repeat day, time window and number.",
    ]
