"""Agreement of annotators who rank objects: Kendall's tau of two rankings, and Kendall's W of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from crowdppl.agreement.resampling import Coefficient
from crowdppl.agreement.votes import bootstrap_counts, ratio, require_labels_to_compare, require_two_annotators
from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.rankings import OF_RANKS


class Problem(NamedTuple):
    """The rankings of one problem.

    Attributes:
        who: codes of the m annotators who rank objects of it.
        tau: Kendall's tau-b of each two on the objects that both rank, (m, m); NaN where one has these all tied.
        shared: sums of products of two annotators' ranks around their means, (m, m); NaN unless all rank the same.
    """

    who: np.ndarray
    tau: np.ndarray
    shared: np.ndarray

    def values(self, weight: np.ndarray) -> np.ndarray:
        """Mean tau and W where annotators count ``weight`` times, (A, C), but not beside themselves: (2, C)."""
        own = weight[self.who]
        tau, known = np.nan_to_num(self.tau), np.isfinite(self.tau).astype(float)
        mean = ratio(_apart(tau, own), _apart(known, own))
        m, spread = own.sum(0), ratio(self.shared.diagonal() @ own, own.sum(0))
        covariance = ratio(_apart(self.shared, own), _apart(np.ones_like(self.shared), own))
        return np.stack([mean, ratio(1 + (m - 1) * ratio(covariance, spread), m)])


def _apart(table: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sums over two annotators of a table (m, m) and the products of their weights (m, C): (C,)."""
    return np.asarray(((table - np.diag(table.diagonal())) @ weight * weight).sum(0))


def problems_of(data: Annotations) -> Iterator[tuple[object, Problem]]:
    """Each problem that two annotators rank, by its id."""
    require_labels_to_compare(data)
    assert data.item_covariates is not None
    item, who, _ = data.label_codes()
    rows = data.item_covariates.iloc[item][[*OF_RANKS]].reset_index(drop=True)
    rows = rows.assign(who=who, rank=data.frame()["label"].to_numpy(np.float64))
    for name, own in rows.groupby(OF_RANKS[0], sort=False, observed=True):
        table = own.pivot(index="who", columns=OF_RANKS[1], values="rank")
        if len(table) > 1:
            ranks = table.to_numpy()
            apart = ranks - ranks.mean(1, keepdims=True)
            yield name, Problem(table.index.to_numpy(), tau_of(ranks), apart @ apart.T)


def tau_of(ranks: np.ndarray) -> np.ndarray:
    """Kendall's tau-b (1945, Biometrika 33: 239-251) of each two of m rankings, (m, n), NaN where not ranked."""
    one, other = np.triu_indices(ranks.shape[1], 1)
    sign = np.sign(ranks[:, one] - ranks[:, other])
    there, sign = np.isfinite(sign).astype(float), np.nan_to_num(sign)
    untied = sign**2 @ there.T
    return ratio(sign @ sign.T, np.sqrt(untied * untied.T))


def agreement_of_rankings(data: Annotations, samples: int, seed: int) -> dict[str, Coefficient]:
    """Mean tau and W, means over problems, and their values on bootstrap samples of problems or of annotators.

    Of whichever there are more, problems or annotators, is drawn.
    """
    found = [problem for _, problem in problems_of(data)]
    n_problems = data.item_covariates[OF_RANKS[0]].nunique() if data.item_covariates is not None else 0
    require_two_annotators(n_problems, n_problems + len(found))
    people = np.unique(np.concatenate([problem.who for problem in found]))
    once = np.ones((data.n_annotators, 1))
    each = np.stack([problem.values(once) for problem in found], 1)  # (2, problems, 1)
    parts = [np.empty((2, 0))]
    if len(found) >= len(people):
        for count in bootstrap_counts(len(found), samples, seed):
            known = np.isfinite(each)
            parts.append(ratio((np.nan_to_num(each) * count).sum(1), (known * count).sum(1)))
    else:
        weight = np.zeros((data.n_annotators, 1))
        for count in bootstrap_counts(len(people), samples, seed):
            weight = np.zeros((data.n_annotators, count.shape[1]))
            weight[people] = count
            drawn = np.stack([problem.values(weight) for problem in found], 1)
            known = np.isfinite(drawn)
            parts.append(ratio(np.nan_to_num(drawn).sum(1), known.sum(1)))
    drawn = np.concatenate(parts, 1)
    pairs = sum(len(problem.who) * (len(problem.who) - 1) // 2 for problem in found)
    out = {}
    for name, values, samples_of in zip(("kendall_tau", "kendall_w"), each[..., 0], drawn, strict=True):
        entered = int(np.isfinite(values).sum())
        if not entered and name == "kendall_w":  # nowhere do all rank the same objects
            continue
        counts = {"items": entered, "pairs": pairs, "items_left_out": n_problems - entered, "pairs_left_out": 0}
        out[name] = Coefficient(float(np.nanmean(values)) if entered else np.nan, samples_of, counts)
    return out


def pairs_of_rankings(data: Annotations) -> pd.DataFrame:
    """For each two annotators how many problems both rank, and the mean of tau over these."""
    parts = []
    for _, problem in problems_of(data):
        one, other = np.triu_indices(len(problem.who), 1)
        parts.append(np.stack([problem.who[one], problem.who[other], problem.tau[one, other]]))
    rows = pd.DataFrame(np.concatenate(parts, 1).T if parts else [], columns=["annotator", "other", "agreement"])
    found = rows.groupby(["annotator", "other"])["agreement"].agg(["count", "mean"])
    codes = (found.index.get_level_values(n).astype(int) for n in range(2))
    index = pd.MultiIndex.from_arrays([data.annotators[code] for code in codes], names=["annotator", "other"])
    return found.set_axis(["items", "agreement"], axis=1).set_axis(index)


def problems_table(data: Annotations) -> pd.DataFrame:
    """For each problem how many rank its objects, and the mean tau and W of their rankings."""
    once = np.ones((data.n_annotators, 1))
    rows = {}
    for name, problem in problems_of(data):
        tau, w = problem.values(once)[:, 0]
        rows[name] = {"annotators": len(problem.who), "agreement": tau, "kendall_w": w}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(OF_RANKS[0])
