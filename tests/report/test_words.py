"""The sentences of a report: those for one and several, and what each language has."""

from crowdppl.data.kinds import KINDS
from crowdppl.report.words import LANGUAGES, Words, say


def test_a_sentence_without_a_form_for_one_takes_that_for_several() -> None:
    words = Words("en", "numbers")
    told = {n: words.text(say("tiles.fair.text", n=n, double=0.5)) for n in range(3)}
    assert told[0] == "None." and told[1] == told[2] != told[0]
    assert words.text(say("people.answers", n=1)) == "1 answer"
    assert words.text(say("people.answers", n=0)) == "0 answers"


def test_every_language_says_what_classes_mean() -> None:
    for kind in KINDS.values():
        assert all(Words(name).has(f"means.{word}") for word in kind.means.values() for name in LANGUAGES)
