"""A text as tokens: words, figures and signs, each with all that it may mean in a language."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from jazz_select.lexicon import WORD, Lexicon, Senses, fold_words

_FIGURE: Final = re.compile(
    r"(?P<year>\d{4})(?P<by>[-/.])(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})(?!\d)"
    r"|(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d{2})(?!\d)"
    r"|(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<seconds>\d\d))?(?!\d)"
    r"|(?P<one>\d{1,2})/(?P<other>\d{1,2})(?!\d)"
    r"|(?P<number>\d+(?:[.,'][0-9]+)*|[.,]\d+)"
)
_DOLLARS: Final = re.compile(r"(?:us|ca|au|nz|hk)\$")
"""A dollar of a country, whose letters are no word."""
_SIGN: Final = re.compile(r"[^\w\s]")
_GLUED: Final = re.compile(r"[\d_@]|-\d")
"""What makes an identifier of the letters before it: A17, x_1, A-17."""
_CHUNK: Final = re.compile(r"\S+")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_HALF_DAY: Final = re.compile(r"([ap])\.\s?m\b\.?")
_SPACED: Final = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?!\d)(?=(?:[.,]\d+)?(?!\w))")
_SILENT: Final = frozenset(".,;:!?\"'()[]…。、「」！？")
"""Marks that say nothing of a value."""
_ORDINAL_ENDINGS: Final = {
    "en": ("st", "nd", "rd", "th"),
    "fr": ("er", "ère", "e"),
    "es": ("o", "º"),
    "it": ("o", "º"),
    "ru": ("-го", "-е", "-ое", "-й", "го", "е"),
}
_DOTTED: Final = re.compile(r"(\d{1,2})\.(\d{1,2})")
_JAPANESE_DAY: Final = re.compile(r"(?:(?P<year>\d{4})年)?(?P<month>\d{1,2})月(?P<day>\d{1,2})日(?!間|後|前)")
_JAPANESE_NUMBER: Final = re.compile(r"[\d.,〇零一二三四五六七八九十百千万億兆]+")
_LARGEST_WORDS: Final = 8
"""The most words of a number."""
MOST_TOKENS: Final = 16
"""The most tokens of a text in which a value is looked for."""
_CENTURY: Final = 2_000
_GROUP: Final = 3
_LONGEST_FIGURE: Final = 18
_MYRIAD: Final = Decimal(10_000)
_LARGEST_DAY: Final = 31


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a text.

    Attributes:
        text: As it is written, folded.
        senses: What it may mean. A token without any is not understood.
        in_figures: Whether it is written in digits.
    """

    text: str
    senses: Mapping[str, Any] = field(default_factory=dict[str, Any])
    in_figures: bool = False


def tokens_of(text: str, lexicon: Lexicon, names: Collection[str] = (), *, most: int = MOST_TOKENS + 1) -> list[Token]:
    """Return the tokens of a text without silent marks.

    Args:
        text: The text.
        lexicon: The words of its language.
        names: Words of the input's name, which say nothing beside its value.
        most: The most tokens to return.
    """
    text = _UNSEEN.sub("", text)
    folded = fold_words(_with_plain_fractions(text))
    # "5²" would be folded into 52.
    if any(unicodedata.category(letter) == "No" for letter in text if letter not in _FRACTIONS):
        return [Token(folded)]
    scan = _japanese if lexicon.language == "ja" else _scan
    found = [token for token in islice(scan(folded, lexicon), 4 * most) if token.text not in _SILENT]
    merged = _merge_phrases(found, lexicon)[:most]
    return [_beside_name(token, names) for token in merged]


_UNSEEN: Final = re.compile(
    "[\\u00ad\\u061c\\u200b\\u200e\\u200f\\u2060\\ufe0e\\ufe0f\\ufeff]|(?<=[0-9])\\u20e3|(?<=[0-9]\\ufe0f)\\u20e3"
)
"""What nobody sees and changes nothing, and the frame of a key around a digit; not what turns the order of letters."""
_FRACTIONS: Final = {"½": Decimal("0.5"), "¼": Decimal("0.25"), "¾": Decimal("0.75")}
_SPLIT_FRACTIONS: Final = {"1⁄2": "½", "1⁄4": "¼", "3⁄4": "¾"}
"""Fractions as Unicode's NFKC form has them."""
_FRACTION: Final = re.compile(r"(\d*) ?([½¼¾])")


_NO_CENTS: Final = re.compile(r"(\d)[.,][-–—](?![\d-])")


def _with_plain_fractions(text: str) -> str:
    """Return a text with "2½" as 2.5, which Unicode folding would turn into 21⁄2, and "50,-" as 50."""
    text = _NO_CENTS.sub(r"\1", text)
    for written, plain in _SPLIT_FRACTIONS.items():
        text = text.replace(written, plain)
    return _FRACTION.sub(lambda found: str(int(found[1] or 0) + _FRACTIONS[found[2]]), text)


def _beside_name(token: Token, names: Collection[str]) -> Token:
    if not token.senses and token.text in names:
        return replace(token, senses={"beside": True})
    return token


def _scan(text: str, lexicon: Lexicon) -> Iterator[Token]:
    """Yield the tokens of a text in a script with spaces, before phrases are merged."""
    place = 0
    if lexicon.groups_by_space:
        text = _SPACED.sub(lambda found: found.group().replace(" ", ""), text)
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        if text[place].isdecimal() or (text[place] in ".," and text[place + 1 : place + 2].isdecimal()):
            token, place = _figure(text, place, lexicon)
            yield token
            continue
        found = _HALF_DAY.match(text, place)
        if found:
            place = found.end()
            yield Token(f"{found[1]}m", lexicon.senses.get((f"{found[1]}m",), {}))
            continue
        dollars = _DOLLARS.match(text, place)
        if dollars:
            place = dollars.end()
            yield Token(dollars.group(), lexicon.senses.get((dollars.group(),), {}))
            continue
        word = WORD.match(text, place)
        if word:
            # 14h30 is no identifier.
            is_between = place > 0 and text[place - 1].isdecimal() and (word.group(),) in lexicon.senses
            place = word.end()
            if _GLUED.match(text, place) and not is_between:
                place = _end_of_chunk(text, place)
                yield Token(text[word.start() : place])
                continue
            yield from _word(word.group(), lexicon)
            continue
        sign = _SIGN.match(text, place)
        if sign is None:
            yield Token(text[place])
            place += 1
            continue
        yield _sign(text, sign, lexicon)
        place = sign.end()


def _end_of_chunk(text: str, place: int) -> int:
    """Return where the blanks begin that follow a place."""
    found = _CHUNK.match(text, place)
    return found.end() if found else place


def _sign(text: str, sign: re.Match[str], lexicon: Lexicon) -> Token:
    before, after = text[: sign.start()], text[sign.end() :]
    own = sign.group()
    begins = not before or before[-1].isspace() or before[-1] in "$€£"
    if own == "-" and begins and after.lstrip("$€£")[:1].isdecimal():
        return Token(own, {"minus": True})
    return Token(own, lexicon.senses.get((own,), {}))


def _word(word: str, lexicon: Lexicon) -> Iterator[Token]:
    """Yield a word, or its parts if only those are known."""
    known = lexicon.senses.get((word,))
    if known or word in lexicon.starts or lexicon.spell((word,)) is not None:
        yield Token(word, known or {})
        return
    head, mark, tail = word.partition("'")
    if mark and tail and (f"{head}'",) in lexicon.senses:
        yield Token(f"{head}'", lexicon.senses[f"{head}'",])
        yield from _word(tail, lexicon)
        return
    bare = word.removesuffix("'")
    if bare != word:
        yield from _word(bare, lexicon)
        return
    parts = word.split("-")
    if len(parts) > 1 and all(lexicon.senses.get((each,)) or lexicon.spell((each,)) is not None for each in parts):
        for each in parts:
            yield Token(each, lexicon.senses.get((each,), {}))
        return
    yield Token(word)


def _figure(text: str, start: int, lexicon: Lexicon) -> tuple[Token, int]:
    """Return the token of digits, and where the next one begins."""
    found = _FIGURE.match(text, start)
    if found is None:
        return Token(text[start]), start + 1
    end = found.end()
    senses = _figure_senses(found, lexicon)
    rest = text[end:]
    ordinal = _ordinal_ending(rest, lexicon.language)
    if ordinal and found["number"] and found["number"].isdecimal():
        number = int(found["number"][:3])
        return Token(text[start : end + len(ordinal)], {"ordinal": number}, in_figures=True), end + len(ordinal)
    if found["year"] and rest[:1] == "t" and rest[1:2].isdecimal():
        return Token(found.group(), senses, in_figures=True), end + 1
    if rest[:1] == "." and not rest[1:2].isdecimal() and lexicon.language == "de" and found["number"]:
        senses = _with_ordinal(found["number"], senses)
        return Token(found.group(), senses, in_figures=True), end + 1
    letters = _LETTERS.match(rest)
    is_unknown = letters is not None and (letters.group(),) not in lexicon.senses
    is_part = rest[:1] in ("_", "@", "#") or (rest[:1] in (":", "/") and rest[1:2].isdecimal())
    if is_unknown or is_part:
        end = _end_of_chunk(text, start)
        return Token(text[start:end]), end
    return Token(found.group(), senses, in_figures=True), end


def _ordinal_ending(rest: str, language: str) -> str:
    for ending in _ORDINAL_ENDINGS.get(language, ()):
        if rest.startswith(ending) and not rest[len(ending) : len(ending) + 1].isalnum():
            return ending
    return ""


def _with_ordinal(number: str, senses: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the senses of digits with a point behind them, which mark a day in German."""
    if number.isdecimal() and 0 < int(number[:3]) <= _LARGEST_DAY:
        return {**senses, "ordinal": int(number)}
    return senses


def _figure_senses(found: re.Match[str], lexicon: Lexicon) -> dict[str, Any]:
    """Return what digits may mean: days as (year, month, day), times, and numbers as all their readings."""
    if found["year"]:
        day = (int(found["year"]), int(found["month"]), int(found["day"]))
        return {"date": (day,)} if is_day(*day) else {}
    if found["first"]:
        year = int(found["last"])
        if len(found["last"]) == 2:  # noqa: PLR2004
            year += _CENTURY
        days = _month_and_day(int(found["first"]), int(found["second"]), lexicon, dotted=found["mark"] == ".")
        valid = tuple((year, month, day) for month, day in days if is_day(year, month, day))
        return {"date": valid} if valid else {}
    if found["hour"]:
        clock = _clock(found["hour"], found["minute"], found["seconds"] or "0")
        return {"time": clock} if clock else {}
    if found["one"]:
        days = _month_and_day(int(found["one"]), int(found["other"]), lexicon, dotted=False)
        valid = tuple((None, month, day) for month, day in days if is_day(_CENTURY, month, day))
        return {"date": valid} if valid else {}
    return _number_senses(found["number"], lexicon)


def _number_senses(number: str, lexicon: Lexicon) -> dict[str, Any]:
    senses: dict[str, Any] = {}
    readings = number_readings(number, lexicon)
    if readings:
        senses["number"] = readings
    dotted = _DOTTED.fullmatch(number)
    if dotted:
        day, month = int(dotted[1]), int(dotted[2])
        if is_day(_CENTURY, month, day):
            senses["date"] = ((None, month, day),)
        clock = _clock(dotted[1], dotted[2], "0") if len(dotted[2]) == 2 else None  # noqa: PLR2004
        if clock:
            senses["dotted_time"] = clock
    return senses


def _clock(hour: str, minute: str, second: str) -> time | None:
    try:
        return time(int(hour), int(minute), int(second))
    except ValueError:
        return None


def _month_and_day(first: int, second: int, lexicon: Lexicon, *, dotted: bool) -> list[tuple[int, int]]:
    """Return the readings of two numbers as month and day."""
    if dotted or lexicon.order == "dmy":
        return [(second, first)]
    if lexicon.order == "ymd":
        return [(first, second)]
    return list(dict.fromkeys(((second, first), (first, second))))


def is_day(year: int, month: int, day: int) -> bool:
    """Whether there is such a day."""
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def number_readings(number: str, lexicon: Lexicon | None) -> tuple[Decimal, ...]:
    """Return what digits with marks may say in a language, most likely first; both readings if it is unknown.

    A mark parts thousands if groups of three follow. A single mark before three digits is ambiguous if the language
    writes decimals with it.
    """
    if len(number) > _LONGEST_FIGURE:
        return ()
    marks = [each for each in number if not each.isdecimal()]
    if not marks:
        return (Decimal(number),)
    last = marks[-1]
    whole, _, rest = number.rpartition(last)
    if len(set(marks)) > 1:
        # One mark parts the thousands, and the last one the decimals: "1.234.567,89".
        is_grouped = len(set(marks[:-1])) == 1 and _is_grouped(whole, marks[0])
        if not is_grouped or marks.count(last) > 1 or last == "'":
            return ()
        return (Decimal(f"{whole.replace(marks[0], '')}.{rest}"),)
    grouped = (Decimal(number.replace(last, "")),) if _is_grouped(number, last) else ()
    decimal = (Decimal(f"{whole or '0'}.{rest}"),) if len(marks) == 1 and last != "'" else ()
    if not grouped or not decimal or (lexicon is not None and last == _group_mark(lexicon)):
        return grouped or decimal
    return (*decimal, *grouped)


def _group_mark(lexicon: Lexicon) -> str:
    if lexicon.group in ".,":
        return lexicon.group
    # Where a space parts thousands and a comma decimals, people write a point between thousands as well.
    return "." if lexicon.decimal == "," else ""


def _is_grouped(number: str, mark: str) -> bool:
    head, *groups = number.split(mark)
    has_groups = bool(groups) or not mark
    return has_groups and 0 < len(head) <= _GROUP and head[:1] != "0" and all(len(each) == _GROUP for each in groups)


def _merge_phrases(found: list[Token], lexicon: Lexicon) -> list[Token]:
    """Return the tokens with the words of a phrase or of a number in one."""
    tokens: list[Token] = []
    place = 0
    while place < len(found):
        phrase = _phrase_at(found, place, lexicon)
        number, length = _spelled_at(found, place, lexicon)
        if number is not None and length >= max(phrase, 1):
            text = " ".join(each.text for each in found[place : place + length])
            senses = dict(found[place].senses) if length == 1 else {}
            if length == 1 and phrase == 1:
                senses |= lexicon.senses.get((found[place].text,), {})
            tokens.append(Token(text, {**senses, "number": (number,)}))
            place += length
        elif phrase:
            words = tuple(each.text for each in found[place : place + phrase])
            own: Senses = found[place].senses if phrase == 1 else {}
            tokens.append(Token(" ".join(words), {**own, **lexicon.senses[words]}))
            place += phrase
        else:
            tokens.append(found[place])
            place += 1
    return tokens


def _phrase_at(found: list[Token], place: int, lexicon: Lexicon) -> int:
    """Return how many tokens from here are a phrase; 0 if none."""
    for length in range(min(lexicon.longest, len(found) - place), 0, -1):
        part = found[place : place + length]
        if any(each.in_figures for each in part):
            continue
        if tuple(each.text for each in part) in lexicon.senses:
            return length
    return 0


def _spelled_at(found: list[Token], place: int, lexicon: Lexicon) -> tuple[Decimal | None, int]:
    """Return the longest number in words from here, and how many tokens it takes."""
    end = place
    while end < min(place + _LARGEST_WORDS, len(found)) and _is_spelled(found[end], lexicon):
        end += 1
    for length in range(end - place, 0, -1):
        number = lexicon.spell(tuple(each.text for each in found[place : place + length]))
        if number is not None:
            return number, length
    return None, 0


def _is_spelled(token: Token, lexicon: Lexicon) -> bool:
    """Whether a word may be part of a number in words."""
    if not token.text[0].isalpha():
        return False
    return "and" in token.senses or lexicon.spell((token.text,)) is not None


def _japanese(text: str, lexicon: Lexicon) -> Iterator[Token]:
    """Yield the tokens of a Japanese text, which has no spaces: numbers, days, and the longest words that are known."""
    text = _with_figures("".join(text.split()))
    longest = max(len("".join(key)) for key in lexicon.senses)
    words = {"".join(key): senses for key, senses in lexicon.senses.items()}
    place = 0
    while place < len(text):
        day = _JAPANESE_DAY.match(text, place)
        if day:
            yield _japanese_day(day)
            place = day.end()
            continue
        if text[place].isdecimal():
            token, end = _figure(text, place, lexicon)
            figure = None if token.senses else _FIGURE.match(text, place)
            if figure:
                end = figure.end()
                token = Token(figure.group(), _figure_senses(figure, lexicon), in_figures=True)
            yield token
            place = end
            continue
        size = 1
        for length in range(longest, 0, -1):
            if text[place : place + length] in words:
                size = length
                break
        piece = text[place : place + size]
        if piece == "-" and text[place + 1 : place + 2].isdecimal() and not place:
            yield Token(piece, {"minus": True})
        else:
            yield Token(piece, words.get(piece, {}))
        place += len(piece)


def _japanese_day(day: re.Match[str]) -> Token:
    """Return the token of a day in figures, such as 3月5日. It has no sense if no year has that day."""
    year = int(day["year"]) if day["year"] else None
    month, number = int(day["month"]), int(day["day"])
    senses: dict[str, Any] = {}
    if is_day(year or _CENTURY, month, number):
        senses["date"] = ((year, month, number),)
    return Token(day.group(), senses, in_figures=True)


def _with_figures(text: str) -> str:
    """Return a Japanese text with its numbers in digits: "1万5千" and "五十" become 15000 and 50."""

    def written(found: re.Match[str]) -> str:
        number = found.group()
        if not any(each in "〇零一二三四五六七八九十百千万億兆" for each in number):
            return number
        value = _kanji_number(number)
        return number if value is None else f"{value.normalize():f}"

    return _JAPANESE_NUMBER.sub(written, text)


def _kanji_number(text: str) -> Decimal | None:
    """Return the number that digits and kanji write, by the values that Unicode gives them."""
    whole = part = Decimal(0)
    digits = ""
    try:
        for character in text:
            if character in ".,":
                digits += character
                continue
            value = Decimal(int(unicodedata.numeric(character)))
            if value < 10:  # noqa: PLR2004
                digits += str(value)
                continue
            if digits:
                count = Decimal(digits.replace(",", ""))
                digits = ""
            else:
                # 百 alone is one hundred. 万 alone is one myriad too, which the sum below adds where nothing precedes.
                count = Decimal(1 if value < _MYRIAD else 0)
            if value < _MYRIAD:
                part += count * value
            else:
                whole += (part + count or 1) * value
                part = Decimal(0)
        if digits:
            part += Decimal(digits.replace(",", ""))
    except ArithmeticError:
        # Such as "1.2.3".
        return None
    return whole + part
