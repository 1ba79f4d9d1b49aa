"""The tools of the patients' desk: a book of appointments, papers and notes that lives in memory, made anew each time.

All of it is invented, as the flows are: no patient, doctor, bill or result here is anybody's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from jazz_select.routing import Tool
from jazz_select.routing.tools.functions import tool_from_function

TODAY = date(2026, 3, 2)
"""The day on which all of it stands."""


@dataclass
class Free:
    """A time that can be booked."""

    department: str
    time: str
    doctor: str
    visit: Literal["first", "follow_up"]


@dataclass
class Booked:
    """A time that somebody has."""

    patient: str
    department: str
    time: str
    doctor: str


@dataclass
class Desk:
    """What the desk knows, and what was done at it."""

    free: list[Free] = field(
        default_factory=lambda: [
            Free("cardiology", "2026-03-12T09:00", "Dr Lindqvist", "first"),
            Free("cardiology", "2026-03-19T14:30", "Dr Okafor", "first"),
            Free("cardiology", "2026-04-13T08:15", "Dr Okafor", "follow_up"),
            Free("dermatology", "2026-03-05T10:20", "Dr Brandt", "first"),
            Free("dermatology", "2026-03-06T11:40", "Dr Brandt", "first"),
            Free("radiology", "2026-03-10T16:00", "Dr Adeyemi", "follow_up"),
            Free("radiology", "2026-03-11T17:30", "Dr Adeyemi", "follow_up"),
            Free("obstetrics", "2026-03-17T18:00", "Ms Farkas, midwife", "first"),
        ]
    )
    booked: list[Booked] = field(
        default_factory=lambda: [
            Booked("Ada Moreau", "radiology", "2026-03-09T08:00", "Dr Adeyemi"),
            Booked("Jonas Weber", "dermatology", "2026-03-04T09:40", "Dr Brandt"),
            Booked("Jonas Weber", "surgery", "2026-03-16T07:00", "Dr Novak"),
        ]
    )
    done: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Prescriptions, copies, notes, rides and changes, in order."""

    def find_free_times(self, department: str, visit: Literal["first", "follow_up"]) -> list[dict[str, str]]:
        """Find times that can be booked.

        Args:
            department: Such as cardiology.
            visit: A first visit, which takes longer, or a follow-up.
        """
        wanted = department.strip().casefold()
        return [
            {"time": each.time, "doctor": each.doctor}
            for each in self.free
            if each.department == wanted and each.visit == visit
        ]

    def book_time(self, patient: str, department: str, time: datetime, instead_of: datetime | None = None) -> Any:
        """Book a free time.

        Args:
            patient: First name and surname.
            department: Such as cardiology.
            time: A time that find_free_times gave.
            instead_of: The patient's time in the same department that is given up for it.
        """
        wanted, at = department.strip().casefold(), time.isoformat(timespec="minutes")
        found = next((each for each in self.free if each.department == wanted and each.time == at), None)
        if found is None:
            msg = f"{at} is not free in {wanted}; look again with find_free_times"
            raise ValueError(msg)
        self.free.remove(found)
        self.booked.append(Booked(patient, wanted, at, found.doctor))
        if instead_of is None:
            return {"booked": at, "doctor": found.doctor, "bring": "the referral letter and the insurance card"}
        old = instead_of.isoformat(timespec="minutes")
        self.booked = [each for each in self.booked if (each.patient, each.time) != (patient, old)]
        return {"booked": at, "doctor": found.doctor, "given_up": old}

    def find_appointment(self, patient: str) -> list[dict[str, str]]:
        """Find the appointments and stays that a patient has.

        Args:
            patient: First name and surname.
        """
        return [
            {"department": each.department, "time": each.time, "doctor": each.doctor}
            for each in self.booked
            if each.patient.casefold() == patient.strip().casefold()
        ]

    def find_result(self, patient: str, born: date, test: str) -> dict[str, str]:
        """Find out whether a result is there. It never tells what is in it.

        Args:
            patient: First name and surname.
            born: The patient's date of birth.
            test: Such as blood, or biopsy.
        """
        known = {
            ("ada moreau", "1988-05-17"): {"blood": "released", "biopsy": "in the laboratory until 2026-03-06"},
        }
        tests = known.get((patient.strip().casefold(), born.isoformat()))
        if tests is None:
            return {"state": "nobody of this name and date of birth is known"}
        return {"state": next((state for name, state in tests.items() if name in test.casefold()), "no such test")}

    def request_prescription(self, patient: str, medicine: str, *, paper_lost: bool = False) -> dict[str, str]:
        """Ask the doctor to write a prescription again.

        Args:
            patient: First name and surname.
            medicine: With its dose.
            paper_lost: Whether an old paper is to be made invalid.
        """
        self.done.append({"prescription": medicine, "patient": patient, "paper_lost": paper_lost})
        return {"ready_on": "2026-03-04", "number": f"P-{300 + len(self.done)}"}

    def find_invoice(self, number: str) -> dict[str, Any]:
        """Find an invoice.

        Args:
            number: As it stands on the paper, such as R-2207.
        """
        lines = [{"what": "days on ward 4", "days": 5, "euros": 1_450}, {"what": "anaesthesia", "euros": 380}]
        if number.strip().upper() != "R-2207":
            return {"found": False}
        return {"found": True, "number": "R-2207", "due": "2026-03-20", "euros": 1_830, "lines": lines}

    def request_copy(self, patient: str, papers: str, send_to: str = "") -> dict[str, str]:
        """Order a copy of letters, images, results or certificates.

        Args:
            patient: First name and surname.
            papers: Which, and of what time.
            send_to: The other doctor's name and place, where it is not for the patient.
        """
        self.done.append({"copy": papers, "patient": patient, "send_to": send_to})
        return {"ordered": papers, "arrives": "2026-03-05"}

    def update_patient(self, patient: str, field: Literal["name", "address", "phone", "insurance"], value: str) -> Any:
        """Change what is on file about a patient; what stood there is overwritten.

        Args:
            patient: First name and surname, as they stand on file.
            field: What is to be changed.
            value: What is to stand there.
        """
        self.done.append({"changed": field, "patient": patient, "value": value})
        return {"changed": field, "now": value}

    def say_update(self, patient: str, field: str, value: str) -> str:
        """What such a change would do."""
        return f"the {field} of {patient} would be overwritten with {value}"

    def leave_note_for_ward(self, ward: str, note: str) -> dict[str, str]:
        """Leave a note for a ward.

        Args:
            ward: Its name or number.
            note: What they are to know.
        """
        self.done.append({"note": note, "ward": ward})
        return {"left": "yes", "read_by": "the nurse in charge, today"}

    def order_ride(
        self, patient: str, day: date, place: str, seat: Literal["sitting", "wheelchair", "lying"]
    ) -> dict[str, str]:
        """Order a ride for a patient.

        Args:
            patient: First name and surname.
            day: When.
            place: Where to.
            seat: Whether the patient sits, uses a wheelchair, or lies.
        """
        self.done.append({"ride": place, "patient": patient, "day": day.isoformat(), "seat": seat})
        return {"ordered_for": f"{day.isoformat()}T10:30", "seat": seat, "place": place}


def desk_tools(desk: Desk) -> Sequence[Tool]:
    """The tools of one desk."""
    reading = (desk.find_free_times, desk.find_appointment, desk.find_result, desk.find_invoice)
    writing = (
        *(desk.book_time, desk.request_prescription, desk.request_copy),
        *(desk.leave_note_for_ward, desk.order_ride),
    )
    return [
        *(tool_from_function(each, provider="clinic", read_only=True) for each in reading),
        *(tool_from_function(each, provider="clinic", read_only=False) for each in writing),
        tool_from_function(
            desk.update_patient,
            provider="clinic",
            read_only=False,
            destructive=True,
            title="Changing what is on file",
            confirm=desk.say_update,
        ),
    ]


def open_desk() -> Sequence[Tool]:
    """The tools of a desk where nobody has been yet."""
    return desk_tools(Desk())


TOOLS = open_desk
"""Whoever loads the tools gets a desk of their own: each conversation begins with the same book."""
