"""Which models may replace people, where people and models answered about the same items."""

from __future__ import annotations

from collections.abc import Iterator

from crowdppl.data.ids import native
from crowdppl.errors import CrowdpplError
from crowdppl.estimation.replacement import FEWEST, PEOPLE, alternative_annotator_test
from crowdppl.report.blocks import Text
from crowdppl.report.facts import Facts
from crowdppl.report.words import say

LEAD = 0.1
"""By which a person must be ahead to be worth the effort, as of a crowd."""


def told(facts: Facts) -> Iterator[Text]:
    """Yes or no for each model, by the alternative annotator test; nothing where all are people, or models."""
    people = getattr(facts.posterior.model, "people", ())
    if not any(people) or all(people):
        return
    names = zip(facts.data.annotators, people, strict=True)
    models, untold = [native(name) for name, person in names if not person], []
    for name in models:
        try:
            found = alternative_annotator_test(facts.data, name, models=models, epsilon=LEAD, bootstrap=0)
        except CrowdpplError:  # too few people, or items that they share
            untold.append(name)
            continue
        values = {
            "wins": int(found.table["wins"].sum()),
            "total": int(found.table["p"].notna().sum()),
            "share": found.advantage,
            "low": found.advantage_low,
            "high": found.advantage_high,
        }
        yield Text(
            say("people.may_replace" if found.may_replace else "people.may_not_replace", name=name, **values)
        )
    if len(untold) < len(models):
        yield Text(say("people.replace_how", points=round(100 * LEAD)), note=True)
    if untold:
        yield Text(say("people.replace_unknown", names=untold, people=PEOPLE, items=FEWEST))
