"""Whether results can be relied on: a card for each doubt, and what was checked and is fine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.criticism.doubts import looked_for
from crowdppl.data.kinds.parts import compares
from crowdppl.errors import CrowdpplError
from crowdppl.report.blocks import Card
from crowdppl.report.facts import Facts
from crowdppl.report.words import Say, Words, say
from crowdppl.results.correction import MIN_GOLD
from crowdppl.results.updating import labels_without, predict

Seen = Callable[[Facts], tuple[np.ndarray, np.ndarray]]
"""Of what was checked the probability that it is wrong, and whether it is, (n,) each."""
OF_PEOPLE = ("spammers", "copying", "together", "thin")
"""Kinds of doubts that are not told to be settled of models, which err together."""
OF_CLASSES = ("diagonal", "collapse")
"""Those that say nothing to who reads a ranking, whose classes are the two sides."""
BEYOND = 1.96
"""Standard errors by which more must be wrong than was expected."""
MOST_LABELS = 2_000_000
"""Labels up to which it is told what leaving people out would change."""


def code_of(kind: str) -> str:
    """The kind of a doubt as a key of the file of words."""
    return re.sub(r"\W+", "_", kind)


def cards(facts: Facts, words: Words, check: str, seen: Seen | None = None) -> Iterator[Card]:
    """A card a doubt, then one for known truths or their lack, and one for what is fine."""
    known: tuple[str, ...] = ()
    if facts.gold is not None and seen is not None:
        expected, wrong = seen(facts)
        known = ("checked",) if len(wrong) >= MIN_GOLD else ()
        if known and wrong.sum() - expected.sum() > BEYOND * sqrt((expected * (1 - expected)).sum()):
            values = {"n": len(wrong), "found": int(wrong.sum()), "said": float(expected.sum())}
            kind = "_numbers" if facts.are_numbers else ""
            said = [say(f"rely.too_sure{kind}", **values), say("rely.too_sure_why")]
            yield Card("bad", said, say(f"rely.take_in{kind}"))
            known = ()
    for doubt in facts.doubts:
        if not doubt.general:
            yield _card(facts, doubt, words)
    if facts.gold is None:
        yield Card("middle", [say("rely.unchecked")], say(check, n=len(facts.random_items())))
    found = {doubt.kind for doubt in facts.doubts}
    unfit: tuple[str, ...] = OF_CLASSES if compares(facts.data) else ("position",)
    unfit += OF_PEOPLE if facts.are_models else ()
    passed = [kind for kind in looked_for(facts.posterior) if kind not in {*found, *unfit}]
    fine = [say(f"fine.{code_of(kind)}") for kind in dict.fromkeys(passed) if words.has(f"fine.{code_of(kind)}")]
    fine += [say(f"fine.{name}") for name in known]
    if facts.posterior.result.diagnostics.get("converged"):
        fine.insert(0, say("fine.converged"))
    if fine:
        yield Card("good", [say("rely.fine"), *fine])


def _card(facts: Facts, doubt: Doubt, words: Words) -> Card:
    """The card of a doubt, in the words of its kind; of a kind without words, those of a doubt of the method."""
    code = code_of(doubt.kind)
    known = words.has(f"doubts.{code}")
    values: dict[str, Any] = {**doubt.figures, "total": facts.data.n_annotators, "items_total": facts.data.n_items}
    of, who = next(iter(doubt.who.items()), ("", ()))
    who = tuple(map(facts.named, who)) if of == "classes" else who
    values |= {"who": who, "n": len(who) or 1}
    try:
        said = [say(f"doubts.{code if known else 'other'}.{part}", **values) for part in ("saw", "why")]
        action = say(f"doubts.{code if known else 'other'}.do", **values)
        for sentence in (*said, action):
            words.text(sentence)
    except KeyError:  # a doubt of this kind without the figures that its words name
        said = [say(f"doubts.other.{part}", **values) for part in ("saw", "why")]
        action = say("doubts.other.do", **values)
    if change := if_left_out(facts, doubt):
        said.append(change)
    return Card("bad", said, action)


def left_out(doubt: Doubt) -> tuple[Any, ...]:
    """The annotators whom a remedy of a doubt leaves out."""
    if not any(call.startswith("posterior.without(") for call in doubt.remedies):
        return ()
    who = doubt.who.get("annotators", ())
    return who if doubt.kind == "spammers" else who[1:]


def if_left_out(facts: Facts, doubt: Doubt) -> Say | None:
    """What leaving people out, a remedy that may harm, would change: an estimate that fits nothing again."""
    who = left_out(doubt)
    if not who or facts.data.n_labels > MOST_LABELS:
        return None
    try:
        after = predict(facts.posterior, labels_without(facts.posterior, who))
    except CrowdpplError:
        return None
    if facts.are_numbers:
        before = facts.truth
        moved = np.abs(after["estimate"].reindex(before.index) - before["estimate"]) > before["sd"]
        return say("rely.moved", n=int(moved.sum()), who=who, total=len(before))
    before_codes = facts.posterior.result.probabilities.argmax(1)
    order = after.index.get_indexer(facts.data.item_index)
    codes = after.to_numpy().argmax(1)[order]
    changed = int(((codes != before_codes) & (order >= 0)).sum())
    return say("rely.changed", n=changed, who=who, share=changed / max(1, len(before_codes)))
