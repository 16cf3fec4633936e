"""What speaks against a fit: too few labels, classes swapped, annotators who say nothing or copy each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl import collusion
from crowdppl.checking import cell_counts
from crowdppl.codebook import plain
from crowdppl.decoding import row_sizes
from crowdppl.errors import DataError
from crowdppl.leave_one_out import standard_error
from crowdppl.suspicion import information

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior

A_PARAMETER, A_ROW = 2, 8
"""Labels that an annotator has to give for each free parameter, and for each row of a table."""
NARROW = 1.5
"""A posterior as narrow as by so many times the labels needed is supported, wherever it has that from."""
THIN = 0.25
"""Share of all labels that may come from annotators who gave too few."""
BITS = 0.05
"""Information below which an annotator is a spammer; the labels have to speak against three times as much."""
LEVEL = 0.01
"""Chance that some pair of honest annotators is taken for copiers, under the fitted model."""
QUICK = 20_000
"""Pairs of labels of one item up to which copying is looked for beside a fit: 16 ms at most."""
NAMED = 5
"""Annotators or classes that a doubt names."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe a fit as it is.

    Attributes:
        kind: "thin", "diagonal", "spammers", "permuted", "copying", "colluding", "diffuse", "modes", "votes".
        text: what was found, in figures, and what can be done.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


def doubts(posterior: Posterior, thorough: bool = False) -> tuple[Doubt, ...]:
    """Looks for what speaks against a fit, in this order; nothing found is no proof that all is well.

    - thin: more than a quarter of the labels are by annotators who gave fewer than 2 for each free parameter that
      the method has for an annotator (K (K - 1) in a confusion, 1 in a coin), or fewer than 8 for each row of
      these. On data drawn from Dawid-Skene (40 annotators, K = 2, 3, 5, 10), its probabilities score worse than a
      majority vote's below this, even under the prior from which the data come, and better above. A posterior as
      narrow as 1.5 times these labels would make it is spared: what annotators share lends them strength.
    - diagonal: the mean confusion, weighted by labels, has a class whose most frequent answer is another class,
      by more than 2 standard errors.
    - spammers: information below .05 bits, under the fitted prevalence and under an even one, and with labels
      enough to be below .15 bits by 2 standard errors (of the root of the information, as for a likelihood ratio).
    - permuted: chains of a sampler that call the classes otherwise than the votes do, while other chains do not.
    - copying, colluding: pairs and groups of ``crowdppl.suspicious_annotators`` at level .01, unless most pairs
      stand out, as where items are hard for all. Without ``thorough``, up to 20,000 pairs of labels only.
    - votes, with ``thorough`` alone: labels left out are predicted worse than by a majority vote, by more than 2
      standard errors of the difference (items are the units). Of a corrected posterior, the method's own is meant.

    Args:
        thorough: whether to take the time to fit again, ten times in all.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).doubts()
        ()
    """
    given = cell_counts(posterior.data.blocks).sum(1)
    by_annotator = chain(*(look(posterior, given) for look in (_thin, _diagonal, _spammers)))
    votes = _votes(posterior.uncorrected()) if thorough else ()
    crowd = import_module("crowdppl.population").doubts_of(posterior)
    return (*by_annotator, *_permuted(posterior), *_dependent(posterior, thorough), *crowd, *votes)


def _thin(posterior: Posterior, given: np.ndarray) -> Iterator[Doubt]:
    free, rows = _parameters(posterior)
    need = max(A_PARAMETER * free, A_ROW * rows)
    few = given < need
    share = given[few].sum() / max(1, given.sum())
    if share <= THIN:
        return
    draws = posterior.result.table_draws
    if draws is not None and np.median(_narrowness(draws[:: len(draws) // 50 + 1, few])) >= NARROW * need / rows:
        return
    yield Doubt(
        "thin",
        f"{few.sum()} of {len(given)} annotators, with {share:.0%} of all labels, gave fewer than {need} labels "
        f"(median {np.median(given[few]):.0f}), and {posterior.method} has {free} free parameters for each: its "
        "probabilities rest on the prior, or on chance where there is none. Take a method with fewer, such as "
        "one_coin or majority_vote, give annotators who are alike one id, or collect more labels",
    )


def _parameters(posterior: Posterior) -> tuple[int, int]:
    """Free parameters of an annotator, and how many rows of proportions or single numbers they are in."""
    free, rows = 0, 0
    for site in posterior.result.sites.values():
        if "annotator" not in site.dims or "item" in site.dims or site.family == "onehot":
            continue
        value = site.arrays["draws"][0, 0] if site.family == "draws" else site.mean
        numbers, last = value.size // posterior.data.n_annotators, value.shape[-1]
        shares = site.dims[-1] != "annotator" and last > 1 and np.allclose(value.sum(-1), 1)
        rows += numbers // last if shares else numbers
        free += numbers // last * (last - 1) if shares else numbers
    return free, rows


def _narrowness(draws: np.ndarray) -> np.ndarray:
    """How many labels a row of each annotator is worth, (A,): the concentration of Dirichlets with this spread."""
    mean, variance = draws.mean(0, dtype=np.float64), draws.var(0, dtype=np.float64)
    worth = (1 - (mean**2).sum(-1)) / np.maximum(variance.sum(-1), 1e-12) - 1
    return np.asarray(worth.mean(-1))


def _diagonal(posterior: Posterior, given: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    mean = np.einsum("a,akl->kl", given / max(1, given.sum()), result.table)[:, : data.n_classes]
    labels = np.maximum(given.sum() * result.probabilities.mean(0), 1e-9)
    top, most, own = mean.argmax(1), mean.max(1), mean.diagonal()
    swapped = np.flatnonzero(most - own > 2 * np.sqrt((most + own) / labels))
    if len(swapped):
        names = [repr(plain(name)) for name in data.classes]
        parts = [f"{names[k]} is called {names[top[k]]} ({most[k]:.2f}, and {own[k]:.2f} right)" for k in swapped]
        yield Doubt(
            "diagonal",
            f"the most frequent answer to {len(swapped)} of {len(names)} classes is another: {_listed(parts)}. The "
            "fit may have swapped them, or all annotators are misled alike, which labels cannot tell apart: give "
            "some known truths (gold=), or let the prior lean on the diagonal",
        )


def _spammers(posterior: Posterior, given: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    even = np.full(data.n_classes, 1 / data.n_classes)
    told = np.maximum(*(information(result.table, share) for share in (result.prevalence, even)))
    error = 1 / np.sqrt(2 * math.log(2) * np.maximum(given, 1))
    bad = np.flatnonzero((told < BITS) & (np.sqrt(told) + 2 * error < math.sqrt(3 * BITS)))
    if len(bad):
        bad = bad[np.argsort(-given[bad], kind="stable")]
        yield Doubt(
            "spammers",
            f"{len(bad)} of {len(given)} annotators, with {given[bad].sum() / given.sum():.0%} of all labels, say "
            f"less than {BITS} bits about the truth: {_named(posterior, bad)}. The fit makes little of them; "
            "posterior.without([...]) fits without them",
        )


def _permuted(posterior: Posterior) -> Iterator[Doubt]:
    """From what the sampler said of its chains: for which class of the votes each class of a chain stands."""
    found = np.asarray(posterior.result.diagnostics.get("permutations", []))
    if not len(found) or (found == found[0]).all():
        return
    odd = np.flatnonzero((found != np.arange(found.shape[1])).any(1))
    names = [repr(plain(name)) for name in posterior.data.classes]
    parts = [f"{names[k]} for {names[to]}" for k, to in enumerate(found[odd[0]]) if k != to]
    yield Doubt(
        "permuted",
        f"{len(odd)} of {len(found)} chains call the classes otherwise than the votes do (chain {odd[0]}: "
        f"{_listed(parts)}), so that means over chains are of nothing. Let the prior lean on the diagonal, give "
        "known truths (gold=), or lengthen the warm-up, in which chains are relabelled",
    )


def _dependent(posterior: Posterior, thorough: bool) -> Iterator[Doubt]:
    sizes = np.concatenate([row_sizes(block) for block in posterior.data.blocks])
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    if not pairs or (pairs > QUICK and not thorough):
        return
    excess = collusion.excess_of(posterior)
    if not _conspicuous(excess):
        return
    p = collusion.p_values(excess)
    linked = p <= LEVEL
    if linked.mean() > 0.5:
        return
    group = collusion.groups(excess, linked, posterior.data.n_annotators)
    alone = np.flatnonzero(linked & (group[excess.one] < 0))
    how = "crowdppl.suspicious_annotators(posterior) has the figures, posterior.without([...]) fits without them"
    if len(alone):
        first = alone[np.argmin(p[alone])]
        more = f"; {len(alone)} pairs stand out like this" if len(alone) > 1 else ""
        yield Doubt(
            "copying",
            f"annotators {_named(posterior, [excess.one[first], excess.other[first]])} agree in "
            f"{excess.agreed[first]:.0f} of {excess.shared[first]} shared labels, where the fit expects "
            f"{excess.expected[first]:.0f}{more}: one may copy the other. {how}",
        )
    if group.max() >= 0:
        large = np.argmax(np.bincount(group[group >= 0]))
        n, members = group.max() + 1, np.flatnonzero(group == large)
        most = "" if n == 1 else f"; there are {n} such groups, of which this is the largest"
        yield Doubt(
            "colluding",
            f"{len(members)} annotators agree among themselves more than the fit expects: "
            f"{_named(posterior, members)}{most}. {how}",
        )


def _conspicuous(excess: collusion.Excess) -> bool:
    """Whether a pair might stand out: a bound below its p-value, which mostly spares an import of half a second.

    So many hits or more have a larger probability than exactly so many, and Stirling's formula bounds that.
    """
    n = excess.shared
    q, p = (np.clip(x / n, 1e-9, 1 - 1e-9) for x in (excess.agreed, excess.expected))
    divergence = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    least = -n * divergence - 0.5 * np.log(np.maximum(8 * n * q * (1 - q), 1))
    return bool(((q > p) & (least <= math.log(LEVEL / max(1, len(n))))).any())


def _votes(posterior: Posterior) -> Iterator[Doubt]:
    score: Any = import_module("crowdppl.heldout").heldout_score  # by name, because it knows posteriors
    try:
        own = score(posterior)
        votes = score("majority_vote", posterior.data, inference="em", seed=posterior.options["seed"])
    except DataError:  # no item has labels of two annotators: none can be left out
        return
    apart = (own.labels["log_p"] - votes.labels["log_p"]).to_numpy()
    error = standard_error(apart, np.unique(own.labels["item"], return_inverse=True)[1])
    if apart.mean() < -2 * error:
        yield Doubt(
            "votes",
            f"{posterior.method} predicts labels left out worse than a majority vote: {own.per_label:.3f} nats a "
            f"label against {votes.per_label:.3f} (difference {apart.mean():.3f}, standard error {error:.3f}). "
            "crowdppl.compare finds a method that fits better, and fit('auto', data) chooses by it",
        )


def _named(posterior: Posterior, codes: Sequence[int] | np.ndarray) -> str:
    return _listed([repr(plain(posterior.data.annotators[code])) for code in codes])


def _listed(parts: Sequence[str]) -> str:
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more" if more > 0 else "")
