"""What a next ranking by an annotator tells of the skills of a problem's objects."""

from __future__ import annotations

from itertools import permutations
from math import factorial, lgamma
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.kinds.rankings import MOST_ORDERS, OF_RANKS
from crowdppl.errors import MethodError
from crowdppl.inference.predict.answers import Asked
from crowdppl.inference.result import Fit
from crowdppl.results.arviz import draws_of_site
from crowdppl.results.rankings import SKILLS

DRAWS = 200
"""Of skills, over which information is averaged."""
SHARES = np.linspace(0, 1, 17)
"""Of reliable rankings, between which information is interpolated."""


def is_ranked(posterior: Fit) -> bool:
    """Whether labels are ranks of objects in problems."""
    data = posterior.data
    table, of_parts = data.item_covariates, data.alphabet.kind.parts is not None
    return table is not None and {*OF_RANKS} <= {*table.columns} and of_parts and data.n_classes == 0


class RankingAnswers(Asked):
    """Problems of a fit that annotators, codes (A,), may be asked to rank; MethodError where a fit is of points.

    Attributes:
        sd: root mean square of the standard deviations of the log-skills of each problem's objects, (P,).
        most: information of the annotator who tells most, (P,).
    """

    def __init__(self, posterior: Fit, annotators: np.ndarray) -> None:
        super().__init__(posterior, annotators)
        assert self.data.item_covariates is not None
        problem, thing = (self.data.item_covariates[name].cat for name in OF_RANKS)
        self._problem: np.ndarray = problem.codes.to_numpy(np.int64)
        self._problems: pd.Index[Any] = problem.categories.rename("problem")
        sites = posterior.result.sites
        (name,) = SKILLS.keys() & sites.keys()
        drawn = draws_of_site(sites[name], DRAWS, np.random.default_rng(0))
        if drawn is None:
            raise MethodError(
                f"{posterior.inference} found points, and given these a ranking tells nothing of skills; fit with "
                "inference='vb' or 'gibbs'"
            )
        skill = np.log(drawn[1].reshape(-1, drawn[1].shape[-1]))
        skill = skill[np.linspace(0, len(skill) - 1, DRAWS).round().astype(int)]
        reliable = np.asarray(sites["reliability"].mean)[annotators, 0]
        things = thing.codes.to_numpy()
        order = np.lexsort((things, self._problem))
        ends = np.searchsorted(self._problem[order], np.arange(1, len(self._problems)))
        objects = np.split(things[order], ends)
        known = {tuple(each): each for each in objects}
        known = {key: ranking_information(skill[:, each], SHARES) for key, each in known.items()}
        self._information = np.stack([np.interp(reliable, SHARES, known[tuple(each)]) for each in objects])
        self.sd = np.array([np.sqrt(skill[:, each].var(0).mean()) for each in objects])
        self.most = self._information.max(1, initial=0)

    @property
    def ids(self) -> pd.Index[Any]:
        """Of problems."""
        return self._problems

    def columns(self, codes: np.ndarray) -> dict[str, pd.Index[Any]]:
        """The column that names some problems."""
        return {"problem": self._problems[codes]}

    def information(self, items: np.ndarray) -> np.ndarray:
        """Mutual information in bits, (n, A), of skills and next rankings of some problems."""
        return np.asarray(self._information[items])

    def answered(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Who ranked objects of which of some problems."""
        parts = np.flatnonzero(np.isin(self._problem, items))
        row, column = super().answered(parts)
        place = np.empty(len(self._problems), np.int64)
        place[items] = np.arange(len(items))
        return np.asarray(place[self._problem[parts[row]]]), column


def ranking_information(skill: np.ndarray, reliable: np.ndarray) -> np.ndarray:
    """Mutual information in bits, (R,), of log-skills, draws (n, O), and a ranking of their objects.

    Annotators choose objects in turn, in proportion to skills, in a share ``reliable`` of rankings (R,), and rank
    at random in others. Of more than 120 orders, it is averaged over n of each sort.
    """
    n, size = skill.shape
    if every := factorial(size) <= MOST_ORDERS:
        orders = np.array([*permutations(range(size))])
    else:
        stream = np.random.default_rng(0)
        by_skill = skill + stream.gumbel(size=skill.shape)
        orders = np.argsort(-np.concatenate([by_skill, stream.random(skill.shape)]), axis=1)
    log_p, evenly, told = _log_orders(skill, orders), -lgamma(size + 1), []
    for r in reliable:
        with np.errstate(divide="ignore"):
            each = np.logaddexp(np.log(r) + log_p, np.log1p(-r) + evenly)
        mean = np.logaddexp.reduce(each, axis=1) - np.log(n)
        share = np.exp(mean) if every else np.repeat([r / n, (1 - r) / n], n)
        ratio = each - mean[:, None]
        told.append(share @ (np.exp(ratio) * ratio).mean(1))
    return np.asarray(np.array(told) / np.log(2))


def _log_orders(skill: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Log-probability (W, n) of orders (W, O) by log-skills (n, O) (Plackett-Luce)."""
    total = np.zeros((len(orders), len(skill)))
    left = np.full_like(total, -np.inf)
    for stage in orders.T[::-1]:
        own = skill.T[stage]
        left = np.logaddexp(left, own)
        total += own - left
    return np.asarray(total)
