"""Messages of kinds of labels, and of what tables hold."""

from typing import Any

import numpy as np
import pandas as pd

import crowdppl
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.kind import Kind
from tests.messages.inputs import A, Row, covariates, of_file, pairs, ranks, read, table, tokens, whole

BASE = "methods that each kind has of its own"
NUMBERS = table(label=[1.5, 2.5, 3.0, 4.0])
MEASURED = pd.DataFrame(
    {
        "item": [n // 2 for n in range(60)],
        "annotator": ["a", "b"] * 30,
        "label": [n // 2 * 10 + n % 2 for n in range(60)],
    }
)
GRADES = read(table(label=[1, 2, 2, 1]), kind="ordinal")
DECLINED = table(label=["x", "I don't know", "y", "x"])
FUNCTIONS = table(label=[-1, 1, 0, 1])
MISSED = table(label=["x", "n/a", "y", "x"])
SETS = table(label=["x;y", "x", "y", "x;y"])
RADIANS = pd.DataFrame({"item": [*range(40)], "annotator": ["a", "b"] * 20, "label": np.arange(40) * 0.15})
OWN = KINDS["nominal"]


def bare() -> Kind:
    return Kind("bare", "bare", "bare", OWN.space)


def texts(*spans: Any, **columns: Any) -> pd.DataFrame:
    """Lists of spans of a text, one of each annotator."""
    own = {"text": ["Ann sang"] * len(spans), "annotator": [f"a{n}" for n in range(len(spans))], "spans": [*spans]}
    return pd.DataFrame(own | columns)


SPAN = {"start": 0, "end": 3, "type": "PER"}
FLAT = pd.DataFrame(
    {
        "id": [1, 2],
        "text": ["Ann sang"] * 2,
        "annotator": ["a", "b"],
        "start": [0, 0],
        "end": [3, 3],
        "type": ["P", "P"],
    }
)
BATTLES = pd.DataFrame(
    {
        "judge": list("jjk"),
        "model_a": list("xyx"),
        "model_b": list("yxz"),
        "winner_model_a": [1, 0, 0],
        "winner_model_b": [0, 0, 1],
        "winner_tie": [0, 1, 0],
    }
)
UNPLACED = pd.DataFrame(
    {"sentence": [1] * 4, "token": ["Ann", "sang"] * 2, "tag": ["B-P", "O"] * 2, "annotator": [*"aabb"]}
)
VOTED = pd.DataFrame({"left": [*"pq"], "right": [*"qr"], "votes_left": [3, 1], "votes_right": [1, 2]})
WON_BY = ["winner_model_a", "winner_model_b", "winner_tie"]
COUNTED = pd.DataFrame({"item": [1, 1, 2, 2], "label": ["cat", "dog"] * 2, "votes": [3, 1, 0, 4]})
WON = pd.DataFrame({"winner": ["p", "q", "p"], "loser": ["q", "r", "r"], "annotator": ["a", "b", "a"]})
CONLL = "Ann B-P B-P\nsang O O\n"


def objects(frame: pd.DataFrame) -> Any:
    return read(pairs(), kind="pair", features=frame)


def angle(**options: Any) -> Any:
    return read(RADIANS, kind="angle", **options)


ROWS = [
    Row(
        "kinds/__init__.kind_named",
        lambda: read(table(label=[1, 2, 3, 4]), kind="numeric"),
        lambda: read(table(label=[1, 2, 3, 4]), kind="real"),
    ),
    Row("annotations.of_rows", lambda: read(WON.assign(winner=["p", "q", "r"])), lambda: read(WON)),
    # classes
    Row(
        "classes._warn_of_declined",
        lambda: read(DECLINED),
        lambda: read(DECLINED, abstentions=["I don't know"]),
    ),
    Row(
        "classes._warn_of_declined",
        lambda: read(DECLINED),
        lambda: read(DECLINED, classes=["I don't know", "x", "y"]),
    ),
    Row("classes._warn_of_declined", lambda: read(FUNCTIONS), lambda: read(FUNCTIONS, abstentions=[-1])),
    Row("classes._warn_of_declined", lambda: read(FUNCTIONS), lambda: read(FUNCTIONS, classes=[-1, 0, 1])),
    Row("classes._warn_of_declined", lambda: read(MISSED), lambda: read(MISSED, abstentions=["n/a"])),
    Row("classes.answers", lambda: read(like=read(), classes=["x", "y"]), lambda: read(like=read())),
    Row(
        "classes._extended",
        lambda: crowdppl.data.split.align_to(GRADES, table(label=[1, 2, 3, 1])),
        lambda: crowdppl.data.split.align_to(
            read(table(label=[1, 2, 2, 1]), kind="ordinal", classes=[1, 2, 3]), table(label=[1, 2, 3, 1])
        ),
    ),
    Row(
        "classes.read_label_set",
        lambda: read(informative_abstentions=True),
        lambda: read(informative_abstentions=True, abstentions=["?"]),
    ),
    Row(
        "classes.read_label_set",
        lambda: A.design([1, 2], ["a", "b"]),
        lambda: A.design([1, 2], ["a", "b"], classes=["x", "y"]),
    ),
    Row(
        "classes.read_label_set",
        lambda: read(table(label=["x"] * 4)),
        lambda: read(table(label=["x"] * 4), classes=["x", "y"]),
    ),
    Row(
        "classes.read_label_set",
        lambda: read(classes=["x", "y"], abstentions=["x"]),
        lambda: read(classes=["x", "y"], abstentions=["?"]),
    ),
    Row("classes.require_words", lambda: read(SETS), lambda: read(SETS, kind="set")),
    Row(
        "classes.require_words",
        lambda: read(table(label=["p>q", "q>p"] * 2)),
        lambda: read(table(label=["p>q", "q>p"] * 2), kind="ranking"),
    ),
    Row(
        "classes.require_words",
        lambda: read(table(label=["1", "2", "*", "1"])),
        lambda: read(table(label=["1", "2", "*", "1"]), abstentions=["*"]),
    ),
    Row(
        "shapes._accepted",
        lambda: read(
            table(accept=["x", "y", "x", "x"], answer=["accept"] * 3 + ["ignore"], label=None)  # of Prodigy
        ),
        why="nothing is wrong: it says how many tasks are left",
    ),
    Row(
        "classes.in_order",
        lambda: read(table(label=["1", "1.0", "2", "1"])),
        lambda: read(table(label=["1", "1.0", "2", "1"]).assign(label=lambda x: x["label"].str.removesuffix(".0"))),
    ),
    Row(
        "sets._refuse_other_separators",
        lambda: read(table(label=["x/y", "x", "y", "x"]), kind="set"),
        lambda: read(table(label=["x/y", "x", "y", "x"]), kind="set", classes=["x", "y"]),
    ),
    Row(
        "shapes._refuse_votes_of_sides",
        lambda: read(VOTED),
        lambda: read(
            pd.concat(
                [
                    VOTED.loc[VOTED.index.repeat(VOTED[name])].assign(winner=side)
                    for name, side in {"votes_left": "left", "votes_right": "right"}.items()
                ]
            ).drop(columns=["votes_left", "votes_right"]),
            annotator=None,
        ),
    ),
    Row(
        "numbers._numbers",
        lambda: read(table(label=["1,234", "2,345", "3", "4"]), kind="count", decimal=","),
        lambda: read(table(label=["1,234", "2,345", "3", "4"]), kind="count", decimal="."),
    ),
    Row(
        "classes.require_words",
        lambda: read(table(label=["['x']", "['y']"] * 2)),
        lambda: read(table(label=["['x']", "['y']"] * 2), kind="set"),
    ),
    Row(
        "classes.require_words",
        lambda: read(table(label=['{"c": "x"}', '{"c": "y"}'] * 2)),
        lambda: read(table(label=["x", "y"] * 2)),
    ),
    Row("classes._refuse_measurements", lambda: read(MEASURED), lambda: read(MEASURED, kind="real")),
    Row(
        "classes._refuse_measurements",
        lambda: read(MEASURED.assign(label=MEASURED["label"].map("{} %".format))),
        lambda: read(MEASURED.assign(label=MEASURED["label"]), kind="real"),
    ),
    # comparisons
    Row(
        "comparisons._sides",
        lambda: read(pairs(["p", "q", "tie (bothbad)"]), kind="pair"),
        lambda: read(pairs(["p", "q", "tie (bothbad)"]), kind="pair", abstentions=["tie (bothbad)"]),
    ),
    Row(
        "comparisons._sides",
        lambda: read(pairs([1, 2, 1]), kind="pair"),
        lambda: read(pairs([1, -2, 1]), kind="pair"),
    ),
    Row(
        "comparisons._sides",
        lambda: read(pairs(["p", "q", "z"]), kind="pair"),
        lambda: read(pairs(["p", "q", "right"]), kind="pair"),
    ),
    # grades, numbers
    Row(
        "grades.in_order",
        lambda: read(table(label=["low", "high"] * 2), kind="ordinal"),
        lambda: read(table(label=["low", "high"] * 2), kind="ordinal", classes=["low", "high"]),
    ),
    Row(
        "grades.in_order",
        lambda: read(table(label=["1", "1.0", "2", "2"]), kind="ordinal"),
        lambda: read(table(label=["1", "1", "2", "2"]), kind="ordinal"),
    ),
    Row("kind.in_unit", lambda: read(unit="radians"), lambda: angle(unit="radians")),
    Row("kind.read", lambda: bare().read(None, {}), why=BASE),
    Row("kind.settled", lambda: bare().settled(None, None, {}), why=BASE),
    Row("kind.answers", lambda: bare().answers(None, {}), why=BASE),
    Row(
        "numbers.read",
        lambda: A.from_arrays(
            [1, 2], ["a", "b"], [1.0, 2.0], kind="real", label_covariates=pd.DataFrame({"label": [1, 2]})
        ),
        lambda: read(NUMBERS.assign(seconds=[1, 2, 3, 4]), kind="real", label_covariates=["seconds"]),
    ),
    Row("numbers.answers", lambda: read(NUMBERS, kind="real", classes=[1, 2]), lambda: read(NUMBERS, kind="real")),
    Row(
        "numbers._numbers",
        lambda: read(table(label=["1 kg", "2 kg", "x", "3"]), kind="real"),
        lambda: read(table(label=["1", "2", "x", "3"]), kind="real", abstentions=["x"]),
    ),
    Row(
        "numbers._numbers",
        lambda: read(table(label=["4", "N/A", "5", "3"]), kind="real"),
        lambda: read(table(label=["4", "N/A", "5", "3"]), kind="real", abstentions=["N/A"]),
    ),
    Row(
        "numbers._numbers",
        lambda: read(table(label=[1, 2, -1, 3]), kind="count"),
        lambda: read(table(label=[1, 2, -1, 3]), kind="real"),
    ),
    Row(
        "numbers._numbers",
        lambda: read(table(label=[1, 2, 1.5, 3]), kind="count"),
        lambda: read(table(label=[1, 2, 1.5, 3]), kind="real"),
    ),
    Row("numbers._numbers", lambda: angle(), lambda: angle(unit="radians")),
    Row(
        "numbers.without_abstentions",
        lambda: read(table(label=["4", "N/A", "5", "3"]), kind="real", abstentions=["N/A"]),
        why="nothing is wrong: it says how many labels are left",
    ),
    Row(
        "notation.as_written",
        lambda: read(table(label=["1,234", "2,345", "3,456", "1,111"]), kind="real"),
        lambda: read(table(label=["1,234", "2,345", "3,456", "1,111"]), kind="real", decimal="."),
    ),
    Row(
        "notation.as_written",
        lambda: read(table(label=["1,5", "2,5", "3,5", "4,5"]), kind="real"),
        lambda: read(table(label=["1,5", "2,5", "3,5", "4,5"]), kind="real", decimal=","),
    ),
    # ids and labels that numpy holds
    Row(
        "parts._parts",
        lambda: A.from_arrays(np.array([1, 2]), ["a", "b"], ["left", "right"], kind="pair"),
        lambda: A.from_arrays(np.array(["1 | 2", "2 | 3"]), ["a", "b"], ["left", "right"], kind="pair"),
    ),
    Row(
        "comparisons._sides",
        lambda: read(
            pairs(left=np.array([1, 2, 3]), right=np.array([2, 3, 1]), winner=np.array([1, 2, 7])), kind="pair"
        ),
        lambda: read(
            pairs(left=np.array([1, 2, 3]), right=np.array([2, 3, 1]), winner=np.array([1, 2, 3])), kind="pair"
        ),
    ),
    Row(
        "rankings.refuse_whole",
        lambda: read(ranks(), kind="ranking", gold={"p": np.array(["p", "q"])}),
        lambda: read(ranks(), kind="ranking", gold={"p": np.int64(1), "q": 2, "r": 3}),
    ),
    Row(
        "ids._text_or_integers",
        lambda: A.from_matrix(np.array([["x", 0.5], ["y", "x"]], object)),
        lambda: A.from_matrix(np.array([["x", "y"], ["y", "x"]], object)),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(
            pd.DataFrame([["x", 0.5], ["y", "x"]], columns=[3, 4], index=pd.Index([1, 2], name="item")), wide=True
        ),
        lambda: read(
            pd.DataFrame([["x", "y"], ["y", "x"]], columns=[3, 4], index=pd.Index([1, 2], name="item")), wide=True
        ),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(label=[np.complex128(1)] * 4)),
        lambda: read(table(label=["1", "2"] * 2)),
    ),
    Row(
        "tables._one_annotator_a_row",
        lambda: read(pd.DataFrame({"item": [1], "annotator": [np.array([3, 4])], "label": [np.array([1])]})),
        lambda: read(pd.DataFrame({"item": [1], "annotator": [np.array([3, 4])], "label": [np.array([1, 2])]})),
    ),
    Row("ids.require_list", lambda: read(classes=np.str_("x")), lambda: read(classes=np.array(["x", "y"]))),
    Row("ids.listed_answers", lambda: read(classes=[(np.str_("x"),), "y"]), lambda: read(classes=["x", "y"])),
    # parts
    Row(
        "parts.with_parts",
        lambda: read(pairs(right=["p", "r", "p"]), kind="pair"),
        lambda: read(pairs(), kind="pair"),
    ),
    Row(
        "parts._parts",
        lambda: A.from_arrays(["p", "q"], ["a", "b"], ["left", "right"], kind="pair"),
        lambda: A.from_arrays(["p | q", "q | r"], ["a", "b"], ["left", "right"], kind="pair"),
    ),
    Row(
        "parts._parts",
        lambda: A.from_arrays(pd.DataFrame({"l": ["p"], "r": ["q"], "s": ["t"]}), ["a"], ["left"], kind="pair"),
        lambda: A.from_arrays(pd.DataFrame({"l": ["p"], "r": ["q"]}), ["a"], ["left"], kind="pair"),
    ),
    Row(
        "parts._parts",
        lambda: read(pairs(left=["p | s", "q", "r"]), kind="pair"),
        lambda: read(pairs(), kind="pair"),
    ),
    Row(
        "parts._positions",
        lambda: read(tokens(position=["one", "2", "3"]), kind="sequence"),
        lambda: read(tokens(), kind="sequence"),
    ),
    Row(
        "parts.with_features",
        lambda: objects(covariates(["p", "q"], f=[1.0, 2.0])),
        lambda: objects(covariates(["p", "q", "r"], f=[1.0, 2.0, 3.0])),
    ),
    Row(
        "parts.with_covariates_of_parts",
        lambda: read(pairs(), kind="pair", item_covariates=covariates(["p | q"], left=["q"])),
        lambda: read(pairs(), kind="pair", item_covariates=covariates(["p | q"], other=["q"])),
    ),
    Row(
        "parts.with_covariates_of_parts",
        lambda: read(pairs(), kind="pair", item_covariates=covariates(["p | z"], f=[1])),
        lambda: read(pairs(), kind="pair", item_covariates=covariates(["p | q"], f=[1])),
    ),
    # rankings
    Row(
        "rankings.read",
        lambda: read(ranks(), kind="ranking", repeats="one"),
        lambda: read(ranks(), kind="ranking", repeats="last"),
    ),
    Row(
        "rankings.with_ranks",
        lambda: read(ranks(rank=["p > q"] * 6), kind="ranking"),
        lambda: read(whole(["p > q > r", "q > p > r"]), kind="ranking"),
    ),
    Row(
        "rankings._once",
        lambda: read(whole(["p > q", "q > p"], annotator=["a", "a"]), kind="ranking", repeats="error"),
        lambda: read(whole(["p > q", "q > p"], annotator=["a", "a"]), kind="ranking", repeats="keep"),
    ),
    Row(
        "rankings._once",
        lambda: read(whole(["p > q", "q > p"], annotator=["a", "a"]), kind="ranking", repeats="last"),
        lambda: read(whole(["p > q", "q > p"], annotator=["a", "b"]), kind="ranking", repeats="last"),
    ),
    Row(
        "rankings._require_same_objects",
        lambda: read(whole(["p > q", "q > r"], annotator=["a", "a"]), kind="ranking"),
        lambda: read(whole(["p > q", "q > r"], annotator=["a", "a"], problem=[1, 2]), kind="ranking"),
    ),
    Row(
        "rankings._with_objects",
        lambda: read(ranks(object=None, problem=[1] * 6)[["problem", "annotator", "rank"]], kind="ranking"),
        lambda: read(
            ranks(object=None, problem=[1] * 6, song=["p", "q", "r"] * 2)[["problem", "annotator", "rank", "song"]],
            kind="ranking",
            item=("problem", "song"),
        ),
    ),
    Row(
        "rankings.refuse_whole",
        lambda: read(ranks(), kind="ranking", gold={"p": "p > q"}),
        lambda: read(ranks(), kind="ranking", gold={"p": 1, "q": 2, "r": 3}),
    ),
    Row(
        "rankings._steps",
        lambda: read(whole(["[p", "p > q"]), kind="ranking"),
        lambda: read(whole(['["p", "q"]', "p > q"]), kind="ranking"),
    ),
    Row(
        "rankings._steps",
        lambda: read(whole([3, ["p", "q"]]), kind="ranking"),
        lambda: read(whole(["q > p", ["p", "q"]]), kind="ranking"),
    ),
    Row(
        "rankings._ranks",
        lambda: read(whole([["p", 1.5], ["p", "q"]]), kind="ranking"),
        lambda: read(whole([["p", "q"], ["p", "q"]]), kind="ranking"),
    ),
    Row(
        "rankings._ranks",
        lambda: read(whole(["p > p", "p > q"]), kind="ranking"),
        lambda: read(whole(["q > p", "p > q"]), kind="ranking"),
    ),
    Row(
        "rankings._ranks",
        lambda: read(whole([["p"], ["p", "q"]]), kind="ranking"),
        lambda: read(whole([["q", "p"], ["p", "q"]]), kind="ranking"),
    ),
    Row(
        "rankings.refuse",
        lambda: read(ranks().iloc[:4], kind="ranking"),
        lambda: read(ranks().iloc[:3], kind="ranking"),
    ),
    Row(
        "rankings.refuse",
        lambda: read(pd.concat([ranks(), ranks().iloc[:1]]), kind="ranking"),
        lambda: read(pd.concat([ranks(), ranks()]), kind="ranking"),
    ),
    # sequences
    Row(
        "sequences.units_of",
        lambda: read(item_covariates=covariates(sequence=[1, 1])),
        lambda: read(item_covariates=covariates(sequence=[1, 1], position=[0, 1])),
    ),
    Row(
        "sequences.units_of",
        lambda: read(item_covariates=covariates(sequence=[1, None], position=[0, 1])),
        lambda: read(item_covariates=covariates(sequence=[1, 1], position=[0, 1])),
    ),
    Row(
        "sequences.units_of",
        lambda: read(item_covariates=covariates(sequence=[1, 1], position=[0, 0])),
        lambda: read(item_covariates=covariates(sequence=[1, 1], position=[0, 1])),
    ),
    Row(
        "sequences._as_bio",
        lambda: read(tokens(["B-X", "I-Y", "O"]), kind="sequence", stray="refuse"),
        lambda: read(tokens(["B-X", "I-Y", "O"]), kind="sequence", stray="repair"),
    ),
    Row(
        "sequences._as_bio",
        lambda: read(tokens(["B-X", "I-Y", "O"]), kind="sequence"),
        lambda: read(tokens(["B-X", "B-Y", "O"]), kind="sequence"),
    ),
    # sets, similarity
    Row("sets.with_answers", lambda: read(SETS, kind="set", features=covariates()), lambda: read(SETS, kind="set")),
    Row(
        "sets.with_answers",
        lambda: read(pd.DataFrame({"item": [1], "annotator": [["a", "b"]], "label": [["x", "y"]]}), kind="set"),
        lambda: read(pd.DataFrame({"item": [1], "annotator": [["a", "b"]], "label": [[["x"], ["y"]]]}), kind="set"),
    ),
    Row(
        "sets._sets",
        lambda: read(SETS, kind="set", classes=["x", "z"]),
        lambda: read(SETS, kind="set", classes=["x", "y", "z"]),
    ),
    Row(
        "sets._refuse_other_separators",
        lambda: read(table(label=["x;y", "x,y", "y", "x"]), kind="set"),
        lambda: read(table(label=["x;y", "x,y", "y", "x"]), kind="set", classes=["x", "y"]),
    ),
    Row(
        "sets._members",
        lambda: read(table(label=[{"a": "x"}, ["x"], ["y"], ["x"]]), kind="set"),
        lambda: read(table(label=[["x"], ["x"], ["y"], ["x"]]), kind="set"),
    ),
    Row(
        "sets._members",
        lambda: read(table(label=[[1.5], ["x"], ["y"], ["x"]]), kind="set"),
        lambda: read(table(label=[["x"], ["x"], ["y"], ["x"]]), kind="set"),
    ),
    Row(
        "sets._read",
        lambda: read(table(label=[None, "x", "y", "x"]), kind="set"),
        lambda: read(table(label=["", "x", "y", "x"]), kind="set"),
    ),
    Row(
        "sets._classes",
        lambda: A.design([1, 2], ["a", "b"], kind="set"),
        lambda: A.design([1, 2], ["a", "b"], kind="set", classes=["x", "y"]),
    ),
    Row(
        "sets._classes",
        lambda: read(table(label=[[], [], [], []]), kind="set"),
        lambda: read(table(label=[[], [], [], []]), kind="set", classes=["x"]),
    ),
    Row(
        "similarity._different_and_same",
        lambda: read(pairs(["no", "maybe", "yes"]), kind="similarity"),
        lambda: read(pairs(["no", "yes", "yes"]), kind="similarity", classes=["no", "yes"]),
    ),
    # shapes
    Row(
        "shapes.rows_of_table",
        lambda: of_file(CONLL, "t.conll", kind="nominal"),
        lambda: of_file(CONLL, "t.conll", kind="sequence"),
    ),
    Row(
        "shapes._is_tied",
        lambda: read(WON.assign(tie=["yes", "perhaps", "no"])),
        lambda: read(WON.assign(tie=["yes", "no", "no"])),
    ),
    Row(
        "shapes._refuse_winner_columns",
        lambda: read(BATTLES),
        lambda: read(
            BATTLES.drop(columns=WON_BY).assign(winner=BATTLES[WON_BY].idxmax(axis=1).str[7:]), kind="pair"
        ),
    ),
    Row(
        "shapes._refuse_counted_rows",
        lambda: read(COUNTED, annotator=None),
        lambda: read(
            COUNTED.loc[COUNTED.index.repeat(COUNTED["votes"])].drop(columns="votes"),
            annotator=None,
            kind="nominal",
        ),
    ),
    Row(
        "shapes._compared",
        lambda: read(pairs(["p", "q", "z"])),
        lambda: read(pairs(["p", "q", "z"]).iloc[:2], kind="pair"),
    ),
    Row(
        "shapes._marked",
        lambda: read(FLAT.assign(text=["Ann sang", "Bob sang"]), item="id"),
        lambda: read(FLAT.assign(text=["Ann sang", "Bob sang"]), item="id", kind="sequence"),
    ),
    Row(
        "shapes._marked",
        lambda: read(texts([SPAN], []).assign(g=1), gold_column="g"),
        lambda: read(texts([SPAN], []), gold={(1, 0): "B-PER"}),
    ),
    # tagged text
    Row(
        "tagged.read_conll",
        lambda: of_file("Ann B-P\nsang\n", "t.conll"),
        lambda: of_file("Ann B-P\nsang O\n", "t.conll"),
    ),
    Row("tagged.read_conll", lambda: of_file("\n", "t.conll"), lambda: of_file(CONLL, "t.conll")),
    Row(
        "tagged.tags_of_columns",
        lambda: of_file(CONLL, "t.conll", annotators=["a", "b", "c"]),
        lambda: of_file(CONLL, "t.conll", annotators=["a", "b"]),
    ),
    Row(
        "tagged._with_tags",
        lambda: of_file("Ann NN x\nsang VB y\n", "t.conll"),
        lambda: of_file("Ann NN x\nsang VB y\n", "t.conll", annotators=["2"]),
    ),
    Row(
        "tagged._with_tags",
        lambda: of_file("Ann NN B-P\nsang VB O\n", "t.conll"),
        lambda: of_file("Ann NN B-P\nsang VB O\n", "t.conll", annotators=["2"]),
    ),
    Row(
        "tagged.spans_of_cells",
        lambda: read(texts([SPAN], [], answer=["accept", "reject"])),
        lambda: read(texts([SPAN], answer=["accept"])),
    ),
    Row(
        "tagged.spans_of_cells",
        lambda: read(texts([SPAN], []).assign(spans=[[SPAN], "soon"]), kind="sequence", label="spans"),
        lambda: read(texts([SPAN], []), kind="sequence"),
    ),
    Row(
        "tagged.spans_of_cells",
        lambda: read(texts([SPAN | {"text": "Bob"}], [])),
        lambda: read(texts([SPAN | {"text": "Ann"}], [])),
    ),
    Row(
        "tagged.spans_of_cells",
        lambda: read(texts([SPAN], [], answer=["accept", "ignore"])),
        why="nothing is wrong: it says how many tasks are left",
    ),
    Row(
        "tagged.spans_of_cells",
        lambda: read(texts([SPAN], answer=["ignore"])),
        lambda: read(texts([SPAN], answer=["accept"])),
    ),
    Row(
        "tagged.tags_of_spans",
        lambda: read(texts([SPAN], [], text=["Ann sang", " "])),
        lambda: read(texts([SPAN], [])),
    ),
    Row(
        "shapes._in_order",
        lambda: read(UNPLACED.drop(index=0)),
        lambda: read(UNPLACED.assign(position=[0, 1, 0, 1]).drop(index=0)),
    ),
    Row("tagged._span", lambda: read(texts([SPAN | {"end": 30}], [])), lambda: read(texts([SPAN], []))),
    Row("tagged._span", lambda: read(texts([SPAN | {"type": " "}], [])), lambda: read(texts([SPAN], []))),
    Row("tagged._tags", lambda: read(texts([SPAN, SPAN | {"end": 2}], [])), lambda: read(texts([SPAN], []))),
]
