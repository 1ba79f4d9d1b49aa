"""Split names into words, compare spellings, and classify words for safety. Pure and bounded.

The word lists need not be complete. A missing verb makes a name less likely to be guessed, never more: see
`jazz_select.routing.names.resolution`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from unicodedata import category, normalize

from jazz_select.text import nfkc

LONGEST: Final = 200
"""Longer texts are not read as names: they only match a tool of exactly that name."""

_LONGEST_FOLDED: Final = 1_000
_MOST_READ: Final = 40_000
"""The most characters read as words; Unicode folding may turn one into eighteen."""
_APART = re.compile(r"[^A-Za-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = ("L", "M", "N")
"""Unicode categories of letters, their marks and digits: a name without its marks is another name."""
_DIGITS = re.compile(r"(?<=\d) (?=\d)")
_LOOKING_LIKE: Final = {
    **dict(zip("АВЕЗКМНОРСТУХІЈЅԚԜӀҮаеорсухіјѕԁԛԝһӏүкмт", "ABE3KMHOPCTYXIJSQWIYaeopcyxijsdqwhlykmt", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹαοινκρυχγϲϳ", "ABEZHIKMNOPTYXCaoivkpuxycj", strict=True)),
    **dict(zip("ՕօոսհցԼՏ", "OonuhgLS", strict=True)),
    **dict(zip("ıɩɡɑʏᴏᴄᴠᴡᴢꓲꓳ", "iigayocvwzIO", strict=True)),
}
"""Cyrillic, Greek, Armenian and rare Latin letters, and the Latin letters that look the same."""
_IRREGULAR: Final = {
    **dict.fromkeys(("aws", "canvas", "css", "dns", "gps", "https", "ios", "news", "os", "series", "sms", "tls"), ""),
    "children": "child",
    "cookies": "cookie",
    "indices": "index",
    "movies": "movie",
    "people": "person",
}
_SHORTEST_PLURAL = 4


def words(text: str) -> tuple[str, ...]:
    """Split a name, casefolded, at humps, separators and anything else that is not a letter or digit.

    Invisible characters (zero-width, direction marks) are ignored.
    """
    if text.isascii():  # equal to the path below and ten times as fast
        return tuple(_APART.sub(" ", _HUMP.sub(" ", text[:_MOST_READ])).casefold().split())
    plain = "".join(char for char in nfkc(text[:_MOST_READ])[:_MOST_READ] if category(char) != "Cf")
    apart = _HUMP.sub(" ", plain).casefold()
    return tuple("".join(char if category(char).startswith(_LETTERS) else " " for char in apart).split())


def folded_name(name: str) -> str:
    """Return the common form of spellings: `orderId`, `order_id` and `Order-ID` are one, `v_1_1` and `v_11` two."""
    if len(name) > _LONGEST_FOLDED:
        return name
    return _DIGITS.sub("_", " ".join(words(name))).replace(" ", "") or name.casefold()


def skeleton(name: str) -> str:
    """Return the common form of names that look alike: the `folded_name` without marks, in lookalike Latin letters.

    Names of one skeleton are different names: one may imitate the other.
    """
    plain = "".join(_LOOKING_LIKE.get(char, char) for char in nfkc(name))
    return folded_name("".join(char for char in normalize("NFD", plain) if not category(char).startswith("M")))


def stem(word: str) -> str:
    """Return the singular of an English word, guessed from its spelling."""
    if word in _IRREGULAR:
        return _IRREGULAR[word] or word
    if len(word) < _SHORTEST_PLURAL or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_PLURAL:
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("sses", "xes", "zes", "ches", "shes")) else word[:-1]


def stems(text: str) -> tuple[str, ...]:
    """Return the words of a name, each in the singular."""
    return tuple(map(stem, words(text)))


def input_words(schema: object) -> frozenset[str]:
    """Return the words in the names of a tool's inputs."""
    fields = cast("Mapping[str, Any]", schema).get("properties") if isinstance(schema, Mapping) else None
    names = cast("Mapping[object, Any]", fields) if isinstance(fields, Mapping) else ()
    return frozenset(word for name in names for word in stems(str(name)[:LONGEST]))


# --- word classes, in the singular: verbs that act or only look, and opposites ---


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


BEFORE: Final = _set("""
    api apis call default execute func function functions invoke mcp plugin plugins run tool tools use
""")
"""Prefixes that models add to names: `functions.web_search`, `call_web_search`."""

BEHIND: Final = _set("""
    api func function plugin tool
""")
"""Suffixes that models add: `web_search_tool`."""

CONNECTING: Final = _set("""
    a an at by for my of the with
""")
"""Words without meaning of their own. `on` and `in` are not among them: they have opposites."""

DIRECTION: Final = frozenset({"2", "from", "into", "onto", "to"})
"""If a name has one of these, the order of its words matters: `pdf_to_word`."""

NEGATION: Final = _set("""
    avoid cannot dont except exclude never no non not prevent skip stop undo without
""")

LOOKING: Final = _set("""
    analyse analyze browse calculate check compare compute convert count decode describe detect display estimate
    evaluate explain extract fetch filter find forecast format generate geocode get grep identify inspect is list load
    look lookup measure monitor parse peek ping poll predict preview query read render resolve retrieve scan search
    see show sort stat summarise summarize test track transcribe translate validate verify view watch
""")
"""Verbs that change nothing."""

ACTING: Final = _set("""
    abort accept activate add adjust allow append apply approve archive arm assign attach authorize backup ban bill
    block book boot buy call cancel change charge clear clone close commit confirm connect copy create credit
    deactivate debit decline decrease decrypt delete deny deploy deposit destroy detach disable disapprove disarm
    discard disconnect dismiss downgrade download drop edit email empty enable encrypt end erase execute expire export
    extend fire fork forward freeze grant hide hold import increase insert install invite issue join kick kill launch
    leave lock log login logout lower mark merge migrate modify mount move mute notify open order overwrite park patch
    pause pay pin play post print promote provision publish pull purchase purge push put quit raise reactivate rebook
    reboot reclaim redeem redo refund register reinstall reject release remind remove rename renew reopen repair
    replace reply report repost reschedule reserve reset resize restart restore resume return revert revoke rollback
    rotate save schedule sell send set share shut shutdown sign spend start stop submit subscribe suspend switch sync
    tag terminate toggle transfer transition trigger truncate turn unarchive unassign unban unblock undelete undeploy
    undo unfollow unfreeze uninstall uninvite unlink unlock unmount unmute unpause unpin unpublish unregister unshare
    unsubscribe untag update upgrade upload upsert void vote wipe withdraw write
""")
"""Verbs that change something."""

NOUNS: Final = _set("""
    address agent alert angel angle article asset band bank batch bill board book border brand bread card cart case
    cash chain chart chat check city class clock cloud coast code comment contact content contest contract cost
    country county course court credit data date desert dessert device document draft event expense factor field file
    filter flight form from goal grade group guest guide host hotel house image invoice item job label lead letter
    level light line link load loan location lock log mail market massage match member message meter model month motor
    movie name note number offer office option order page part party patent patient phone photo place plan plane
    planet plant point police policy poll port post prefix price prince print process product profile project quality
    quantity quest question quiet quite quota quote rate record region religion report request resource response
    review road role room round route rule sale scale school score screen section sector seller sensor service session
    share sheet ship shop site slide source space speech staff stage state station statistic status stock store story
    string student study style table task team template term test text theme thread ticket time title token topic tour
    town track trade trail train trial trip trust unit user value vendor version video visit voice vote weather week
    wheel word work world year zone
""")
"""Nouns spelt like other nouns, never corrected to them."""

READING: Final = _set("""
    browse check compare count describe display estimate fetch find forecast get inspect is list look lookup peek
    preview query read retrieve search see show summarise summarize track view
""")
"""Verbs of read-only tools: those of `LOOKING` that make, test or settle nothing."""

OPPOSITE: Final = frozenset(
    frozenset(pair.split(":"))
    for pair in _set("""
    accept:decline accept:reject activate:deactivate add:delete add:drop add:remove after:before allow:block
    allow:deny append:prepend approve:deny approve:disapprove approve:reject archive:restore archive:unarchive
    arm:disarm ascending:descending assign:unassign attach:detach ban:unban begin:end block:unblock boot:shutdown
    buy:sell check:uncheck close:open close:reopen collapse:expand commit:rollback connect:disconnect create:delete
    create:destroy create:drop create:remove credit:debit deactivate:reactivate decode:encode decrease:increase
    decrypt:encrypt delete:insert delete:restore delete:undelete deploy:undeploy deposit:withdraw disable:enable
    discard:save dislike:like down:up downgrade:upgrade download:upload end:start enter:exit enter:leave export:import
    fall:rise false:true first:last follow:unfollow freeze:unfreeze freeze:unlock get:set grant:revoke hide:show
    hold:release in:out inbound:outbound incoming:outgoing insert:remove install:uninstall invite:uninvite join:leave
    join:split kill:start like:unlike link:unlink load:unload lock:unlock login:logout logoff:logon lower:raise
    max:min maximize:minimize maximum:minimum merge:split mount:unmount mute:unmute new:old next:previous off:on
    pack:unpack park:unpark pause:play pause:resume pause:start pause:unpause pin:unpin play:stop pop:push
    private:public publish:unpublish pull:push read:write receive:send redo:undo register:unregister remove:restore
    resume:stop resume:suspend share:unshare shutdown:start sign:unsign source:target start:stop start:terminate
    subscribe:unsubscribe tag:untag unwrap:wrap unzip:zip
""")
)
"""Pairs of words that undo each other."""

_UNDOING: Final = ("de", "dis", "in", "non", "re", "un")


def are_opposites(one: str, other: str) -> bool:
    """Whether two words undo each other: by the list, or because one is the other with un-, de- or the like."""
    if frozenset((one, other)) in OPPOSITE:
        return True
    short, long = sorted((one, other), key=len)
    return any(long == prefix + short for prefix in _UNDOING)


def opposites_of(word: str) -> frozenset[str]:
    """Return every word that would undo this one, real or not."""
    listed = {other for pair in OPPOSITE if word in pair for other in pair - {word}}
    prefixed = {prefix + word for prefix in _UNDOING}
    return frozenset(listed | prefixed | {word.removeprefix(prefix) for prefix in _UNDOING} - {word, ""})
