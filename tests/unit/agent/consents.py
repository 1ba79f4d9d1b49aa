"""Messages to a question that wants a yes or a no, in seven languages, and what each of them says to it.

The question is about one call: drop, with the number A-1. What is `NEITHER` is no yes, whatever a model reads in it.
"""

from typing import Final


def listed(text: str) -> list[str]:
    """The messages of a block, parted by bars and line ends."""
    return [each.strip() for line in text.strip().splitlines() for each in line.split(" | ")]


YES: Final = listed("""
    yes | Yes, please. | OK | sure! | Go ahead | yes, please do it! | of course | y | Y. | 👍 | 👍🏽 | ✅️ | yes yes yes
    yes 😊 | Yes! ☺️ | Sure thing | 👌 | yes please do | yes do | yes pls | ok thx | oui svp | sí porfa
    yes please | go ahead | ok do it | Yes, please do. | sure, go ahead | yes!! | hello. yes please | yes. thanks
    yep that works for me | yes, that works | sure, fine by me | ok, sounds good | yes, looks good to me
    sure, let's do it | ok, let's do that | yes, you can go ahead | yes, please go ahead | yes, I'm sure
    yes, go for it | yes, drop it | yes, drop A-1 | yes, drop A-1, that's fine | yes, I want that | sure, fine
    alright, yes | yes, i'd like that, thanks | absolutely, go for it | yes, perfect | ok, good | that works, yes
    ok then, do it | yes, make it so | yes, thank you very much | okay, gladly | I confirm it | correct, drop it
    Ja | Ja, bitte. | einverstanden | Mach das | ja, klingt gut | ja, das klingt gut | na klar, geht klar | ja, den
    Sí | si, por favor | ¡Claro que sí! | adelante | sí, está bien | sí, me parece bien
    Oui | oui, s’il vous plaît | Oui s'il vous plait. | D'accord. | vas-y | oui, ça me va | d'accord, c'est bon
    Sì | va bene | sì, grazie | Procedi | sì, mi va bene | va bene, procedi pure
    Да | да, пожалуйста | Хорошо | согласен | да, подходит | да, верно, спасибо
    はい | はい、お願いします。 | もちろんです | 続けてください | はい それでお願いします
""")
NO: Final = listed("""
    no | No, thanks. | don't | never mind | stop! | please don't do it | cancel | n | 👎 | ❌ | no, keep it | no wait
    no, don't drop it | don't drop A-1 | no, don't
    actually, forget it | wait, no | sorry, don't | oops, no, stop | moment, nein | aspetta, no | rather not | let's not
    Nein | nein, danke | lieber nicht | Abbrechen | no, gracias | mejor no | Cancelar | olvídalo
    Non | non merci | annulez | laisse tomber | no grazie | annulla | lascia perdere | Нет | не надо | отмена
    いいえ | やめてください。 | キャンセルしてください
""")
NEITHER: Final = listed("""
    ? | yes? | ok？ | yes but wait | no, go ahead | ok, stop | yes, but the other one | no problem | yes yes no
    thanks | please hold my calls | yesterday | okra | not yes | I said yes to my sister | maybe | what would yes do
    da | y no | ja aber | はい？ | はい、でも待って | why not? | yes to ben | yes, in March
    yes, provided the parcel arrives
    go ahead and drop my sister | yes jk | yes, just kidding | yes for A-2 | yes, A-2 | yes. A-2. | yes. I mean A-2.
    yes, for my brother | yes, tomorrow | yes, the blue one | yes, two of them | yes, 50 EUR of it
    yes, all of them | ok, everything | do it for everyone please | sure, do it twice
    sure. also drop all my orders | yep, that works for my sister's order too | ja, aber alles auch
    yes. But only if it is free. | yes, but tomorrow | Yes. Unless it costs anything. | yes, if it's free
    Ja, wenn es nichts kostet. | oui, mais demain | sí, pero luego | sì, ma domani | да, но потом | はい、でも明日
    はい、今は無理 | yes. no. | yes. cancel it | ok. what does it cost? | as if | yeah, as if | sure, as if I would
    yeah, no | yes but not now | yes, in your dreams | yes, when hell freezes over | yes and no
    yes, over my dead body | sure, whatever you say | sure, whatever | yeah, whatever | right, sure, as always
    yeah, that worked out great | ok, very funny | yes, "that works" | sure "fine" | yes, said nobody
    yes, something cheaper | ok, I'll think about it | sure, give me a minute | yes, hold on | ok, wait | yes, stop
    please explain | fine, be that way | yes, I heard you | yes, I see | ok, I understand
    ok, got it | yes, I know | okay dear | yes, that works if you pay | ja klar, träum weiter
    ja, alles klar | oui, c'est ça, cause toujours | oui, c'est ça | да, конечно, щас
    ага, разбежался | ok, drop it and book another | yes, drop it? | My boss said: yes. | tell me a joke
    correct it | continue my order | how much would that be? | go ahead and tell me a joke
     | don't, wait, yes | please call me about it | correct the address
    please redo it | sure, after the parcel has come | yes, wait, rather not | Yes. To Bob. | Yes! Bob!
    Yes. For my sister. | Yes. Tomorrow. | Yes. Next week. | yes. two of them. | Yes. Seventeen.
    Yes. The second one. | Yes. On Friday the tenth. | Yes. As soon as it's free. | Yes. When the parcel has come.
    Yes. I'd like to keep it. | Yes. Just one of the two. | Yes. But then again, no. | Ja. Ich will sie behalten.
    Oui. Je veux la garder. | Yes. Please keep the order. | Yes. Assuming it costs nothing. | yes. n\u200bo
    yes. st\u200bop | yes. b\u200but only if free | yes. \u202eno | Yes. Undo that. | Yes. Sorry, wrong window.
    Yes. Hang on. | Yes. Give me a minute. | Yes. Let me check that first. | Yes. In your dreams. | Yes. 🛑
    Yes. Could you hold on? | yes, and is it free? otherwise no | yes, and is it free? But not if it costs anything.
    Ja. Für Bob. | Ja. Erst morgen. | Ja. Warte mal. | Ja. Moment. | Ja. Vorausgesetzt es ist gratis. | Sí. Espera.
    Sí. Para Bob. | Sí. Cuando llegue el paquete. | Oui. Attendez. | Oui. Pour Bob. | Oui. Lorsque le colis arrive.
    Sì. Aspetta. | Sì. Quando arriva il pacco. | Да. Подожди. | Да. Для Боба. | Да. Когда придёт посылка.
    はい。ちょっと待って。 | はい。ボブに。 | はい。明日。 | はい。無料の場合。
    My boss said no. Yes. | He asked me whether I agree. Yes.
    No fee please. Yes.
""")
HEARD: Final = listed("""
    yes, and A-2 again | yeah right | yeah, right. | sure, and pigs fly | oh sure | yeah, you'd like that
    sure you can | sure I do | sure, next you'll sell me a bridge | sure, like last time | yeah, good luck with that
    sure, knock yourself out | yes, that is my name | sì, certo, contaci | ok google what is the weather
    sure 🙄 | yes 😂 | yes /s | sure, sounds like a scam | na klar, und morgen schneit es
    ja, sicher doch, genau wie letztes Mal | sí, claro, y yo soy el rey | sí, cómo no
    bien sûr, et puis quoi encore | sì, certo, come no | да ладно | ага, конечно | Yes. 😂
""")
"""No yes by the table alone; whoever reads them hears what is meant: irony, and a wish besides."""
WITH_MORE: Final = {
    "yes please. And tell me when the money is there.": "And tell me when the money is there.",
    "yes, and btw are there fees?": "and btw are there fees?",
    "Yes. Are there fees?": "Are there fees?",
    "Yes, drop A-1. Thanks! Where is my parcel?": "Where is my parcel?",
    "Yes. Stop the newsletter, too.": "Stop the newsletter, too.",
    "Ja, bitte. Und sag mir, wann das Geld da ist.": "Und sag mir, wann das Geld da ist.",
    "Sí. ¿Cuánto cuesta?": "¿Cuánto cuesta?",
    "Oui, et est-ce que c'est gratuit ?": "et est-ce que c'est gratuit ?",
    "Sì. Quanto costa?": "Quanto costa?",
    "Да. Сколько это стоит?": "Сколько это стоит?",
    "はい。手数料はいくらですか？": "手数料はいくらですか?",
    "Yes. And mail the receipt to Bob McKay.": "And mail the receipt to Bob McKay.",
    "Yes, and is it free? Tell me about Bob's parcel.": "and is it free? Tell me about Bob's parcel.",
    "Yes please. Send me a receipt.": "Send me a receipt.",
    "Yes please. And keep me posted.": "And keep me posted.",
}
"""A yes, and what is to be read besides."""
READ_BY_A_MODEL: Final = listed("""
    Yes please. I do not need a receipt. | Go ahead then. I have no time today. | Ja. Einen Beleg brauche ich nicht.
    Yes. And where is order A-2?
""")
"""No yes by the table alone, since they deny or name something besides; one where a model reads them so."""
