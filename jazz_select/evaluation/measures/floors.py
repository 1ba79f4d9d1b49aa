"""Floors under measures: `R@1=.8` has a run fail where the first place holds fewer right flows than that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jazz_select.errors import ConfigError
from jazz_select.evaluation.measures.judged import Measure
from jazz_select.text import near

CEILINGS = {"ECE", "size"}
"""Measures of which less is better: what is named under them is a ceiling."""
_LONGEST, _MOST = 60, 1_000


@dataclass(frozen=True, slots=True)
class Floor:
    """What a measure must not be worse than."""

    measure: str
    value: float


def floors_of(texts: Sequence[str], measures: Mapping[str, Measure]) -> tuple[Floor, ...]:
    """Floors as they are written, such as `R@1=.8`, `several:R@3=0.7` or `none-F1=50%`; case does not matter.

    Args:
        texts: One floor each; several may also be separated by commas.
        measures: What there is to be measured.

    Raises:
        ConfigError: One is not of that form, or there is no such measure.
    """
    known = {name.casefold(): name for name in measures}
    found: list[Floor] = []
    if any(not text.strip(" ,") for text in texts):
        msg = "a floor is empty, and would let everything through: write for example R@1=.8"
        raise ConfigError(msg)
    for text in (part.strip() for each in texts for part in each.split(",") if part.strip()):
        name, equals, number = (part.strip() for part in text.rpartition("="))
        if not equals or not name:
            msg = f"{text[:_LONGEST]!r} is no floor under a measure: write for example R@1=.8"
            raise ConfigError(msg)
        if name.casefold() not in known:
            found_near = near(name.casefold(), known)
            asked = f" (did you mean {known[found_near[0]]}?)" if found_near else ""
            msg = f"there is no measure {name[:_LONGEST]!r}{asked}; there are {', '.join(measures)}"
            raise ConfigError(msg)
        found.append(Floor(known[name.casefold()], _number(text, number)))
    return tuple(found)


def failures(floors: Sequence[Floor], measures: Mapping[str, Measure]) -> tuple[str, ...]:
    """A line for each floor that is not kept; what was measured on nothing keeps none."""
    lines: list[str] = []
    for floor in floors:
        measure = measures[floor.measure]
        is_ceiling = floor.measure.rpartition(":")[2] in CEILINGS
        if measure.value is None:
            lines.append(f"{floor.measure} is not known: no case measures it, and it has to be {floor.value:g}")
        elif is_ceiling and measure.value > floor.value:
            lines.append(f"{floor.measure} is {measure.value:.3f} of {measure.cases} cases, above {floor.value:g}")
        elif not is_ceiling and measure.value < floor.value:
            lines.append(f"{floor.measure} is {measure.value:.3f} of {measure.cases} cases, below {floor.value:g}")
    return tuple(lines)


def _number(text: str, number: str) -> float:
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= _MOST:
        msg = f"{text[:_LONGEST]!r}: {number[:_LONGEST]!r} is no number such as .8 or 80%"
        raise ConfigError(msg)
    return value
