"""Rater facets: grades on several criteria tell where an item lies on a scale, whoever graded it.

    mean              ~ Normal(0, 2)                              ()        of items' places
    width             ~ LogNormal(0, 1)                           ()        their standard deviation
    difficulty[c]     ~ Normal(0, 2), less the mean               (C)       of criteria
    step[c, j]        ~ Normal(0, 2), less the mean over j        (C, J)    between grades
    log_slope[c]      ~ Normal(0, slopes), less the mean          (C)       how sharply it tells items apart
    severity[a]       ~ Normal(0, severity)                       (A)
    log_centrality[a] ~ Normal(0, centrality)                     (A)       how a rater keeps to the middle grades
    log_consistency[a] ~ Normal(0, consistency)                   (A)       how sharply a rater tells items apart
    impact[g]         ~ Normal(0, 1)                              (G)       of an item's group on its place
    dif[g, c]         ~ Normal(0, 0.5), less the means            (G, C)    of the group on a criterion's difficulty
    truth[i]          ~ Normal(mean + impact[g], width)           (N)       on a grid, summed out
    expert_severity   ~ Normal(0, 2)                              ()        of known grades, where there are some
    log_expert        ~ Normal(0, consistency)                    ()        how sharply these tell items apart
    label[i, a, c]    = k with a log-weight that is the sum, over j < k, of exp(log_slope[c] + log_consistency[a])
                        (truth[i] - difficulty[c] - dif[g, c] - severity[a] - exp(log_centrality[a]) step[c, j])

A generalised partial credit model; of two grades, there are no steps and no centrality. Sites are as drawn: whoever
reads draws of `difficulty`, `step` or `log_slope` takes the mean away as the model does. Where slopes, centrality
and consistency are 0, their sites are left out: it is then the many-facet Rasch model; without severity and
criteria, too, the mean of grades tells an item's place. Anchors are difficulties and severities known to a
hundredth of a logit. A known grade of an item (gold) is the mean over criteria that an expert would give at its
place, rounded: it enters as a Normal of the variance of rounding, 1/12. Fair averages are then an expert's, on the
scale of known grades.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

import crowdppl.primitives as cp
from crowdppl import mean_field
from crowdppl.errors import DataError, MethodError

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

REACH = 4.0
"""Half the length of the grid, in standard deviations of the items' places."""
MOST_GRADES = 100
"""Grades, each of which has a step of its own on each criterion; of more, a fit does not end."""
ANCHORED = 0.01
"""Standard deviation of what is known, in logits."""
ROUNDED = 1 / 12
"""Variance of what rounding takes from a grade."""
Known = Sequence[float | None]


@dataclass(frozen=True)
class RaterFacets:
    """Items, raters and criteria on one scale (many-facet generalised partial credit).

    Args:
        criterion: name of the label covariate that holds the number of a label's criterion; None for one.
        group: name of the item covariate whose groups may differ, in place and criterion by criterion (DIF).
        slopes, centrality, consistency: standard deviations of log-slopes of criteria, of log-centralities and of
            log-consistencies of raters; 0 takes all of them to be 1.
        severity: standard deviation of severities; 0 takes all raters to be as severe.
        severities: anchors, known severities by annotator, or in the order of annotators with None for others.
        difficulties: the same of criteria, in order of their numbers.
        points: of the grid of places.
        criteria: their numbers, rising; by default those found in the data.
    """

    criterion: str | None = None
    group: str | None = None
    slopes: float = 0.3
    centrality: float = 0.3
    consistency: float = 0.3
    severity: float = 1.0
    severities: Mapping[Any, float] | Known = ()
    difficulties: Known = ()
    points: cp.Count = 61
    criteria: Sequence[int] = ()

    card: ClassVar[cp.Card] = cp.Card(
        title="Rater facets",
        reference="Linacre (1989), Many-facet Rasch measurement; slopes as in Uto & Ueno (2020)",
        doi="10.1007/s41237-020-00115-7",
        kind="ordinal",
        scale=True,
        named={"criterion": "label_covariates", "group": "item_covariates"},
        sites={"mean": "", "width": "", "difficulty": "C", "step": "C J", "log_slope": "C", "severity": "A"}
        | {"log_centrality": "A", "log_consistency": "A", "impact": "G", "dif": "G C", "truth": "N"}
        | {"expert_severity": "", "log_expert": ""},
        assumes="grades of an item depend on its place on one scale alone, given rater and criterion",
        fails="when criteria measure different things, or raters who share no items are compared",
        cost="(labels + raters x criteria x grades) x points, and a gradient step for each parameter",
    )

    def setup(self, data: Annotations) -> RaterFacets:
        """A copy with the numbers of criteria, and anchors in the order of annotators.

        Raises:
            MethodError: when there are too many grades, or anchors of unknown annotators.
        """
        if data.n_classes > MOST_GRADES:
            raise MethodError(
                f"rater_facets takes at most {MOST_GRADES} grades, and these are {data.n_classes:,}; merge "
                "neighbours (pandas.cut), or read them by kind='real' and take a method for numbers, such as "
                "'gaussian_annotators'"
            )
        known = self.severities
        if known and not self.severity:
            raise MethodError(
                "severity=0 takes all raters to be as severe, and severities= names some; leave one out"
            )
        if isinstance(known, Mapping):
            if unknown := [a for a in known if a not in data.annotators]:
                raise MethodError(f"severities name {unknown[:5]}, who are no annotators; leave them out")
            known = [known.get(a) for a in data.annotators]
        return replace(self, criteria=self._criteria(data.as_block()), severities=known)

    def model(self, data: cp.Block) -> None:
        """Draws criteria, groups, raters and labels; places are summed out."""
        block, c = cp.plates.block_of(data), len(self._criteria(data))
        if block.n_answers > block.n_classes:
            raise MethodError("rater_facets takes no abstentions; leave their rows out")
        mean = pyro.sample("mean", dist.Normal(0.0, 2.0))
        width = pyro.sample("width", dist.LogNormal(0.0, 1.0)).unsqueeze(-1)
        difficulty, slope = self._of_criteria(c)
        step, several = torch.zeros(c, block.n_classes - 1), block.n_classes > 2  # one step less the mean is 0
        if several:
            step = pyro.sample("step", dist.Normal(step, 2.0).to_event(2))
        place, dif = (mean + torch.zeros(1)).unsqueeze(-1), torch.zeros(1, c)
        if self.group is not None:
            with cp.plates.groups(data, self.group):
                place = place + pyro.sample("impact", dist.Normal(0.0, 1.0)).unsqueeze(-1)
                dif = pyro.sample("dif", dist.Normal(torch.zeros(c), 0.5).to_event(1))
            dif = _centred(_centred(dif), -2)
        with cp.plates.annotators(data):
            severity = torch.zeros(block.n_annotators)
            if self.severity:
                severity = pyro.sample("severity", _around(self.severities, self.severity, block.n_annotators))
            centrality, consistency = (
                pyro.sample(f"log_{name}", dist.Normal(0.0, spread)).exp() if spread else torch.ones(1)
                for name, spread in (("centrality", several * self.centrality), ("consistency", self.consistency))
            )
        standard = torch.linspace(-REACH, REACH, self.points)
        place = place + width * standard  # (..., G, P)
        above = place.unsqueeze(-2) - (difficulty + dif).unsqueeze(-1)  # (..., G, C, P)
        above = above.unsqueeze(-4) - severity[..., None, None, None]  # (..., A, G, C, P)
        of_all = _centred(step)
        step = centrality[..., None, None] * of_all
        sharp = slope * consistency.unsqueeze(-1)  # (..., A, C)
        table = grade_log_probs(above, step.unsqueeze(-3), sharp.unsqueeze(-2))
        group = None if self.group is None else cp.item_groups(data, self.group)
        expected = None
        if block.gold is not None and block.has_labels:
            severity = pyro.sample("expert_severity", dist.Normal(0.0, 2.0)).unsqueeze(-1)
            if self.consistency:
                slope = slope * pyro.sample("log_expert", dist.Normal(0.0, self.consistency)).exp().unsqueeze(-1)
            expected = mean_grade(place - severity, difficulty, of_all, slope, torch.arange(block.n_classes))
        with cp.plates.items(data):
            cp.annotate_numbers(
                data, FacetLabels(block, table, self._of_labels(block), group, place, standard, expected)
            )

    guide = mean_field

    def fair_grades(self, sites: Mapping[str, Tensor], place: Tensor, grade: Tensor) -> Tensor:
        """The grades, of (K,), on average over criteria at places (n,): an expert's where grades are known.

        Else those of a rater of severity 0.
        """
        difficulty = sites.get("difficulty", torch.zeros(1))
        difficulty = difficulty if self.difficulties else _centred(difficulty)
        slope = _centred(sites.get("log_slope", torch.zeros(1))).exp()
        slope = slope * sites.get("log_expert", torch.zeros(1)).exp()
        place = place - sites.get("expert_severity", torch.zeros(1))
        step = _centred(sites.get("step", torch.zeros(1, len(grade) - 1)))
        return mean_grade(place, difficulty, step, slope, grade)

    def _of_criteria(self, c: int) -> tuple[Tensor, Tensor]:
        """Difficulties and slopes; of a single criterion, only what is known."""
        difficulty, slope = torch.zeros(1), torch.ones(1)
        if c > 1 or self.difficulties:
            difficulty = pyro.sample("difficulty", _around(self.difficulties, 2.0, c).to_event(1))
            difficulty = difficulty if self.difficulties else _centred(difficulty)
        if c > 1 and self.slopes:
            slope = _centred(pyro.sample("log_slope", dist.Normal(torch.zeros(c), self.slopes).to_event(1))).exp()
        return difficulty, slope

    def _criteria(self, data: cp.Block) -> tuple[int, ...]:
        if self.criterion is None or self.criteria:
            return tuple(self.criteria) or (0,)
        return tuple(int(x) for x in self._numbers(data).unique())

    def _numbers(self, data: cp.Block) -> Tensor:
        """The number of the criterion of each label, (S,)."""
        found = cp.label_covariates(data, self.criterion).reshape(-1)
        wrong = (found != found.round()) | (found.abs() >= 2**24)  # beyond, float32 merges them
        if bool(wrong.any()):
            raise DataError(
                f"{self.criterion!r} holds {float(found[wrong][0]):g}; number criteria by whole numbers below 2^24"
            )
        return found.long()

    def _of_labels(self, block: cp.Block) -> Tensor | None:
        """The place of each label's criterion among all, (S,); None where there is one."""
        if self.criterion is None:
            return None
        found, known = self._numbers(block), torch.tensor(self._criteria(block))
        at = torch.searchsorted(known, found).clamp(max=len(known) - 1)
        if bool((known[at] != found).any()):
            raise DataError(
                f"{self.criterion!r} holds {int(found[known[at] != found][0])}, which is none of the criteria "
                f"{known.tolist()!r:.80}; leave these labels out, or fit all labels anew"
            )
        return at


def grade_log_probs(above: Tensor, step: Tensor, slope: Tensor) -> Tensor:
    """Log-probability (..., K, P) of each grade under a generalised partial credit model (Muraki 1992).

    Of places (..., P) above the difficulty, steps (..., K - 1) between grades, and slopes (...).
    """
    reached = pad(step.cumsum(-1), (1, 0)).unsqueeze(-1)
    weight = torch.arange(reached.shape[-2]).unsqueeze(-1) * above.unsqueeze(-2) - reached
    return (slope[..., None, None] * weight).log_softmax(-2)


def mean_grade(place: Tensor, difficulty: Tensor, step: Tensor, slope: Tensor, grade: Tensor) -> Tensor:
    """The mean over criteria of the expected grade, of (K,), at places (..., P): (..., P).

    Of difficulties (..., C), steps (..., C, K - 1) and slopes (..., C).
    """
    log_p = grade_log_probs(place.unsqueeze(-2) - difficulty.unsqueeze(-1), step, slope)
    return (grade.to(log_p) @ log_p.exp()).mean(-2)


class FacetLabels(cp.NumberLabels):
    """Grades by raters on criteria, given an item's place on a grid.

    Of a table log p(grade | rater, group, criterion, place), (..., A, G, C, K, P), the criterion of each label
    (S,) and the group of each item (n_items,), None where there is one, and places of each group (..., G, P), also
    in ``standard`` deviations from its mean (P,). Where grades are known, ``expected`` are those at
    each place, (..., G, P).
    """

    graded = True

    def __init__(
        self,
        block: cp.Block,
        table: Tensor,
        criterion: Tensor | None,
        group: Tensor | None,
        place: Tensor,
        standard: Tensor,
        expected: Tensor | None = None,
    ) -> None:
        super().__init__(block)
        self.table, self.group, self.standard = table, group, standard
        self.place = self._of_items(place)  # (..., n_items or 1, P)
        self.expected = None if expected is None else self._of_items(expected)
        if group is not None:
            criterion = group[block.item] * table.shape[-3] + (0 if criterion is None else criterion)
        self.context = criterion
        self.states = len(standard)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of each item's labels, (..., n_items)."""
        cells = self.block.in_contexts(self.context, math.prod(self.table.shape[-4:-2]), self.block.weights)
        each = cells.sum_of_cells(self.table.flatten(-5, -2))
        prior = (-self.standard.square() / 2).log_softmax(-1)
        if self.expected is not None and self.block.gold is not None:
            known = self.block.gold.unsqueeze(-1)
            each = each - torch.where(known >= 0, (self.expected - known).square(), 0.0) / (2 * ROUNDED)
        return cp.log_grid(each + prior, self.place, self.truth)

    def information(self, truth: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """Of a grade on any criterion, averaged over the places that an item may have."""
        step = self.place[0, 1] - self.place[0, 0]
        slope = torch.gradient(self.table, dim=-1)[0] / step
        told = (self.table.exp() * slope.square()).sum(-2).mean(-2)  # (A, G, P)
        apart = (self.place - truth.unsqueeze(-1)) / torch.maximum(sd, step).unsqueeze(-1)
        share = (-apart.square() / 2).softmax(-1)
        group = torch.zeros(len(truth), dtype=torch.long) if self.group is None else self.group
        of_group = one_hot(group, told.shape[1]).to(share)
        return told.flatten(1), (of_group.unsqueeze(-1) * share.unsqueeze(1)).flatten(1).t()

    def _of_items(self, x: Tensor) -> Tensor:
        """Values of groups (..., G, P) by item."""
        return x if self.group is None else x[..., self.group, :]

    def draw(self) -> tuple[Tensor, Tensor]:
        """Places (n_items,), and the cells of labels (S,)."""
        block, place = self.block, self.place.expand(self.block.n_items, -1)
        at = dist.Categorical(logits=(-self.standard.square() / 2).expand(block.n_items, -1)).sample()
        drawn = self.where_known(place.gather(-1, at.unsqueeze(-1)).squeeze(-1))
        at = (place - drawn.unsqueeze(-1)).abs().argmin(-1)  # what is known is a point that a fit has drawn
        context = torch.zeros(1, dtype=torch.long) if self.context is None else self.context
        rows = self.table.flatten(-4, -3)[block.annotator, context, :, at[block.item]]
        cells = block.annotator * block.n_answers + dist.Categorical(logits=rows).sample()
        return drawn, cells.int()


def _around(known: Any, spread: float, n: int) -> Any:
    """Normals around 0, or around what is known; those who came later are not known."""
    given = [*known, *[None] * (n - len(known))]
    if len(given) > n or not all(x is None or math.isfinite(x) for x in given):
        raise MethodError(f"anchors {given!r:.80} must be finite numbers, one for each of {n}, or None")
    loc = torch.tensor([0.0 if x is None else float(x) for x in given])
    return dist.Normal(loc, torch.tensor([spread if x is None else ANCHORED for x in given]))


def _centred(x: Tensor, dim: int = -1) -> Tensor:
    """Less the mean."""
    return x - x.mean(dim, keepdim=True)
