"""Follow-ups: how far a request speaks for itself, and how far it has to be read with what was said before."""

from collections.abc import Sequence
from math import exp

import numpy as np

from jazz_select.memory.encoder import Encoder
from jazz_select.ports import Vectors

HOLLOW = (
    *("yes please", "no thank you", "okay", "sure, go for it", "that's fine with me", "all right then", "do it"),
    *("please do that", "let's go with that", "I'd like that", "yeah, let's do it", "yes, that would be great"),
    *("right, exactly", "no, that's wrong", "no, something else", "not really", "maybe later", "of course", "got it"),
    *("I see", "understood", "perfect, thank you", "ok great", "sounds fine", "good idea", "agreed"),
    *("what does that mean", "what happens next", "what should I do now", "how do I do that", "how long will it be"),
    *("how much is it", "when can I expect it", "where do I find it", "why did that happen", "who can help me"),
    *("which one is it", "is that possible", "can you check that for me", "can you help me with this"),
    *("I have a question about this", "I need some help here", "something is wrong with it", "it doesn't work"),
    *("it still doesn't work", "I already did that", "I have tried that before", "I told you earlier"),
    *("we were talking about this a moment ago", "about my last message", "back to the earlier topic"),
    *("the same as last time", "the first one", "the second option", "the other one instead", "this one, not that one"),
    *("not that, the one before", "never mind, go back", "let's continue where we stopped", "please continue", "go on"),
    *("anything else I should know", "is there another way", "I changed my mind about it", "can you change that"),
    *("can you do it again", "give me the details", "give me an example", "tell me again", "I don't understand"),
    *("I'm not sure about that", "thanks, that helps", "hello, are you still there", "sorry, I was away"),
    *("one more thing about that", "wait a moment", "how does that work", "how does it go from here"),
    *("how do we proceed", "what are the next steps", "what do I need for that", "what do you mean"),
    *("what about that one", "what is the other possibility", "what would you suggest", "where were we"),
    *("when will that happen", "why not", "could you do that for me", "would you take care of that for me"),
    *("can we finish this", "can we talk about it again", "can you say more about that"),
    *("could you repeat the last part", "is there something I must do", "is it ready", "is that all", "did it work"),
    *("has that been done", "any update on that", "I want to go ahead", "I want to go on with that"),
    *("I still need it", "I am waiting for it", "I would rather have the other", "I meant the one from before"),
    *("I asked about this already", "as mentioned above", "as we discussed", "like you said", "the thing I mentioned"),
    *("that thing again", "both of them please", "all of them", "none of those", "the last one you named"),
    *("it is about the same matter", "it failed again", "please fix that", "please help me with it", "please explain"),
    *("let me know", "try again", "start over", "stop that", "hurry up please", "so what now", "and then"),
    *("and after that", "and how", "then do so"),
)
"""What people say that means nothing without what was said before, whatever a catalogue is about."""
_NEAREST = 3
"""Of these, so many are compared with a request, so that no single one decides."""
_STEEP = 40.0
_BORDER = 0.15
_PER_WORD, _MOST_WORDS = 0.04, 4
"""Words that are more than stop words speak for a request, up to so many."""


class HollowTexts:
    """`HOLLOW` as vectors of one embedder, made when they are first needed."""

    def __init__(self, encoder: Encoder, stage: int = 0) -> None:
        """Take the encoder of the requests, and which of its embedders."""
        self._encoder = encoder
        self._stage = stage
        self._rows: Vectors | None = None

    def nearness(self, aimed: Sequence[float]) -> float:
        """How near a request's vector, aimed as the flows are asked, lies to what means nothing by itself.

        Raises:
            EmbeddingError: The embedder failed; it is asked at the first call.
        """
        if self._rows is None:
            rows = self._encoder.requests(HOLLOW, self._stage)
            self._rows = np.stack([row for row in rows if row is not None])
        found = self._rows @ np.asarray(aimed, dtype=np.float32)
        return float(np.sort(found)[-_NEAREST:].mean())


def clarity(*, nearest: float, hollow: float, content_words: int) -> float:
    """How far a request speaks for itself, from 0 to 1.

    Args:
        nearest: The cosine of the flow that lies nearest to it by itself; 0 where the dense arm knows nothing of it.
        hollow: How near it lies to what means nothing by itself.
        content_words: How many different words of it are more than stop words.

    Requests that lie nearer to a flow than to an empty phrase are about something. A request that the dense
    arm knows nothing of is left to its context.
    """
    if nearest <= 0.0:
        return 0.0
    said = nearest - hollow + _PER_WORD * min(content_words, _MOST_WORDS)
    return 1.0 / (1.0 + exp(-_STEEP * (said - _BORDER)))
