"""Patterns of ECMA-262, which JSON Schema asks for, in the words of a linear engine; or why that engine takes none.

The engine's own translation, of escaped classes such as that of digits, comes after this one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

LARGEST: Final = 20_000
"""States of the largest automaton that is tried: compiling one takes 0.5 to 2 µs a state."""
_LONGEST: Final = 20_000
_DEEPEST: Final = 50
_LEAST_COUNTED: Final = 32
"""Repetitions from which on a pattern of one class is written as a length: an automaton has a copy for each."""
_STATES_OF_A_CLASS: Final = 12
"""States that a class takes whose characters are encoded in one to four bytes."""
_STATES_OF_A_PROPERTY: Final = 300
_ESCAPED: Final = frozenset("\\.+*?()|[]{}^$#&-~")
_ESCAPED_IN_A_CLASS: Final = frozenset("\\[]^-&~")
_CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_ANCHORS: Final = {"A": "^", "Z": "$", "z": "$"}
"""What Python, Perl and Ruby call the ends of a text; ECMA-262 has no such escape."""
_LETTERS: Final = re.compile(r"[A-Za-z0-9 _/:,;<>=!@%'\"]+")
_REPEATING: Final = ("*", "+", "?", "{")
_SIGNS: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLASSES: Final = "dDwWsS"
_NOT_A_LINE_END: Final = "[^\n\r\u2028\u2029]"
_NOTHING: Final = r"[^\s\S]"
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_LOOKING: Final = ("(?=", "(?!", "(?<=", "(?<!")
_HIGH, _LOW, _BEHIND = 0xD800, 0xDC00, 0xE000
"""Where the code units begin that make one character in pairs, their second halves, and what comes after both."""


@dataclass(frozen=True, slots=True)
class LinearPattern:
    """What a pattern asks of a text, in parts that are all to hold.

    Attributes:
        text: A pattern for the engine; "" asks nothing.
        states: How large its automaton is, about.
        least: The fewest characters.
        most: The most characters; None for any number.
        beside: Patterns of what is looked for ahead or behind, each with whether it has to be found.
    """

    text: str
    states: int
    least: int = 0
    most: int | None = None
    beside: tuple[tuple[str, bool], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether `text` says all of it."""
        return not self.least and self.most is None and not self.beside


@lru_cache(4_096)
def linear_pattern(pattern: str, *, is_name: bool = False) -> LinearPattern:
    """Return a pattern in the words of the engine; that of a property's name in one text.

    Raises:
        ValueError: It is no pattern, is too large, or needs an engine that backtracks; the message follows "it".
    """
    if len(pattern) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST} characters")
    found = _Reader(pattern).read_pattern(is_name=is_name)
    if is_name and found.beside:
        raise ValueError("looks ahead or behind")
    if found.states > LARGEST:
        raise ValueError("is too large when its repetitions are written out")
    return found


@dataclass(slots=True)
class _Reader:
    """A pattern being read from left to right."""

    pattern: str
    at: int = 0
    depth: int = 0
    is_dot_all: bool = False
    beside: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    def read_pattern(self, *, is_name: bool) -> LinearPattern:
        if not is_name:  # a name's pattern must be one text, so it cannot become a length
            counted = self._counted_class()
            if counted is not None:
                return counted
            self.at = 0
        text, states = self._alternatives()
        if self.at < len(self.pattern):
            raise ValueError("has a closing parenthesis without an opening one")
        return LinearPattern(text, states + len(self.beside), beside=tuple(self.beside))

    def _counted_class(self) -> LinearPattern | None:
        """Read `^[…]{least,most}$`, which is a class and a length; return None if the pattern is another one."""
        if not self.pattern.startswith("^") or not self.pattern.endswith("$"):
            return None
        self.at = 1
        if self._peek() in "(^|$*+?" or self._peek(2) in (r"\b", r"\B"):
            return None
        text, states = self._atom()
        times = self._times()
        if times is None or self.pattern[self.at :] != "$":
            return None
        least, most = times
        if max(least, most or 0) < _LEAST_COUNTED:
            return None
        return LinearPattern(f"^{text}*$", states + 2, least, most)

    # --- structure ---------------------------------------------------------------

    def _peek(self, count: int = 1) -> str:
        return self.pattern[self.at : self.at + count] or " "

    def _alternatives(self) -> tuple[str, int]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"is nested more than {_DEEPEST} levels deep")
        branches: list[str] = []
        total = 0
        while True:
            text, states = self._sequence()
            branches.append(text)
            total += states + 1
            if self.at >= len(self.pattern) or self.pattern[self.at] == ")":
                break
            self.at += 1
        if len(branches) > 1 and self.depth == 1 and self.beside:
            raise ValueError("looks ahead or behind in one of several branches")
        self.depth -= 1
        return "|".join(branches), total

    def _sequence(self) -> tuple[str, int]:
        parts: list[str] = []
        total = 0
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if self._looks_beside(parts):
                continue
            text, states = self._letters() or self._term()
            parts.append(text)
            total += states
        return "".join(parts), total

    def _letters(self) -> tuple[str, int] | None:
        """Read letters that stand for themselves, which most of a long pattern does; return None without any."""
        found = _LETTERS.match(self.pattern, self.at)
        if found is None:
            return None
        end = found.end()
        end -= self.pattern[end : end + 1] in _REPEATING  # the last one is repeated
        text = self.pattern[self.at : end]
        self.at = end
        return (text, len(text)) if text else None

    def _looks_beside(self, parts: list[str]) -> bool:
        """Read what is looked for right behind the beginning, or right before the end: two questions to one text."""
        opening = next((each for each in _LOOKING if self.pattern.startswith(each, self.at)), "")
        if not opening:
            return False
        is_behind = "<" in opening
        is_at_edge = bool(parts) if is_behind else parts == ["^"]
        if self.depth > 1 or not is_at_edge:  # elsewhere it is no question to the whole text
            raise ValueError("looks ahead or behind")
        self.at += len(opening)
        text, _ = self._alternatives()
        self._close()
        if is_behind and self.pattern[self.at :] != "$":
            raise ValueError("looks behind")
        anchored = f"(?:{text})$" if is_behind else f"^(?:{text})"
        self.beside.append((anchored, opening.endswith("=")))
        return True

    def _close(self) -> None:
        if self.pattern[self.at : self.at + 1] != ")":
            raise ValueError("has an opening parenthesis without a closing one")
        self.at += 1

    def _term(self) -> tuple[str, int]:
        is_assertion = self.pattern[self.at] in "^$" or self._peek(2) in (r"\b", r"\B")
        text, states = self._atom()
        is_repeated = False
        while (times := self._times()) is not None:
            if is_assertion:
                raise ValueError("repeats the beginning or the end of something")
            if is_repeated:  # two quantifiers in a row would read as one that is not greedy
                text = f"(?:{text})"
            is_repeated = True
            least, most = times
            text += _quantifier(least, most)
            copies = least + 1 if most is None else max(most, 1)
            states = states * copies + 1
            if states > LARGEST:
                raise ValueError("is too large when its repetitions are written out")
        return text, states

    def _times(self) -> tuple[int, int | None] | None:
        """Read a quantifier, greedy or not, which are the same where only whether it matches is asked."""
        mark = self._peek()
        if mark in _SIGNS:
            self.at += 1
            times: tuple[int, int | None] | None = _SIGNS[mark]
        elif mark == "{":
            times = self._counted_times()
        else:
            times = None
        if times is not None and self._peek() == "?":
            self.at += 1
        return times

    def _counted_times(self) -> tuple[int, int | None] | None:
        """Read `{least}`, `{least,}` or `{least,most}`; None where the brace stands for itself."""
        end = self.pattern.find("}", self.at)
        first, comma, second = self.pattern[self.at + 1 : max(end, 0)].partition(",")
        if not _is_count(first) or (second and not _is_count(second)):
            return None
        least = int(first)
        most: int | None = least
        if second:
            most = int(second)
        elif comma:
            most = None
        if most is not None and most < least:
            raise ValueError("repeats at most less often than at least")
        self.at = end + 1
        return least, most

    def _atom(self) -> tuple[str, int]:
        here = self.pattern[self.at]
        if here == "(":
            return self._group()
        if here == "[":
            return self._class()
        if here == "\\":
            return self._escape()
        if here in "*+?":
            raise ValueError("repeats nothing")
        self.at += 1
        if here in "^$":
            return here, 1
        if here == ".":
            # The engine's own dot leaves out "\n" alone; that of ECMA-262 leaves out three more line ends.
            text = "." if self.is_dot_all else _NOT_A_LINE_END
            return text, _STATES_OF_A_CLASS
        return _literal(here), len(here.encode(errors="replace"))

    def _group(self) -> tuple[str, int]:
        opening = "(?:"
        self.at += 1
        if self._peek() == "?":
            end = self.at + 1
            if self._peek(3) in ("?<=", "?<!") or self._peek(2) in ("?=", "?!"):
                raise ValueError("looks ahead or behind")
            if self._peek(2) == "?<" or self._peek(3) == "?P<":
                end = self.pattern.find(">", self.at)
                if end < 0:
                    raise ValueError("has a group whose name does not end")
            else:
                while self.pattern[end : end + 1] in ("i", "m", "s", "-"):
                    end += 1
                flags = self.pattern[self.at + 1 : end]
                self.is_dot_all |= "s" in flags
                if self.pattern[end : end + 1] == ")" and flags:
                    self.at = end + 1
                    return f"(?{flags})", 0
                if self.pattern[end : end + 1] != ":":
                    raise ValueError("has a group of a kind that ECMA-262 does not know")
                opening = f"(?{flags}:"
            self.at = end + 1
        text, states = self._alternatives()
        self._close()
        return f"{opening}{text})", states

    # --- characters --------------------------------------------------------------

    def _escape(self) -> tuple[str, int]:
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind == "b":
            self.at += 2
            return "(?-u:\\b)", 1
        if kind == "B":
            self.at += 2
            return "\\B", 1
        if kind and kind in _CLASSES:
            self.at += 2
            states = 1 if kind in "dw" else _STATES_OF_A_CLASS
            return f"\\{kind}", states
        if kind in ("p", "P"):
            return self._property(), _STATES_OF_A_PROPERTY
        if kind in _ANCHORS:
            self.at += 2
            return _ANCHORS[kind], 1
        if kind == "k" or (kind.isdecimal() and kind != "0"):
            raise ValueError("refers back to what a group matched")
        letter = self._read_escape()
        text = _NOTHING if letter is None else _literal(letter)
        return text, 4

    def _property(self) -> str:
        end = self.pattern.find("}", self.at)
        if self.pattern[self.at + 2 : self.at + 3] != "{" or end < 0:
            raise ValueError(r"has \p without a property in braces")
        found = self.pattern[self.at : end + 1]
        self.at = end + 1
        return found

    def _read_escape(self) -> str | None:
        """Read an escaped character; return None for half of one, which no text holds."""
        kind = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if not kind:
            raise ValueError("ends with a backslash")
        if kind in _CONTROLS:
            return _CONTROLS[kind]
        if kind == "0" and not self._peek().isdecimal():
            return "\0"
        if kind == "c" and self._peek().isascii() and self._peek().isalpha():
            self.at += 1
            return chr(ord(self.pattern[self.at - 1]) % 32)
        if kind in ("x", "u"):
            return self._code(kind)
        if kind.isalnum() and kind.isascii():
            raise ValueError(f"has \\{kind}, which ECMA-262 does not know")
        return kind

    def _code(self, kind: str) -> str | None:
        if kind == "u" and self._peek() == "{":
            end = self.pattern.find("}", self.at)
            digits = self.pattern[self.at + 1 : max(end, 0)]
            self.at = end + 1
            return _character(digits)
        count = 4 if kind == "u" else 2
        digits = self.pattern[self.at : self.at + count]
        if len(digits) < count:
            raise ValueError(f"has \\{kind} without {count} digits")
        self.at += count
        found = _character(digits)
        code = int(digits, 16)
        if found is None and code < _LOW and self._peek(2) == "\\u":
            second = self.pattern[self.at + 2 : self.at + 6]
            if len(second) == 4 and _HEX.issuperset(second) and _LOW <= int(second, 16) < _BEHIND:  # noqa: PLR2004
                self.at += 6
                return chr(0x10000 + (code - _HIGH) * 0x400 + int(second, 16) - _LOW)
        return found

    def _class(self) -> tuple[str, int]:
        self.at += 1
        is_negated = self._peek() == "^"
        self.at += is_negated
        parts: list[str] = []
        is_ascii = not is_negated
        states = 0
        while self._peek() != "]" or self.at >= len(self.pattern):
            if self.at >= len(self.pattern):
                raise ValueError("has a class that does not end")
            text, more, is_narrow = self._class_part()
            parts.append(text)
            states += more
            is_ascii &= is_narrow
        self.at += 1
        if not any(parts):  # the engine takes no empty class
            text = r"[\s\S]" if is_negated else _NOTHING
            return text, _STATES_OF_A_CLASS
        sign = "^" if is_negated else ""
        states += 1 if is_ascii else _STATES_OF_A_CLASS
        return f"[{sign}{''.join(parts)}]", states

    def _class_part(self) -> tuple[str, int, bool]:
        """Read a character, a range or an escaped class; return it with its further states, and if it is ASCII."""
        start = self._class_atom()
        is_range = self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", "")
        if not is_range:
            return _in_class(start), _states_in_class(start), _is_narrow(start)
        self.at += 1
        end = self._class_atom()
        if _is_set(start) or _is_set(end):  # a hyphen beside a class is a hyphen
            both = f"{_in_class(start)}\\-{_in_class(end)}"
            return both, _states_in_class(start) + _states_in_class(end), _is_narrow(start) and _is_narrow(end)
        return _range(start, end), 0, _is_narrow(end)

    def _class_atom(self) -> str | int:
        """Return a class as it is written, or the code of a character."""
        here = self.pattern[self.at : self.at + 1]
        if here != "\\":
            self.at += 1
            return ord(here)
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind and kind in _CLASSES:
            self.at += 2
            return f"\\{kind}"
        if kind in ("p", "P"):
            return self._property()
        if kind == "b":
            self.at += 2
            return ord("\b")
        began = self.at
        letter = self._read_escape()
        if letter is None:
            return int(self.pattern[began + 2 :].strip("{")[:4], 16)
        return ord(letter)


def _character(digits: str) -> str | None:
    if not digits or not _HEX.issuperset(digits) or int(digits, 16) > 0x10FFFF:  # noqa: PLR2004 - the last one
        raise ValueError("has an escaped code that is none")
    code = int(digits, 16)
    return None if _HIGH <= code < _BEHIND else chr(code)


def _literal(letter: str) -> str:
    return f"\\{letter}" if letter in _ESCAPED else letter


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6  # noqa: PLR2004 - digits of the largest count


def _quantifier(least: int, most: int | None) -> str:
    if most is None and least < 2:  # noqa: PLR2004 - which have signs of their own
        return "*+"[least]
    if (least, most) == (0, 1):
        return "?"
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _is_set(part: str | int) -> bool:
    return isinstance(part, str)


def _is_narrow(part: str | int) -> bool:
    if isinstance(part, str):
        return part in ("\\d", "\\w")
    return part < 128  # noqa: PLR2004 - of ASCII


def _states_in_class(part: str | int) -> int:
    return _STATES_OF_A_PROPERTY if isinstance(part, str) and part[1] in "pP" else 0


def _in_class(part: str | int) -> str:
    if isinstance(part, str):
        return part
    if _HIGH <= part < _BEHIND:
        return ""
    letter = chr(part)
    return f"\\{letter}" if letter in _ESCAPED_IN_A_CLASS else letter


def _range(start: str | int, end: str | int) -> str:
    """Return a range without the halves of characters in it."""
    first, last = int(start), int(end)
    if first > last:
        raise ValueError("has a range that ends before it begins")
    pieces: list[str] = []
    for low, high in ((first, min(last, _HIGH - 1)), (max(first, _BEHIND), last)):
        if low <= high:
            pieces.append(f"{_in_class(low)}-{_in_class(high)}")
    return "".join(pieces)
