"""What the planner of `examples/planner.py` knows of coffee stands, its two tools, and its state."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from jazz_select.agent import TurnState


class Field(BaseModel):
    """A number that is to be known: whom to ask, and what to assume where nobody knows."""

    model_config = ConfigDict(frozen=True)

    question: str
    on_web: bool = False
    parts: tuple[str, ...] = ()
    """The fields whose product it is; such a field is never asked for itself."""
    assumed: float = 1.0


FIELDS = {
    "rent": Field(question="What is the rent per month?", on_web=True, assumed=1_000),
    "staff_cost": Field(question="", parts=("wage", "staff")),
    "wage": Field(question="What does one person earn per month?", on_web=True, assumed=2_500),
    "staff": Field(question="How many people work there?"),
    "cups": Field(question="How many cups are sold per month?", assumed=2_000),
    "price": Field(question="What does a cup cost?", on_web=True, assumed=3),
}
WEB = {("rent", "tyrol"): 900.0, ("wage", "tyrol"): 2_400.0, ("rent", "bern"): 2_000.0, ("price", "bern"): 4.5}
"""What a search finds, in EUR, by field and region."""
LONGEST_NUMBER = 12
RATES = {"EUR": 1.0, "CHF": 0.95, "USD": 1.1}


class Calculator(BaseModel):
    """Where the calculation stands: blocked while there are errors, by field."""

    model_config = ConfigDict(frozen=True)

    errors: dict[str, str] = {}
    runs: int = 0
    result: float | None = None


class PlannerState(TurnState):
    """All that one turn knows."""

    region: str = ""
    currency: str = ""
    fields: tuple[str, ...] = ("rent", "staff_cost", "cups", "price")
    decompositions: dict[str, tuple[str, ...]] = {}
    values: dict[str, float] = {}
    searches: dict[str, int] = {}
    asks: dict[str, int] = {}
    calculates: bool = True
    """False where only the numbers are wanted."""
    calculator: Calculator = Calculator()
    found: dict[str, float] = {}
    question: str = ""
    reply: str = ""
    """What the user answered; whoever resumes the turn sets it."""
    aborted: bool = False


def missing(state: PlannerState) -> list[str]:
    """The fields that are not known yet."""
    return [name for name in state.fields if name not in state.values]


def look_up(field: str, region: str, currency: str) -> float | None:
    """A search of the web, such as it is."""
    euros = WEB.get((field, region.casefold()))
    return None if euros is None else euros * RATES[currency]


def profit(values: Mapping[str, float]) -> tuple[float, dict[str, str]]:
    """Profit per month, or what is wrong with which number."""
    errors = {name: f"{name} must be above 0" for name in ("cups", "price", "staff") if values[name] <= 0}
    return (0.0 if errors else values["cups"] * values["price"] - values["rent"] - values["staff_cost"]), errors


def number_in(reply: str, currency: str) -> float | None:
    """The number that somebody answered with."""
    number = reply.removesuffix(currency).strip().replace(",", "")
    return float(number) if len(number) <= LONGEST_NUMBER and number.replace(".", "", 1).isdecimal() else None
