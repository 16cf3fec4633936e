"""The table of all people, of any kind of labels."""

from __future__ import annotations

from collections.abc import Iterator

from crowdppl.data.ids import native
from crowdppl.report.blocks import Column, Table
from crowdppl.report.facts import Facts
from crowdppl.report.words import Words, say

LONG = 1000


def listing(facts: Facts, words: Words) -> Iterator[Table]:
    """The people with most answers first, with what the fit knows of each in columns that have words."""
    table = facts.annotators.sort_values("labels", ascending=False, kind="stable")
    names = [str(x) for x in table if words.has(f"columns.{x}") and table[x].notna().any()]
    if facts.are_models and facts.gold is None:
        names = [x for x in names if x == "labels"]
    share = {x for x in names if x != "labels"}
    columns = [Column(say("columns.name"), "id")]
    columns += [
        Column(say(f"columns.{x}"), "pct" if x in share and x in SHARES else "num" if x in share else "")
        for x in names
    ]
    rows = [
        [native(who), *(int(row[x]) if x == "labels" else float(row[x]) for x in names)]
        for who, row in table[names].head(LONG).iterrows()
    ]
    yield Table(columns, rows, len(table), "annotators.csv", say("listing.people"), long=True)


SHARES = {
    *("accuracy", "accuracy_low", "accuracy_high", "abstention", "sensitivity", "specificity", "agreement"),
    *("reliable", "reliable_low", "reliable_high"),
}
"""Columns of ``annotators()`` that are shares."""
