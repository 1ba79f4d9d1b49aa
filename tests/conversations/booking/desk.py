"""A desk that lets meeting rooms: its tools, and an agent without a model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from jazz_select import (
    Agent,
    FlowRegistry,
    FlowSelector,
    ProceduralMemory,
    load_flows,
    sync_registry,
    tool_from_function,
)
from jazz_select.errors import CannotDo, WrongValue
from jazz_select.ports import ChatModel
from jazz_select.routing import Tool
from jazz_select.selector.policy import Policy
from tests.vectors import EMBEDDER

FLOWS = Path(__file__).parent / "flows.yaml"
ROOMS = {"R-1": ("Oak", 4), "R-2": ("Elm", 8), "R-3": ("Linden", 8), "R-4": ("Great hall", 40)}
LARGEST = 60
TODAY = date(2026, 5, 11)
"""A Monday, from which relative days count."""
OpeningHour = Annotated[time, Field(ge=time(9), le=time(18))]
Day = Annotated[str, Field(json_schema_extra={"format": "date"})]


class Desk:
    """What is booked at it.

    Attributes:
        is_down: Whether the list of places cannot be read.
    """

    def __init__(self, *, is_down: bool = False) -> None:
        self.is_down = is_down
        self.bookings: dict[str, dict[str, Any]] = {
            "B-1": {"summary": "Oak on 2026-05-12", "refundable": True, "account": "DE-5", "member": "ada"},
            "B-2": {"summary": "Elm on 2026-05-13", "refundable": False, "account": "DE-5", "member": "ada"},
        }

    def list_rooms(self, day: Day, seats: int) -> list[dict[str, Any]]:
        """List the rooms that are free on a day and have so many seats."""
        if seats > LARGEST:
            raise CannotDo("No house in town takes so many people.")
        taken = {"R-2"} if day == "2026-05-01" else set[str]()
        return [
            {"id": room, "name": name, "seats": size}
            for room, (name, size) in ROOMS.items()
            if size >= seats and room not in taken
        ]

    def check_party(self, party: int) -> bool | str:
        """Say whether a party may come."""
        return party > 0 or "It takes at least one person."

    def book_room(
        self,
        day: Day,
        party: int,
        room: str,
        payment: str,
        *,
        catering: bool,
        lunches: int = 0,
        cost_center: str = "",
        voucher: str = "",
    ) -> dict[str, Any]:
        """Book a room."""
        if voucher == "V-0":
            raise WrongValue("voucher", "That voucher is used up.")
        how = " ".join(filter(None, (payment, cost_center, voucher)))
        summary = f"{ROOMS[room][0]} on {day} for {party}, {how}, {lunches if catering else 0} lunches."
        return {"booking": "B-9", "summary": summary}

    def list_bookings(self, member: str) -> dict[str, Any]:
        """List the bookings of a member."""
        return {
            "bookings": [
                {"booking": booking, "summary": each["summary"]}
                for booking, each in self.bookings.items()
                if each["member"] == member
            ]
        }

    def get_booking(self, booking: str) -> dict[str, Any]:
        """Look a booking up."""
        found = self.bookings[booking]
        return {"refundable": found["refundable"], "account": found["account"]}

    def check_loss(self, *, gives_up: bool) -> bool:
        """Say whether a member takes the loss."""
        if not gives_up:
            raise CannotDo("Then the booking stays as it is.")
        return True

    def cancel_booking(self, booking: str, *, gives_up: bool = False, refund_to: str = "") -> dict[str, Any]:
        """Cancel a booking."""
        del self.bookings[booking]
        return {"money": f"The money goes to {refund_to}." if refund_to else "No money goes back."}

    def extend_booking(self, booking: str, hours: int) -> dict[str, Any]:
        """Extend a booking."""
        return {"ends": f"{17 + hours}:00"}

    def move_booking(self, booking: str, first: Day, last: Day) -> dict[str, Any]:
        """Move a booking."""
        if booking not in self.bookings:
            raise WrongValue("booking", f"There is no booking {booking}.")
        if last < first:
            raise WrongValue(["first", "last"], "It would end before it begins.")
        return {}

    def arrange_visit(self, day: date, at: OpeningHour) -> dict[str, Any]:
        """Arrange that somebody is shown the rooms."""
        return {"visit": f"on {day} at {at:%H:%M}"}

    def list_places(self) -> list[str]:
        """List where something may be broken."""
        if self.is_down:
            msg = "the plan of the house is locked"
            raise OSError(msg)
        return [name for name, _ in ROOMS.values()] + ["Lobby"]

    def report_fault(self, place: str, fault: str) -> dict[str, Any]:
        """Report a fault."""
        return {}

    def check_code(self, code: str) -> dict[str, Any]:
        """Sign a member in."""
        if code != "4711":
            raise WrongValue("code", "That is not the code.")
        return {"member": "ada"}

    def tools(self) -> list[Tool | Any]:
        """The tools of the desk."""
        listing = (self.list_rooms, self.list_bookings, self.list_places)
        checking = (self.check_party, self.check_loss, self.check_code)
        return [
            *(tool_from_function(each, read_only=True) for each in (*listing, *checking, self.get_booking)),
            *(self.book_room, self.extend_booking, self.move_booking, self.report_fault),
            *(tool_from_function(each, destructive=True) for each in (self.cancel_booking, self.arrange_visit)),
        ]


def flows() -> FlowRegistry:
    """The flows of the desk, in a registry of their own."""
    registry = FlowRegistry()
    with registry.scope():
        load_flows(FLOWS)
    return registry


@asynccontextmanager
async def make_agent(model: ChatModel | None, desk: Desk | None = None) -> AsyncGenerator[Agent]:
    """An agent of the desk, with bookings of its own."""
    registry, own = flows(), desk or Desk()
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "desk", registry)
        selector = FlowSelector(None, registry, memory, "desk", policy=Policy(on_empty="top1"))
        yield Agent(selector, own.tools(), model, facts={"today": TODAY})
