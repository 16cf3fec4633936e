"""Panels: how far a few annotators, such as language models, err together, and what each of them adds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.validation import seed_number, share_between, shown
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError
from crowdppl.evaluation.calibration import without
from crowdppl.inference.fit import fit_one
from crowdppl.inference.result import Fit, uninterrupted
from crowdppl.primitives.mixtures import copies, group_codes
from crowdppl.registry import resolve
from crowdppl.results.correction import MIN_GOLD, design_effect, fit_member, softmax
from crowdppl.results.votes_map import MIX_SD, SCALE_SD, SHIFT_SD, VOTE_SD, VotesMap, centred_logs

MOST = 50
"""Annotators of a panel, at most: pairs are held whole."""
DRAWS = 400
FOLDS = 5
PSEUDO = 10
"""Residuals of a pair as the forecast expects them, beside those of known truths, which may lack a joint error."""
MOST_PSEUDO = 200
"""Items from which they are taken, at most."""
BASES = (0.7, 0.15, 0.15)
"""Prior weights of the posterior's forecast, and of Dawid-Skene's with labels correlated by .25, and not."""
CORRELATED = 0.25
LEVEL = 0.9
LEAST_KNOWN = 5
"""Items of known truth that a pair shares, at least."""
LEAST_SPREAD = 1e-6
"""Variance of errors below which it is rounding."""


def panel(
    posterior: Fit,
    gold: Mapping[Any, Any] | pd.Series | None = None,
    *,
    families: Mapping[Any, Any] | None = None,
    seed: int = 0,
) -> Panel:
    """How far annotators err together: correlations of their errors, and how many independent ones they are worth.

    Without known truths, labels bound shared errors from above and no more, as a pair that agrees may be right or
    misled. Intervals then rest on other panels: on draws of how far a forecast from labels is off, of which the
    truths are drawn, and errors counted. With ten known truths or more, errors are those that a forecast expects on
    all items, plus what it leaves of the errors seen (prediction-powered inference, Angelopoulos et al. 2023,
    doi:10.1126/science.adi6000); the forecast is fitted to the truths of other folds, and what it leaves is drawn
    by the Bayesian bootstrap (Rubin 1981). Pairs that share fewer than five items of known truth are not told.
    People among the annotators of ``judge_panel`` are left out.

    Args:
        gold: known truths by item id, of items drawn at random. They must be none that the posterior was fitted to.
        families: by annotator id (who is left out is alone), such as the maker of a model; None takes those of
            ``judge_panel``, or copies (``crowdppl.primitives.copies``).
        seed: of draws.

    Returns:
        Tables as methods: ``figures``, ``pairs``, ``annotators``, ``without``.

    Raises:
        MethodError: for fewer than two annotators with labels or more than 50, and truths that are no classes.
        DataError: for gold that the posterior was fitted to, of fewer than ten items, or unknown ones or classes.
        KeyboardInterrupt: when Ctrl-C stops the fit of Dawid-Skene that is beside the posterior.

    Examples:
        >>> posterior = crowdppl.fit("auto", crowdppl.anaesthetists(), models=True, seed=0)
        >>> posterior.panel()
        <Panel: 5 annotators of 5 families, by other panels>
    """
    data, seed = posterior.data, seed_number(seed)
    posterior.result.probabilities  # noqa: B018  refuses truths that are numbers
    if data.gold is not None:
        raise DataError("the posterior was fitted with gold=; fit to data.with_gold(None), and give gold= to panel")
    if not isinstance(families, Mapping | None):
        raise MethodError(f"families={shown(families)} must be a mapping from annotator id to family")
    _, annotator, label = data.label_codes()
    there = np.unique(annotator[label < data.n_classes])
    people = np.asarray(getattr(posterior.model, "people", ()), bool)
    there = there[~np.isin(there, np.flatnonzero(people))]
    if not 2 <= len(there) <= MOST:
        raise MethodError(f"a panel has 2 to {MOST} annotators, and {len(there)} gave labels; leave some out")
    code: Any = getattr(posterior.model, "families", None)
    if families is not None:
        code = group_codes(families, data, name="families")
    elif not isinstance(code, tuple) or len(code) != data.n_annotators:
        code = copies(data)
    family = np.unique(np.asarray(code)[there], return_inverse=True)[1]
    return Panel(posterior, family, there, None if gold is None else _known(gold, data), seed)


def _known(gold: Any, data: Annotations) -> pd.Series[Any]:
    """Codes of known classes by code of the item. DataError for what is no gold, or too little."""
    codes = data.with_gold(gold).gold_codes
    at = np.flatnonzero(codes >= 0) if codes is not None else np.empty(0, int)
    if codes is None or len(at) < MIN_GOLD:
        raise DataError(f"gold has {len(at)} items; give {MIN_GOLD} or more, or none")
    return pd.Series(codes[at], at)


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """How far annotators of a posterior err together, as ``Posterior.panel`` finds it.

    An error is a label that is not the truth, whichever it is; correlations are of whether two annotators err, over
    the items that both labelled, NaN where one never or always errs. J annotators with a mean correlation r of
    pairs are worth J / (1 + (J - 1) r) independent ones, 1 to J. Without known truths, means are medians of draws.

    Attributes:
        posterior: the fit.
        family: (J,) number of each annotator's family.
        code: (J,) codes of the annotators who gave labels.
        known: codes of known classes by code of the item; None without.
        seed: of draws.
    """

    posterior: Fit
    family: np.ndarray
    code: np.ndarray
    known: pd.Series[Any] | None
    seed: int

    @property
    def forecast(self) -> np.ndarray:
        """The posterior's probabilities of the classes, (N, K)."""
        return self.posterior.result.probabilities

    @property
    def on(self) -> str:
        """What intervals rest on: other panels, or known truths."""
        return "other panels" if self.known is None else f"{len(self.known)} known truths"

    def __repr__(self) -> str:
        return f"<Panel: {len(self.code)} annotators of {len(np.unique(self.family))} families, by {self.on}>"

    def figures(self, level: float = LEVEL) -> pd.DataFrame:
        """The panel as a whole.

        Args:
            level: probability of the intervals.

        Returns:
            DataFrame of ``mean``, ``low``, ``high`` by figure: ``annotators``, how many there are; ``effective``,
            how many independent ones they are worth; ``correlation`` of pairs, and ``within`` and ``between``
            families, and ``apart``, their difference (NaN where there is no such pair); ``more_within`` and
            ``more_between``, by how much one more annotator of a family, or of a new one, raises ``effective``.
        """
        rows = {"annotators": np.full(len(self._draws[0]) + 1, float(len(self.code)))}
        rows |= _figures(np.concatenate([self._point[1][None], self._draws[1]]), self.family)
        table = pd.DataFrame({name: _row(x[0], x[1:], level) for name, x in rows.items()}).T
        return table.rename_axis("figure")

    def pairs(self, level: float = LEVEL) -> pd.DataFrame:
        """Each pair of annotators.

        Returns:
            DataFrame by annotator and other, in the order of their codes: ``items`` that both labelled, ``family``,
            whether they are of one, and ``correlation`` of their errors with the ends of its interval.
        """
        one, other = np.triu_indices(len(self.code), 1)
        names = self.posterior.data.annotators.take(self.code)
        index = pd.MultiIndex.from_arrays([names[one], names[other]], names=["annotator", "other"])
        mean, low, high = _ends(self._point[1], self._draws[1], level)
        columns = {"items": self._shared[one, other].astype(int), "family": self.family[one] == self.family[other]}
        values = {"correlation": mean, "correlation_low": low, "correlation_high": high}
        return pd.DataFrame(columns | {name: x[one, other] for name, x in values.items()}, index)

    def annotators(self, level: float = LEVEL) -> pd.DataFrame:
        """Each annotator.

        Returns:
            DataFrame by annotator: ``labels``, ``accuracy`` with the ends of its interval, and ``adds``, by how
            much the annotator raises ``effective``: of a copy it is about 0, or less.
        """
        mean, low, high = _ends(1 - self._point[0], 1 - self._draws[0], level)
        own, all_of = [], _effective(self._point[1])
        for j in range(len(self.code)):
            left = np.delete(np.arange(len(self.code)), j)
            own.append(all_of - _effective(self._point[1][np.ix_(left, left)]))
        names = self.posterior.data.annotators.take(self.code).rename("annotator")
        columns = {"labels": np.diag(self._shared).astype(int), "accuracy": mean}
        return pd.DataFrame(columns | {"accuracy_low": low, "accuracy_high": high, "adds": own}, names)

    def without(self) -> pd.DataFrame:
        """What leaving out each annotator would change, by a further fit for each.

        Returns:
            DataFrame by annotator: ``changed``, items whose most probable class would be another, and ``share`` of
            all; with known truths ``accuracy`` on these by all annotators, and ``accuracy_without``.

        Raises:
            KeyboardInterrupt: when Ctrl-C stops one of the fits.
        """
        before, rows = self.forecast.argmax(1), []
        for name in self.posterior.data.annotators.take(self.code):
            after = without(self.posterior, [name]).result.probabilities.argmax(1)
            row = {"changed": int((after != before).sum()), "share": float((after != before).mean())}
            if self.known is not None:
                at, truth = self.known.index, self.known.to_numpy()
                row |= {"accuracy": (before[at] == truth).mean(), "accuracy_without": (after[at] == truth).mean()}
            rows.append(row)
        return pd.DataFrame(rows, self.posterior.data.annotators.take(self.code).rename("annotator"))

    @cached_property
    def _wrong(self) -> np.ndarray:
        """Whether each annotator errs on each item if the truth is each class, (N, J, K); NaN without a label.

        Of an annotator who labelled an item again, the label that was given most often counts.
        """
        data, k = self.posterior.data, self.posterior.data.n_classes
        item, annotator, label = data.label_codes()
        named = label < k
        place = np.full(data.n_annotators, -1)
        place[self.code] = np.arange(len(self.code))
        shape = (data.n_items, len(self.code), k)
        votes = np.zeros(shape)
        np.add.at(votes, (item[named], place[annotator[named]], label[named]), 1)
        named = votes.argmax(2)[:, :, None] == np.arange(k)
        return np.where(votes.any(2, keepdims=True), 1.0 - named, np.nan)

    @cached_property
    def _given(self) -> np.ndarray:
        """Which annotators labelled which items, as numbers (N, J)."""
        return np.asarray(np.isfinite(self._wrong[:, :, 0]), float)

    @cached_property
    def _shared(self) -> np.ndarray:
        """Items that two annotators labelled, (J, J)."""
        return np.asarray(self._given.T @ self._given)

    @cached_property
    def _found(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Mean errors (J,) and correlations (J, J), and draws of them."""
        return self._by_truths() if self.known is not None else self._by_panels()

    @property
    def _point(self) -> tuple[np.ndarray, np.ndarray]:
        return self._found[0]

    @property
    def _draws(self) -> tuple[np.ndarray, np.ndarray]:
        return self._found[1]

    def _by_panels(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """By truths that are drawn from forecasts which are off as they are on other panels."""
        data, stream = self.posterior.data, np.random.default_rng(self.seed)
        name = "bayesian_dawid_skene"
        none: Any = {"seed": self.posterior.options["seed"]}
        alone = uninterrupted(fit_member(name, lambda: fit_one(resolve(name), data, "vb", none, name=name)))
        independent = alone.result.probabilities
        bases = self.forecast, design_effect(independent, data.votes().sum(1), CORRELATED), independent
        (n, k), j = self.forecast.shape, len(self.code)
        votes, drawn = 1 - np.nan_to_num(self._wrong, nan=1.0), []
        for _ in range(DRAWS):
            p = bases[stream.choice(len(bases), p=BASES)]
            scale, shift = 1 + SCALE_SD * stream.standard_normal(), SHIFT_SD * stream.standard_normal(k)
            mix = MIX_SD * stream.standard_normal((k, k))
            logits = (
                scale * centred_logs(p)
                + shift
                + p @ mix
                + votes.transpose(0, 2, 1) @ (VOTE_SD * stream.standard_normal(j))
            )
            truth = (np.cumsum(softmax(logits), 1) < stream.random((n, 1))).sum(1).clip(max=k - 1)
            errors = np.nan_to_num(self._wrong[np.arange(n), :, truth])
            drawn.append(self._correlated(errors.T @ self._given, errors.T @ errors))
        errors, found = (np.stack(x) for x in zip(*drawn, strict=True))
        return (np.median(errors, 0), _over(np.nanmedian, found, 0)), (errors, found)

    def _by_truths(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """By forecasts of errors, and what they leave of the errors that known truths show."""
        assert self.known is not None
        stream, (n_items, k) = np.random.default_rng(self.seed), self.forecast.shape
        rows, hit = self.known.index.to_numpy(), np.eye(k)[self.known.to_numpy()]
        n, fold = len(rows), stream.permutation(len(rows)) % FOLDS
        votes, mean = VotesMap.of([self.forecast], self.posterior.data), np.zeros((n_items, k))
        held = np.empty((n, k))
        for number in range(FOLDS):
            p = votes.fitted(rows[fold != number], hit[fold != number])
            held[fold == number], mean = p[rows[fold == number]], mean + p / FOLDS
        mean[rows] = held  # what was fitted to an item is no forecast of it
        every, (left, there) = self._totals(mean), self._residuals(rows, hit, held)
        seen = there.sum(0)
        told = np.where(seen >= LEAST_KNOWN, 1.0, np.nan)
        left_out = np.maximum(1 - seen / np.maximum(self._shared, 1), 0)
        grow = np.sqrt(left_out * (seen + PSEUDO) / np.maximum(seen - 3, 1))  # as if of those seen alone
        plain = _means(np.ones(n), left, there)
        point = self._correlated(*(every + told * plain * self._shared))
        drawn = []
        for _ in range(DRAWS):
            more = self._expected_residuals(mean, stream)
            both, where = (np.concatenate(x) for x in zip((left, there), more, strict=True))
            tried = _means(stream.dirichlet(np.ones(len(both))), both, where)
            moved = plain + grow * (tried - _means(np.ones(len(both)), both, where))
            drawn.append(self._correlated(*(every + told * moved * self._shared)))
        errors, correlations = (np.stack(x) for x in zip(*drawn, strict=True))
        return point, (errors, correlations)

    def _residuals(self, rows: np.ndarray, truth: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What a forecast (n, K) of truths (n, K) leaves of errors of one of a pair, and of both, on some items.

        (n, 2, J, J), and whether both labelled the item, (n, J, J).
        """
        wrong, here = np.nan_to_num(self._wrong[rows]), self._given[rows]
        there, more = here[:, :, None] * here[:, None, :], truth - p
        one = np.einsum("njk,nk->nj", wrong, more)[:, :, None] * there
        return np.stack([one, np.einsum("njk,nlk,nk->njl", wrong, wrong, more)], 1), there

    def _expected_residuals(self, p: np.ndarray, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The same of random items whose truths are drawn, as many for each pair as it shares, up to ten."""
        least = max(float((self._shared / len(p))[self._shared > 0].min(initial=1)), PSEUDO / MOST_PSEUDO)
        rows = stream.integers(len(p), size=int(np.ceil(PSEUDO / least)))
        truth = (np.cumsum(p[rows], 1) < stream.random((len(rows), 1))).sum(1).clip(max=p.shape[1] - 1)
        left, there = self._residuals(rows, np.eye(p.shape[1])[truth], p[rows])
        kept = there * (there.cumsum(0) <= PSEUDO)
        return left * kept[:, None], kept

    def _totals(self, p: np.ndarray) -> np.ndarray:
        """Expected errors of one on the items of two, and joint errors, over all items, (2, J, J)."""
        wrong = np.nan_to_num(self._wrong)
        joint = np.einsum("njk,nlk->jl", wrong * p[:, None, :], wrong)
        return np.stack([np.einsum("njk,nk->nj", wrong, p).T @ self._given, joint])

    def _correlated(self, errors: np.ndarray, joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean errors (J,) and correlations (J, J), from errors of one on the items of two, and joint errors."""
        shared = np.maximum(self._shared, 1)
        one, both = np.clip(errors / shared, 0, 1), joint / shared
        other = one.T
        spread = np.sqrt(one * (1 - one) * other * (1 - other))
        told = (self._shared > 1) & (spread > LEAST_SPREAD)
        found = np.where(told, np.clip((both - one * other) / np.where(told, spread, 1), -1, 1), np.nan)
        np.fill_diagonal(found, 1.0)
        return np.diag(one).copy(), found


def _means(weight: np.ndarray, left: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Weighted means (2, J, J) of what is left of errors of pairs, over items that both labelled."""
    return np.asarray(np.tensordot(weight, left, 1) / np.maximum(np.tensordot(weight, there, 1), 1e-12))


def _effective(correlation: np.ndarray) -> np.ndarray:
    """Independent annotators that (..., J, J) correlations leave, (...)."""
    j = correlation.shape[-1]
    if j < 2:
        return np.full(correlation.shape[:-2], float(j))
    return _worth(j, _mean(correlation[(..., *np.triu_indices(j, 1))]))


def _figures(correlation: np.ndarray, family: np.ndarray) -> dict[str, np.ndarray]:
    """Figures of the whole panel at correlations (D, J, J), (D,) each."""
    one, other = np.triu_indices(len(family), 1)
    pairs, same = correlation[:, one, other], family[one] == family[other]
    mean, j = _mean(pairs), len(family)
    within, between = _mean(pairs[:, same]), _mean(pairs[:, ~same])
    size = np.bincount(family)[family].mean()  # of a family, as an annotator sees it
    out = {"effective": _effective(correlation), "correlation": mean}
    out |= {"within": within, "between": between, "apart": within - between}
    every = mean * j * (j - 1) / 2  # summed over pairs
    of_kin = (size * within + (j - size) * np.where(np.isnan(between), within, between)) / j
    for name, new in (("more_within", of_kin), ("more_between", between)):  # of it and those who are there
        out[name] = _worth(j + 1, (every + new * j) / (j * (j + 1) / 2)) - out["effective"]
    return out


def _worth(n: int, r: np.ndarray) -> np.ndarray:
    """Independent annotators that n with a mean correlation r are worth, 1 to n."""
    return np.asarray(n / np.clip(1 + (n - 1) * r, 1, n))


def _mean(x: np.ndarray) -> np.ndarray:
    """Over the last dimension, of what is known; NaN where nothing is."""
    return _over(np.nanmean, x, -1)


def _over(statistic: Any, x: np.ndarray, axis: int) -> np.ndarray:
    """A statistic of what is known, NaN where nothing is."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return np.asarray(statistic(x, axis))


def _row(mean: float, draws: np.ndarray, level: float) -> dict[str, float]:
    """Mean, low and high of one figure."""
    found = _ends(np.asarray(mean), draws, level)
    return {name: float(x) for name, x in zip(("mean", "low", "high"), found, strict=True)}


def _ends(mean: np.ndarray, draws: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A mean, and the quantiles between which draws of it (D, ...) lie with a probability."""
    tail = (1 - share_between("level", level)) / 2
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of pairs that share no item
        low, high = np.nanquantile(draws, [tail, 1 - tail], 0)
    return mean, low, high
