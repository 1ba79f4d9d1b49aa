"""What the answer to a prompt rests on: what was offered by name, what was said and done, what waits; and no wording.

A reply is kept by that. A better sentence in a prompt leaves it as it is; another flow on offer, another message or
another result of a tool makes it stale.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final
from xml.etree import ElementTree as ET

from jazz_select.testing import Recorded

_PARTS: Final = (
    "KNOWN:",
    "CALLS MADE",
    "OTHER WISHES",
    "IT WAITS FOR:",
    "WAITING FOR",
    "Returned before",
    "Not available",
)
"""How the parts of a system message begin that tell of this conversation."""
_PROCEDURE: Final = re.compile(r'<flow name="([^"]+)"')
_TOOL: Final = re.compile(r'^(\S+) \{.*\}: "', re.MULTILINE)
_INPUT: Final = re.compile(r"(?:^|; )(\w+):")
_OFFERED_TOOL: Final = re.compile(r"^(\S+) (?:changes|destroys|only|may)\b", re.MULTILINE)


def facts_of(prompt: Recorded) -> str:
    """What the answer rests on, a line each; of a kind that is not known here, the whole prompt."""
    told = _KINDS.get(prompt.kind)
    try:
        lines = None if told is None else [*told(prompt)]
    except (ET.ParseError, ValueError, KeyError, IndexError):
        lines = None  # put otherwise than is known here
    return prompt.text if lines is None else "\n".join([f"turn {prompt.turn}, {prompt.kind}", *lines])


def _read(prompt: Recorded) -> Iterator[str]:
    """Flows by name, with how they stand and what they take; what was said; what waits; the message."""
    root = ET.fromstring(prompt.messages[-1].content)  # noqa: S314 - our own prompt
    flows = [*root.iter("flow")]
    told = [
        " ".join(
            [*(each.get(key, "") for key in ("name", "state", "waits_for")), *_INPUT.findall(each.get("inputs", ""))]
        )
        for each in flows
    ]
    yield from (f"offered: {each}" for each in sorted(told))
    for each in root.iter():
        if each.tag in {"facts", "user", "assistant", "summary", "confirm", "request"}:
            yield f"{each.tag}: {each.text}"


def _decide(prompt: Recorded) -> Iterator[str]:
    text = prompt.messages[-1].content
    said, _, rest = text.partition("procedure:")
    yield said
    yield from (line for line in rest.split("\n") if line.startswith("{"))
    yield f"offered: {', '.join(sorted(_OFFERED_TOOL.findall(text)))}"


def _call(prompt: Recorded) -> Iterator[str]:
    system, *talk = prompt.messages
    yield f"procedure: {', '.join(_PROCEDURE.findall(system.content))}"
    yield f"offered: {', '.join(sorted(_TOOL.findall(system.content)))}"
    for part in system.content.split("\n\n"):
        if part.startswith(_PARTS):
            yield part.partition("\n")[2] or part
    yield from (f"{each.role}: {each.content}" for each in talk)


_KINDS: Final[dict[str, Callable[[Recorded], Iterator[str]]]] = {
    "read": _read,
    "decide": _decide,
    "call": _call,
}
