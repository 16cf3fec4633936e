"""Judge panel: few able annotators who err together, such as language models, and a truth like one more of them.

    readings           ~ Dirichlet(1)                                                   (R)   R = M K
    judge[a, m, k]     ~ Dirichlet(prior_strength[m] * row_m(k))                        (A, R, K)
    crowd[m, k]        = mean over judges a of judge[a, m, k], each family as one judge (R, K)
    reading[i] = (m, k) ~ Categorical(readings)                                         (N)
    truth[i]           ~ Categorical(crowd[reading[i]] ^ sharpness, normalised)         (N)
    label[i, a]        ~ Categorical(judge[a, reading[i]])

A reading is the class k that an item looks like to the whole panel, and how clearly, m. row_m(k) puts
``prior_accuracy[m]`` on class k and spreads the rest evenly; of grades, more over near ones. People among the
judges look at the truth, not at the panel's reading:

    person[a, k]       ~ Dirichlet(4 * (.9 on k, else even))                            (A, K, K)
    label[i, a]        ~ Categorical(person[a, truth[i]])

Judges learn from labels what they agree on. Known truths and people's labels tell how their own items read, and do
not reach judges through the crowd's row (a cut, Plummer 2015, "Cuts in Bayesian graphical models",
doi:10.1007/s11222-014-9503-z): how far a panel is right as a whole, a map fitted to known truths tells better.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyro
import pyro.distributions as dist
import torch
from pyro.ops.indexing import Vindex
from torch import Tensor

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field
from crowdppl.errors import DataError, MethodError

NEAR = 1.5
"""By how much, in nats a grade, a label far from the panel's reading is less probable than a near one, a priori."""
PERSON_STRENGTH, PERSON_ACCURACY = 4.0, 0.9
"""Prior pseudo-counts of a row of a person, and the share of them on the truth."""


@dataclass(frozen=True)
class JudgePanel:
    """A panel of judges who err together, and a truth that is what one more judge would say.

    Args:
        prior_accuracy: of the levels, from clear to unclear: prior probability of a label as the panel reads the
            item; there are as many levels as numbers.
        prior_strength: pseudo-counts of these rows.
        sharpness: power of the judges' mean row in the truth's; above 1, the truth is a better judge than they are.
        discount: correlation of an item's labels given its reading, by which n of them count as
            n / (1 + discount * (n - 1)) where truths are told; judges learn as if it were 0.
        families: of judges, by annotator id (who is left out is alone), or in the order of annotator codes; the
            labels of a family count as those of one judge. None takes copies for families (``cp.copies``), whose
            agreement would pass for accuracy.
        people: ids of annotators who are people, or a truth value for each annotator code.
    """

    prior_accuracy: Sequence[cp.Share] = (0.97, 0.8, 0.55)
    prior_strength: Sequence[cp.Positive] = (10.0, 10.0, 4.0)
    sharpness: cp.Positive = 1.2
    discount: cp.Share = 0.8
    families: Mapping[Any, Any] | Sequence[int] | None = None
    people: Collection[Any] = ()

    cut: ClassVar[bool] = True
    card: ClassVar[cp.Card] = cp.Card(
        title="Judge panel",
        reference="crowdppl (2026), measured on eleven panels of models; the cut: Plummer (2015), Statistics and "
        "Computing 25",
        sites={"readings": "R", "judge": "A R K", "person": "A K K", "abstention": "A D W"}
        | {"truth": "N", "reading": "N"},
        assumes="judges are able, and misled by the same items; the truth agrees with one as another judge would",
        fails="with independent annotators, whose errors cancel: dawid_skene is then much surer, and right",
        cost="labels x M K, of people x K more",
        discounted=True,
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)
        levels: Any = (self.prior_accuracy, self.prior_strength)
        if not all(isinstance(x, Sequence) for x in levels) or not all(0 < x < 1 for x in self.prior_accuracy):
            raise MethodError(
                f"prior_accuracy={self.prior_accuracy} must be a list of numbers above 0 and below 1, and "
                f"prior_strength={self.prior_strength} one as long"
            )
        if len(self.prior_accuracy) != len(self.prior_strength) or not self.prior_accuracy:
            raise MethodError(
                f"prior_accuracy has {len(self.prior_accuracy)} levels and prior_strength "
                f"{len(self.prior_strength)}; give one number of each for each level"
            )

    def setup(self, data: Annotations) -> JudgePanel:
        """A copy with a family's number, and whether it is a person, for each annotator code."""
        people = cp.chosen_annotators("people", self.people, data)
        if all(people):
            raise MethodError("all annotators are people; leave people= out, or take another method, as of a crowd")
        families = (
            cp.copies(data) if self.families is None else cp.group_codes(self.families, data, name="families")
        )
        families = [n + len(people) if person else families[n] for n, person in enumerate(people)]
        judges = [family for family, person in zip(families, people, strict=True) if not person]
        if len(set(judges)) == 1 and not any(people):
            raise DataError(
                f"the {len(judges)} annotators are of one family, or copies, whose agreement does not tell how "
                "often they are right; add labels of another judge, or, if they are judges of their own, fit "
                "judge_panel with families={}, or auto without models="
            )
        return replace(self, families=tuple(families), people=people)

    def model(self, data: cp.Block) -> None:
        """Draws readings, judges, people, truths and labels."""
        k, m = data.n_classes, len(self.prior_accuracy)
        log_readings = pyro.sample("readings", dist.Dirichlet(torch.ones(m * k))).log()
        with cp.plates.annotators(data):
            rows = self._rows(data).flatten(0, 1)
            judge = pyro.sample("judge", dist.Dirichlet(rows).to_event(1))
        person, table = self._people(data), judge.log()
        if person is not None:  # of readings and truths together
            of_person = person.log().unsqueeze(-3).expand(*person.shape[:-2], m * k, k, k).flatten(-3, -2)
            table = torch.where(self._are_people(data)[:, None, None], of_person, table.repeat_interleave(k, -2))
        table = cp.with_abstentions(data, table)
        log_truth = self._log_truth(data, judge)
        with cp.plates.items(data):
            reading = pyro.sample("reading", cp.Categorical(log_readings), infer={"enumerate": "parallel"})
            truth = cp.truth(data, Vindex(log_truth)[..., reading, :])
            state = reading if person is None else reading * k + truth
            cp.annotate(data, table, state, weight=self._weights(data))

    guide = mean_field

    def init(self, data: cp.Block) -> dict[str, Tensor]:
        """Judges at their prior means: readings that start alike stay alike."""
        rows = self._rows(data).flatten(0, 1)
        return {"judge": (rows / rows.sum(-1, keepdim=True)).expand(data.n_annotators, -1, -1)}

    def _rows(self, data: cp.Block) -> Tensor:
        """Pseudo-counts of a judge's rows, (M, K, K)."""
        k = data.n_classes
        far = torch.arange(k).sub(torch.arange(k).unsqueeze(1)).abs()
        wrong = torch.exp(-NEAR * far) if data.space.ordered else torch.ones(k, k)
        wrong = wrong * (far > 0)
        right, strength = (torch.tensor(x)[:, None, None] for x in (self.prior_accuracy, self.prior_strength))
        return strength * (right * torch.eye(k) + (1 - right) * wrong / wrong.sum(-1, keepdim=True))

    def _people(self, data: cp.Block) -> Tensor | None:
        """Confusions of people (..., A, K, K); None where there are none."""
        if not any(self.people):
            return None
        rows = cp.diagonal_prior(data.n_classes, PERSON_STRENGTH, PERSON_ACCURACY)
        with cp.plates.annotators(data, "people"):
            person: Tensor = pyro.sample("person", dist.Dirichlet(rows).to_event(1))
        return person

    def _log_truth(self, data: cp.Block, judge: Tensor) -> Tensor:
        """Log-probabilities (..., R, K) of the truth, of which judges learn nothing."""
        share = (self._share(data) * ~self._are_people(data)).to(judge)
        crowd = (judge.detach() * (share / share.sum())[:, None, None]).sum(-3, keepdim=judge.dim() > 3)
        return (self.sharpness * crowd.log()).log_softmax(-1)

    def _are_people(self, data: cp.Block) -> Tensor:
        """Which annotators are people, bool (A,); none of those who are new since the fit."""
        known = torch.tensor(self.people, device=data.device)
        return torch.cat([known, known.new_zeros(data.n_annotators - len(known))])

    def _share(self, data: cp.Block) -> Tensor:
        """By how much each annotator's labels count, (A,): those of a family as one judge's; new ones are alone."""
        family = torch.tensor(self.families, device=data.device)
        share = 1 / torch.bincount(family)[family].double()
        return torch.cat([share, share.new_ones(data.n_annotators - len(share))])

    def _weights(self, data: cp.Block) -> Tensor | None:
        """By how much each label counts, (S,); None for 1. What declines to name a class is no evidence."""
        share = self._share(data)
        if bool((share == 1).all()) and not data.tells:
            return None
        weight = share[data.annotator]
        if not data.tells:
            return weight
        judged = weight * ~self._are_people(data)[data.annotator] * data.named
        n = torch.zeros(data.n_items, dtype=weight.dtype, device=data.device).index_add_(0, data.item, judged)
        effect = 1 + self.discount * (n[data.item] - 1).clamp(min=0)
        return torch.where(judged > 0, weight / effect, weight)
