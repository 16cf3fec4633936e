"""Ordinal: a grade is seen through an annotator's precision, or guessed.

    prevalence        = 1 / K, or ~ Dirichlet(1)                            (K)
    competence[a]     ~ Dirichlet(knows, knows)                             (A, 2)   knows, guesses
    guess[a]          ~ Dirichlet(1 + K * crowd)                            (A, K)
    log_precision[a]  ~ Normal(0, spread)                                   (A)
    bias[a]           ~ Normal(0, .5), or = 0                               (A)      less its mean over labels
    log_gap[j]        ~ Normal(0, .25), or = 0                              (K - 2)  between cutpoints
    truth[i]          ~ Categorical(prevalence)                             (N)
    label[i, a]       = the grade whose band holds truth[i] + bias[a] + noise / exp(log_precision[a]) if the
                        annotator knows, else ~ Categorical(guess[a])

Cutpoints lie halfway between grades, or keep their centre when gaps are learned: labels do not identify a common
shift of biases or cutpoints, which only renames the grades.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

import crowdppl.primitives as cp
from crowdppl import mean_field
from crowdppl.errors import MethodError

Tail = Literal["normal", "logistic", "laplace"]


@dataclass(frozen=True)
class Ordinal:
    """Annotators who see a grade blurred, or guess.

    Args:
        prevalence: "uniform" or "learned".
        tail: noise of those who know: "normal", or with heavier tails "logistic" or "laplace".
        spread: standard deviation of log-precisions.
        bias: whether an annotator may be lenient or strict.
        cutpoints: whether distances between grades are learned.
        knows: pseudo-counts of known labels, and of guessed ones.
        crowd: share of each grade among all labels that name one; by default computed from the data.
        work: share of these labels that each annotator gave; by default computed from the data.
    """

    prevalence: Literal["uniform", "learned"] = "uniform"
    tail: Tail = "normal"
    spread: cp.Positive = 0.5
    bias: bool = False
    cutpoints: bool = False
    knows: cp.Positive = 2.0
    crowd: Sequence[float] | None = None
    work: Sequence[float] | None = None

    card: ClassVar[cp.Card] = cp.Card(
        title="Ordinal",
        reference="grades and cutpoints as in Lakshminarayanan & Teh (2013), arXiv:1305.0015; guesses as in MACE",
        kind="ordinal",
        sites={"prevalence": "K", "competence": "A 2", "guess": "A K", "log_precision": "A", "bias": "A"}
        | {"log_gap": "J", "abstention": "A D W", "truth": "N"},
        prevalence="prevalence",
        assumes="classes are grades in order; a near miss is likelier than a blunder",
        fails="when classes have no order, or when all annotators are lenient together, which labels cannot show",
        table="A K L",
        cost="labels x K, and a gradient step for each annotator",
        sharded=True,
    )

    def setup(self, data: cp.Block) -> Ordinal:
        """A copy with the shares of grades and of annotators among the labels."""
        return replace(self, crowd=self._crowd(data).tolist(), work=self._work(data).tolist())

    def model(self, data: cp.Block) -> None:
        """Draws annotators, truths and labels."""
        k = data.n_classes
        log_p, cut = cp.prevalence(data, self.prevalence), self._cutpoints(k)
        with cp.plates.annotators(data):
            competence = pyro.sample("competence", dist.Dirichlet(self.knows * torch.ones(2))).log()
            guess = pyro.sample("guess", dist.Dirichlet(1 + k * self._crowd(data))).log()
            precision = pyro.sample("log_precision", dist.Normal(0.0, self.spread)).exp()
            bias = pyro.sample("bias", dist.Normal(0.0, 0.5)) if self.bias else torch.zeros(1)
        if self.bias:
            bias = bias - (bias * self._work(data)).sum(-1, keepdim=True)
        seen = torch.arange(k) + bias.unsqueeze(-1)
        edges = precision[..., None, None] * (cut.unsqueeze(-2) - seen.unsqueeze(-1))  # (..., A, truth, K - 1)
        known = competence[..., :1, None] + ordinal_log_probs(edges, self.tail)
        guessed = (competence[..., 1:] + guess).unsqueeze(-2).expand(known.shape)
        table = cp.with_abstentions(data, cp.logsumexp(torch.stack([known, guessed], -1), name="knows"))
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    guide = mean_field

    def _cutpoints(self, k: int) -> Tensor:
        """(..., K - 1), learned or halfway between grades."""
        if not self.cutpoints or k < 3:
            return torch.arange(1, k) - 0.5
        gap = pyro.sample("log_gap", dist.Normal(torch.zeros(k - 2), 0.25).to_event(1)).exp()
        cut = pad(gap.cumsum(-1), (1, 0))
        return (k - 1) / 2 + cut - cut.mean(-1, keepdim=True)

    def _crowd(self, data: cp.Block) -> Tensor:
        """Share (K,) of each grade among all labels."""
        k = data.n_classes
        if self.crowd is not None:
            return _shares("crowd", self.crowd, k, least=k)
        block, counts = data.as_block(), torch.ones(k)
        if block.has_labels:
            counts = counts + cp.reduced(torch.bincount(block.answer, minlength=k)[:k])
        return counts / counts.sum()

    def _work(self, data: cp.Block) -> Tensor:
        """Share (A,) of the labels that each annotator gave; annotators who came later have none."""
        if self.work is None:
            block = data.as_block()
            labels = cp.reduced(torch.bincount(block.annotator[block.named], minlength=data.n_annotators))
            return labels / max(1, int(labels.sum()))
        work = _shares("work", self.work, data.n_annotators)
        return pad(work, (0, data.n_annotators - len(work)))


def ordinal_log_probs(edge: Tensor, tail: Tail = "normal") -> Tensor:
    """Log-probabilities (..., K) that standard noise falls into each band between edges (..., K - 1).

    Edges increase; the first band reaches down to minus infinity, the last one up to infinity; exact in tails.
    """
    lower, upper = edge[..., :-1], edge[..., 1:]
    # Reflected into the lower tail, where a difference of probabilities does not cancel.
    reflect = lower + upper > 0
    low = _log_cdf(torch.where(reflect, -upper, lower), tail)
    high = _log_cdf(torch.where(reflect, -lower, upper), tail)
    inner = high + torch.log(-torch.expm1(low - high))
    return torch.cat([_log_cdf(edge[..., :1], tail), inner, _log_cdf(-edge[..., -1:], tail)], -1)


def _log_cdf(x: Tensor, tail: Tail) -> Tensor:
    """Log of the distribution function of the noise."""
    if tail == "normal":
        normal: Tensor = torch.special.log_ndtr(x)
        return normal
    if tail == "logistic":
        return logsigmoid(x)
    if tail == "laplace":
        below = x.clamp(max=0) - math.log(2)
        return torch.where(x < 0, below, torch.log1p(-0.5 * torch.exp(-x.clamp(min=0))))
    raise MethodError(f"tail={tail!r} is no noise; choose 'normal', 'logistic' or 'laplace'")


def _shares(name: str, given: Sequence[float], most: int, least: int = 1) -> Tensor:
    """Shares of a setting, checked."""
    x = torch.as_tensor(given, dtype=torch.get_default_dtype())
    if x.dim() != 1 or not least <= len(x) <= most or not bool((x >= 0).all() and (x.sum() - 1).abs() < 1e-3):
        raise MethodError(f"{name}={list(given)} must be a share, at least 0, for each of {most}, and add up to 1")
    return x
