"""Groups of annotators found from their labels, in simulated crowds: recovery, and what they bring."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from crowdppl import Annotations
from crowdppl.agreement.clusters import coded, find_in_codes, fit_groups
from tests.benchmarks.results import GROUPS, Recorder
from tests.benchmarks.tables import markdown, mean_and_error

ITEMS, ANNOTATORS = 500, 24
CROWDS: Mapping[int, int] = {0: 12, 2: 12, 3: 12, 4: 12, 5: 12, 6: 12, 7: 12, 8: 16}
"""Simulations by number of groups; 0 for annotators who are all alone."""
ABOUT = (
    "`find_groups`, and accuracy (per cent) of `dependent_clusters` by maximum likelihood with these groups, with "
    f"the true ones, and with all alone. Each crowd has {ITEMS} items, two to four classes and {ANNOTATORS} "
    "annotators in groups of equal or random sizes; a third to all of them label an item. A group's opinion is "
    "right in .6 to .8, and its members give it in .7 to .9; annotators alone are right in .5 to .7. Index: "
    "adjusted Rand index; number right: share of crowds. Of two groups, either opinion may be the truth: a table "
    "for both has the likelihood of a table for one, and costs more, so that members of one are left alone. They "
    "count as the other group here."
)


class Crowd(NamedTuple):
    """Labels, their true classes, and the group of each annotator."""

    data: Annotations
    truth: pd.Series
    groups: np.ndarray


def crowd(n_groups: int, seed: int) -> Crowd:
    """A crowd of some groups; of none, annotators are alone."""
    rng = np.random.default_rng([n_groups, seed])
    k, each = int(rng.integers(2, 5)), int(rng.integers(ANNOTATORS // 3, ANNOTATORS + 1))
    groups = np.arange(ANNOTATORS)
    if n_groups:
        share = rng.dirichlet(np.full(n_groups, 5.0)) if seed % 2 else np.full(n_groups, 1 / n_groups)
        groups = np.concatenate(
            [np.repeat(np.arange(n_groups), 2), np.sort(rng.choice(n_groups, ANNOTATORS, p=share))]
        )
        groups = groups[:ANNOTATORS]
    truth, size = rng.integers(k, size=ITEMS), int(groups.max()) + 1

    def said(right: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """What is said of classes that are seen, (n, N), errors by a table of one's own."""
        wrong = rng.dirichlet(np.full(k - 1, 3.0), (len(right), k))
        rows = np.stack([np.insert(wrong[:, t] * (1 - right)[:, None], t, right, axis=1) for t in range(k)], 1)
        p = rows[np.arange(len(right))[:, None], seen].cumsum(-1)
        return (rng.random((*seen.shape, 1)) > p[..., :-1]).sum(-1)

    of_group = np.broadcast_to(truth, (size, ITEMS))
    opinion = said(rng.uniform(0.6, 0.8, size), of_group) if n_groups else of_group
    own = rng.uniform(0.7, 0.9, ANNOTATORS) if n_groups else rng.uniform(0.5, 0.7, ANNOTATORS)
    label = said(own, opinion[groups])
    who, item = np.nonzero(rng.random((ANNOTATORS, ITEMS)).argsort(0).argsort(0) < each)
    data = Annotations.from_arrays(item, who, label[who, item], classes=range(k))
    return Crowd(data, pd.Series(truth), groups)


def scored(one: Crowd) -> dict[str, float]:
    """Recovery of the groups, and accuracies in per cent: alone, with the groups found, and with the true ones."""
    labels = coded(one.data)
    found = find_in_codes(labels)
    told = found if one.groups.max() != 1 else np.where(np.bincount(found)[found] > 1, found, -1)
    out = {"index": float(adjusted_rand_score(one.groups, told))}
    out["exact"] = float(len(np.unique(told)) == one.groups.max() + 1)
    for name, groups in (("alone", np.arange(ANNOTATORS)), ("found", found), ("true", one.groups)):
        out[name] = 100 * float(np.mean(fit_groups(labels, groups).truth.argmax(1) == one.truth))
    return out


def test_groups(recorder: Recorder) -> None:
    header = ["groups", "crowds", "index", "number right", "alone", "found", "gain", "true groups"]
    recorder.add(GROUPS, f"{ABOUT}\n\n{markdown(header, list(rows()))}")


def rows() -> Iterator[list[str]]:
    for n_groups, n in CROWDS.items():
        yield row(n_groups, pd.DataFrame([scored(crowd(n_groups, seed)) for seed in range(n)]))


def row(n_groups: int, found: pd.DataFrame) -> list[str]:
    """A row of the table, from crowds of so many groups."""
    gain = mean_and_error((found["found"] - found["alone"]).to_numpy(), 2, signed=True)
    told = [f"{found[name].mean():.2f}" for name in ("index", "exact", "alone", "found")]
    return [str(n_groups or "none"), str(len(found)), *told, gain, f"{found['true'].mean():.2f}"]
