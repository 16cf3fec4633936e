"""Which models may replace people, who answered about the same items: beside them, or in labels of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import native
from crowdppl.errors import CrowdpplError
from crowdppl.estimation.replacement import FEWEST, PEOPLE, alternative_annotator_test
from crowdppl.report.blocks import Text
from crowdppl.report.facts import Facts
from crowdppl.report.words import say

LEAD = 0.1
"""By which a person must be ahead to be worth the effort, as of a crowd."""


def told(facts: Facts) -> Iterator[Text]:
    """Yes or no for each model, by the alternative annotator test; nothing where all are people, or nobody is."""
    apart, people = facts.people, getattr(facts.posterior.model, "people", ())
    if apart is None and (not any(people) or all(people)):
        return
    is_person = [False] * facts.data.n_annotators if apart is not None else people
    names = zip(facts.data.annotators, is_person, strict=True)
    models, untold = [native(name) for name, person in names if not person], []
    for name in models:
        try:
            if apart is None:
                found = alternative_annotator_test(facts.data, name, models=models, epsilon=LEAD, bootstrap=0)
            else:
                found = alternative_annotator_test(apart, _labels_of(facts.data, name), epsilon=LEAD, bootstrap=0)
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


def _labels_of(data: Annotations, name: Any) -> pd.Series[Any]:
    """The first label of each item by an annotator."""
    frame = data.frame()
    own = frame[(frame["annotator"] == name) & frame["label"].isin(data.classes)]
    labels: pd.Series[Any] = own.drop_duplicates("item").set_index("item")["label"]
    return labels
