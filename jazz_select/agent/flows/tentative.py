"""Whether a request only seems to want something done: it is denied in it, supposed, only asked about, or told of.

By lists of words in seven languages, in doubt for tentative: whoever is misread so is asked, and nothing is destroyed.
"""

import re
from collections.abc import Iterable
from typing import Final

from jazz_select.text import nfkc, word_list

DENYING: Final = word_list(
    """
    not no nor neither never none without refrain hardly
    cannot dont wont cant didnt doesnt shouldnt wouldnt couldnt isnt wasnt havent
    nicht nichts nie niemals nein kein keine keinen keinem keiner keines ohne
    nunca jamás jamas tampoco ningún ninguna sin
    pas jamais aucun aucune ne sans
    non mai nessun nessuna senza
    не нет никогда ни без
    """
)
"""Words that deny: whatever stands beside them is not agreed to."""
_SUPPOSING: Final = word_list(
    """
    unless if whether suppose supposing hypothetical hypothetically theoretically imagine assuming maybe perhaps might
    wonder wondering wondered considering possible possibly possibility curious should thinking
    wenn falls ob möglich vielleicht angenommen theoretisch hypothetisch eventuell überlege frage
    si posible quizás quizá supongamos hipotéticamente acaso
    possible peut-être supposons hypothétiquement éventuellement serait
    possibile forse supponiamo ipoteticamente eventualmente sarebbe
    если ли можно возможно допустим предположим может гипотетически
    """
)
_WISHES: Final = {
    "would": {"like", "love", "appreciate", "prefer", "want", "you", "be"},
    "could": {"you"},
    "würde": {"gern", "gerne"},
}
"""Words that suppose, but for those before these, which wish."""
_ASKING_WORDS: Final = word_list(
    """
    what what's whats how how's why who whose which where is are am does did was were has had
    wie warum wieso weshalb wer wo wann welche welcher welches ist sind darf
    qué cómo como cuándo cuánto
    quoi comment pourquoi quand est-ce qu'est-ce combien
    cosa cos'è come perché quando quanto
    что как почему зачем когда сколько
    """
)
_ASKING_PAIRS: Final = re.compile(
    r"(can|could|may|might|will|would|shall|should|must) (i|we|one|it|they|this|that|my|the)\b"
    r"|(kann|könnte|darf|soll|sollte|muss) (ich|man|wir|ich's)\b|was (passiert|geschieht|wäre|ist|kostet)\b"
    r"|(puedo|podría|se puede|es posible)\b|por qué\b|qué pasa\b|(puis-je|peut-on|que se passe|que se passerait)\b"
    r"|(posso|potrei|si può|che succede|cosa succede)\b|(могу ли|можно ли|что будет)\b"
)
_OPENINGS: Final = re.compile(
    r"^((hi|hello|hey|so|and|but|ok|okay|well|just|please|hallo|bitte|und|aber|hola|y|pero|bonjour|et|mais|ciao|e|ma)\b"
    r"|привет|здравствуйте|[¿¡,\s])+"
)
_REQUESTING: Final = re.compile(
    r"((can|could|would|will) you|(kannst|könntest|würdest) du|(können|könnten|würden) sie"
    r"|(me )?(puede|puedes|podría|podrías)|(pouvez|pourriez)-vous|(peux|pourrais)-tu"
    r"|(mi )?(può|puoi|potrebbe|potresti)|могли бы вы|можете|можешь)\b"
)
"""How a question begins that is a request."""
_JAPANESE: Final = re.compile(
    r"(ない|ません|もし|たら|れば|なら|可能|かも|でしょうか|ですか|できますか|どうな|どうや|どうす|なぜ)"
)
_SENTENCES: Final = re.compile(r"[^.!?。\n]+[.!?。]*")
_WORDS: Final = re.compile(r"[\w'-]+")
_THANKING: Final = re.compile(
    r"(many |vielen |herzlichen |muchas |mille )?(thanks|thank you|thx|danke|dank|merci|gracias|grazie|спасибо)"
    r"( \w+){0,3},? (for|that|für|dass|por|que|pour|per|che|за|что)\b"
)
_ASKING_MORE: Final = word_list(
    """
    and but so please want need now can could would like twice again jetzt bitte aber und möchte will
    ahora pero y quiero maintenant mais et veux adesso ma voglio e теперь но и хочу пожалуйста
    """
)
"""Words behind which a request may follow what is told."""
_TOLD_ALREADY: Final = re.compile(r"(i|we|he|she|they|you)('ve|'d| have| has| had)? already (?P<done>\w+)")
_DONE_BEFORE_ASKING: Final = word_list(
    "told asked said requested tried wrote called mailed have own know sent returned paid waited"
)
"""What people have already done who still want something."""
_UNDOING: Final = word_list("stop avoid quit halt undo reverse ignore prevent refuse")
_TO: Final = word_list("to the my our this that any all of from with a an your her his their me us you for further")
"""Words between one that undoes and what it would undo."""
_BEFORE_DONE: Final = r"((have|has|had|just|was|were|been|got|'ve|is|are|all) ?)*"
_DONE_BY: Final = re.compile(
    rf"(i|we|he|she|they|you|(my|our|the|this|that|your|her|his) \w+)( |(?='))({_BEFORE_DONE})(?P<done>\w+)\b"
)
_UNWANTED: Final = re.compile(
    r"\b(the )?last thing (that )?(i|we)('d| would)? (ever )?(want|need|wish|like)\b|(i|we)('d| would) hate\b"
    r"|it('d| would) be (a |an )?(terrible|awful|horrible|shame|pity|mistake)\b|(nobody|no one)\b"
)
_COURTESIES: Final = frozenset({"thanks", "thank you", "hi", "hello", "please", "danke", "merci", "gracias", "grazie"})
_ANY_VERB: Final = word_list("get request process make do start handle submit ask create begin run file open new")
"""Verbs of flows that say nothing of what is done: the words after these do."""
_SHORTEST_VERB: Final = 4
LONGEST_READ: Final = 4_000
"""Characters of a message whose words are looked at; folding it, one may come to stand for eighteen."""


def is_tentative(message: str) -> bool:
    """Whether a request denies what it names, supposes it, or only asks about it.

    A wish ("I would like to cancel") and a request in the form of a question ("could you cancel it?") are neither.
    """
    text = nfkc(message[:LONGEST_READ]).replace("’", "'").casefold()
    return any(_is_tentative(sentence.strip()) for sentence in _SENTENCES.findall(text))


def _is_tentative(sentence: str) -> bool:
    words = _WORDS.findall(sentence)
    if any(word in DENYING or word in _SUPPOSING or word.endswith("n't") or word.startswith("n'") for word in words):
        return True
    following = [*words[1:], ""]
    if any(word in _WISHES and after not in _WISHES[word] for word, after in zip(words, following, strict=False)):
        return True
    if _JAPANESE.search(sentence):
        return True
    opened = _OPENINGS.sub("", sentence)
    if _ASKING_PAIRS.match(opened) or (_WORDS.findall(opened) or [""])[0] in _ASKING_WORDS:
        return True
    return sentence.endswith("?") and not _REQUESTING.match(opened)


def is_told(message: str, names: Iterable[str]) -> bool:
    """Whether a message only tells of what a flow does, gives thanks for it, or would have it stopped.

    "Thank you for cancelling my order", "I've already cancelled my order" and "stop the cancellation" are so for a flow
    that cancels. Every sentence of it has to be, but for thanks and greetings, and where another request may follow in
    one ("…, now cancel it"), that is none. English but for thanks: what a flow does is read in its names.

    Args:
        message: What the user says.
        names: What the flow is called: its name and aliases.
    """
    text = nfkc(message[:LONGEST_READ]).replace("’", "'").casefold()
    verbs = {verb for name in names for verb in _verbs(name)}
    found = [_is_told(_OPENINGS.sub("", each.strip()).strip(" .!,"), verbs) for each in _SENTENCES.findall(text)]
    return True in found and False not in found


def _is_told(sentence: str, verbs: Iterable[str]) -> bool | None:
    """None where it says nothing at all."""
    clauses = [each.strip() for each in sentence.split(",")]
    clauses = [each for each in clauses if each and each not in _COURTESIES]
    told = ", ".join(clauses)
    if thanked := _THANKING.match(told):
        return _ASKING_MORE.isdisjoint(_WORDS.findall(told[thanked.end() :]))
    words = _WORDS.findall(told)
    if not words:
        return None
    done = [any(_does(word, verb) for verb in verbs) for word in words]
    return len(clauses) == 1 and (
        _is_undone(words, done)
        or _is_unwanted(told, done)
        or (_ASKING_MORE.isdisjoint(words) and _is_done(told, verbs))
    )


def _is_undone(words: list[str], done: list[bool]) -> bool:
    """Whether it is asked to stop or to undo what a flow does; `done` says which words are for that."""
    start = 1 if words[0] in {"i", "we"} and words[1:2] == ["refuse"] else 0
    if words[start] not in _UNDOING or done[start]:
        return False
    return next((does for word, does in list(zip(words, done, strict=True))[start + 1 :] if word not in _TO), False)


def _is_unwanted(told: str, done: list[bool]) -> bool:
    found = _UNWANTED.search(told)
    return found is not None and any(done) and (found[0] != "nobody" or done[1])


def _is_done(told: str, verbs: Iterable[str]) -> bool:
    """Whether it is told of as done."""
    already = _TOLD_ALREADY.match(told)
    done = already or _DONE_BY.match(told)
    if done is None:
        return False
    if already and already["done"] not in _DONE_BEFORE_ASKING:
        return True
    return done["done"].endswith("ed") and any(_does(done["done"], verb) for verb in verbs)


def _verbs(name: str) -> list[str]:
    """What a flow does, by its name: the verbs of it, without the ending that others would replace."""
    words = name.replace("_", " ").casefold().split()
    while words and words[0] in _ANY_VERB:
        words = words[1:]
    return [words[0].removesuffix("e")] if words else []


def _does(word: str, verb: str) -> bool:
    """Whether a word is one form or another of a verb."""
    return word.startswith(verb) if len(verb) >= _SHORTEST_VERB else word in {verb, f"{verb}ing", f"{verb}ed"}
