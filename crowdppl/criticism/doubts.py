"""Doubts: what labels say against a fit, each with a remedy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch

from crowdppl.core.validation import switch
from crowdppl.criticism import collusion
from crowdppl.criticism.checks import Design, predictive_check
from crowdppl.criticism.collusion import ExcessAgreement, excess_agreement, shares_more
from crowdppl.data.annotations import row_sizes
from crowdppl.data.blocks import count_repeats
from crowdppl.data.checks import cell_counts
from crowdppl.data.ids import plain, ranked
from crowdppl.data.split import keep
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError
from crowdppl.evaluation.heldout import heldout_score
from crowdppl.inference.engines import engine_support, fit_model
from crowdppl.inference.options import Options
from crowdppl.inference.result import Fit
from crowdppl.networks.experts import GRID, population_centre, principal_axes
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.model import Model, card_of
from crowdppl.primitives.priors import default_prevalence
from crowdppl.results.correction import labels_an_item
from crowdppl.results.leave_one_out import standard_error
from crowdppl.results.tables import information, informative_part

NAMED = 5
"""Annotators or classes that a doubt names."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe a fit as it is.

    Attributes:
        kind: "thin", "diagonal", "spammers", "unnamed", "order", "prevalence", "permuted", "abstained", "copying",
            "colluding", "diffuse", "modes", "misfit", "votes".
        text: what was found, in figures, and what can be done.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


def named(posterior: Fit, codes: Sequence[int] | np.ndarray) -> str:
    """The first annotators of some, by their ids."""
    return listed([repr(plain(posterior.data.annotators[code])) for code in codes])


def listed(parts: Sequence[str]) -> str:
    """The first of some, and how many more there are."""
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more" if more > 0 else "")


LEVEL = 0.01
"""Of the check of labels drawn from the fit."""
DRAWS = 100
"""The fewest of which one in a hundred is told."""
MOST = 1_000_000
"""Labels up to which they are drawn: each takes 8 bytes a draw."""
COMMON = (
    "Labels of an item may have more in common than its truth, and probabilities are then too sure: fit('auto', "
    "data) or calibrate=True correct them"
)
WHY = {
    "class_shares": "Annotators differ in what they answer by more than the method knows of: one with a confusion "
    "matrix for each may fit better"
}
"""What it may come from that a statistic stands out, where it is not what labels of an item have in common."""
SWEEPS = 100
"""Of gibbs to warm up, and to draw, where labels are left out: a score is a mean over 100 draws of all chains."""


def misfit(posterior: Fit) -> Iterator[Doubt]:
    """Where labels drawn from the fit are unlike those given; a correction has looked at that, and is let pass."""
    if posterior.correction is not None or posterior.data.n_labels > MOST:
        return
    try:
        check = predictive_check(posterior, draws=DRAWS, seed=posterior.options["seed"])
    except DataError:  # no item has two labels
        return
    if check.p_value <= LEVEL:
        seen = check.table.loc[check.worst]
        yield Doubt(
            "misfit",
            f"labels drawn from the fit are unlike those given (p = {check.p_value:.2g}), most of all in "
            f"{check.worst}: {seen['observed']:.3g}, and {seen['low']:.3g} to {seen['high']:.3g} in 95 % of draws. "
            f"{WHY.get(check.worst, COMMON)}; crowdppl.predictive_check(posterior) shows more",
        )


def worse_than_votes(posterior: Fit) -> Iterator[Doubt]:
    """Where labels left out are predicted worse than by a majority vote; of a correction, by its method's own."""
    posterior = posterior.uncorrected()
    given = posterior.options
    if posterior.inference == "gibbs":
        brief = {name: min(SWEEPS, given[name]) for name in ("warmup", "draws")}
        posterior = replace(posterior, options={**given, **brief})
    try:
        own = heldout_score(posterior)
        votes = heldout_score("majority_vote", posterior.data, inference="em", seed=posterior.options["seed"])
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


SAMPLES = 200
"""Populations that are drawn again to see whether a mode is one of chance."""
POPULATION_LEVEL = 0.05
"""Chance that a population with one mode is taken for one with several."""
LOOSE = 0.125
"""Share of its gate by which the mode may move when annotators are drawn again.

With 15 to 60 annotators spread evenly over all gates of 5 to 10 experts, it moves by .14 to .22; with gates that
scatter as closely as a Dirichlet of mass 50, by .03 to .06.
"""
TURNED = 0.05
"""Share of the items for which other annotators would give another answer.

Of 8 to 25 hammers of whom a fifth are spammers, at most .014; of 25 with plans of their own, mostly .1 to .4.
"""
FEWEST = 5
"""Annotators below which nothing is said of their population."""


def population(posterior: Fit) -> Iterator[Doubt]:
    """What speaks against the crowd of a fit being one population, where its method gives annotators gates.

    - Of gates, what ``population_doubts`` says.
    - diffuse, too, where gates are alike, as those of a short fit are, and annotators are not (``moved_answers``):
      the oracle worker then says what most annotators say, and who these are is chance. Of 30 simulated crowds of
      25 with plans of their own, nine in ten wrong, 24 are found with three classes, 29 with four, all with eight;
      of as many of hammers of whom a fifth are spammers none is taken for one, but 5 are where a hammer is right in
      .45 of 22 labels of four classes.

    Silent where annotators err alike, whatever they are, for then nothing tells a crowd that is wrong from one that
    is right: with two classes there is one way to err. All who guess are alike, too: see "spammers".
    """
    gate = posterior.result.sites.get("gate")
    if gate is None:
        return
    found = list(population_doubts(np.asarray(gate.mean)))
    moved = 0.0 if any(doubt.kind == "diffuse" for doubt in found) else moved_answers(posterior)
    if moved > TURNED:
        yield Doubt(
            "diffuse",
            f"the population of {posterior.data.n_annotators} annotators is diffuse: drawn again from them, what "
            f"most of them say is another class for {moved:.0%} of the items, though their gates are alike. The "
            "oracle worker may be wrong nearly always: give some known truths (gold=), compare with other methods, "
            "or train for more epochs",
        )
    yield from found


def moved_answers(posterior: Fit, seed: int = 0) -> float:
    """Share of items for which most of another draw of the same annotators would give another answer.

    Annotators are drawn again with their labels (200 bootstrap samples). Each weighs as much as any other, as in a
    population of gates. Items of which the fit finds the same class most probable are taken together, for few have
    labels of many annotators. As much as would move if annotators were alike, by the few labels they gave, is taken
    off.

    Returns:
        A number from 0; 0 where fewer than 5 annotators named a class.
    """
    data, stream = posterior.data, np.random.default_rng(seed)
    item, annotator, answer = data.label_codes()
    oracle = posterior.result.probabilities.argmax(1)
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_answers), np.int64)
    np.add.at(counts, (annotator, oracle[item], answer), 1)
    counts = counts[..., : data.n_classes]
    counts = counts[counts.any((1, 2))]
    if len(counts) < FEWEST:
        return 0.0
    share, n = np.bincount(oracle, minlength=data.n_classes) / len(oracle), len(counts)
    shares = _shares(counts)
    first = shares.sum(0).argmax(-1)
    drawn = stream.multinomial(n, np.full(n, 1 / n), SAMPLES)
    again = np.tensordot(drawn, shares, 1).argmax(-1)
    moved = float((again != first).mean(0) @ share)
    if moved <= TURNED:
        return moved
    row = np.maximum(counts.sum(0), 1e-9)
    row /= row.sum(-1, keepdims=True)
    many = (stream.multinomial(counts.sum(-1), row) for _ in range(SAMPLES))
    alike = np.stack([_shares(some).sum(0).argmax(-1) for some in many])
    return max(0.0, moved - float((alike != first).mean(0) @ share))


def _shares(counts: np.ndarray) -> np.ndarray:
    """How often each annotator gives each answer to each class, of how often they name one: (A, K, K)."""
    return np.asarray(counts / np.maximum(counts.sum(-1, keepdims=True), 1))


def population_doubts(gates: np.ndarray, seed: int = 0) -> Iterator[Doubt]:
    """What speaks against there being one oracle worker.

    - diffuse: the mode is one of chance. Drawn again from the same annotators (200 bootstrap samples), it moves by
      more than an eighth of the gate (total variation) on average.
    - modes: along the first principal axis of gates, Silverman's test (1981, "Using kernel density estimates to
      investigate multimodality") rejects one mode at level .05.

    Args:
        gates: of annotators, (A, M). Of fewer than 5 nothing is said.
        seed: of the draws.
    """
    if len(gates) < FEWEST:
        return
    stream = np.random.default_rng(seed)
    again = torch.from_numpy(gates[stream.integers(len(gates), size=(SAMPLES, len(gates)))])
    moved = 0.5 * (population_centre(again) - population_centre(torch.from_numpy(gates))).abs().sum(-1).mean()
    if moved > LOOSE:
        yield Doubt(
            "diffuse",
            f"the population of {len(gates)} annotators is diffuse: drawn again from them, its mode differs "
            f"in {moved:.0%} of the gate. The oracle worker stands for nobody in particular: compare with "
            "oracle='mean' and oracle='median', or leave out spammers with posterior.without([...])",
        )
    mean, axes, _ = principal_axes(gates)
    p = one_mode(((gates - mean) @ axes)[:, 0], stream)
    if p < POPULATION_LEVEL:
        yield Doubt(
            "modes",
            f"the population of {len(gates)} annotators has several modes (p = {p:.2g} for one): the oracle worker "
            "is of the largest group, or lies between groups. crowdppl.plot_annotator_map(posterior) shows them",
        )


def one_mode(x: np.ndarray, stream: np.random.Generator) -> float:
    """The p-value of numbers having one mode, by Silverman's test with 200 smoothed bootstrap samples."""
    spread = x.std()
    if spread < 1e-9:
        return 1.0
    x = (x - x.mean()) / spread
    low, high = 1e-3, 2.0
    for _ in range(20):  # the smallest bandwidth at which there is one mode
        h = (low * high) ** 0.5
        low, high = (low, h) if modes(x, h) == 1 else (h, high)
    drawn = x[stream.integers(len(x), size=(SAMPLES, len(x)))] + high * stream.normal(size=(SAMPLES, len(x)))
    drawn /= (1 + high**2) ** 0.5
    return float(np.mean([modes(sample, high) > 1 for sample in drawn]))


def modes(x: np.ndarray, bandwidth: float) -> int:
    """How many local maxima the density of numbers has."""
    at = np.linspace(x.min() - bandwidth, x.max() + bandwidth, GRID)
    density = np.exp(-0.5 * ((at[:, None] - x) / bandwidth) ** 2).sum(1)
    rising = np.sign(np.diff(density))
    rising = rising[rising != 0]
    return int(((rising[:-1] > 0) & (rising[1:] < 0)).sum())


QUICK = 20_000
"""Labels up to which they are looked at beside a fit: 10 ms for 15,567 of five classes."""
LEAST = math.exp(-80)
"""Smallest probability of a label, as stories have it."""
ALIKE = 0.02
"""Largest difference between a table and the shares of its labels, which are counted after the last iteration."""
KNOWN = 1e6
"""Logit of a known truth: more than any number of votes makes."""
ROUNDS, SETTLED = 100, 1e-6
"""Of the search for the accuracy that a majority vote has, and the change at which it ends."""


def overfitting(posterior: Fit) -> Iterator[Doubt]:
    """Where each label, taken out of its annotator's row, is predicted worse than by a majority vote.

    Of points alone, by maximum likelihood with a confusion matrix for each annotator: there, an answer that an
    annotator gave once has probability 0 without it. Other labels' truths still know the label, so that the method
    predicts a little too well: a doubt too few, and none too many.
    """
    posterior, data = posterior.uncorrected(), posterior.data
    if posterior.memory is not None or data.n_answers > data.n_classes or data.n_labels > QUICK:
        return
    sites = posterior.result.sites.values()
    if {site.family for site in sites} != {"point"} or not any(_is_table(x.mean, posterior) for x in sites):
        return
    item, annotator, label = data.label_codes()
    share = posterior.result.probabilities[item]
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_classes))
    np.add.at(counts.transpose(0, 2, 1), (annotator, label), share)
    if not _of_labels_alone(posterior.result.table, counts):
        return
    asked = np.bincount(item)[item] > 1  # of an item's only label, nothing is known without it
    if not asked.any():
        return
    own = _without_itself(posterior.result.table, counts, annotator, label, share)
    votes = _by_vote(data.votes(), data.gold_codes, item, label)
    apart = (own - votes)[asked]
    error = standard_error(apart, np.unique(item[asked], return_inverse=True)[1])
    if apart.mean() < -2 * error:
        yield Doubt(
            "votes",
            f"{posterior.method} predicts a label from the others worse than a majority vote: "
            f"{own[asked].mean():.3f} nats a label against {votes[asked].mean():.3f} (difference "
            f"{apart.mean():.3f}, standard error {error:.3f}; by the labels left out of a fit it is mostly worse "
            "still). By maximum likelihood an answer that an annotator never gave is impossible: take "
            "bayesian_dawid_skene, or a method that crowdppl.compare finds; fit('auto', data) chooses by it",
        )


def _is_table(value: np.ndarray, posterior: Fit) -> bool:
    """Whether a site's value is the annotators' confusions."""
    table = posterior.result.table
    return value.shape == table.shape and bool(np.allclose(value, table, atol=1e-6))


def _of_labels_alone(table: np.ndarray, counts: np.ndarray) -> bool:
    """Whether rows are the shares of their labels, without a prior."""
    total = counts.sum(-1, keepdims=True)
    seen = np.broadcast_to(total > 1, counts.shape)
    return bool((np.abs(counts / np.maximum(total, LEAST) - table)[seen] < ALIKE).all())


def _without_itself(
    table: np.ndarray, counts: np.ndarray, annotator: np.ndarray, label: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Log-probability of each label, by its annotator's other labels and its item's other labels.

    Args:
        table, counts: (A, K, K) [annotator, truth, label].
        annotator, label: (S,).
        share: of the truth of each label's item, (S, K), by all labels.
    """
    rest = np.maximum(counts[annotator, :, label] - share, 0)
    total = counts.sum(-1)[annotator] - share
    nothing = total < 1e-9
    log_p = np.where(nothing, 1 / table.shape[-1], rest / np.where(nothing, 1, total))
    truth = share / np.maximum(table[annotator, :, label], LEAST)
    truth /= truth.sum(1, keepdims=True)
    return np.asarray(np.log((truth * np.maximum(log_p, LEAST)).sum(1)))


def _by_vote(votes: np.ndarray, gold: np.ndarray | None, item: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log-probability of each label by its item's other labels, where all annotators are right as often.

    Args:
        votes: (N, K).
        gold: known classes of items or -1, (N,).
        item, label: of each label, (S,).
    """
    from scipy.special import softmax  # slow to import, needed here alone

    k, told = votes.shape[1], np.zeros(votes.shape)
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        told[known, gold[known]] = KNOWN
    right, before = 0.5 * (1 + 1 / k), 0.0
    for _ in range(ROUNDS):
        if abs(right - before) < SETTLED:
            break
        truth = softmax(votes * _weight(right, k) + told, axis=1)
        before, right = right, float(np.clip((truth * votes).sum() / votes.sum(), 1e-9, 1 - 1e-9))
    one = np.zeros((len(item), k))
    one[np.arange(len(item)), label] = 1
    rest = softmax((votes[item] - one) * _weight(right, k) + told[item], axis=1)
    same = rest[np.arange(len(item)), label]
    return np.asarray(np.log(same * right + (1 - same) * (1 - right) / (k - 1)))


def _weight(right: float, k: int) -> float:
    return math.log(right * (k - 1) / (1 - right))


A_PARAMETER, A_ROW = 2, 8
"""Labels that an annotator has to give for each free parameter, and for each row of a table."""
NARROW = 1.5
"""A posterior as narrow as by so many times the labels needed is supported, wherever it has that from."""
THIN = 0.25
"""Share of all labels that may come from annotators who gave too few."""
SPARSE = 0.1
"""Labels for each free parameter below which a method with fewer is advised first. Of 1,000 items of 50 classes, 5
labels each by 20 annotators right by .4 to .85, bayesian_dawid_skene by vb is surer than .99 of all, with a log
score of 1.05 to 1.60 (four crowds, two with favourite confusions), where one_coin has .10 to .30; of 200 classes
1.69, and one_coin .18."""
ERRORS = 2
"""Standard errors by which annotators have to agree otherwise than drawn tables expect."""
LITTLE = 0.2
"""Share of the agreement beyond chance below which drawn tables say next to nothing."""
"""Module that knows what an engine does with a story; looked up by name, so that results import no engine."""
NUMBERS = 2_000_000
"""Numbers that are held at once: of each pair of labels, the table of an annotator."""
SOME = 100
"""Labels on which it is seen what an engine does with a story."""


def sparse_data(posterior: Fit, given: np.ndarray) -> Iterator[Doubt]:
    """Too few labels for each annotator's parameters, where the fit makes too much of them.

    Args:
        given: labels of each annotator, (A,).
    """
    free, rows = parameters(posterior)
    need = max(A_PARAMETER * free, A_ROW * rows)
    few = given < need
    share = given[few].sum() / max(1, given.sum())
    if share <= THIN:
        return
    draws = posterior.result.table_draws
    if draws is not None and np.median(narrowness(draws[:: len(draws) // 50 + 1, few])) >= NARROW * need / rows:
        return
    sampled = any(site.family == "draws" for site in posterior.result.sites.values())
    prior = _prior(posterior) if sampled else "on the prior, or on chance where there is none"
    if prior:
        many = f"{few.sum()} of {len(given)} annotators, with {share:.0%} of all labels,"
        median, own = np.median(given[few]), f"{free} free parameter{'s' * (free > 1)}"
        sparse = not sampled and median < SPARSE * free
        remedy = _fewer(posterior, free) if sparse else _remedy(posterior, sampled, free)
        yield Doubt(
            "thin",
            f"{many} gave fewer than {need} labels (median {median:.0f}), and {posterior.method} "
            f"has {own} for each: its probabilities rest {prior}. {remedy}, give annotators "
            "who are alike one id, or collect more labels",
        )


def _prior(posterior: Fit) -> str:
    """What drawn tables rest on, where that is no good; empty where annotators agree as these tables expect."""
    try:
        observed, expected, chance, error = _agreement(posterior)
    except DataError:  # nobody shares an item with somebody else
        return "on the prior, of which nothing tells whether it is right"
    apart = observed - expected
    silent = expected - chance < LITTLE * (observed - chance)
    if apart > -ERRORS * error and not (silent and apart > ERRORS * error):
        return ""
    says = "next to nothing" if apart > 0 else "too much"
    return (
        f"on a prior that says {says} of the annotators, who agree in {observed:.0%} of pairs of labels where the "
        f"fit expects {expected:.0%}"
    )


def _fewer(posterior: Fit, free: int) -> str:
    """Methods with fewer parameters, the sparsest first, with their numbers for each annotator."""
    k = posterior.data.n_classes
    coins = f"one_coin (1 for each) or class_coin ({k} for each)" if free > k else "majority_vote (none)"
    return f"Take a method with fewer, such as {coins}{' or one_coin (1 for each)' if 1 < free <= k else ''}"


def _remedy(posterior: Fit, sampled: bool, free: int) -> str:
    fewer = f"with fewer, such as {'majority_vote or one_coin' if free > 1 else 'majority_vote'}"
    if sampled:
        return f"Choose another prior, take a method {fewer}"
    average = "averages over all tables that the labels allow"
    data = posterior.data
    some = keep(data, np.arange(data.n_labels) < SOME)
    if not networks_of(posterior.model) and engine_support(posterior.model, some, "gibbs") == "exact":
        return f'Fit it with inference="gibbs", which {average}, or take a method {fewer}'
    gibbs = f'that inference="gibbs" fits (crowdppl.zoo() lists them) and so {average}'
    return f"Take a method {gibbs}, or one {fewer}"


def _agreement(posterior: Fit) -> tuple[float, float, float, float]:
    """Share of pairs of labels of an item that are equal: as observed, as mean tables and prevalence have it, as by
    chance; and the standard error of the difference of the first two, items being the units.

    Raises:
        DataError: when no item has labels of two annotators.
    """
    design, result = Design.of(posterior.data), posterior.result
    equal, expected, item, step = [], [], [], max(1, NUMBERS // result.table[0].size)
    for one, other, _ in design.meetings():
        for a, b in zip(*(np.split(rows, range(step, len(rows), step)) for rows in (one, other)), strict=True):
            tables = result.table[design.annotator[a]], result.table[design.annotator[b]]
            expected.append(np.einsum("pkl,pkl,k->p", *tables, result.prevalence))
            equal.append(design.answer[a] == design.answer[b])
            item.append(design.item[a])
    if not sum(map(len, item)):
        raise DataError("no item has labels of two annotators, so that nothing tells how they agree")
    apart = np.concatenate(equal) - np.concatenate(expected)
    owner = np.unique(np.concatenate(item), return_inverse=True)[1]
    share = np.bincount(design.answer) / len(design.answer)
    observed, probable = (float(np.concatenate(x).mean()) for x in (equal, expected))
    return observed, probable, float((share**2).sum()), standard_error(apart, owner)


def parameters(posterior: Fit) -> tuple[int, int]:
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


def narrowness(draws: np.ndarray) -> np.ndarray:
    """How many labels a row of each annotator is worth, (A,): the concentration of Dirichlets with this spread."""
    mean, variance = draws.mean(0, dtype=np.float64), draws.var(0, dtype=np.float64)
    worth = (1 - (mean**2).sum(-1)) / np.maximum(variance.sum(-1), 1e-12) - 1
    return np.asarray(worth.mean(-1))


COINS = (("right", "wrong"), ("knows", "guesses"))
"""Settings that are pseudo-counts of labels on the diagonal, and of those beside it."""
UNUSED = {"crowd_prior_strength": (None, 0), "prior": ("default",), "form": ("generative",)}
"""Settings of rows of confusions that leave ``mass`` and ``diagonal`` unused, unless they are these."""


def diagonal_prior_hint(posterior: Fit) -> str:
    """What to do so that the prior takes annotators for right more often, as the end of a sentence."""
    model: Any = posterior.model
    known = {field.name: getattr(model, field.name) for field in fields(model)} if is_dataclass(model) else {}
    for one, other in COINS:
        if all(isinstance(known.get(name), int | float) for name in (one, other)):
            now = f"{known[one]:g}, where {other}= is {known[other]:g}"
            return f"let the prior lean more on the diagonal, by the setting {one}= (now {now})"
    mass, share = known.get("mass"), known.get("diagonal", "")
    share = (1 + 1 / posterior.data.n_classes) / 2 if share is None else share
    used = all(known.get(name, usual[0]) in usual for name, usual in UNUSED.items())
    if used and isinstance(mass, int | float) and isinstance(share, int | float):
        return (
            f"let the prior lean more on the diagonal, by the settings prior_accuracy= (now {share:.2g}) and prior_strength= (now "
            f"{mass:g} labels a row)"
        )
    return "take a method whose prior leans on the diagonal, such as bayesian_dawid_skene"


DEPENDENCE_LEVEL = 0.01
"""Chance that some pair of honest annotators is taken for copiers, under the fitted model."""
REPEATED = 0.05
"""Of the labels: repeats of an annotator's label of an item beyond which agreement cannot be tested."""
DEPENDENCE_QUICK, PATIENT = 20_000, 200_000
"""Pairs of labels of one item up to which copying is looked for beside a fit. By em, which takes little longer than
the 16 ms of the look; and by other engines, which take more: .1 to .5 s, or 3 beside 18 where a story is asked."""
HOW = "crowdppl.suspicious_annotators(posterior) has the figures, posterior.without([...]) fits without them"


def dependence(posterior: Fit, thorough: bool) -> Iterator[Doubt]:
    """Pairs that stand out ("copying") and groups that they form ("colluding").

    Args:
        thorough: whether to look at data with more pairs of labels than ``QUICK``, by other engines than em
            ``PATIENT``.
    """
    if not _testable(posterior, thorough):
        return
    # The story itself is asked only where there is something to explain: that takes longer than the rest.
    excess = excess_agreement(posterior, alone=True)
    if not conspicuous(excess):
        return
    if shares_more(posterior.model):
        excess = excess_agreement(posterior)
    p = collusion.p_values(excess)
    linked = p <= DEPENDENCE_LEVEL
    if linked.mean() > 0.5:
        return
    group = collusion.groups(excess, linked, posterior.data.n_annotators)
    alone = np.flatnonzero(linked & (group[excess.one] < 0))
    if len(alone):
        first = alone[np.argmin(p[alone])]
        more = f"; {len(alone)} pairs stand out like this" if len(alone) > 1 else ""
        yield Doubt(
            "copying",
            f"annotators {named(posterior, [excess.one[first], excess.other[first]])} agree in "
            f"{excess.agreed[first]:.0f} of {excess.shared[first]} shared labels, where the fit expects "
            f"{excess.expected[first]:.0f}{more}: one may copy the other. {HOW}",
        )
    if group.max() >= 0:
        large = np.argmax(np.bincount(group[group >= 0]))
        n, members = group.max() + 1, np.flatnonzero(group == large)
        most = "" if n == 1 else f"; there are {n} such groups, of which this is the largest"
        yield Doubt(
            "colluding",
            f"{len(members)} annotators agree among themselves more than the fit expects: "
            f"{named(posterior, members)}{most}. {HOW}",
        )


def _testable(posterior: Fit, thorough: bool) -> bool:
    """Whether labels are those of many who judge each alone, and not too many to be looked at beside a fit."""
    data = posterior.data
    if data.n_answers > data.n_classes:
        sizes = labels_an_item(data).astype(np.int64)
    else:  # the same, without a table of all items and classes
        sizes = np.concatenate([row_sizes(block) for block in data.blocks])
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    if not pairs or (pairs > (DEPENDENCE_QUICK if posterior.inference == "em" else PATIENT) and not thorough):
        return False
    # An annotator's labels of an item go together, whoever else labels it.
    return count_repeats(data.blocks) <= REPEATED * data.n_labels


def conspicuous(excess: ExcessAgreement) -> bool:
    """Whether a pair might stand out, had all pairs together no more in common than the model expects."""
    return bool((excess.tail * len(excess.tail) <= DEPENDENCE_LEVEL).any())


SURE = 0.9
"""Probability above which a truth that rests on abstentions alone is doubted."""
DRAWN = 0.05
"""How far the prior of the prevalence may draw the share of a class."""
WEIGHT = 0.05
"""Of the items: the weight of that prior from which on it is looked at."""
UNNAMED = 0.01
"""Of the items: how many may be of classes that nobody named; where items are few, half an item."""
BITS = 0.05
"""Information below which an annotator is a spammer; the labels have to speak against three times as much."""


def doubts(posterior: Fit, thorough: bool = False) -> tuple[Doubt, ...]:
    """Looks for what speaks against a fit, in this order; nothing found is no proof that all is well.

    - thin: more than a quarter of the labels are by annotators who gave fewer than 2 for each free parameter that
      the method has for an annotator (K (K - 1) in a confusion, 1 in a coin), or fewer than 8 for each row of
      these. A posterior as narrow as 1.5 times these labels would make it is spared: what annotators share lends
      them strength. So are draws of a sampler, which average over all tables that the labels allow, unless
      annotators agree less than the mean table expects, by 2 standard errors (items are the units), or it expects
      less than a fifth of their agreement beyond chance: they then rest on a prior that is wrong, or flat. Of
      simulated crowds with fewer labels (40 or 160 annotators; K = 2, 3, 4, 5, 10) vb scores worse than a majority
      vote by 0, 0, .2, .4, 1.7 nats an item under the prior that the tables are drawn from, and by .2, 1.2, 1.8,
      3.2, 9.3 where annotators are right by .15 more often than by chance; gibbs under the former scores better, by
      .04 to .16, and none of 46 fits is doubted; with the latter it scores worse, by .04 to .71, and 39 of 46 are;
      under a flat prior by .8, and 11 of 12 are. With as many labels as are asked for, vb scores as a vote does or
      better under the prior of the tables. Maximum likelihood asks for some ten times as many, which is not said.
    - diagonal: the mean confusion, weighted by labels, has a class whose most frequent answer is another class,
      by more than 2 standard errors.
    - spammers: information below .05 bits, under the fitted prevalence and under an even one, and with labels
      enough to be below .15 bits by 2 standard errors (of the root of the information, as for a likelihood ratio).
    - prevalence, with ``thorough`` alone: under a prior of one item a class, by vb, the share of a class in the
      items is another by .05. A heavy prior helps where annotators are hard to know, and draws unbalanced classes of few items together.
      Looked for where it weighs a twentieth of the items, and votes or prevalence differ by .1.
    - unnamed: over a hundredth of the items (half an item at least) are of classes that no label or truth names.
      They take what fits others badly: of 500 items of three classes, listed with a fourth, dawid_skene gave it 28.
    - order: a method for grades has nominal classes, which are no rising numbers: it takes them as they are sorted.
    - permuted: chains of a sampler that call the classes otherwise than the votes do, while other chains do not.
    - abstained: the fit is sure (.9) of the truth of items whose labels are all abstentions, where these may tell
      of the class: what makes items hard for all is then taken for their class.
    - copying, colluding: pairs and groups of ``crowdppl.suspicious_annotators`` at level .01, unless most pairs
      stand out, as where items are hard for all. A group that the story has, and the fit has found, is expected to
      agree and is no doubt. Not where a twentieth of the labels are repeats, and without ``thorough`` up to 200,000
      pairs of labels, by em 20,000. Copiers who share fewer than some 20 items are seldom found: see there.
    - misfit, with ``thorough`` alone: labels drawn from the fit differ from those given, at level .01 of
      ``crowdppl.predictive_check`` (100 draws, up to 1,000,000 labels). Mostly because labels of an item have more
      in common than its truth: probabilities are then too sure. Of a corrected posterior nothing is said.
    - votes: labels are predicted worse than by a majority vote, by more than 2 standard errors of the difference
      (items are the units): with ``thorough``, labels left out of fits; else, after ``dawid_skene`` by em alone, up
      to 20,000 labels, each without itself in its annotator's row, which is too kind: of nine real sets four are
      doubted, and five with ``thorough``. Of a corrected posterior, the method's own is meant.

    Args:
        thorough: whether to take the time to fit again, ten times in all; gibbs starts these from the truth that it
            found, and takes 200 sweeps at most, a quarter of what a fit takes by default.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).doubts()
        ()
    """
    thorough = switch("thorough", thorough)
    counts = cell_counts(posterior.data.blocks)[:, : posterior.data.n_classes]
    # Labels of each annotator that name a class, and all those before an update, abstentions included.
    given = counts.sum(1) + (0 if posterior.memory is None else posterior.memory.labels)
    by_annotator = chain(*(look(posterior, given) for look in (sparse_data, _diagonal, _spammers)))
    predicting = chain(misfit(posterior), worse_than_votes(posterior)) if thorough else overfitting(posterior)
    crowd = population(posterior)
    by_item = chain(
        _unnamed(posterior, counts),
        _order(posterior),
        *([_prevalence(posterior)] if thorough else []),
        _permuted(posterior),
        _abstained(posterior),
        dependence(posterior, thorough),
    )
    return (*by_annotator, *by_item, *crowd, *predicting)


def _diagonal(posterior: Fit, given: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    mean = np.einsum("a,akl->kl", given / max(1, given.sum()), result.table)[:, : data.n_classes]
    # An update's items may be of few classes; then the prevalence says of how many classes all labels were.
    share = result.probabilities.mean(0) if posterior.memory is None else result.prevalence
    labels = np.maximum(given.sum() * share, 1e-9)
    top, most, own = mean.argmax(1), mean.max(1), mean.diagonal()
    swapped = np.flatnonzero(most - own > 2 * np.sqrt((most + own) / labels))
    if len(swapped):
        names = [repr(plain(name)) for name in data.classes]
        parts = [f"{names[k]} is called {names[top[k]]} ({most[k]:.2f}, and {own[k]:.2f} right)" for k in swapped]
        yield Doubt(
            "diagonal",
            f"the most frequent answer to {len(swapped)} of {len(names)} classes is another: {listed(parts)}. The "
            "fit may have swapped them, or all annotators are misled alike, which labels cannot tell apart: give "
            f"some known truths (gold=), or {diagonal_prior_hint(posterior)}",
        )


def _spammers(posterior: Fit, given: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    even = np.full(data.n_classes, 1 / data.n_classes)
    table = informative_part(posterior, result.table)
    told = np.maximum(*(information(table, share) for share in (result.prevalence, even)))
    error = 1 / np.sqrt(2 * math.log(2) * np.maximum(given, 1))
    bad = np.flatnonzero((told < BITS) & (np.sqrt(told) + 2 * error < math.sqrt(3 * BITS)))
    if len(bad):
        bad = bad[np.argsort(-given[bad], kind="stable")]
        yield Doubt(
            "spammers",
            f"{len(bad)} of {len(given)} annotators, with {given[bad].sum() / given.sum():.0%} of all labels, say "
            f"less than {BITS} bits about the truth: {named(posterior, bad)}. The fit makes little of them; "
            "posterior.without([...]) fits without them",
        )


def _unnamed(posterior: Fit, counts: np.ndarray) -> Iterator[Doubt]:
    data, card = posterior.data, card_of(posterior.model)
    if posterior.memory is not None or (card is not None and card.kind == "ordinal"):
        return  # earlier labels may have named it; a grade may lie between those that were given
    named: np.ndarray = counts.sum(0) > 0
    if data.gold_codes is not None:
        named[data.gold_codes[data.gold_codes >= 0]] = True
    taken = posterior.result.probabilities[:, ~named].sum(0)
    if taken.sum() > max(UNNAMED * data.n_items, 0.5):
        classes = listed([repr(plain(name)) for name in data.classes[~named]])
        yield Doubt(
            "unnamed",
            f"{taken.sum():.0f} of {data.n_items} items are of classes that no label names ({classes}): they take "
            "what fits the others badly; leave them out of classes=, or give known truths (gold=) of them",
        )


def _order(posterior: Fit) -> Iterator[Doubt]:
    card, data = card_of(posterior.model), posterior.data
    if card is None or card.kind != "ordinal" or data.kind == "ordinal" or ranked(data.classes):
        return
    names = [repr(plain(name)) for name in data.classes]
    yield Doubt(
        "order",
        f"{posterior.method} is for grades, and takes the classes in the order {listed(names)}, which nobody said: "
        "give kind='ordinal', and list them from lowest to highest in classes=",
    )


def _prevalence(posterior: Fit) -> Iterator[Doubt]:
    model: Any = posterior.model
    data, learned = posterior.data, is_dataclass(model) and getattr(model, "prevalence", "") == "learned"
    mass = getattr(model, "prevalence_strength", 0) if learned else 0
    mass = default_prevalence(data.n_classes) if mass is None else mass
    if mass <= 1 or data.n_classes * mass < WEIGHT * data.n_items or networks_of(model) or posterior.memory:
        return
    raw = posterior.result.probabilities if posterior.correction is None else posterior.correction.raw
    votes = data.votes()
    top = votes == votes.max(1, keepdims=True)
    voted = (top / top.sum(1, keepdims=True))[votes.sum(1) > 0].mean(0)
    share = raw.mean(0)
    if max(np.abs(share - voted).max(), np.abs(share - posterior.result.prevalence).max()) < 2 * DRAWN:
        return
    try:
        free = _refitted(replace(model, prevalence_strength=1.0), posterior).result.probabilities.mean(0)
    except CrowdpplError:  # vb may not treat it; a doubt too few is better than a fit that fails for one
        return
    worst = int(np.abs(free - share).argmax())
    if abs(free[worst] - share[worst]) > DRAWN:
        yield Doubt(
            "prevalence",
            f"{share[worst]:.0%} of the items are {plain(data.classes[worst])!r} by the fit, and {free[worst]:.0%} "
            f"where the prior of the prevalence weighs one item a class, not {mass:g}: it draws the classes' "
            "shares together, against the labels. Take the setting prevalence_strength=1, or give known truths (gold=)",
        )


def _refitted(model: Model, posterior: Fit) -> Fit:
    """Another story's fit to the same labels, by vb; it is not shown, so that nothing is warned of."""
    options = Options(seed=posterior.options.get("seed", 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return fit_model(model, posterior.method, posterior.data, "vb", options)


def _permuted(posterior: Fit) -> Iterator[Doubt]:
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
        f"{listed(parts)}), so that means over chains are of nothing. Give known truths (gold=), lengthen the "
        f"warm-up, in which chains are relabelled, or {diagonal_prior_hint(posterior)}",
    )


def _abstained(posterior: Fit) -> Iterator[Doubt]:
    data = posterior.data
    if not data.alphabet.informative or networks_of(posterior.model):  # a network may know the truth from features
        return
    alone = data.votes().sum(1) == 0
    alone[data.order] &= np.concatenate([row_sizes(block) for block in data.blocks]) > 0
    if data.gold_codes is not None:
        alone &= data.gold_codes < 0
    sure = alone & (posterior.result.probabilities.max(1) > SURE)
    if sure.any():
        yield Doubt(
            "abstained",
            f"{int(alone.sum())} items have abstentions alone, and the fit is sure (p above {SURE}) of the truth "
            f"of {int(sure.sum())} of them: what makes an item hard may be taken for its class. Unless declining "
            "is known to tell of the class, leave informative_abstentions out",
        )
