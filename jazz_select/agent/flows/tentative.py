"""Whether a request only seems to want something done: it is denied in it, supposed, or no more than asked about.

By lists of words in seven languages, in doubt for tentative: whoever is misread so is asked, and nothing is destroyed.
"""

import re
from typing import Final

from jazz_select.agent.flows.said import word_list
from jazz_select.text import nfkc

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
_LONGEST: Final = 4_000


def is_tentative(message: str) -> bool:
    """Whether a request denies what it names, supposes it, or only asks about it.

    A wish ("I would like to cancel") and a request in the form of a question ("could you cancel it?") are neither.
    """
    text = nfkc(message[:_LONGEST]).replace("’", "'").casefold()
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
