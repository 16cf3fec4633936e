"""HMM-crowd: the truths of a sequence follow one another, and each annotator has a confusion matrix.

    initial          ~ Dirichlet(initial_strength)                        (K)
    transition[j]    ~ Dirichlet(transition_strength)                     (K, K)
    confusion[a, k]  ~ Dirichlet(prior_strength * row(k))                 (A, K, K)
    truth[s, 1]      ~ Categorical(initial)
    truth[s, t]      ~ Categorical(transition[truth[s, t - 1]])           (N)
    label[i, a]      ~ Categorical(confusion[a, truth[i]])

row(k) puts ``prior_accuracy`` on class k and spreads the rest evenly. History adds to the prior. The items are
those of sequences, such as tokens of sentences, and the chain is summed out exactly. Where classes are BIO tags,
I-X comes after B-X or I-X alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class HmmCrowd:
    """A hidden Markov chain of truths, and a confusion matrix for each annotator.

    Args:
        tags: "bio" for classes B-X, I-X and O, of which I-X follows B-X or I-X alone; "plain" for any that follow
            one another freely; "auto" looks at their names.
        initial_strength: pseudo-counts of each class at the start of a sequence.
        transition_strength: pseudo-counts of each class after another.
        prior_strength: pseudo-counts of a confusion row.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
        after: for each class, whether it may begin a sequence, then whether it may follow each class; found in the
            data.
    """

    tags: Literal["auto", "bio", "plain"] = "auto"
    initial_strength: cp.Positive = 1.0
    transition_strength: cp.Positive = 1.0
    prior_strength: cp.Positive = 4.0
    prior_accuracy: cp.Share | None = None
    after: tuple[tuple[bool, ...], ...] | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="HMM-crowd",
        reference="Nguyen et al. (2017), Aggregating and predicting sequence labels from crowd annotations, ACL",
        doi="10.18653/v1/P17-1028",
        sites={"initial": "K", "transition": "K K", "confusion": "A K K", "abstention": "A D W", "truth": "N"},
        kind="sequence",
        confusion="confusion",
        assumes="a truth depends on the one before it; labels of a sequence are independent given its truths",
        fails="when annotators' errors run over several items, such as whole phrases (see sequence_crowd), or are "
        "shared: spans are then told too surely, and known truths of whole sequences correct that",
        cost="labels x K, and items x K x K in as many steps as the longest sequence has items (where it is long "
        "and stands alone, a few times the root of that; not by gibbs)",
        uses=("history", "item_covariates"),
        only=("em", "vb", "gibbs", "nuts", "laplace"),
        because="a chain is summed out as a whole, and svi sums one item after another",
        sharded=True,
    )

    def setup(self, data: Any) -> HmmCrowd:
        """A copy that knows which classes may follow which."""
        return replace(self, after=cp.successions(data, self.tags))

    def model(self, data: cp.Block) -> None:
        """Draws the chain's probabilities, confusions, truths and labels."""
        log_p, log_transition = cp.succession(data, self.initial_strength, self.transition_strength, self.after)
        prior = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(prior).to_event(1))
        table = cp.with_abstentions(data, confusion.log())
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p, log_transition=log_transition))

    guide = mean_field
