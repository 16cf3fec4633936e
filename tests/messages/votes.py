"""Messages of tables of votes, of tables the other way round, and of levels of classes."""

from typing import Any

import pandas as pd

import crowdppl
from crowdppl.data.levels import coarser
from tests.messages.inputs import Row, ranks, read, table

VOTES = pd.DataFrame({"item": [1, 2, 3], "cat": [3, 0, 2], "dog": [1, 4, 2]})
SHARES = VOTES.assign(cat=[0.75, 0.0, 0.5], dog=[0.25, 1.0, 0.5])
RATED = pd.DataFrame({"rater": ["ann", "bob", "eve"], "q1": ["x", "y", "x"], "q2": ["y", "y", "x"]})
MARKS = pd.DataFrame({"item": [1, 1, 2], "annotator": ["a", "b", "a"], "cat": [1, 1, 0], "dog": [1, 0, 1]})
COUNTS = pd.DataFrame({"item": [1, 2], "votes": [{"cat": 3}, {"cat": 1, "dog": 2}]})
BALLOTS = pd.DataFrame(
    {"first": [*"pqrpq"], "second": [*"qrpqp"], "third": [*"rpqrr"]}, index=pd.Index([*"abcde"], name="judge")
)
BESIDE = pd.DataFrame({"item": range(65), "cat": [n % 5 for n in range(65)], "dog": [4 - n % 5 for n in range(65)]})
BESIDE["words"] = [40 + n % 13 for n in range(65)]
FORMS = pd.DataFrame(
    {
        "rater": ["ann", "bob", "eve"],
        "q1": ["yes", "no", "yes"],
        "q2": ["red", "blue", "red"],
        "q3": ["big", "small", "big"],
    }
)
CODERS = pd.DataFrame({"u1": ["x", "x"], "u2": ["y", "x"]}, index=["coderA", "coderB"])
PROMPTS = pd.DataFrame({"prompt": [1, 2] * 2, "rater": [*"aabb"], "A": [1, 2, 1, 1], "B": [2, 1, 2, 2]})
GRADED = table(label=[1, 2, 2, 1])
PATHS = table(label=["a/x", "a/y", "b/z", "b/z"])


def votes(frame: Any = VOTES, **options: Any) -> Any:
    return read(frame, columns="classes", **options)


def items(frame: Any = RATED, **options: Any) -> Any:
    return read(frame, columns="items", **options)


def level(given: Any, frame: Any = PATHS, **options: Any) -> Any:
    return coarser(read(frame, **options).alphabet, given)


def problems() -> crowdppl.Posterior:
    frame = ranks(problem=[1] * 6)
    data = read(pd.concat([frame, frame.assign(problem=2)]), kind="ranking")
    return crowdppl.fit("plackett_luce", data, inference="laplace", seed=0)


def _lists(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"annotator": table.index, "ranking": table[["first", "second", "third"]].values.tolist()})


ROWS = [
    Row("kinds/__init__.kind_named", lambda: read(VOTES, kind="votes"), votes),
    Row(
        "levels.coarser",
        lambda: level(1, table(label=[1, 2, 2, 1]), kind="ordinal"),
        lambda: level(1, PATHS, kind="nominal"),
    ),
    Row("levels.coarser", lambda: level(1, table()), lambda: level(1)),
    Row("levels.coarser", lambda: level(3), lambda: level(1)),
    Row("levels.above", lambda: read(table()).above("x"), lambda: read(GRADED, kind="ordinal").above(1)),
    Row(
        "levels.above",
        lambda: read(GRADED, kind="ordinal").above(2),
        lambda: read(GRADED, kind="ordinal").above(1),
    ),
    Row(
        "levels.coarser",
        lambda: level(1, table(label=["a/x", "a/y"] * 2)),
        lambda: level(2, table(label=["a/x", "a/y"] * 2)),
    ),
    Row(
        "levels._refuse_inner",
        lambda: level(1, table(label=["a", "a/y", "b/z", "b/z"])),
        lambda: level(1, table(label=["a", "a/y", "b/z", "b/z"]), abstentions=["a"]),
    ),
    Row("shapes._wide", lambda: votes(kind="real"), votes),
    Row("shapes._marked_classes", lambda: read(MARKS), lambda: votes(MARKS)),
    Row(
        "split.unlabelled",
        lambda: problems().predict(pd.DataFrame({"problem": [3], "object": ["p"]})),
        lambda: problems().predict(pd.DataFrame({"problem": [3, 3], "object": ["p", "q"]})),
    ),
    Row("votes.refuse_sums", lambda: read(SHARES), lambda: votes()),
    Row(
        "votes.refuse_sums",
        lambda: read(VOTES.drop(columns="item"), wide=True),
        lambda: votes(VOTES.drop(columns="item")),
    ),
    Row(
        "votes.rows_of_classes",
        lambda: votes(VOTES.rename(columns={"item": "page"}).assign(page=["p", "q", "r"])),
        lambda: votes(VOTES.rename(columns={"item": "page"}).assign(page=["p", "q", "r"]), item="page"),
    ),
    Row("votes.rows_of_classes", lambda: votes(VOTES[["item", "cat"]]), votes),
    Row(
        "votes.rows_of_classes",
        lambda: votes(MARKS.rename(columns={"item": "page"}).replace({"page": {1: "p", 2: "q"}}), kind="set"),
        lambda: votes(
            MARKS.rename(columns={"item": "page"}).replace({"page": {1: "p", 2: "q"}}), item="page", kind="set"
        ),
    ),
    Row(
        "votes.rows_of_classes",
        lambda: votes(MARKS.assign(dog=[0, 0, 0])),
        lambda: votes(MARKS.assign(dog=[0, 0, 0]), kind="set"),
    ),
    Row(
        "votes._refuse_other_names",
        lambda: votes(VOTES.assign(n=[4, 5, 4])),
        lambda: votes(VOTES.assign(n=[4, 5, 4]), classes=["cat", "dog"]),
    ),
    Row(
        "votes.rows_of_classes",
        lambda: votes(MARKS.drop(columns="annotator").drop_duplicates("item")),
        lambda: votes(MARKS.drop(columns="annotator").drop_duplicates("item"), kind="nominal"),
    ),
    Row("votes.rows_of_classes", lambda: votes(MARKS, kind="nominal"), lambda: votes(MARKS, kind="set")),
    Row(
        "votes._refuse_total",
        lambda: votes(VOTES.assign(all=[4, 4, 4])),
        lambda: votes(VOTES.assign(all=[4, 4, 4]), classes=["cat", "dog"]),
    ),
    Row("votes._listed", lambda: votes(classes=["cat", "cow"]), lambda: votes(classes=["cat", "dog"])),
    Row(
        "votes._of_records",
        lambda: votes(COUNTS.assign(votes=[{"cat": 3, "dog": 1}, "none"]), label="votes"),
        lambda: votes(COUNTS, label="votes"),
    ),
    Row(
        "votes._of_records",
        lambda: votes(COUNTS, label="votes", classes=["cat"]),
        lambda: votes(COUNTS, label="votes", classes=["cat", "dog"]),
    ),
    Row(
        "votes._checked",
        lambda: votes(SHARES),
        lambda: votes(SHARES.assign(cat=(SHARES["cat"] * 4).round(), dog=(SHARES["dog"] * 4).round())),
    ),
    Row("votes._checked", lambda: votes(VOTES.assign(cat=[10**9, 0, 0])), votes),
    Row("votes._checked", lambda: votes(VOTES.assign(cat=0, dog=0)), votes),
    Row("wide.rows_of_items", lambda: items(item="q1"), lambda: items(annotator="rater")),
    Row(
        "wide.rows_of_items",
        lambda: items(RATED.assign(minutes=[7, 8, 9])),
        lambda: items(RATED.assign(minutes=[7, 8, 9]), items=["q1", "q2"]),
    ),
    Row("wide._refuse_others_than_annotators", lambda: read(COUNTS, wide=True), lambda: votes(COUNTS)),
    Row("wide._refuse_others_than_annotators", lambda: read(RATED, wide=True), items),
    Row(
        "wide._refuse_others_than_annotators",
        lambda: read(CODERS, wide=True),
        lambda: items(CODERS),
    ),
    Row(
        "wide._refuse_others_than_annotators",
        lambda: read(RATED.assign(item=[1, 1, 2]), wide=True, item="item"),
        lambda: read(table()),
    ),
    Row(
        "wide._refuse_several_rows",
        lambda: items(PROMPTS),
        lambda: read(
            PROMPTS.melt(["prompt", "rater"], var_name="column", value_name="label")
            .assign(item=lambda x: x[["prompt", "column"]].astype(str).agg(" ".join, axis=1))
            .drop(columns=["prompt", "column"])
        ),
    ),
    Row("votes.refuse_ballots", lambda: items(BALLOTS), lambda: read(_lists(BALLOTS), kind="ranking")),
    Row("votes.rows_of_classes", lambda: votes(BESIDE), lambda: votes(BESIDE, classes=["cat", "dog"])),
    Row(
        "votes._refuse_other_names",
        lambda: votes(VOTES.assign(truth=[0, 1, 0])),
        lambda: votes(VOTES.assign(truth=[0, 1, 0]), classes=["cat", "dog"]),
    ),
    Row(
        "wide.rows_of_items",
        lambda: items(FORMS),
        lambda: items(FORMS[["rater", "q1"]].assign(q2=["yes", "yes", "no"])),
    ),
]
