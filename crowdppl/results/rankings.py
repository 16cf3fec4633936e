"""Rankings of the objects that were compared, or ranked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.core.devices import device_or_cpu, moved_to
from crowdppl.core.intervals import check_level, from_draws, from_point
from crowdppl.data.annotations import Annotations
from crowdppl.data.features import Features, feature_tensor, plain_array
from crowdppl.data.kinds.comparisons import grades_of
from crowdppl.data.kinds.parts import SIDES, beside
from crowdppl.data.kinds.rankings import OF_RANKS
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit
from crowdppl.networks.classifier import Rewards, outputs
from crowdppl.networks.outputs import network_of, rows_to_classify
from crowdppl.results.arviz import draws_of_site, objects_of

SKILLS = {"skill": 1, "weakness": -1}
"""The sites of positive numbers of which the larger rank first, or last."""
DRAWS = 4_000
"""Draws of a distribution over which orders are counted: a probability is then known to .008."""


def ranking(posterior: Fit, level: float = 0.95, features: Any = None) -> pd.DataFrame:
    """The objects that were compared or ranked, the best first.

    Where labels are few and annotators may err, as by ``crowd_bt``, several orders are possible, even one and its
    reverse: vb then draws by short chains of Gibbs from its own distributions. Of rankings and groups, after an
    update and with many labels, it knows one.

    Args:
        level: probability of the intervals.
        features: of other objects, to be ranked in place of those compared by the network of ``reward_model``: a
            table by object, or an array (O, ...), as a side of the fit's pairs has them.

    Returns:
        DataFrame by object, or by group and object, the best first:

        - ``rank``: from 1
        - ``score``: mean of the log-skill less the mean over objects, so that differences of scores are log-odds of
          being preferred
        - ``low``, ``high``: interval of the score; NaN where the engine gives points, and by networks
        - ``rank_low``, ``rank_high``: intervals that hold all ranks at once with this probability
        - ``wins``, ``losses``, ``ties``: labels in which the object was before, behind or beside another one; of
          rankings, such pairs of their objects. Left out of objects that were not compared, and of groups

    Raises:
        MethodError: when the method ranks no objects, has no network for features, or the level is out of range.
        DataError: when features differ from those of the fit in shape or columns, or are not finite in float32.

    Examples:
        >>> posterior = crowdppl.fit("bradley_terry", crowdppl.datasets.example("pair"), inference="vb", seed=0)
        >>> posterior.ranking().round(1)
                rank  score  low  high  rank_low  rank_high  wins  losses  ties
        object
        pear       1    0.3 -0.3   0.9         1          4     9       3     0
        apple      2    0.0 -0.5   0.5         1          5     6       6     0
        plum       3   -0.0 -0.5   0.6         1          5     6       6     0
        fig        4   -0.1 -0.6   0.5         1          5     5       7     0
        kiwi       5   -0.2 -0.8   0.4         1          5     4       8     0
    """
    check_level(level)
    if features is not None:
        return _ranked(_rewards_of(posterior, features), None, level)
    found = _by_group(posterior, partial(_ranked, level=level))
    if found.index.nlevels > 1 or posterior.memory is not None:  # labels before an update are not held
        return found
    return found.join(_counts(posterior.data))


def order_probabilities(posterior: Fit) -> pd.DataFrame:
    """How probable it is that one object is better than another: that its skill is the larger one.

    Where objects are known well, that is nearly 0 or 1, and how often one is preferred need not be
    (``probabilities``).

    Returns:
        DataFrame of objects x objects, of each group where there are any, in the order of ``ranking()``: that the
        one of the row is before the one of the column; NaN on the diagonal.

    Raises:
        MethodError: when the method ranks no objects, or the engine gives points.

    Examples:
        >>> posterior = crowdppl.fit("bradley_terry", crowdppl.datasets.example("pair"), inference="vb", seed=0)
        >>> posterior.order_probabilities().loc["pear", ["apple", "kiwi"]].round(1).tolist()
        [0.7, 0.9]
    """
    return _by_group(posterior, partial(_before, inference=posterior.inference))


def tiers(before: pd.DataFrame, sure: float = 0.95) -> np.ndarray:
    """The tier of each object, from 1, by ``order_probabilities``, (O,).

    A new tier begins at the first object that the best one of the tier is before with the probability ``sure``.
    """
    p, tier, best = before.to_numpy(), np.ones(len(before), np.int64), 0
    for n in range(1, len(p)):
        best = n if p[best, n] >= sure else best
        tier[n] = tier[n - 1] + (best == n)
    return tier


def comparisons(posterior: Fit) -> pd.DataFrame:
    """For each label, what is probably preferred, and whether the label is wrong: to train a reward model on.

    A label is wrong where the annotator's own preference was another: Bayes' rule with the probabilities of the
    pair and the annotator's mean confusion. Where annotators never err, as by ``bradley_terry``, none is.

    Returns:
        DataFrame, a row a label, as in ``data.frame()``:

        - ``left``, ``right``, ``annotator``, ``label``: as in the data
        - ``p_left``, ``p_right``: probability that this one is preferred
        - ``p_wrong``: probability that the label is wrong; NaN of an abstention

    Raises:
        MethodError: when the method ranks no objects.

    Examples:
        >>> posterior = crowdppl.fit("crowd_bt", crowdppl.datasets.example("pair"), inference="vb", seed=0)
        >>> posterior.comparisons().round(2).head(3)
            left right annotator label  p_left  p_right  p_wrong
        0  apple   fig       ann  left    0.62     0.38     0.18
        1  apple   fig       bob  left    0.62     0.38     0.19
        2  apple   fig       cid  left    0.62     0.38     0.19
    """
    _require_skills(posterior)
    data = posterior.data
    item, who, answer = data.label_codes()
    columns: dict[str, Any] = {"annotator": data.annotators[who], "label": data.answers[answer]}
    p = posterior.result.probabilities[item]
    joint = p * posterior.result.table[who, :, answer]  # (S, K): own preference, and what was said
    said = joint[np.arange(len(joint)), np.minimum(answer, data.n_classes - 1)]
    wrong = np.where(answer < data.n_classes, 1 - said / joint.sum(1), np.nan)
    grade = grades_of(data.n_classes)
    columns |= {"p_left": p[:, grade > 0].sum(1), "p_right": p[:, grade < 0].sum(1), "p_wrong": wrong}
    return pd.DataFrame(data.item_columns(item) | columns)


def _counts(data: Annotations) -> pd.DataFrame:
    """How often each object was before, behind and beside another one, by object."""
    objects, table = objects_of(data), data.item_covariates
    assert objects is not None and table is not None
    item, _, answer = data.label_codes()
    if data.n_classes:
        kept = answer < data.n_classes
        ahead = grades_of(data.n_classes)[answer[kept]]
        one = np.concatenate([table[side].cat.codes.to_numpy()[item[kept]] for side in SIDES])
        ahead = np.concatenate([ahead, -ahead])
        counts = [ahead > 0, ahead < 0, ahead == 0]
    else:
        block = data.as_block()
        rankings = block.rankings
        one = table[OF_RANKS[1]].cat.codes.to_numpy()[data.order][np.asarray(block.item)]
        ranks = pd.Series(np.asarray(rankings.ranks)).groupby(np.asarray(rankings.of_label))
        first, last, size = ranks.rank(method="min"), ranks.rank(method="max"), ranks.transform("size")
        counts = [size - last, first - 1, last - first]
    times = (np.bincount(one, np.asarray(x, float), len(objects)).astype(np.int64) for x in counts)
    return pd.DataFrame(dict(zip(("wins", "losses", "ties"), times, strict=True)), index=objects)


def _joint_ranks(drawn: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest rank of each object in those draws (n, O) that are nowhere far out (Besag et al. 1995)."""
    rank = (-drawn).argsort(1).argsort(1)
    depth = np.full(len(rank), len(rank))
    for each in rank.T:
        times = np.bincount(each)
        upto = np.cumsum(times)
        depth = np.minimum(depth, np.minimum(upto, len(rank) - upto + times)[each])
    kept = rank[depth >= np.quantile(depth, 1 - level, method="lower")]
    return kept.min(0) + 1, kept.max(0) + 1


def _network(posterior: Fit) -> Rewards | None:
    """The network that scores objects; None where the fit has none."""
    found = network_of(posterior.model)
    return found if isinstance(found, Rewards) else None


def _skills(posterior: Fit) -> list[str]:
    """Names of the sites that rank objects: other methods may call skills of annotators so."""
    sites = posterior.result.sites
    return [name for name in SKILLS if name in sites and sites[name].dims[:1] == ("object",)]


def _require_skills(posterior: Fit) -> None:
    """Refuses a method that ranks no objects."""
    skills = _skills(posterior) or _network(posterior)
    if not skills or objects_of(posterior.data) is None:
        raise MethodError(
            f"{posterior.method} ranks no objects; fit 'bradley_terry' or 'crowd_bt' to comparisons, read by "
            'kind="pair", or \'plackett_luce\' to rankings, read by kind="ranking"'
        )


def _ranked(point: pd.Series[float], drawn: np.ndarray | None, level: float) -> pd.DataFrame:
    """The table of one ranking, from scores (O,) and draws of them (n, O)."""
    found = from_point(point.to_numpy()) if drawn is None else from_draws(drawn, level)
    ends = (np.nan, np.nan) if drawn is None else _joint_ranks(drawn, level)
    columns = {"score": found.mean, "low": found.low, "high": found.high, "rank_low": ends[0], "rank_high": ends[1]}
    table = pd.DataFrame(columns, index=point.index).sort_values("score", ascending=False, kind="stable")
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    return table


def _before(point: pd.Series[float], drawn: np.ndarray | None, inference: str) -> pd.DataFrame:
    """How often one object is before another in draws (n, O), the best first."""
    if drawn is None:
        raise MethodError(
            f"{inference} found points, which tell no probability of an order; fit with inference='gibbs', and "
            "without a network"
        )
    before = np.stack([(x[:, None] > drawn).mean(0) for x in drawn.T])
    np.fill_diagonal(before, np.nan)
    order = np.argsort(-drawn.mean(0, dtype=np.float64), kind="stable")
    return pd.DataFrame(before, index=point.index, columns=point.index).iloc[order, order]


def _by_group(posterior: Fit, table: Callable[[pd.Series[float], np.ndarray | None], pd.DataFrame]) -> pd.DataFrame:
    """A table of the ranking, or those of each group's beside its number."""
    _require_skills(posterior)
    objects, names = objects_of(posterior.data), _skills(posterior)
    if not names:
        return table(_rewards(posterior), None)
    (name,) = names
    site, sign = posterior.result.sites[name], SKILLS[name]
    found = draws_of_site(site, DRAWS, np.random.default_rng(0))
    point = site.mean.reshape(len(site.mean), -1)
    drawn = None if found is None else sign * np.log(found[1].reshape(-1, *point.shape))
    tables = {}
    for group in range(point.shape[1]):
        scores = pd.Series(_centred(sign * np.log(point[:, group])), objects)
        tables[group] = table(scores, None if drawn is None else _centred(drawn[..., group]))
    return tables[0] if site.mean.ndim == 1 else pd.concat(tables, names=["group"])


def _rewards(posterior: Fit) -> pd.Series[float]:
    """Scores of the objects of pairs by the network: means, where pairs have features of an object of their own."""
    data = posterior.data
    features, table, ids = feature_tensor(data), data.item_covariates, objects_of(data)
    assert features is not None and table is not None and ids is not None
    code = np.stack([table[side].cat.codes for side in SIDES], 1).ravel()
    total = np.bincount(code, _of_sides(posterior, features).ravel(), len(ids))
    times = np.bincount(code, minlength=len(ids))
    here = times > 0  # after an update, an object of the fit may be in no pair
    return pd.Series(_centred(total[here] / times[here]), ids[here])


def _rewards_of(posterior: Fit, features: Any) -> pd.Series[float]:
    """Scores of objects by their features: the network sees each beside itself."""
    if _network(posterior) is None:
        raise MethodError(
            f"{posterior.method} has no network that scores objects; fit 'reward_model' with features="
        )
    known = posterior.data.features
    both: Any
    if isinstance(features, pd.DataFrame):
        both = beside(features, features).set_axis(features.index)
    else:
        one = np.atleast_1d(plain_array(features))
        both = np.stack([one, one], 1)
        both = both.reshape(len(one), -1) if isinstance(known, pd.DataFrame) else both
    index, rows = rows_to_classify(both, known)
    return pd.Series(_centred(_of_sides(posterior, rows)[:, 0]), index.rename("object"))


def _of_sides(posterior: Fit, features: Features) -> np.ndarray:
    """Log-skills (N, 2) of the left and the right object of pairs by the fit's network."""
    network = _network(posterior)
    assert network is not None
    with moved_to(network, device_or_cpu(posterior.options.get("device", "cpu"))):
        found = outputs(network, features).double()
        found[:, 0] -= network.advantage.detach()
    return found.cpu().numpy()


def _centred(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - x.mean(-1, keepdims=True))
