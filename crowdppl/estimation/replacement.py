"""May a model replace people? The alternative annotator test."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.agreement.coefficients import agreement_table
from crowdppl.core.validation import listed, number_within, one_of, share_between
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import Codebook, native
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.estimation.inputs import labels_by_people
from crowdppl.inference.result import Fit
from crowdppl.results.truths import labels as labels_of

FEWEST = 30
"""Items that a person labelled together with others, at least: the test of a person rests on a t distribution."""
MODEL = "the model"


@dataclass(frozen=True, eq=False, repr=False)
class AlternativeAnnotatorTest:
    """Whether a model's labels are nearer to people than a person's are.

    Attributes:
        table: DataFrame by person: ``items`` that somebody else labelled, too; ``model``, the share of them on
            which the model is at least as near to the others; ``person``, on which the person is; ``p`` of the
            hypothesis that the person is nearer by epsilon or more, NaN of people with fewer than 30 items;
            ``wins``, whether the model wins.
        winning_rate: share of people whom the model wins against; from one half on, it may replace them.
        advantage: probability that the model is at least as near as a random person, by which models are compared.
        epsilon: what a person must be ahead by to be worth the effort.
        agreement: DataFrame of Krippendorff's alpha of people, without and with the model: ``value``, ``low``,
            ``high``.

    Examples:
        >>> names = [name for name in "abc" for _ in range(40)]
        >>> labels = [n % 2 for n in range(40)] * 2 + [n % 4 // 2 for n in range(40)]
        >>> people = crowdppl.Annotations.from_arrays([*range(40)] * 3, names, labels)
        >>> crowdppl.alternative_annotator_test(people, {n: n % 2 for n in range(40)}, bootstrap=0).winning_rate
        1.0
    """

    table: pd.DataFrame
    winning_rate: float
    advantage: float
    epsilon: float
    agreement: pd.DataFrame

    def __repr__(self) -> str:
        tried, beaten = int(self.table["p"].notna().sum()), int(self.table["wins"].sum())
        may = "may replace" if self.winning_rate >= 0.5 else "should not replace"
        without, together = (f"{row.value:.3f}" for row in self.agreement.itertuples())
        return (
            f"The model {may} people: it wins against {beaten} of {tried} people (winning rate "
            f"{self.winning_rate:.2f}, epsilon {self.epsilon:g}), and is at least as near to the others as a "
            f"person with probability {self.advantage:.2f}. Krippendorff's alpha is {without}, with the model "
            f"{together}."
        )


def alternative_annotator_test(
    people: Annotations,
    model: Any,
    *,
    epsilon: float = 0.1,
    measure: Literal["accuracy", "rmse"] = "accuracy",
    q: float = 0.05,
    bootstrap: int = 1000,
    seed: int = 0,
) -> AlternativeAnnotatorTest:
    """Tests whether a model may replace people, by their labels of the same items.

    Each person is left out in turn: who is nearer to the labels of the others, the model or the person? The model
    wins against a person where a t test says that the person is ahead by less than epsilon, with false discoveries
    controlled over people (Benjamini & Yekutieli 2001). (Calderon, Reichart & Dror 2025, The alternative annotator
    test for LLM-as-a-judge, ACL.)

    Args:
        people: labels by three people or more (two, at least), of items that several labelled.
        model: its labels: a Series or dict by item, annotations by one annotator, or a fit, of which the most
            probable classes are taken.
        epsilon: the advantage that a person must have to be worth the effort: .2 of experts, .15 of skilled people
            and .1 of a crowd, as the paper has it.
        measure: "accuracy", the share of others' labels that are equal; "rmse", the root of the mean squared
            distance, of classes that are numbers.
        q: rate of false discoveries.
        bootstrap: resamples for the intervals of agreement.
        seed: of these.

    Raises:
        MethodError: when nobody labelled 30 items that others labelled, too, or classes are no numbers.
        DataError: when the model has no label of an item that people labelled, or two.

    Examples:
        >>> names = [name for name in "abc" for _ in range(40)]
        >>> labels = [n % 2 for n in range(40)] * 2 + [n % 4 // 2 for n in range(40)]
        >>> people = crowdppl.Annotations.from_arrays([*range(40)] * 3, names, labels)
        >>> found = crowdppl.alternative_annotator_test(people, {n: n % 2 for n in range(40)}, bootstrap=0)
        >>> found.table[["model", "person"]].loc["c"].to_dict()
        {'model': 1.0, 'person': 0.5}
    """
    require_annotations(people)
    one_of("measure", measure, ("accuracy", "rmse"))
    epsilon = number_within("epsilon", epsilon, "a number from 0 to below 1", lambda x: 0 <= x < 1)
    share_between("q", q)
    frame = people.frame().drop_duplicates(["item", "annotator"])[["item", "annotator", "label"]]
    frame = frame[frame["label"].isin(people.classes)]
    several = frame.groupby("item")["annotator"].transform("size") >= 2
    own = _of_model(model, frame.loc[several, "item"], people.classes)
    frame = frame[several & frame["item"].isin(own.index)]
    near = _nearness(frame, own, measure)
    rows, names = [], list[Any]()
    for name, each in near.groupby("annotator", sort=True):
        ahead = (each["person"] >= each["model"]).astype(float) - (each["model"] >= each["person"]).astype(float)
        p = _p_of_less(ahead.to_numpy(), epsilon) if len(each) >= FEWEST else np.nan
        rows.append(
            (len(each), (each["model"] >= each["person"]).mean(), (each["person"] >= each["model"]).mean(), p)
        )
        names.append(native(name))
    table = pd.DataFrame(rows, pd.Index(names, name="annotator"), ["items", "model", "person", "p"])
    tried = table["p"].notna()
    if not tried.any():
        most = int(table["items"].max()) if len(table) else 0
        raise MethodError(
            f"nobody labelled {FEWEST} items that another person labelled, too (the most is {most}); have more "
            "items labelled by several people"
        )
    table["wins"] = False
    table.loc[tried, "wins"] = _discoveries(table.loc[tried, "p"].to_numpy(), q)
    rate, advantage = float(table.loc[tried, "wins"].mean()), float(table.loc[tried, "model"].mean())
    agreement = _agreement(frame, own, people, measure, bootstrap, seed)
    return AlternativeAnnotatorTest(table, rate, advantage, epsilon, agreement)


def _of_model(model: Any, items: pd.Series[Any], classes: pd.Index[Any]) -> pd.Series[Any]:
    """The model's label of each item, with ids and classes as people spell them."""
    if isinstance(model, Fit):
        model = labels_of(model)["label"]
    given = labels_by_people(model, "model")
    if not given.index.is_unique:
        twice = native(given.index[given.index.duplicated()][0])
        raise DataError(f"the model has two labels of item {twice!r}; give one, of one model")
    ids = pd.Index(items.unique())
    place = Codebook("item", given.index).codes(ids)
    if (place < 0).any():
        lost = native(ids[np.flatnonzero(place < 0)[0]])
        raise DataError(
            f"the model has no label of {int((place < 0).sum()):,} of {len(ids):,} items that several people "
            f"labelled, such as {lost!r}; spell items alike, or leave them out"
        )
    code = Codebook("class", classes).codes(given)
    if not (code >= 0).any():
        raise DataError(
            f"the model's labels, such as {native(given.iloc[0])!r}, are none of people's classes "
            f"({listed([repr(native(x)) for x in classes])}); spell them alike"
        )
    spelled = np.where(code >= 0, classes.astype(object).to_numpy()[code], given.astype(object).to_numpy())
    return pd.Series(spelled[place], index=ids)


def _nearness(frame: pd.DataFrame, own: pd.Series[Any], measure: str) -> pd.DataFrame:
    """How near a person's label and the model's are to those of the others on the item, by label of a person."""
    item, count = pd.factorize(frame["item"])[0], frame.groupby("item")["label"].transform("size").to_numpy() - 1
    mine, models = frame["label"].to_numpy(), frame["item"].map(own).to_numpy()
    if measure == "rmse":
        numbers = [pd.to_numeric(pd.Series(x), errors="coerce").to_numpy(float) for x in (mine, models)]
        if not all(np.isfinite(x).all() for x in numbers):
            raise MethodError("measure='rmse' needs classes that are numbers; take 'accuracy'")
        first, second = (np.bincount(item, numbers[0] ** power) for power in (1, 2))
        others = first[item] - numbers[0], second[item] - numbers[0] ** 2
        near = [-(x**2) * count + 2 * x * others[0] - others[1] for x in numbers]
    else:
        code = pd.factorize(np.concatenate([mine, models]).astype(object))[0]
        own_code, model_code = code[: len(mine)], code[len(mine) :]
        votes = np.zeros((item.max(initial=-1) + 1, code.max(initial=-1) + 1))
        np.add.at(votes, (item, own_code), 1)
        near = [votes[item, own_code] - 1, votes[item, model_code] - (own_code == model_code)]
    person, model = (np.round(x / count, 9) for x in near)
    return pd.DataFrame({"annotator": frame["annotator"].to_numpy(), "person": person, "model": model})


def _p_of_less(ahead: np.ndarray, epsilon: float) -> float:
    """Of the hypothesis that the mean is epsilon or more."""
    from scipy.stats import ttest_1samp  # slow to import

    if ahead.std() == 0:
        return float(ahead[0] >= epsilon)
    return float(ttest_1samp(ahead, epsilon, alternative="less").pvalue)


def _discoveries(p: np.ndarray, q: float) -> np.ndarray:
    from scipy.stats import false_discovery_control  # slow to import

    return np.asarray(false_discovery_control(p, method="by") <= q)


def _agreement(
    frame: pd.DataFrame, own: pd.Series[Any], people: Annotations, measure: str, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Krippendorff's alpha of people, without and with the model."""
    kind, coefficient = ("nominal", "nominal") if measure == "accuracy" else ("ordinal", "interval")
    added = pd.DataFrame({"item": own.index, "annotator": MODEL, "label": own.to_numpy()})
    classes, rows = list(dict.fromkeys([*people.classes, *own])), {}
    for name, part in (("people", frame), ("with the model", pd.concat([frame.astype({"annotator": str}), added]))):
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # reading them has said so
            data = Annotations.from_frame(part, kind=kind, classes=classes)
        rows[name] = agreement_table(data, bootstrap=bootstrap, seed=seed).loc[f"krippendorff_{coefficient}"]
    return pd.DataFrame(rows).T[["value", "low", "high"]].astype(float)
