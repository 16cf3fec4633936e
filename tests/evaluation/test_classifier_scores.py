"""Scores of classifiers on items left out: by hand, against known classifiers, and blind to what it should be."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import item_folds, keep
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.heldout import _judged

SHORT = {"training": {"epochs": 5}}


def clouds(n: int = 190, each: int = 3, labelled: int = 170) -> tuple[Annotations, pd.Series]:
    """Three Gaussian clouds, most items labelled by annotators who are right in 6 of 10 cases."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, n)
    features = pd.DataFrame(2 * np.eye(3, 4)[truth] + rng.normal(size=(n, 4)), index=[f"i{i}" for i in range(n)])
    item = np.repeat(np.arange(labelled), each)
    annotator = np.concatenate([rng.permutation(9)[:each] for _ in range(labelled)])
    right = rng.random(len(item)) < 0.6
    label = np.where(right, truth[item], (truth[item] + rng.integers(1, 3, len(item))) % 3)
    frame = pd.DataFrame({"item": features.index[item], "annotator": annotator, "label": label})
    return Annotations.from_frame(frame, classes=range(3), features=features), pd.Series(truth, features.index)


@pytest.fixture(scope="module")
def both() -> tuple[Annotations, pd.Series]:
    return clouds()


class Fixed(nn.Module):
    """A classifier that nothing is to be learned of."""

    def __init__(self, sharp: float) -> None:
        super().__init__()
        self.sharp = sharp

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sharp * x[:, :3]


def test_labels_are_judged_as_by_hand(both: tuple[Annotations, pd.Series]) -> None:
    data, _ = both
    rng = np.random.default_rng(1)
    shares = rng.dirichlet([1, 1, 1], data.n_items)
    fold = item_folds(data, 3, 0)
    found = _judged(data, shares, fold, 3, 0)
    item, annotator, answer = data.label_codes()
    uniform = _judged(data, np.full_like(shares, 1 / 3), fold, 3, 0)
    out = fold == 1
    model = crowdppl.method("bayesian_dawid_skene", prevalence="uniform")
    learned = crowdppl.fit(model, keep(data, ~out), inference="vb").result
    table = learned.sites["confusion"].mean  # exact; the fit's own table is a mean over draws
    for i in np.unique(item[out])[:20]:
        each = [table[a, :, x] for a, x in zip(annotator[item == i], answer[item == i], strict=True)]
        assert uniform[i] == pytest.approx(np.log(np.prod(each, axis=0).mean()), abs=1e-6)
    assert not np.allclose(found, uniform)


def test_a_better_classifier_scores_higher_and_none_is_worse_than_a_guess(
    both: tuple[Annotations, pd.Series],
) -> None:
    data, _ = both

    def scored(sharp: float) -> crowdppl.ClassifierScore:
        network = {"network": Fixed(sharp)}
        return crowdppl.classifier_score("raykar", data, folds=3, inference="em", settings={**network, **SHORT})

    good, guess, wrong = scored(2.0), scored(0.0), scored(-2.0)
    for better, worse in ((good, guess), (guess, wrong)):
        ahead, error = better.ahead_of(worse)
        assert ahead == pytest.approx(better.per_item - worse.per_item) and ahead > 2 * error


def test_items_left_out_are_new_to_the_classifier(both: tuple[Annotations, pd.Series]) -> None:
    data, truth = both
    score = crowdppl.classifier_score("raykar", data, folds=2, inference="em", settings=SHORT)
    assert list(score.items.index) == [i for i in data.items if i in set(data.frame()["item"])]
    assert (score.items["labels"] == 3).all() and len(score.probabilities) == 170
    hidden = score.items.index[score.items["fold"] == 0]
    part = keep(data, ~data.frame()["item"].isin(hidden).to_numpy())
    alone = crowdppl.fit("raykar", part, inference="em", settings=SHORT).classify(data.features)
    np.testing.assert_array_equal(score.probabilities.loc[hidden], alone.loc[hidden])
    again = crowdppl.classifier_score(
        "raykar", data.with_gold((truth[hidden] + 1) % 3), folds=2, inference="em", settings=SHORT
    )
    np.testing.assert_array_equal(score.probabilities.loc[hidden], again.probabilities.loc[hidden])
    assert "raykar by em" in repr(score)


def test_what_is_refused(both: tuple[Annotations, pd.Series]) -> None:
    data, _ = both
    with pytest.raises(MethodError, match="folds=1"):
        crowdppl.classifier_score("raykar", data, folds=1)
    with pytest.raises(DataError, match="features"):
        crowdppl.classifier_score("raykar", crowdppl.anaesthetists())
    with pytest.raises(DataError, match="folds=500"):
        crowdppl.classifier_score("raykar", data, folds=500)
    with pytest.raises(MethodError, match="network"):
        crowdppl.classifier_score("one_coin", data, folds=2, inference="em")
    score, fewer = (
        crowdppl.ClassifierScore(
            "raykar", "em", pd.DataFrame({"labels": 3, "log_p": np.zeros(n)}), pd.DataFrame(), 1
        )
        for n in (5, 4)
    )
    with pytest.raises(DataError, match="raykar"):
        score.ahead_of(fewer)
