"""Tell a model's reasoning from its answer in text, whole or piece by piece. Pure, and linear in the text.

Servers without a parser for reasoning pass it on as text: `<think>…</think>At five.` The filter removes it in the
spellings of common models, also where a tag is cut over pieces, lacks its beginning or lacks its end. A tag in code or
in a string of JSON is part of the answer.
"""

import re
from typing import Final, Literal, NamedTuple

_ATTRIBUTES: Final = r"(?:\s[^<>\"`\n]{0,80})?"
_OPEN: Final = (
    rf"<think(?:ing)?{_ATTRIBUTES}>|<seed:think>|(?-i:\[THINK\])|◁think▷|<\|begin_of_thought\|>|<\|START_THINKING\|>"
)
_CLOSE: Final = r"</think(?:ing)?\s?>|</seed:think>|(?-i:\[/THINK\])|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>"
_FIRST: Final = r"<(?:thought|reasoning)>"
"""Tags that answers may have too: of reasoning only if the reply begins with them."""
_CHANNELS: Final = r"<\|(?:start|channel|message|end|return|call)\|>"
"""The markers of the format that gpt-oss writes."""
_TAGS: Final = rf"(?P<open>{_OPEN})|(?P<close>{_CLOSE})|(?P<first>{_FIRST})|(?P<channel>{_CHANNELS})"
_ANY_TAG: Final = re.compile(_TAGS, re.IGNORECASE)
_IN_TEXT: Final = re.compile(
    rf"(?P<run>`+|~{{3,}})|(?P<line>\n)|(?P<json>\{{\s{{0,20}}\"|\[\s{{0,20}}[\"{{])|{_TAGS}", re.IGNORECASE
)
_IN_JSON: Final = re.compile(
    rf"(?P<escape>\\.)|(?P<quote>\")|(?P<bracket>[{{}}\[\]])|{_TAGS}", re.IGNORECASE | re.DOTALL
)
_IN_REASONING: Final = re.compile(rf"(?P<open>{_OPEN})|(?P<close>{_CLOSE})", re.IGNORECASE)
_IN_FIRST: Final = re.compile(r"(?P<close></(?:thought|reasoning)>)", re.IGNORECASE)
_IN_CHANNEL: Final = re.compile(r"(?P<close><\|(?:start|end|return|call)\|>)", re.IGNORECASE)
_HEADER: Final = re.compile(r"\s*(\w*)(?:(?!<\|message\|>).){0,200}<\|message\|>", re.DOTALL)
"""What follows `<|channel|>`: the channel's name, whom it is for, and where its text begins."""
_LONGEST_HEADER: Final = 250
_ROLE: Final = re.compile(r"\w*")
_TAIL: Final = re.compile(r"(?:`+|~+|\\|[{\[]\s{0,20}|[<\[◁][^<\[◁\n]{0,90})\Z")
"""The end of a text that more text may complete."""
_SPELLINGS: Final = (
    *("<think>", "</think>", "<thinking>", "</thinking>", "</think >", "</thinking >", "<seed:think>", "</seed:think>"),
    *("[think]", "[/think]", "◁think▷", "◁/think▷", "<|begin_of_thought|>", "<|end_of_thought|>"),
    *("<|start_thinking|>", "<|end_thinking|>", "<thought>", "</thought>", "<reasoning>", "</reasoning>"),
    *("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"),
)
_UNENDED: Final = re.compile(rf"<think(?:ing)?{_ATTRIBUTES}\Z", re.IGNORECASE)
_LONGEST_TAIL: Final = 100
_LONGEST_SPAN: Final = 500
"""The most characters between a tag and the backtick that makes it code."""
_FENCE: Final = 3


class Shown(NamedTuple):
    """What a piece adds to the visible text; with `restarts`, all text before it turned out to be reasoning."""

    text: str
    restarts: bool = False


def without_reasoning(text: str, *, cut_off: bool = False) -> str:
    """Return the answer in a reply; `cut_off` says that the reply did not come to its end."""
    if _ANY_TAG.search(text) is None:
        return text
    reasoning_filter = ReasoningFilter()
    first = reasoning_filter.feed(text)
    last = reasoning_filter.finish(cut_off=cut_off)
    if last.restarts:
        return last.text
    return first.text + last.text


class ReasoningFilter:
    """Removes reasoning from a text that comes in pieces; the visible text does not depend on how it is cut.

    Attributes:
        removed: Whether there was reasoning.
    """

    def __init__(self) -> None:
        """Begin a text."""
        self.removed = False
        self._is_end = False
        self._text, self._at = "", 0
        """The text that is not read yet, from this place on."""
        self._mode: Literal["text", "json", "reasoning"] = "text"
        self._pieces: list[str] = []
        """What became visible since the last call."""
        self._restarts = False
        # The visible text so far.
        self._is_begun = False
        self._blank = ""
        """White space before the first visible character."""
        self._last = ""
        """The last visible character of the line, but for white space."""
        self._ends_in_space = False
        self._trims = False
        """Whether white space is dropped, since reasoning stood before it."""
        # Code and JSON, in which a tag is a part of the text.
        self._fence = ""
        self._span = 0
        self._depth = 0
        self._is_quoted = False
        # Reasoning.
        self._ends = _IN_REASONING
        self._before = ""
        self._is_nested = False
        self._doubtful: list[str] | None = None
        """A tag in mid-sentence and all that follows: part of the text, unless it is closed."""
        self._late: list[str] | None = None
        """Text behind reasoning in which a tag was opened twice: reasoning, if another one is closed."""
        self._has_channels = self._is_final = False

    def feed(self, piece: str) -> Shown:
        """Add a piece, and return what is certainly visible by now."""
        self._text, self._at = self._text[self._at :] + piece, 0
        self._consume_text()
        return self._take()

    def finish(self, *, cut_off: bool = False) -> Shown:
        """End the text, and return its rest; `cut_off` as of `without_reasoning`."""
        self._is_end = True
        self._consume_text()
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None and not cut_off:
            self._show("".join((*doubtful, self._text[self._at :])))
        elif self._mode == "reasoning":
            self.removed = True
        self._text, self._at = "", 0
        late, self._late = self._late, None
        self._pieces += late or ()
        if not self._is_begun and not self.removed:
            self._pieces.append(self._blank)
        return self._take()

    def _take(self) -> Shown:
        shown = Shown("".join(self._pieces), self._restarts)
        self._pieces, self._restarts = [], False
        return shown

    def _consume_text(self) -> None:
        while self._at < len(self._text):
            if self._mode == "text":
                goes_on = self._read_text()
            elif self._mode == "json":
                goes_on = self._read_json()
            else:
                goes_on = self._read_reasoning()
            if not goes_on:
                return

    # --- what is visible ---

    def _show(self, text: str) -> None:
        if self._trims:
            text = text.lstrip()
        if not text:
            return
        self._trims = False
        if not self._is_begun and text.isspace():
            self._blank += text
            return
        if not self._is_begun:
            text, self._is_begun = self._blank + text, True
        self._ends_in_space = text[-1].isspace()
        last = text.rpartition("\n")[2].rstrip()[-1:]
        if last or "\n" in text:
            self._last = last
        pieces = self._pieces if self._late is None else self._late
        pieces.append(text)

    def _show_until(self, end: int) -> None:
        self._show(self._text[self._at : end])
        self._at = end

    def _next_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Show what stands before the next match; without one, all that later pieces cannot complete to one."""
        found = pattern.search(self._text, self._at)
        if found is not None:
            self._show_until(found.start())
        else:
            self._show_until(self._certain_end())
        return found

    def _certain_end(self) -> int:
        """Return the place up to which no further text can change what was read."""
        if self._is_end:
            return len(self._text)
        return _certain_end(self._text, self._at)

    def _restart(self) -> None:
        """Take back all that was visible: it was reasoning whose beginning the server kept to itself."""
        self.removed = self._restarts = True
        self._pieces, self._late = [], None
        self._is_begun, self._blank, self._last, self._trims = False, "", "", True
        self._fence, self._span = "", 0

    # --- text ---

    def _read_text(self) -> bool:
        found = self._next_match(_IN_TEXT)
        if found is None:
            return False
        kind, token = str(found.lastgroup), found.group()
        if kind == "run":
            if not self._is_end and found.end() == len(self._text) and len(token) < _LONGEST_TAIL:
                return False  # the run may go on
            self._read_run(token)
        elif kind == "line":
            self._span = 0
            self._show_until(found.end())
        elif self._fence:
            self._show_until(found.end())
        elif kind == "json":
            if self._span:  # within code, a bracket opens nothing
                self._show_until(found.start() + 1)
            else:
                self._mode, self._depth, self._is_quoted = "json", 0, False
        else:
            return self._read_tag(found)
        return True

    def _read_run(self, run: str) -> None:
        """Follow a run of backticks or tildes: a fence at the beginning of a line, or a span of code within it."""
        if self._fence:
            if not self._last and run.startswith(self._fence):
                self._fence = ""
        elif len(run) >= _FENCE and not self._last:
            self._fence = run
        elif run.startswith("`"):
            # A span ends at a run as long as the one that opened it; others are a part of it, as in Markdown.
            if self._span == len(run):
                self._span = 0
            elif not self._span:
                self._span = len(run)
        self._show_until(self._at + len(run))

    def _read_tag(self, found: re.Match[str]) -> bool:
        kind = found.lastgroup
        if self._span:
            is_code = self._is_in_span(found.end())
            if is_code is None:
                return False
            if is_code:
                self._show_until(found.end())
                return True
            self._span = 0
        if kind == "channel":
            return self._read_channel(found)
        if kind == "first" and self._is_begun:
            self._show_until(found.end())
            return True
        if kind == "close":
            self._restart()
        else:
            # In mid-sentence the text may talk about the tag: "use <think> for this".
            is_in_sentence = self._last.isalnum() or self._last == ","
            self._begin_reasoning(_IN_FIRST if kind == "first" else _IN_REASONING)
            self._doubtful = [found.group()] if is_in_sentence else None
        self._at = found.end()
        return True

    def _is_in_span(self, start: int) -> bool | None:
        """Whether the span of code that is open before a tag is closed behind it; None if that is not known yet."""
        line, newline, _ = self._text[start : start + _LONGEST_SPAN].partition("\n")
        # Later text cannot change the answer once the line has ended or is too long to examine.
        is_whole = bool(newline) or self._is_end or len(line) == _LONGEST_SPAN
        for run in re.finditer("`+", line):
            if run.end() == len(line) and not is_whole:
                return None
            if len(run.group()) == self._span:
                return True
        return False if is_whole else None

    def _read_json(self) -> bool:
        found = self._next_match(_IN_JSON)
        if found is None:
            return False
        kind, mark = str(found.lastgroup), found.group()
        if kind == "quote":
            self._is_quoted = not self._is_quoted
        elif kind == "bracket" and not self._is_quoted:
            self._depth += 1 if mark in "{[" else -1
            self._mode = "json" if self._depth > 0 else "text"
        elif kind in {"open", "close", "first", "channel"} and not self._is_quoted:
            self._mode = "text"  # a tag outside of strings: this was no JSON. It is read again, as a tag
            return True
        self._show_until(found.end())
        return True

    # --- reasoning ---

    def _begin_reasoning(self, ends: re.Pattern[str]) -> None:
        self._mode, self._ends, self._before, self._is_nested = "reasoning", ends, "", False

    def _read_reasoning(self) -> bool:
        found = self._ends.search(self._text, self._at)
        if found is None:
            self._pass_over(self._certain_end())
            return False
        start, end = found.span()
        # A tag that the reasoning quotes as code does not end it.
        is_quoted = (self._text[start - 1] if start > self._at else self._before) == "`"
        if is_quoted and end == len(self._text) and not self._is_end:
            self._pass_over(start)
            return False
        if found.lastgroup == "open" or (is_quoted and self._text[end : end + 1] == "`"):
            self._is_nested = self._is_nested or not is_quoted
            self._pass_over(end)
        else:
            self._end_reasoning(found)
        return True

    def _pass_over(self, end: int) -> None:
        passed = self._text[self._at : end]
        self._before = passed[-1:] or self._before
        if self._doubtful is not None:
            self._doubtful.append(passed)
        self._at = end

    def _end_reasoning(self, found: re.Match[str]) -> None:
        self.removed, self._mode, self._doubtful = True, "text", None
        self._trims = self._ends_in_space or not self._is_begun
        if not self._is_begun:
            self._blank = ""
        # Opened twice: what follows may be the rest of the outer reasoning, so it waits for another closing tag.
        if self._is_nested and self._late is None:
            self._late = []
        is_start = self._ends is _IN_CHANNEL and found.group().casefold() == "<|start|>"
        self._at = found.start() if is_start else found.end()

    # --- channels ---

    def _read_channel(self, found: re.Match[str]) -> bool:
        """Read a marker such as `<|channel|>final<|message|>`: what stands in other channels is reasoning."""
        marker = found.group().casefold()
        if marker == "<|channel|>":
            header = _HEADER.match(self._text, found.end())
            if header is None and not self._is_end and len(self._text) - found.end() < _LONGEST_HEADER:
                return False
            if header is not None and header[1].casefold() == "final":
                if not self._is_final:
                    self._restart()
                self._is_final = True
            else:
                self._begin_reasoning(_IN_CHANNEL)
            self._has_channels = True
            self._at = found.end() if header is None else header.end()
            return True
        role = _ROLE.match(self._text, found.end())
        end = role.end() if marker == "<|start|>" and role is not None else found.end()
        if marker == "<|start|>" and end == len(self._text) and not self._is_end:
            return False
        self._has_channels = self._has_channels or marker == "<|start|>"
        if self._has_channels:
            self._at = end
        else:
            self._show_until(end)
        return True


def _certain_end(text: str, start: int) -> int:
    """Return the place up to which no tag and no marker begins that more text could complete."""
    tail = _TAIL.search(text, max(start, len(text) - _LONGEST_TAIL))
    if tail is None:
        return len(text)
    beginning = tail.group().casefold()
    is_mark = beginning[0] in "`~\\{" or beginning.strip() == "["
    if is_mark or any(each.startswith(beginning) for each in _SPELLINGS) or _UNENDED.fullmatch(tail.group()):
        return tail.start()
    return len(text)
