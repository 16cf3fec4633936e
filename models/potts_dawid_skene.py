"""Potts Dawid-Skene: truths of linked items tend to be equal, and each annotator has a confusion matrix.

    truth            ~ Potts(strength; edges)                               (N)
    confusion[a, k]  ~ Dirichlet(prior_strength * row(k))                   (A, K, K)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

The probability of all truths is proportional to exp(strength * number of edges whose ends are equal). row(k) puts
``prior_accuracy`` on class k and spreads the rest evenly; history adds to the prior. The strength is learned by
pseudo-likelihood before the fit, and then is known; where nearly all neighbours agree, labels tell little more than
that it is large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyro
import pyro.distributions as dist

import crowdppl.primitives as cp
from crowdppl import Annotations, mean_field


@dataclass(frozen=True)
class PottsDawidSkene:
    """A hidden Markov random field of truths, and a confusion matrix for each annotator.

    Args:
        strength: by how much each pair of linked items of one class raises the log-probability of all truths; by
            default learned. At 0 the method is bayesian_dawid_skene of a uniform prevalence.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
    """

    strength: cp.NotNegative | None = None
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Potts Dawid-Skene",
        reference="Traganitis & Giannakis (2020), Unsupervised ensemble classification with sequential and "
        "networked data, IEEE TKDE",
        doi="10.1109/TKDE.2020.3046645",
        sites={"confusion": "A K K", "abstention": "A D W", "truth": "N"},
        confusion="confusion",
        assumes="linked items tend to have one class, as strongly everywhere; apart from that, classes are as "
        "common; labels are independent given truths",
        fails="when annotators' errors are shared by neighbours, as those of outlines are: borders are then told "
        "too surely; by em and vb, sums over truths are approximate where edges form loops",
        cost="labels x K, and edges x K in as many rounds as messages take to settle, or once a sweep by gibbs",
        uses=("history", "edges"),
        sharded=True,
        only=("em", "vb", "gibbs"),
        because="sums over linked truths are approximate, and their second derivatives are not known",
    )

    def setup(self, data: Annotations | cp.Block) -> PottsDawidSkene:
        """A copy with the strength that the data tell."""
        return self if self.strength is not None else replace(self, strength=cp.learned_strength(data))

    def model(self, data: cp.Block) -> None:
        """Draws confusions, truths and labels."""
        if self.strength is None:  # called without setup
            return self.setup(data).model(data)
        log_p = cp.prevalence(data, "uniform").unsqueeze(0)
        prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p, strength=self.strength))

    guide = mean_field
