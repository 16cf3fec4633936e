"""Sequence crowd (BSC-seq): truths follow one another, and so do an annotator's own labels.

    initial             ~ Dirichlet(initial_strength)                           (K)
    transition[j]       ~ Dirichlet(transition_strength)                        (K, K)
    crowd[x, k]         ~ Dirichlet(2 on k, else 1)                             (X * K, K)
    confusion[a, x, k]  ~ Dirichlet(prior_strength * row(k)
                                    + crowd_prior_strength * crowd[x, k])       (A, X, K, K)
    truth[s, 1]         ~ Categorical(initial)
    truth[s, t]         ~ Categorical(transition[truth[s, t - 1]])              (N)
    label[i, a]         ~ Categorical(confusion[a, last[i, a], truth[i]])

last[i, a] is the label that a gave before in the same sequence, a class, or none and abstentions: X = K + 1. Most
rows of an annotator have few labels, and lean on those of the crowd. row(k) puts ``prior_accuracy`` on class k and
spreads the rest evenly. History adds to the prior. The chain is summed out exactly. Where classes are BIO tags, I-X
comes after B-X or I-X alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist

import crowdppl.primitives as cp
from crowdppl import mean_field

LAST = "last label"
"""The label covariate that is derived: 0 where there is none, else 1 and the code of the class."""


@dataclass(frozen=True)
class SequenceCrowd:
    """A hidden Markov chain of truths, and confusion matrices that depend on an annotator's own last label.

    Args:
        tags, initial_strength, transition_strength, after: as of hmm_crowd.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's row, which is learned; 0 has
            no crowd.
        prior_strength: pseudo-counts of a confusion row that favour the diagonal.
        prior_accuracy: share of them on the correct label, by default half way between 1 and chance.
        classes: in their order; found in the data.
    """

    tags: Literal["auto", "bio", "plain"] = "auto"
    initial_strength: cp.Positive = 1.0
    transition_strength: cp.Positive = 1.0
    crowd_prior_strength: cp.NotNegative = 4.0
    prior_strength: cp.Positive = 1.0
    prior_accuracy: cp.Share | None = None
    after: tuple[tuple[bool, ...], ...] | None = None
    classes: tuple[Any, ...] | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Sequence crowd",
        reference="Simpson & Gurevych (2019), A Bayesian approach for sequence tagging with crowds, EMNLP-IJCNLP",
        doi="10.18653/v1/D19-1101",
        sites={"initial": "K", "transition": "K K", "crowd": "X*K K", "confusion": "A X K K"}
        | {"abstention": "A D W", "truth": "N"},
        kind="sequence",
        assumes="a label depends on its truth and on the annotator's own last label in the sequence",
        fails="with few labels an annotator: there are K + 1 confusion matrices of each to be learned; where "
        "errors are shared, spans are told too surely, and known truths of whole sequences correct that",
        cost="labels x K, and items x K x K in as many steps as the longest sequence has items (where it is long "
        "and stands alone, a few times the root of that; not by gibbs)",
        uses=("history", "item_covariates"),
        only=("em", "vb", "gibbs", "nuts", "laplace"),
        because="a chain is summed out as a whole, and svi sums one item after another",
        sharded=True,
    )

    def setup(self, data: Any) -> SequenceCrowd:
        """A copy that knows the classes, and which may follow which."""
        return replace(self, after=cp.successions(data, self.tags), classes=tuple(data.classes.tolist()))

    def derived_covariates(self, labels: Any) -> Any:
        """The code of the annotator's own label before, in order of position."""
        ordered = labels.sort_values("position", kind="stable")
        book = {name: 1 + n for n, name in enumerate(self.classes or ())}
        code = ordered["label"].map(book).astype(float).fillna(0).astype(int)
        before = code.groupby([ordered["sequence"], ordered["annotator"]], observed=True).shift(fill_value=0)
        return before.reindex(labels.index).to_frame(LAST)

    def model(self, data: cp.Block) -> None:
        """Draws the chain's probabilities, confusions, truths and labels."""
        log_p, log_transition = cp.succession(data, self.initial_strength, self.transition_strength, self.after)
        contexts, k = 1 + data.n_classes, data.n_classes
        rows = cp.confusion_prior(data, self.prior_strength, self.prior_accuracy).unsqueeze(-3)
        rows = rows.expand(*rows.shape[:-3], contexts, k, k)
        rows = rows + cp.crowd_rows(data, self.crowd_prior_strength, contexts)
        with cp.plates.annotators(data):
            confusion = pyro.sample("confusion", dist.Dirichlet(rows).to_event(2))
        table = cp.with_abstentions(data, confusion.log(), contexts=True)
        with cp.plates.items(data):
            truth = cp.truth(data, log_p, log_transition=log_transition)
            cp.annotate(data, table, truth, context=cp.label_covariates(data, LAST))

    guide = mean_field
