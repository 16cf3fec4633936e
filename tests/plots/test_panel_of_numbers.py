"""The picture of raters' shared errors, where labels are numbers; and of sure items by class."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import DataError, MethodError
from tests.handmade import posterior

matplotlib.use("Agg")
NAMES = [*"abcdefg"]


def ratings(shared: float, seed: int = 0, n: int = 400) -> tuple[pd.DataFrame, pd.Series]:
    """Ratings of n items by seven raters with biases and gains, of whom b and f err together; and the truths."""
    rng = np.random.default_rng(seed)
    truth, errors = rng.normal(0, 2, n), rng.normal(0, 1, (7, n))
    errors[5] = shared * errors[1] + np.sqrt(1 - shared**2) * errors[5]
    labels = np.linspace(-1, 1, 7)[:, None] + np.linspace(0.7, 1.3, 7)[:, None] * truth + errors
    rows = {"item": np.tile(np.arange(n), 7), "annotator": np.repeat(NAMES, n), "label": labels.ravel()}
    return pd.DataFrame(rows), pd.Series(truth, np.arange(n))


def drawn(ax: object) -> pd.DataFrame:
    """The correlations in the cells, by the names at the edges."""
    names = [tick.get_text() for tick in ax.get_yticklabels()]  # type: ignore[attr-defined]
    return pd.DataFrame(np.ma.filled(ax.images[0].get_array(), np.nan), names, names)  # type: ignore[attr-defined]


@pytest.mark.parametrize("known", [False, True])
def test_who_errs_together_is_found_whatever_the_bias_and_the_gain(known: bool) -> None:
    frame, truth = ratings(0.8)
    posterior = crowdppl.fit("label_mean", crowdppl.Annotations.from_frame(frame, kind="real"), inference="em")
    ax = posterior.plot_panel(truth if known else None)
    found = drawn(ax)
    assert ax.get_title() == f"error correlation, by {'400 known truths' if known else 'the other raters'}"
    assert found.loc["b", "f"] == pytest.approx(0.8, abs=0.12) and np.isnan(np.diag(found)).all()
    assert abs(list(found).index("b") - list(found).index("f")) == 1, "side by side"
    rest = found.to_numpy()[np.triu_indices(7, 1)]
    assert np.sort(np.abs(rest))[-2] < 0.25, "nobody else"
    told = pd.DataFrame(np.isnan(ax.images[1].get_array().filled(np.nan)), found.index, found.columns)
    assert told.loc["b", "f"]
    assert not known or told.to_numpy().sum() == 7 + 2, "but for the diagonal, all other cells are grey"
    assert ax.get_xlabel() == "grey: within chance (p > 0.05 among 21 pairs)"
    if known:  # by hand: what a line on the truth leaves
        left = [y - np.polyval(np.polyfit(truth, y, 1), truth) for _, y in frame.groupby("annotator")["label"]]
        np.testing.assert_allclose(found.loc[NAMES, NAMES].fillna(1), np.corrcoef(left), atol=0.01)


@pytest.mark.parametrize("known", [False, True])
def test_pairs_within_chance_are_grey(known: bool) -> None:
    coloured = 0
    for seed in range(20):
        frame, truth = ratings(0.0, seed, n=60)
        found = crowdppl.fit("label_mean", crowdppl.Annotations.from_frame(frame, kind="real"), inference="em")
        ax = found.plot_panel(truth if known else None)
        coloured += np.isnan(ax.images[1].get_array().filled(np.nan)).sum() > 7
        plt.close(ax.figure)
    assert coloured <= 4, "one of twenty is expected, five or more come once in 390"


def test_families_stand_together_in_a_box() -> None:
    frame, _ = ratings(0.0, n=60)
    posterior = crowdppl.fit("label_mean", crowdppl.Annotations.from_frame(frame, kind="real"), inference="em")
    ax = posterior.plot_panel(families={"a": "one", "g": "one", "c": "two"})
    assert list(drawn(ax))[:2] == ["a", "g"] and len(ax.patches) == 1


def test_some_truths_and_few_shared_items() -> None:
    frame, truth = ratings(0.8, n=60)
    posterior = crowdppl.fit("label_mean", crowdppl.Annotations.from_frame(frame, kind="real"), inference="em")
    assert posterior.plot_panel(truth[:20]).get_title().endswith("by 20 known truths")
    with pytest.raises(DataError, match="no two raters share ten items"):
        posterior.plot_panel(truth[:5])
    pairs = frame[(frame["item"] % 7 == frame["annotator"].map(NAMES.index)) | (frame["annotator"] == "a")]
    posterior = crowdppl.fit("label_mean", crowdppl.Annotations.from_frame(pairs, kind="real"), inference="em")
    with pytest.raises(DataError, match="no two raters share ten items"):
        posterior.plot_panel()
    facets = crowdppl.fit("rater_facets", crowdppl.datasets.example("ordinal"), inference="em", seed=0)
    with pytest.raises(MethodError, match="plot_annotators"):
        facets.plot_panel()


def test_bars_count_settled_likely_and_open_items_of_each_class() -> None:
    held = posterior(4, n_classes=3)
    ax = held.plot_items(show="classes")
    labels = held.labels()
    band = np.select([labels["probability"] >= 0.95, labels["probability"] >= 0.7], [0, 1], 2)
    counts = np.array([[bar.get_width() for bar in bars] for bars in ax.containers])
    by_hand = [[((labels["label"] == name) & (band == n)).sum() for name in held.data.classes] for n in range(3)]
    np.testing.assert_array_equal(counts, by_hand)
    assert counts.sum() == held.data.n_items
    starts = np.array([[bar.get_x() for bar in bars] for bars in ax.containers])
    np.testing.assert_array_equal(starts, np.cumsum(counts, 0) - counts)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [*held.data.classes]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first class on top"
    numbers = crowdppl.fit("label_mean", crowdppl.datasets.example("real"), inference="em")
    with pytest.raises(MethodError, match=r"plot_items\(show='items'\)"):
        numbers.plot_items(show="classes")
