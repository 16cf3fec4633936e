"""May a model replace people? The alternative annotator test."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdppl.agreement.coefficients import agreement_table
from crowdppl.core.intervals import check_level
from crowdppl.core.validation import listed, number_within, one_of, share_between, shown
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import Codebook, native
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import CrowdpplWarning, DataError, MethodError
from crowdppl.estimation.inputs import labels_by_people
from crowdppl.inference.result import Fit
from crowdppl.primitives.mixtures import chosen_annotators
from crowdppl.results.truths import labels as labels_of
from crowdppl.results.truths import truth as truth_of

FEWEST = 30
"""Items that a person labelled together with others, at least: the test of a person rests on a t distribution."""
PEOPLE = 3
"""People with as many items, at least: of two, each alone would say what is right for the other."""
MODEL = "the model"


@dataclass(frozen=True, eq=False, repr=False)
class AlternativeAnnotatorTest:
    """Whether a model's labels are nearer to people than a person's are.

    Attributes:
        table: DataFrame by person: ``items`` that somebody else labelled, too; ``model``, the share of them on
            which the model is at least as near to the others; ``person``, on which the person is; ``p`` of the
            hypothesis that the person is nearer by epsilon or more, NaN of people with fewer than 30 items;
            ``wins``, whether the model wins.
        winning_rate: share of people whom the model wins against (omega); from one half on, it may replace them.
        advantage: probability that the model is at least as near as a random person of these (rho), by which models
            are compared.
        advantage_low, advantage_high: ends of its interval, over items.
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
    advantage_low: float
    advantage_high: float
    epsilon: float
    agreement: pd.DataFrame

    @property
    def may_replace(self) -> bool:
        """Whether the model may replace people: it wins against half of them or more."""
        return self.winning_rate >= 0.5

    def __repr__(self) -> str:
        tried, beaten = int(self.table["p"].notna().sum()), int(self.table["wins"].sum())
        may = "may replace" if self.may_replace else "should not replace"
        without, together = (f"{row.value:.3f}" for row in self.agreement.itertuples())
        return (
            f"The model {may} people: it wins against {beaten} of {tried} people (winning rate "
            f"{self.winning_rate:.2f}, epsilon {self.epsilon:g}), and is at least as near to the others as a "
            f"person with probability {self.advantage:.2f} ({self.advantage_low:.2f} to "
            f"{self.advantage_high:.2f}). Krippendorff's alpha is {without}, with the model {together}."
        )


def alternative_annotator_test(
    people: Annotations,
    model: Any,
    *,
    models: Iterable[Any] = (),
    epsilon: float = 0.1,
    measure: Literal["accuracy", "rmse"] = "accuracy",
    q: float = 0.05,
    level: float = 0.95,
    bootstrap: int = 1000,
    seed: int = 0,
) -> AlternativeAnnotatorTest:
    """Tests whether a model may replace people, by their labels of the same items.

    Each person is left out in turn: who is nearer to the labels of the others, the model or the person? The model
    wins against a person where a t test says that the person is ahead by less than epsilon, with false discoveries
    controlled over people (Benjamini & Yekutieli 2001). (Calderon, Reichart & Dror 2025, The alternative annotator
    test for LLM-as-a-judge, ACL.) Where nobody is ever nearer, p is that of seeing this if the person were by
    epsilon. The interval of the advantage is exact for a share of as many independent labels as would have its
    variance, which is taken by items (Korn & Graubard 1998, Survey Methodology 24: 193-201).

    Args:
        people: labels by three people or more, of items that several labelled, and by models, if ``model`` is one.
        model: its labels: a Series or dict by item, annotations by one annotator, or a fit, of which the most
            probable classes are taken; or its id among the annotators of ``people``, who is then no person, and is
            compared on the items that it labelled.
        models: ids of other annotators of ``people`` who are no people.
        epsilon: the advantage that a person must have to be worth the effort: .2 of experts, .15 of skilled people
            and .1 of a crowd, as the paper has it.
        measure: "accuracy", the share of others' labels that are equal; "rmse", the root of the mean squared
            distance, of numbers and of classes that are numbers.
        q: rate of false discoveries.
        level: probability of the interval of the advantage.
        bootstrap: resamples for the intervals of agreement.
        seed: of these.

    Raises:
        MethodError: when fewer than three people labelled 30 items that others labelled, too, or what is labelled
            has no accuracy or no distances.
        DataError: when the model is no annotator, or has no label of an item that people labelled, or two.

    Examples:
        >>> names = [name for name in "abc" for _ in range(40)]
        >>> labels = [n % 2 for n in range(40)] * 2 + [n % 4 // 2 for n in range(40)]
        >>> people = crowdppl.Annotations.from_arrays([*range(40)] * 3, names, labels)
        >>> found = crowdppl.alternative_annotator_test(people, {n: n % 2 for n in range(40)}, bootstrap=0)
        >>> found.table[["model", "person"]].loc["c"].to_dict()
        {'model': 1.0, 'person': 0.5}
        >>> found.may_replace, round(found.advantage_low, 2)
        (True, 0.91)
    """
    require_annotations(people)
    one_of("measure", measure, ("accuracy", "rmse"))
    epsilon = number_within("epsilon", epsilon, "a number from 0 to below 1", lambda x: 0 <= x < 1)
    share_between("q", q)
    check_level(level)
    frame = _labels(people, measure)
    if is_id := pd.api.types.is_scalar(model) and model is not None:
        code = int(people.annotator_book.codes([model])[0])
        if code < 0:
            raise DataError(
                f"model={shown(native(model))} is none of the annotators; give the id of one, or its labels"
            )
        model = frame.loc[frame["annotator"] == people.annotators[code], ["item", "label"]]
    out = people.annotators[np.asarray(chosen_annotators("models", models, people), bool)]
    frame = frame[~frame["annotator"].isin([*out, people.annotators[code]] if is_id else out)]
    if is_id:
        frame = frame[frame["item"].isin(model["item"])]
    several = frame.groupby("item")["annotator"].transform("size") >= 2
    own = _of_model(model, frame.loc[several, "item"], None if people.alphabet.kind.numeric else people.classes)
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
    if tried.sum() < PEOPLE:
        most = int(table["items"].max()) if len(table) else 0
        raise MethodError(
            f"{PEOPLE} people are wanted who labelled {FEWEST} items that others labelled, too, and there are "
            f"{tried.sum()} (of {len(table):,} people, the most such items is {most}); have more items labelled by "
            "several people"
        )
    table["wins"] = False
    table.loc[tried, "wins"] = _discoveries(table.loc[tried, "p"].to_numpy(), q)
    rate = float(table.loc[tried, "wins"].mean())
    advantage = _advantage(near[near["annotator"].isin(table.index[tried])], level)
    agreement = _agreement(frame, own, people, measure, bootstrap, seed)
    return AlternativeAnnotatorTest(table, rate, *advantage, epsilon, agreement)


def _labels(people: Annotations, measure: str) -> pd.DataFrame:
    """Item, annotator and label, one of each; refused where the measure has no meaning."""
    frame = people.frame().drop_duplicates(["item", "annotator"])[["item", "annotator", "label"]]
    if not (kind := people.alphabet.kind).numeric:
        return frame[frame["label"].isin(people.classes)]
    if kind.parts is not None or not number_space(people.space).ordered:
        raise MethodError(
            f"labels of kind {kind.name!r} are no classes and no numbers on a line, so that nobody is nearer; "
            "agreement_pairs(people) says who agree"
        )
    if measure == "accuracy":
        raise MethodError(f"labels of kind {kind.name!r} are numbers, hardly ever equal; use measure='rmse'")
    return frame


def _of_model(model: Any, items: pd.Series[Any], classes: pd.Index[Any] | None) -> pd.Series[Any]:
    """The model's label of each item, with ids and classes as people spell them; numbers without classes."""
    if isinstance(model, Fit):
        model = labels_of(model)["label"] if classes is not None else truth_of(model)["estimate"]
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
    if classes is None:
        return pd.Series(given.to_numpy()[place], index=ids)
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
            raise MethodError("measure='rmse' needs labels that are numbers; take 'accuracy', or give numbers")
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
    who = frame["annotator"].to_numpy()
    return pd.DataFrame({"item": item, "annotator": who, "person": person, "model": model})


def _p_of_less(ahead: np.ndarray, epsilon: float) -> float:
    """Of the hypothesis that the mean is epsilon or more."""
    from scipy.stats import ttest_1samp  # slow to import

    if ahead.std() == 0:  # no person ahead: as likely as that is where one is ahead on a share epsilon of items
        return 1.0 if ahead[0] > 0 else float((1 - epsilon) ** len(ahead))
    return float(ttest_1samp(ahead, epsilon, alternative="less").pvalue)


def _discoveries(p: np.ndarray, q: float) -> np.ndarray:
    from scipy.stats import false_discovery_control  # slow to import

    return np.asarray(false_discovery_control(p, method="by") <= q)


def _advantage(near: pd.DataFrame, level: float) -> tuple[float, float, float]:
    """How probably the model is at least as near as a random person, and the ends of its interval over items."""
    from scipy.stats import beta  # slow to import

    wins = (near["model"] >= near["person"]).astype(float)
    mean = wins.groupby(near["annotator"]).transform("mean")
    weight = 1 / near.groupby("annotator")["item"].transform("size") / near["annotator"].nunique()
    share, of_item = float((weight * wins).sum()), (weight * (wins - mean)).groupby(near["item"]).sum()
    n = len(of_item)
    variance = float((of_item**2).sum()) * n / (n - 1)
    worth = share * (1 - share) / variance if variance > 0 else float(n)
    right, wrong, tail = share * worth, (1 - share) * worth, (1 - level) / 2
    low = float(beta.ppf(tail, right, wrong + 1)) if right > 0 else 0.0
    high = float(beta.ppf(1 - tail, right + 1, wrong)) if wrong > 0 else 1.0
    return share, low, high


def _agreement(
    frame: pd.DataFrame, own: pd.Series[Any], people: Annotations, measure: str, bootstrap: int, seed: int
) -> pd.DataFrame:
    """Krippendorff's alpha of people, without and with the model."""
    kind, coefficient = ("nominal", "nominal") if measure == "accuracy" else ("ordinal", "interval")
    added = pd.DataFrame({"item": own.index, "annotator": MODEL, "label": own.to_numpy()})
    options: Any = {"kind": people.kind}
    if not people.alphabet.kind.numeric:
        options = {"kind": kind, "classes": list(dict.fromkeys([*people.classes, *own]))}
    rows = {}
    for name, part in (("people", frame), ("with the model", pd.concat([frame.astype({"annotator": str}), added]))):
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # reading them has said so
            data = Annotations.from_frame(part, **options)
        rows[name] = agreement_table(data, bootstrap=bootstrap, seed=seed).loc[f"krippendorff_{coefficient}"]
    return pd.DataFrame(rows).T[["value", "low", "high"]].astype(float)
