"""The sentences of a report: counted ones have a form for none, one and several, or take that for several."""

from crowdppl.report.words import Words, say


def test_a_sentence_without_a_form_for_one_takes_that_for_several() -> None:
    words = Words("en", "numbers")
    told = {n: words.text(say("tiles.fair.text", n=n, double=0.5)) for n in range(3)}
    assert told[0] == "None." and told[1] == told[2] != told[0]
    assert words.text(say("people.answers", n=1)) == "1 answer"
    assert words.text(say("people.answers", n=0)) == "0 answers"
