"""The part of a message that its author wrote now: without quoted lines, forwarded messages and signatures."""

import re
from itertools import takewhile
from typing import Final

_QUOTED: Final = re.compile(r"\s{0,3}[>＞]")
_SIGNATURE: Final = re.compile(r"(?:--|—|__+)\s*")
"""The mark of a signature, alone on its line: "-- " (RFC 3676, section 4.3) and its usual misspellings."""
_FORWARDED: Final = re.compile(
    r"[-_ *>]{2,}\s*(?:"
    r"original message|forwarded message|weitergeleitete nachricht|ursprüngliche nachricht|urspr\. nachricht"
    r"|mensaje original|mensaje reenviado|message d['’]origine|message original|message transféré"
    r"|messaggio originale|messaggio inoltrato|mensagem original|mensagem encaminhada|转发的邮件|原始邮件"
    r"|転送メッセージ|元のメッセージ|исходное сообщение|пересылаемое сообщение"
    r")\s*[-_ *]*"
    r"|begin forwarded message:|anfang der weitergeleiteten nachricht:|début du message réexpédié\s?:"
    r"|inicio del mensaje reenviado:|inizio messaggio inoltrato:",
    re.IGNORECASE,
)
"""The line above a forwarded message, or above the message that is replied to."""
_ATTRIBUTION: Final = re.compile(
    r"(?:on|am|le|el|il|em|op)\b[^\n]{3,200}\b"
    r"(?:wrote|schrieb[^\n]{0,120}|a écrit|escribió|ha scritto|escreveu|schreef[^\n]{0,120})\s?[:：]"
    r"|[^\n]{3,200}(?:写道|寫道|написал\(?а?\)?|のメッセージ)\s?[:：]",
    re.IGNORECASE,
)
"""The line above quoted lines: "On Monday, Ann wrote:"."""
_HEAD: Final = re.compile(
    r"[*_]{0,2}(?:from|sent|date|to|cc|subject|von|gesendet|datum|an|betreff|de|enviado|fecha|para|asunto|envoyé|à|objet"
    r"|da|inviato|data|a|oggetto|assunto|发件人|发送时间|收件人|主题|差出人|送信日時|宛先|件名|от|дата|кому|тема)[*_]{0,2}\s?[:：]",
    re.IGNORECASE,
)
_SUBJECT: Final = re.compile(
    r"[*_]{0,2}(?:subject|betreff|asunto|objet|oggetto|assunto|主题|件名|тема)\b", re.IGNORECASE
)
_FEWEST_HEADS, _MOST_HEADS = 3, 8
"""Lines such as "From:", "Sent:" and "Subject:" that together begin a forwarded message; one alone may be a list.

One of them has to be the subject: "From: Berlin", "To: Paris" and "Date: 5 May" are a request for a ticket.
"""
_LONGEST_LINE: Final = 400
_LONGEST: Final = 32_000
"""Characters that are read; a longer message is taken as it is."""


def written_now(message: str) -> str:
    """Return what the author of a message wrote now.

    Left out are lines that quote ("> …") with the line that introduces them, everything from the head of a forwarded
    message on, and everything from a signature's mark on. A message of nothing else is returned as it is.
    """
    if "\n" not in message or len(message) > _LONGEST:
        return message
    lines = message.splitlines()
    kept: list[str] = []
    place = 0
    while place < len(lines):
        line, text = lines[place], lines[place].strip()
        if _FORWARDED.fullmatch(text[:_LONGEST_LINE]) or _begins_heads(lines, place):
            break
        if kept and _SIGNATURE.fullmatch(text):
            break
        introducing = _attribution_lines(lines, place)
        if _QUOTED.match(line) is None and not introducing:
            kept.append(line)
        place += introducing or 1
    written = "\n".join(kept).strip()
    return written or message


def _begins_heads(lines: list[str], place: int) -> bool:
    """Whether the head of a forwarded message begins here."""
    heads = list(takewhile(_HEAD.match, (line.strip() for line in lines[place : place + _MOST_HEADS])))
    return len(heads) >= _FEWEST_HEADS and any(map(_SUBJECT.match, heads))


def _attribution_lines(lines: list[str], place: int) -> int:
    """Return of how many lines the introduction of a quotation consists that begins here; 0 if none does.

    Mail programs break it in two. It stands before a quoted line, or at the end, where a program cut the quotation.
    """
    for count in (1, 2):
        following = [line for line in lines[place + count : place + count + 3] if line.strip()]
        if following and not _QUOTED.match(following[0]):
            continue
        text = " ".join(line.strip() for line in lines[place : place + count])
        if len(text) <= _LONGEST_LINE and _ATTRIBUTION.fullmatch(text):
            return count
    return 0
