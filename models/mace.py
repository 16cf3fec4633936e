"""MACE: an annotator knows the truth of an item or guesses, each guesser with favourite labels of their own.

    prevalence      = 1 / K, or ~ Dirichlet(1)                              (K)
    competence[a]   ~ Dirichlet(knows, guesses)                             (A, 2)
    guess[a]        ~ Dirichlet(guess)                                      (A, K)
    truth[i]        ~ Categorical(prevalence)                               (N)
    label[i, a]     = truth[i] with probability competence[a, 0], else ~ Categorical(guess[a])

Whether the annotator knew is summed out for each label, under the name "knows".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch

import crowdppl.primitives as cp
from crowdppl import mean_field


@dataclass(frozen=True)
class Mace:
    """Annotators who know or guess.

    Args:
        prevalence: "uniform" or "learned".
        knows, guesses: pseudo-counts of known and of guessed labels.
        guess: pseudo-counts of each class among an annotator's guesses.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    knows: cp.Positive = 1.0
    guesses: cp.Positive = 1.0
    guess: cp.Positive = 1.0

    card: ClassVar[cp.Card] = cp.Card(
        title="MACE",
        reference="Hovy et al. (2013), Learning whom to trust with MACE, NAACL-HLT",
        sites={"prevalence": "K", "competence": "A 2", "guess": "A K", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="an annotator's errors do not depend on the truth: a guess is a guess",
        fails="when classes are confused with their neighbours, which looks like guessing",
        cost="labels x K",
    )

    def model(self, data: cp.Block) -> None:
        """Draws competences, guessing habits, truths and labels."""
        k = data.n_classes
        log_p = cp.prevalence(data, self.prevalence)
        with cp.plates.annotators(data):
            coin = dist.Dirichlet(torch.tensor([float(self.knows), float(self.guesses)]))
            competence = pyro.sample("competence", coin).log()
            guess = pyro.sample("guess", dist.Dirichlet(self.guess * torch.ones(k))).log()
        wrong = competence[..., 1:] + guess  # (..., A, K) by label
        known = competence[..., :1].expand(wrong.shape)
        right = cp.logsumexp(torch.stack([known, wrong], -1), name="knows")
        labels = cp.with_abstentions(data, cp.Coins(right, wrong))
        with cp.plates.items(data):
            cp.annotate(data, labels, cp.truth(data, log_p, labels=labels))

    guide = mean_field
