"""An agent as a newcomer makes it: one flow and one tool, no model, no settings."""

from dataclasses import dataclass

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, ProceduralMemory, sync_registry, tool_from_function
from tests.vectors import EMBEDDER


@dataclass(frozen=True)
class Domain:
    """One flow, what is said that it is for, and what is about other things."""

    flow: dict[str, object]
    wanted: tuple[str, ...]
    strange: tuple[str, ...]


DOMAINS = {
    "shop": Domain(
        {
            "name": "refund_order",
            "description": "Take back a delivered item and refund the money.",
            "condition": "The customer wants the money back.",
            "desired_effects": ["The refund is scheduled"],
            "examples": [
                "I want my money back for the headphones",
                "Process a refund for my last order",
                "can I return the rug and get refunded?",
                "changed my mind after it arrived",
                "How do I get reimbursed for the second coat?",
            ],
        },
        ("refund my last order", "please refund me", "give me my money back", "my parcel came damaged, refund please"),
        ("can I change my password?", "I love my new headphones", "I changed my mind", "my dog ordered a pizza"),
    ),
    "office": Domain(
        {
            "name": "book_meeting",
            "description": "Book a meeting room.",
            "condition": "The user wants a room for a meeting.",
            "desired_effects": ["a room is booked"],
            "examples": [
                "book a room for tomorrow at ten",
                "I need a meeting room",
                "reserve the big conference room",
                "schedule a meeting with Ada",
                "find us a room for six people",
            ],
        },
        (
            "book me a room",
            "get a meeting room for Monday",
            "reserve room 12",
            "schedule a meeting with the sales team",
        ),
        ("book a flight to Rome", "my name is Ada", "find a good restaurant for six people", "what time is it"),
    ),
    "machines": Domain(
        {
            "name": "restart_server",
            "description": "Restart a production server.",
            "condition": "An engineer asks to restart a machine.",
            "desired_effects": ["the server is up again"],
            "examples": [
                "restart web-3",
                "reboot the database server",
                "the api box hangs, bounce it",
                "please restart the staging machine",
                "kick the cache server",
            ],
        },
        (
            "restart web-7",
            "reboot the server please",
            "the machine hangs, can you reboot it",
            "please reboot the staging machine",
        ),
        ("great, that worked", "turn on the lights", "please", "what can you do"),
    ),
}
SMALL_TALK = (
    *("thanks", "thank you so much", "hello", "hi there", "ok", "yes", "good morning", "what's the weather"),
    *("tell me a joke", "how are you?", "I need help", "can you help me?", "I want to talk to a human", "Danke schön"),
    *("write a poem about the sea", "who won the world cup", "remind me to call mom tomorrow at ten", "👍", "…"),
)


async def said_to(
    domain: Domain, *messages: str, destructive: bool = False, reads: bool = False, then: str = ""
) -> dict[str, str]:
    """What becomes of each message, said first, or of what is said then: a status, and "ran" where the tool was run."""
    ran: list[str] = []

    def do_it() -> str:
        """Do what is asked for."""
        ran.append("ran")
        return "done"

    registry = FlowRegistry()
    flow = Flow(**domain.flow, tools=["do_it"], registry=registry)  # pyright: ignore[reportArgumentType]
    vars(flow)["chain"] = ("do_it",)
    found: dict[str, str] = {}
    tool = tool_from_function(do_it, destructive=destructive, read_only=reads or None)
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", registry)
        agent = Agent(FlowSelector(None, registry, memory, "a"), [tool])
        for message in messages:
            ran.clear()
            result = await agent.turn(message)
            result = await agent.turn(then, result.conversation) if then else result
            assert result.model_calls == 0
            found[message] = " ".join([result.status, *ran])
    return found


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.spec("011.5")
async def test_an_agent_with_one_flow_asks_whether_to_begin_it_for_a_request_for_it(domain: Domain) -> None:
    assert await said_to(domain, *domain.wanted) == dict.fromkeys(domain.wanted, "waiting")
    assert await said_to(domain, *domain.wanted, then="yes") == dict.fromkeys(domain.wanted, "done ran")
    assert await said_to(domain, *domain.wanted, then="no") == dict.fromkeys(domain.wanted, "done")
    assert await said_to(domain, *domain.wanted, reads=True) == dict.fromkeys(domain.wanted, "done ran")


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
async def test_it_runs_it_for_nothing_else(domain: Domain) -> None:
    strange = (*domain.strange, *SMALL_TALK)
    assert await said_to(domain, *strange) == dict.fromkeys(strange, "open")


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
async def test_what_destroys_is_asked_for_all_the_same(domain: Domain) -> None:
    message = domain.wanted[1]
    assert await said_to(domain, message, destructive=True, then="yes") == {message: "confirming"}


async def test_what_only_seems_to_want_something_destroyed_runs_nothing() -> None:
    messages = ("don't refund my last order", "what happens if I refund my last order?")
    assert await said_to(DOMAINS["shop"], *messages, destructive=True) == dict.fromkeys(messages, "waiting")
