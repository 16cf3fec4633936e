"""Messages of ids, columns, tables and what is known besides labels."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

import crowdppl
from crowdppl.data.blocks import _require_context, _require_weight
from crowdppl.data.coded import check_tables
from crowdppl.data.features import StoredFeatures, warn_of_rounding
from crowdppl.data.ragged import _require_small
from crowdppl.data.split import joined, label_folds
from crowdppl.data.tables import as_pandas
from tests.messages.inputs import FEATURES, A, Row, covariates, of_file, pairs, ranks, read, soft, table, written

NOBODY = "a model's own fault; the message says what it is to give"
FIT: dict[str, Any] = {"inference": "vb", "seed": 0, "max_iterations": 3}


class Data:
    """A dataset of torch of such rows."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, n: int) -> Any:
        if isinstance(self.rows[n], Exception):
            raise self.rows[n]
        return self.rows[n]


def features(given: Any, items: Any = (1, 2)) -> Any:
    return read(items=None if items is None else [*items], features=given)


def stored(*rows: Any) -> Any:
    return StoredFeatures.of(Data(*rows), pd.Index(range(len(rows))))


def whole_floats() -> pd.DataFrame:
    return table(item=[1.0, 1.0, 2.0, 2.0])


def fitted(data: Any = None, **options: Any) -> crowdppl.Posterior:
    return crowdppl.fit("one_coin", read() if data is None else data, **FIT | options)


MASK = np.eye(3, dtype=int)
NESTED = [{"id": n, "made": [{"worker": who, "answer": "xy"[n % 2]} for who in "ab"]} for n in range(4)]


def turned(**options: Any) -> crowdppl.Annotations:
    """Forty angles of each of two annotators."""
    angles = pd.DataFrame(
        {"item": [*range(40)] * 2, "annotator": ["a"] * 40 + ["b"] * 40, "label": [*range(0, 320, 8)] * 2}
    )
    return read(angles, kind="angle", **options)


EQUAL = pd.DataFrame({"item": [1, 1, 1], "annotator": ["a", "a", "b"], "label": ["x", "x", "y"]})
MANY = pd.DataFrame(
    {
        "item": [n // 2 for n in range(240)],
        "annotator": ["a", "a", "b"] * 80,
        "label": [f"c{n % 120}" for n in range(240)],
    }
)
TEXTS = pd.DataFrame(
    {"item": [*range(50)], "annotator": ["a", "b"] * 25, "label": [f"word {n}" for n in range(50)]}
)
ENOUGH = (
    pd.DataFrame({"item": [*range(8)] * 3, "annotator": [*"abc"] * 8, "label": [*"xxyyxxyy"] * 3})
    .sort_values("item", ignore_index=True)
    .assign(annotator=[*"abc"] * 8)
)
WIDE = pd.DataFrame({"a": ["x", "y"], "b": ["x", "x"]}, index=pd.Index([1, 2], name="item"))

JUDGED = pd.DataFrame({"query": ["q", "r"] * 2, "document": ["d"] * 4, "rater": [*"aabb"], "grade": [1, 0, 1, 1]})
RESPONSES = pd.DataFrame(
    {
        "item": [1, 2],
        "users": [["a", "b"]] * 2,
        "label": [["x", "y"], ["y", "y"]],
        "users.status": [["submitted", "discarded"], ["submitted"] * 2],
    }
)
MARKED = pd.DataFrame(
    {"HITId": [1, 1, 2, 2], "WorkerId": [*"abab"], "cat": [1, 0, 1, 1], "dog": [0, 1, 0, 0]}
).assign(AssignmentStatus=["Approved", "Rejected", "Approved", "Approved"])
TITLED = "Study 12,,,\nitem,rater,label,\n1,a,x,\n1,b,y,\n2,a,x,\n"
LEVELS = pd.DataFrame(
    [[1, 2, 2, 1], [2, 1, 2, 2], [1, 1, 2, 2], [2, 2, 1, 1], [1, 2, 1, 2]],
    columns=pd.MultiIndex.from_product([["ann", "bob"], ["clear", "right"]]),
)
CODERS = pd.DataFrame(
    [[1, 2, 3, 3, 2, 1], [1, 2, 4, 3, 2, 2], [None, 3, 3, 3, 2, 3], [1, 2, 3, 3, 2, 4]], [*"ABCD"]
)
"""Coders by units, as krippendorff takes them; one unit has the grades 1 to 4."""


def submitted(frame: pd.DataFrame) -> pd.Series:
    return frame["users.status"] != "discarded"


ROWS = [
    # annotations
    Row("options.check_options", lambda: read(clases=["x"]), lambda: read(classes=["x", "y"])),
    Row("options.check_options", lambda: read(objects="own"), lambda: read()),
    Row("options.check_options", lambda: read(like=table()), lambda: read(like=read())),
    Row(
        "options.said_kind",
        lambda: read(
            table(label=[1.0, 2, 3, 4]), like=read(table(label=[1, 2, 3, 4]), kind="angle"), unit="radians"
        ),
        lambda: read(table(label=[1.0, 2, 3, 4]), like=read(table(label=[1, 2, 3, 4]), kind="angle")),
    ),
    Row("annotations.of_rows", lambda: read(pd.concat([ENOUGH, ENOUGH])), lambda: read(ENOUGH)),
    Row(
        "annotations._require_classes",
        lambda: read(table(label=[1, 2, 3, 4]), kind="real").classes,
        lambda: crowdppl.agreement_pairs(read(table(label=[1, 2, 3, 4]), kind="real")),
    ),
    Row(
        "annotations._truths_of_pairs",
        lambda: read(pairs()).with_gold(pd.Series({"p": 1, "q": 2, "r": 3})),
        lambda: read(pairs()).with_gold(pd.Series({"p": 1, "q": 2, "r": 3}, name="rank")),
    ),
    Row("annotations.__getattr__", lambda: read().lable, lambda: read().n_labels),
    Row(
        "annotations.require_whole",
        lambda: crowdppl.agreement_table(replace(read(), share=(0, 2))),
        lambda: crowdppl.agreement_table(read()),
    ),
    Row("annotations.require_annotations", lambda: crowdppl.fit("one_coin", table(), **FIT), lambda: fitted()),
    # blocks, coded, ragged
    Row("blocks._answers", lambda: A.design([1, 2], ["a", "b"], classes=["x", "y"]).answer, why=NOBODY),
    Row(
        "blocks._groups",
        lambda: read(table(label=[1, 2, 3, 4]), kind="real").rankings,
        lambda: read(ranks(), kind="ranking").rankings,
    ),
    Row(
        "blocks._require_context",
        lambda: _require_context(torch.tensor([2.0]), 2),
        lambda: _require_context(torch.tensor([1.0]), 2),
    ),
    Row(
        "blocks._require_weight",
        lambda: _require_weight(torch.tensor([-1.0])),
        lambda: _require_weight(torch.tensor([1.0])),
    ),
    Row("coded.check_tables", lambda: check_tables(2**20, 2**12), lambda: check_tables(2**10, 2**12)),
    Row("coded.require_labels", lambda: fitted(A.design([1, 2], ["a", "b"], classes=["x", "y"])), lambda: fitted()),
    Row("ragged._require_small", lambda: _require_small(2**31, 1, 1), lambda: _require_small(1, 1, 1)),
    # covariates
    Row("soft_labels.columns_of", lambda: soft(classes=[*"xyz"]), soft),
    Row("soft_labels.columns_of", lambda: soft(probabilities="px", classes=None), lambda: soft(probabilities="py")),
    Row("soft_labels.columns_of", lambda: soft(probabilities=["px", 0.5]), soft),
    Row("soft_labels.logits_of", lambda: soft(probabilities={"x": "px", "z": "py"}), soft),
    Row("soft_labels.logits_of", lambda: soft(probabilities=["px", "pz"]), soft),
    Row("soft_labels._numbers", lambda: soft(px=["a", 0.2, 0.5, 0.5]), soft),
    Row("soft_labels._refuse_rows", lambda: soft(px=[0.9, 0.2, 0.5, 0.8]), lambda: soft(scale="score")),
    Row(
        "soft_labels.with_most_probable",
        lambda: soft(px=[None, 0.2, 0.5, 0.5], py=[None, 0.8, 0.5, 0.5]),
        lambda: soft(px=[None, 0.2, 0.5, 0.5], py=[None, 0.8, 0.5, 0.5], label="label"),
    ),
    Row("soft_labels.are_soft", lambda: read(table(), scale="log"), lambda: soft(scale="score")),
    Row(
        "soft_labels.read_soft",
        lambda: read(table(label=[1, 2, 3, 4]), kind="real", repeats="noisy"),
        lambda: read(table(label=[1, 2, 3, 4]), kind="real"),
    ),
    Row(
        "soft_labels._first_codes",
        lambda: read(table(), shown_first="first"),
        lambda: read(table(first=["x", "y", "y", ""]), shown_first="first"),
    ),
    Row(
        "soft_labels._first_codes",
        lambda: read(table(first=["x", "y", "z", ""]), shown_first="first"),
        lambda: read(table(first=["x", "y", "y", ""]), shown_first="first"),
    ),
    Row(
        "annotations._merged",
        lambda: soft(kind="ordinal").above("x"),
        lambda: read(kind="ordinal", classes=["x", "y"]).above("x"),
    ),
    Row(
        "covariates.chosen",
        lambda: read(item_covariates=covariates(words=[np.nan, 3.0])).as_block().item_covariates.chosen(["words"]),
        lambda: read(item_covariates=covariates()).as_block().item_covariates.chosen(["words"]),
    ),
    Row(
        "covariates.groups",
        lambda: _groups(covariates(one=["u", "v"], two=["v", "w"]), "one", "two"),
        lambda: _groups(
            pd.DataFrame(
                {n: pd.Categorical(x, ["u", "v", "w"]) for n, x in (("one", ["u", "v"]), ("two", ["v", "w"]))},
                index=[1, 2],
            ),
            "one",
            "two",
        ),
    ),
    Row(
        "covariates._codes",
        lambda: _groups(covariates(one=[0.5, 1.5]), "one"),
        lambda: _groups(covariates(one=[1, 2]), "one"),
    ),
    Row(
        "covariates._require", lambda: _groups(covariates(), "one"), lambda: _groups(covariates(one=[1, 2]), "one")
    ),
    Row("covariates.feature_table", lambda: features(FEATURES, None), lambda: features(FEATURES)),
    Row("covariates.feature_table", lambda: features(FEATURES[:1]), lambda: features(FEATURES)),
    Row("masks._images", lambda: A.from_masks(MASK), lambda: A.from_masks({"a": MASK})),
    Row(
        "masks._shape",
        lambda: A.from_masks({"a": MASK, "b": MASK[None]}),
        lambda: A.from_masks({"a": MASK, "b": MASK}),
    ),
    Row(
        "masks._shape",
        lambda: A.from_masks({"a": MASK, "b": MASK[:, :2]}),
        lambda: A.from_masks({"a": MASK, "b": MASK}),
    ),
    Row("edges._columns", lambda: read(edges=7), lambda: read(edges=[(1, 2)])),
    Row("edges.sides_of", lambda: read(edges=[(1, None)]), lambda: read(edges=[(1, 2)])),
    Row(
        "edges.coded_edges",
        lambda: of_file(edges=crowdppl.read_edges(written("1,2\n"))),
        lambda: of_file(edges=crowdppl.read_edges(written("one,other\n1,2\n"))),
    ),
    Row("edges.require_two", lambda: read(edges=[(1, 2, 1)]), lambda: read(edges=[(1, 2)])),
    Row("edges.coded_edges", lambda: read(edges=[(1, 2), (2, 2)]), lambda: read(edges=[(1, 2)])),
    Row(
        "covariates.covariate_table",
        lambda: read(item_covariates=[3, 5]),
        lambda: read(item_covariates=covariates()),
    ),
    Row(
        "covariates.label_columns",
        lambda: read(label_covariates=["seconds"]),
        lambda: read(table(seconds=[1, 2, 3, 4]), label_covariates=["seconds"]),
    ),
    Row(
        "covariates.label_columns",
        lambda: read(table(seconds=[1, 2, None, 4]), label_covariates=["seconds"]),
        lambda: read(table(seconds=[1, 2, 3, 4]), label_covariates=["seconds"]),
    ),
    Row(
        "covariates.history_table",
        lambda: read(table(label=[1, 2, 3, 4]), kind="real", history={"a": np.eye(2)}),
        lambda: read(table(label=[1, 2, 3, 4]), kind="real"),
    ),
    Row(
        "covariates._counts",
        lambda: read(history={"a": [["x", 1], [1, 1]]}),
        lambda: read(history={"a": np.eye(2)}),
    ),
    Row("covariates._counts", lambda: read(history={"a": np.eye(3)}), lambda: read(history={"a": np.eye(2)})),
    Row("covariates._counts", lambda: read(history={"a": -np.eye(2)}), lambda: read(history={"a": np.eye(2)})),
    Row(
        "covariates._rows",
        lambda: features(pd.DataFrame({"f": [1.0]}, [1]), None),
        lambda: features(pd.DataFrame({"f": [1.0, 2]}, [1, 2]), None),
    ),
    # features
    Row("features.of", lambda: StoredFeatures.of(3, pd.Index([0])), lambda: stored([1.0])),
    Row("features.of", lambda: StoredFeatures.of(Data([1.0]), pd.Index([0, 1])), lambda: stored([1.0], [2.0])),
    Row("features.of", lambda: stored(1.0), lambda: stored([1.0])),
    Row("features.read", lambda: stored([1.0], [1.0, 2]).read(), lambda: stored([1.0], [2.0]).read()),
    Row("features.read", lambda: stored([np.inf]).read(), lambda: stored([1.0]).read()),
    Row(
        "features.recalled",
        lambda: StoredFeatures.recalled({"rows": np.array([1]), "row_shape": [1]}, pd.Index([0]), Data([1.0])),
        lambda: StoredFeatures.recalled({"rows": np.array([0]), "row_shape": [1]}, pd.Index([0]), Data([1.0])),
    ),
    Row(
        "features.recalled",
        lambda: StoredFeatures.recalled({"rows": np.array([0]), "row_shape": [2]}, pd.Index([0]), Data([1.0])),
        lambda: StoredFeatures.recalled({"rows": np.array([0]), "row_shape": [1]}, pd.Index([0]), Data([1.0])),
    ),
    Row("features._given", lambda: stored(KeyError("x")), lambda: stored([1.0])),
    Row("features._numbers", lambda: stored("x"), lambda: stored([1.0])),
    Row(
        "features.__getitem__",
        lambda: StoredFeatures.recalled({"rows": np.array([0]), "row_shape": [1]}, pd.Index([0])).read(),
        lambda: StoredFeatures.recalled(
            {"rows": np.array([0]), "row_shape": [1]}, pd.Index([0]), Data([1.0])
        ).read(),
    ),
    Row(
        "features.plain_table",
        lambda: features(covariates(f=["x", "y"]), None),
        lambda: features(covariates(f=[0, 1]), None),
    ),
    Row("features.plain_array", lambda: features(np.ma.masked_equal(FEATURES, 0)), lambda: features(FEATURES)),
    Row("features.plain_array", lambda: features([[1.0], [1.0, 2.0]]), lambda: features([[1.0], [2.0]])),
    Row("features.plain_array", lambda: features(np.array([["x"], ["y"]])), lambda: features(FEATURES)),
    Row(
        "features.plain_array",
        lambda: features(np.array([[1, None], [2, 3]], object)),
        lambda: features(np.array([[1, 0], [2, 3]], object)),
    ),
    Row("features.require_finite", lambda: features(FEATURES * np.nan), lambda: features(FEATURES)),
    Row("features.require_finite", lambda: features((FEATURES + 1) * 1e300), lambda: features(FEATURES)),
    Row(
        "features.warn_of_rounding",
        lambda: warn_of_rounding(pd.DataFrame({"f": [1e9, 1e9 + 1]})),
        lambda: warn_of_rounding(pd.DataFrame({"f": [0.0, 1.0]})),
    ),
    Row(
        "features.in_columns",
        lambda: _with_features(pd.DataFrame({"g": [1.0, 2.0]}, [1, 2])),
        lambda: _with_features(pd.DataFrame({"f": [1.0, 2.0]}, [1, 2])),
    ),
    # gold
    Row(
        "gold.given_truths",
        lambda: read(table(g=["x", "x", "y", "y"]), gold_column="g", gold={1: "x"}),
        lambda: read(table(g=["x", "x", "y", "y"]), gold_column="g"),
    ),
    Row("gold.with_one_class", lambda: read(gold={1: ["x", "y"], 2: "x"}), lambda: read(gold={2: "x"})),
    Row(
        "gold.probability_array",
        lambda: crowdppl.evaluate(pd.DataFrame({"x": ["a", 1], "y": [0, 0]}, [1, 2]), {1: "x", 2: "y"}),
        lambda: crowdppl.evaluate(pd.DataFrame({"x": [1.0, 0], "y": [0, 1.0]}, [1, 2]), {1: "x", 2: "y"}),
    ),
    Row(
        "gold.rows_of_truths",
        lambda: crowdppl.evaluate(fitted(), {"one": "x"}),
        lambda: crowdppl.evaluate(fitted(), {1: "x"}),
    ),
    Row(
        "gold.class_codes",
        lambda: crowdppl.evaluate(fitted(), {1: "z"}),
        lambda: crowdppl.evaluate(fitted(read(classes=["x", "y", "z"])), {1: "z"}),
    ),
    Row(
        "gold.true_numbers",
        lambda: read(table(label=[1, 2, 3, 4]), kind="real", gold={1: "z"}),
        lambda: read(table(label=[1, 2, 3, 4]), kind="real", gold={1: 2.5}),
    ),
    Row(
        "gold.true_numbers",
        lambda: turned(gold={n: n / 10 for n in range(40)}),
        lambda: turned(gold={n: n * 5.7 for n in range(40)}),
    ),
    # ids
    Row(
        "ids.tensor_to_numpy",
        lambda: A.from_matrix(torch.eye(2).to_sparse()),
        lambda: A.from_matrix(torch.eye(2).int()),
    ),
    Row(
        "ids.as_column",
        lambda: A.from_arrays("x", ["a"], ["x"]),
        lambda: A.from_arrays([1, 2], ["a", "a"], ["x", "y"]),
    ),
    Row(
        "ids.as_column",
        lambda: A.from_arrays(np.eye(2), ["a", "b"], ["x", "y"]),
        lambda: A.from_arrays([1, 2], ["a", "b"], ["x", "y"]),
    ),
    Row(
        "ids.as_column",
        lambda: A.from_arrays([Decimal("sNaN"), 1], ["a", "b"], ["x", "y"]),
        lambda: A.from_arrays([1, 2], ["a", "b"], ["x", "y"]),
    ),
    Row(
        "ids.as_column",
        lambda: A.from_arrays(np.array([1, 2], np.float16), ["a", "b"], ["x", "y"]),
        lambda: A.from_arrays(np.array([1, 2]), ["a", "b"], ["x", "y"]),
    ),
    Row("ids.sorting", lambda: _sorted(["x", 1]), lambda: _sorted(["x", "1"])),
    Row("ids.codes", lambda: read().item_book.codes([(1, 2), [3]]), lambda: read().item_book.codes([1, 2])),
    Row("ids.require", lambda: read(gold={3: "x"}), lambda: read(gold={3: "x"}, items=[1, 2, 3])),
    Row(
        "ids.refuse_twice",
        lambda: read(gold=pd.Series(["x", "y"], [1, 1])),
        lambda: read(gold=pd.Series(["x"], [1])),
    ),
    Row("ids.code_in", lambda: read(classes=["x", "z"]), lambda: read(classes=["x", "y", "z"])),
    Row(
        "ids.encode_text",
        lambda: A.from_frame(pa.table({"item": _twice(), "annotator": ["a", "b"], "label": ["x", "y"]})),
        lambda: A.from_frame(pa.table({"item": ["1", "2"], "annotator": ["a", "b"], "label": ["x", "y"]})),
    ),
    Row(
        "ids.encode_text",
        lambda: A.from_frame(pa.table({"item": ["1", None], "annotator": ["a", "b"], "label": ["x", "y"]})),
        lambda: A.from_frame(pa.table({"item": ["1", "2"], "annotator": ["a", "b"], "label": ["x", "y"]})),
    ),
    Row(
        "ids.encode",
        lambda: read(table(label=["x", None, "x", "y"])),
        lambda: read(table(label=["x", None, "x", "y"]).dropna()),
    ),
    Row("ids._text_or_integers", lambda: read(whole_floats()), lambda: read()),
    Row(
        "ids._text_or_integers",
        lambda: read(table(label=[0.5, 1.5, 0.5, 0.5])),
        lambda: read(table(label=[0.5, 1.5, 0.5, 0.5]), kind="real"),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(item=[0.5, 0.5, 1.5, 1.5])),
        lambda: read(table(item=pd.Series([0.5, 0.5, 1.5, 1.5]).astype(str))),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(label=[["x"], ["y"], ["x"], ["x", "y"]])),
        lambda: read(table(label=[["x"], ["y"], ["x"], ["x", "y"]]), kind="set"),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(label=[["x"], ["y"], ["x"], ["x"]])),
        lambda: read(table(label=pd.Series([["x"], ["y"], ["x"], ["x"]]).str[0])),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(label=[{"c": "x"}, {"c": "y"}] * 2)),
        lambda: read(table(label=["x", "y"] * 2)),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(item=[1, "b", 1, "b"])),
        lambda: read(table(item=["1", "b", "1", "b"])),
    ),
    Row(
        "ids._text_or_integers",
        lambda: read(table(item=[2.0**60, 2.0**60, 2.0**61, 2.0**61])),
        lambda: read(table(item=[2**60, 2**60, 2**61, 2**61])),
    ),
    Row(
        "ids.refuse_missing_text",
        lambda: read(table(label=["x", " ", "x", "y"])),
        lambda: read(table(label=["x", " ", "x", "y"]), abstentions=[" "]),
    ),
    Row(
        "ids.refuse_missing_text",
        lambda: read(table(label=["x;y", "", "x", "y"])),
        lambda: read(table(label=["x;y", "", "x", "y"]), kind="set"),
    ),
    Row("ids.by_item", lambda: read(gold=["x", "y"]), lambda: read(gold={1: "x", 2: "y"})),
    Row(
        "ids.by_item", lambda: read(gold=covariates(g=["x", "y"])), lambda: read(gold=covariates(g=["x", "y"])["g"])
    ),
    Row("ids.require_list", lambda: read(classes="xy"), lambda: read(classes=["x", "y"])),
    Row("ids.listed", lambda: read(classes=[["x"], "y"]), lambda: read(classes=["x", "y"])),
    Row("ids.listed", lambda: read(classes=["x", "y", "x"]), lambda: read(classes=["x", "y"])),
    Row("ids.listed_answers", lambda: read(classes=[("x",), "y"]), lambda: read(classes=["x", "y"])),
    # repeats, times, split
    Row(
        "repeats.learned_correlation",
        lambda: read(MANY, repeats="share", kind="nominal"),
        lambda: read(MANY, repeats="last", kind="nominal"),
    ),
    Row("repeats._refuse_repeat", lambda: read(EQUAL, repeats="error"), lambda: read(EQUAL, repeats="last")),
    Row(
        "times.one_of_each",
        lambda: read(EQUAL.assign(t=["soon", "1", "2"]), repeats="last", time="t"),
        lambda: read(EQUAL.assign(t=["2026-03-14", "2026-03-15", "2026-03-15"]), repeats="last", time="t"),
    ),
    Row(
        "times.one_of_each",
        lambda: read(EQUAL.assign(t=["3/4/2026", "4/3/2026", "3/4/2026"]), repeats="last", time="t"),
        lambda: read(EQUAL.assign(t=["2026-03-04", "2026-04-03", "2026-03-04"]), repeats="last", time="t"),
    ),
    Row(
        "times.with_times",
        lambda: read(table(t=[1, 2, None, 4]), time="t"),
        lambda: read(table(t=[1, 2, 3, 4]), time="t"),
    ),
    Row(
        "times.with_times",
        lambda: read(table(t=["3/4/2026", "4/3/2026", "3/4/2026", "3/4/2026"]), time="t"),
        lambda: read(table(t=["2026-03-04", "2026-04-03", "2026-03-04", "2026-03-04"]), time="t"),
    ),
    Row(
        "times.column_of_times",
        lambda: read(EQUAL.assign(t=[1, 2, 3]), repeats="last", time="when"),
        lambda: read(EQUAL.assign(t=[1, 2, 3]), repeats="last", time="t"),
    ),
    Row(
        "split.align_to",
        lambda: fitted().predict(table(label=["x", "z", "x", "x"])),
        lambda: fitted().predict(table()),
    ),
    Row("split.joined", lambda: joined(features(FEATURES), features(FEATURES)), lambda: features(FEATURES)),
    Row(
        "split.warn_of_repeats", lambda: fitted().update(table()), lambda: fitted().update(table(item=[3, 3, 4, 4]))
    ),
    Row(
        "split._with_features",
        lambda: crowdppl.data.split.align_to(features(FEATURES), features(FEATURES[:, :1])),
        lambda: crowdppl.data.split.align_to(features(FEATURES), features(FEATURES)),
    ),
    Row(
        "split.label_folds",
        lambda: label_folds(read(table(item=[1, 2, 3, 4])), 2, 0),
        lambda: label_folds(read(), 2, 0),
    ),
    # tables
    Row(
        "tables.__post_init__",
        lambda: A.from_arrays([1, 2], ["a"], ["x", "y"]),
        lambda: A.from_arrays([1, 2], ["a", "b"], ["x", "y"]),
    ),
    Row(
        "tables.__post_init__",
        lambda: A.from_arrays([1, 2], ["a", "b"], ["x", "y"], label_covariates=pd.DataFrame({"t": [1]})),
        lambda: A.from_arrays([1, 2], ["a", "b"], ["x", "y"], label_covariates=pd.DataFrame({"t": [1, 2]})),
    ),
    Row(
        "tables.__post_init__",
        lambda: A.from_arrays([], [], []),
        lambda: A.from_arrays([1, 2], ["a", "b"], ["x", "y"]),
    ),
    Row(
        "tables.rows_of_frame",
        lambda: read(table(item=None, id=[1, 2, 3, 4])),
        lambda: read(table(item=None, id=[1, 2, 3, 4]), item="id"),
    ),
    Row(
        "tables._one_annotator_a_row",
        lambda: read(pd.DataFrame({"item": [1], "annotator": [["a", "b"]], "label": [["x"]]})),
        lambda: read(pd.DataFrame({"item": [1], "annotator": [["a", "b"]], "label": [["x", "y"]]})),
    ),
    Row(
        "tables._refuse_nested",
        lambda: read(pd.DataFrame(NESTED)),
        lambda: read(pd.json_normalize(NESTED, "made", ["id"]), item="id"),
    ),
    Row(
        "tables._refuse_nested",
        lambda: read(pd.DataFrame({"id": [1, 2], "made": [{"a": "x", "b": "y"}, {"a": "x"}]})),
        lambda: read(),
    ),
    Row(
        "tables._refuse_part_of_items",
        lambda: read(JUDGED),
        lambda: read(
            JUDGED.assign(item=JUDGED[["document", "query"]].astype(str).agg(" ".join, axis=1)).drop(
                columns=["document", "query"]
            )
        ),
    ),
    Row(
        "tables.warn_of_states",
        lambda: read(table(status=["Approved", "Approved", "Rejected", "Approved"])),
        lambda: read(
            table(status=["Approved", "Approved", "Rejected", "Approved"]).loc[lambda x: x["status"] != "Rejected"]
        ),
    ),
    Row(
        "tables.warn_of_states",
        lambda: read(RESPONSES),
        lambda: read(RESPONSES.explode(["users", "label", "users.status"]).loc[submitted]),
    ),
    Row(
        "tables.warn_of_states",
        lambda: read(table(_tainted=[False, False, True, False])),
        lambda: read(table(_tainted=[False, False, True, False]).loc[lambda x: ~x["_tainted"]]),
    ),
    Row(
        "tables.warn_of_states",
        lambda: read(MARKED),
        lambda: read(MARKED[MARKED["AssignmentStatus"] != "Rejected"]),
    ),
    Row("tables.require_table", lambda: read([1, 2]), lambda: read()),
    Row(
        "tables.as_pandas",
        lambda: as_pandas(pa.table({"item": _twice()}), "the table"),
        lambda: as_pandas(pa.table({"item": ["1", "2"]}), ""),
    ),
    Row("tables.rows_of_dicts", lambda: A.from_dicts({"a": "x"}), lambda: A.from_dicts({"a": {1: "x", 2: "y"}})),
    Row(
        "tables.label_roles",
        lambda: read(pairs(), kind="pair", item=["left", "right", "x"]),
        lambda: read(pairs(), kind="pair", item=["left", "right"]),
    ),
    Row("tables.recognise", lambda: read(label="answer"), lambda: read(label="label")),
    Row("tables.recognise", lambda: read(item="label", label="label"), lambda: read(item="item", label="label")),
    Row(
        "tables.recognise",
        lambda: read(table(item=None, task=[1, 1, 2, 2], question=[1, 1, 2, 2])),
        lambda: read(table(item=None, task=[1, 1, 2, 2], question=[1, 1, 2, 2]), item="task"),
    ),
    Row(
        "tables.recognise", lambda: read(table(annotator=None)), lambda: read(table(annotator=None), annotator=None)
    ),
    Row(
        "tables.refuse_twins",
        lambda: of_file(TITLED),
        lambda: read(pd.read_csv(written(TITLED), header=1).iloc[:, :3]),
    ),
    Row(
        "tables.refuse_twins",
        lambda: read(LEVELS, wide=True),
        lambda: read(LEVELS.xs("clear", axis=1, level=-1), wide=True),
    ),
    Row(
        "tables.refuse_twins",
        lambda: read(LEVELS, wide=True),
        lambda: read(LEVELS.set_axis(LEVELS.columns.map(" ".join), axis=1), wide=True),
    ),
    Row("tables.refuse_twins", lambda: read(pd.concat([table(), table()[["label"]]], axis=1)), lambda: read()),
    # wide
    Row("wide.rows_of_wide", lambda: read(CODERS, wide=True), lambda: read(CODERS, columns="items")),
    Row("wide.rows_of_wide", lambda: read(CODERS, wide=True), lambda: read(CODERS, columns="annotators")),
    Row("wide.rows_of_wide", lambda: read(WIDE, wide=True, label="a"), lambda: read(WIDE, wide=True)),
    Row("wide._of_annotators", lambda: read(table(rows=2), wide=True, item="item"), lambda: read(table())),
    Row(
        "wide._refuse_others",
        lambda: read(WIDE.assign(truth=["x", "y"]), wide=True),
        lambda: read(WIDE.assign(truth=["x", "y"]), wide=True, gold_column="truth"),
    ),
    Row("wide.rows_of_matrix", lambda: A.from_matrix([[1, 2], [1]]), lambda: A.from_matrix([[1, 2], [1, 1]])),
    Row("wide.rows_of_matrix", lambda: A.from_matrix([1, 2]), lambda: A.from_matrix([[1, 2]])),
    Row(
        "wide.rows_of_matrix",
        lambda: A.from_matrix([[1, 2]], items=[1, 2]),
        lambda: A.from_matrix([[1, 2]], items=[1]),
    ),
    Row(
        "wide._refuse_unspecific",
        lambda: read(WIDE.reset_index(drop=True).assign(id=[7, 8]), wide=True),
        lambda: read(WIDE.reset_index(drop=True).assign(id=[7, 8]), wide=True, item="id"),
    ),
    # a first label that is no class
    Row("classes.require_categories", lambda: read(TEXTS), lambda: read(TEXTS, kind="nominal")),
    Row("files.read_table", lambda: crowdppl.read_annotations("nowhere.csv"), lambda: of_file()),
]


def _groups(known: pd.DataFrame, *names: str) -> Any:
    return read(item_covariates=known).as_block().item_covariates.groups(*names)  # type: ignore[union-attr]


def _with_features(given: pd.DataFrame) -> Any:
    old = read(features=pd.DataFrame({"f": [1.0, 2.0]}, [1, 2]))
    return crowdppl.data.split.align_to(old, read(features=given))


def _sorted(values: list[Any]) -> Any:
    return crowdppl.data.ids.sorting(pd.Index(values), "item")


def _twice() -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["1", "1"]))
