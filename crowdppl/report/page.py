"""The page of a report: its sections in order, from the facts of a fit."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from typing import Any

from crowdppl import __version__
from crowdppl.primitives.model import card_of, settings_of
from crowdppl.report import checks, classes, groups, judges, numbers, people, rankings, spans, whole_sets
from crowdppl.report.allowance import Allowance
from crowdppl.report.blocks import Section, Steps, Text
from crowdppl.report.facts import LIKELY, SETTLED, Facts
from crowdppl.report.rankings import Ranked
from crowdppl.report.replacement import told as replaceable
from crowdppl.report.words import Say, Words, say
from crowdppl.results.spans import tags_of

Blocks = Callable[[Facts], Iterable[Any]]
Next = Callable[[Facts, Sequence[str]], Iterable[Steps]]


@dataclass(frozen=True)
class Parts:
    """What differs between kinds of labels: a function a section, which yields its blocks.

    Attributes:
        nouns: what is labelled, in the file of words.
        results_title, check: keys of the title of results, and of what to do where nobody checked anything.
        counted: how many there are of what is labelled.
        about: a sentence that says what is labelled; None where a word does.
        seen: what was checked, beside what was expected of it; None where that is not told.
    """

    nouns: str
    minute: Blocks
    results: Blocks
    first: Blocks
    people: Blocks
    mixed: Blocks
    steps: Next
    listing: Blocks
    results_title: str = "titles.results"
    check: str = "rely.check"
    counted: Callable[[Facts], int] = lambda facts: facts.data.n_items
    about: Callable[[Facts], Say] | None = None
    seen: checks.Seen | None = None


NOUNS = ("set", "pair", "similarity", "sequence")
"""Kinds of classes whose items are called by a word of their own."""


def _and_table(steps: Next, table: str, facts: Facts, files: Sequence[str]) -> Iterator[Steps]:
    """Steps, then the table that has the wholes, where it is written."""
    for block in steps(facts, files):
        yield Steps([*block.steps, *([say(f"steps.{table}")] if f"{table}.csv" in files else [])])


def _joined(first: Blocks, then: Blocks) -> Blocks:
    return lambda facts: chain(first(facts), then(facts))


CLASSES = Parts(
    "classes",
    classes.minute,
    classes.results,
    classes.first,
    classes.people,
    classes.mixed,
    classes.steps,
    classes.listing,
    seen=classes.seen,
)
NUMBERS = Parts(
    "numbers",
    numbers.minute,
    numbers.results,
    numbers.first,
    numbers.people,
    numbers.mixed,
    numbers.steps,
    numbers.listing,
    "titles.results_numbers",
    "rely.check_numbers",
    seen=numbers.seen,
)
RANKS = Parts(
    "ranks",
    rankings.minute,
    rankings.results,
    rankings.first,
    rankings.people,
    rankings.mixed,
    rankings.steps,
    rankings.listing,
    "titles.results_ranks",
    "rely.check_ranks",
    lambda facts: len(rankings.ranked(facts).table),
)
SPANS = Parts(
    "spans",
    spans.minute,
    spans.results,
    spans.first,
    spans.people,
    spans.mixed,
    spans.steps,
    spans.listing,
    "titles.results_spans",
    "rely.check_texts",
    spans.texts,
    seen=spans.seen,
)
JUDGES = Parts(
    "judges",
    judges.minute,
    judges.results,
    judges.first,
    _joined(judges.people, replaceable),
    judges.mixed,
    judges.steps,
    judges.listing,
    "titles.results_judges",
    seen=classes.seen,
)


WHOLES: dict[str, Any] = {"sets": whole_sets, "clusters": groups}
"""By the table of a kind whose labels belong together: what tells of them as wholes, first."""


def parts_of(facts: Facts) -> Parts:
    """The parts of a report on what a fit found."""
    table = facts.data.alphabet.kind.table
    parts, whole = _parts(facts), WHOLES.get(table)
    if whole is None:
        return parts
    return replace(
        parts,
        about=whole.about,
        minute=_joined(parts.minute, whole.minute),
        results=_joined(whole.results, parts.results),
        first=_joined(whole.first, parts.first),
        steps=partial(_and_table, parts.steps, table),
        listing=_joined(whole.listing, parts.listing),
    )


def _parts(facts: Facts) -> Parts:
    """The parts of a report on labels one by one."""
    if facts.once(Ranked.of) is not None:
        return RANKS
    if tags_of(facts.data) is not None:
        return SPANS
    if facts.are_models and not facts.are_numbers:
        return JUDGES
    if facts.are_numbers:
        return NUMBERS
    nouns = facts.data.alphabet.kind.name
    asked = _joined(CLASSES.people, replaceable)
    return replace(CLASSES, nouns=nouns if nouns in NOUNS else CLASSES.nouns, people=asked)


def heading(facts: Facts, parts: Parts) -> list[Say]:
    """The title, and how many answers there are."""
    data = facts.data
    n, items = data.n_annotators, parts.counted(facts)
    title = say(
        f"head.title_{parts.nouns}" if parts.nouns in ("ranks", "spans", "judges") else "head.title",
        people=n,
        items=items,
    )
    values: dict[str, Any] = {"labels": data.n_labels, "each": round(data.n_labels / max(1, data.n_items), 1)}
    if parts.nouns in ("ranks", "spans"):
        said = say("head.answers", **values)
    elif data.n_classes and data.space.ordered:
        names = data.classes
        said = say("head.grades", n=len(names), low=names[0], high=names[-1], **values)
    elif data.n_classes:
        told = "each" if data.alphabet.kind.means else "classes"
        said = say(f"head.{told}", n=data.n_classes, classes=list(data.classes), **values)
    else:
        said = say("head.answers", **values)
    known = 0 if facts.gold is None else len(facts.gold)
    about = [] if parts.about is None else [parts.about(facts)]
    return [title, *about, said, say("head.truth", n=known) if known else say("head.no_truth")]


def sections(facts: Facts, words: Words, parts: Parts, files: Sequence[str]) -> list[Section]:
    """The sections of a page, without those that are empty."""
    found = [
        Section("minute", say("titles.minute"), list(parts.minute(facts))),
        Section("rely", say("titles.rely"), list(checks.cards(facts, words, parts.check, parts.seen))),
        Section("results", say(parts.results_title), list(parts.results(facts))),
        Section("first", say("titles.first"), list(parts.first(facts))),
        Section("people", say("titles.people"), list(parts.people(facts))),
        Section("mixed", say("titles.mixed"), list(parts.mixed(facts))),
        Section("next", say("titles.next"), list(parts.steps(facts, files))),
        Section("listing", say("titles.listing"), [*parts.listing(facts), *people.listing(facts, words)]),
    ]
    return [section for section in found if section.blocks]


def experts(facts: Facts) -> Iterator[Text]:
    """What stands in the fold-out: the method, its source, settings, versions, doubts in experts' words."""
    fit = facts.posterior
    card = card_of(fit.model)
    line = partial(Text, note=False)
    yield line(say("experts.sure", settled=SETTLED, likely=LIKELY))
    yield line(say("experts.right"))
    if facts.gold is not None:
        yield line(say("experts.checked"))
    yield line(say("experts.method", method=fit.method, title=card.title if card else "", engine=fit.inference))
    if card is not None:
        yield line(
            say("experts.reference", reference=f"{card.reference}{f' (doi:{card.doi})' if card.doi else ''}")
        )
        if card.assumes:
            yield line(say("experts.assumes", assumes=card.assumes))
    if scores := fit.result.diagnostics.get("scores"):
        told = ", ".join(f"{name} {score:.3f}" for name, score in sorted(scores.items(), key=lambda x: -x[1]))
        yield line(say("experts.chosen", scores=told))
    if fit.correction is not None:
        yield line(say("experts.correction", text=str(fit.correction)))
    if not facts.are_numbers and facts.once(Allowance.of) is not None:
        yield line(say("experts.alone"))
    given = {**settings_of(fit.model), **{k: v for k, v in fit.options.items() if k in ("seed", "draws", "chains")}}
    yield line(say("experts.settings", settings=", ".join(f"{k}={v}" for k, v in given.items())))
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "pyro-ppl", "numpy", "pandas"))
    told = f"crowdppl {__version__}, Python {platform.python_version()}, {libraries}"
    yield line(say("experts.versions", versions=told))
    if facts.command:
        yield line(say("experts.command", command=facts.command))
    for doubt in facts.doubts:
        yield line(say("experts.doubt", kind=doubt.kind, text=doubt.text))
        for remedy in doubt.remedies:
            yield line(say("experts.remedy", remedy=remedy))
