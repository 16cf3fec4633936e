"""What speaks against a fit: too few labels, classes swapped, annotators who say nothing or copy each other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.criticism.by_heart import learned_by_heart
from crowdppl.criticism.dependence import dependent
from crowdppl.criticism.doubt import Doubt, listed, looked_once, named
from crowdppl.criticism.leaning import leaning
from crowdppl.criticism.misfit import misfit, worse_than_votes
from crowdppl.criticism.population import doubts_of
from crowdppl.criticism.thinness import thin
from crowdppl.data.checking import cell_counts
from crowdppl.data.decoding import row_sizes
from crowdppl.doors.counts import switch
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from crowdppl.networks.sight import networks_of
from crowdppl.results.information import information, telling
from crowdppl.stories.priors import house_prevalence
from crowdppl.stories.story import card_of
from crowdppl.tables.alphabet import ranked
from crowdppl.tables.codebook import plain

if TYPE_CHECKING:
    from crowdppl.posterior import Posterior
    from crowdppl.stories.story import Story

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


@looked_once
def doubts(posterior: Posterior, thorough: bool = False) -> tuple[Doubt, ...]:
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
    - prevalence: under a prior of one item a class, by vb, the share of a class in the items is another by .05. A
      heavy prior helps where annotators are hard to know, and draws unbalanced classes of few items together.
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
    by_annotator = chain(*(look(posterior, given) for look in (thin, _diagonal, _spammers)))
    predicting = chain(misfit(posterior), worse_than_votes(posterior)) if thorough else learned_by_heart(posterior)
    crowd = doubts_of(posterior)
    by_item = chain(
        _unnamed(posterior, counts),
        _order(posterior),
        _prevalence(posterior),
        _permuted(posterior),
        _abstained(posterior),
        dependent(posterior, thorough),
    )
    return (*by_annotator, *by_item, *crowd, *predicting)


def _diagonal(posterior: Posterior, given: np.ndarray) -> Iterator[Doubt]:
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
            f"some known truths (gold=), or {leaning(posterior)}",
        )


def _spammers(posterior: Posterior, given: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    even = np.full(data.n_classes, 1 / data.n_classes)
    table = telling(posterior, result.table)
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


def _unnamed(posterior: Posterior, counts: np.ndarray) -> Iterator[Doubt]:
    data, card = posterior.data, card_of(posterior.story)
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


def _order(posterior: Posterior) -> Iterator[Doubt]:
    card, data = card_of(posterior.story), posterior.data
    if card is None or card.kind != "ordinal" or data.kind == "ordinal" or ranked(data.classes):
        return
    names = [repr(plain(name)) for name in data.classes]
    yield Doubt(
        "order",
        f"{posterior.method} is for grades, and takes the classes in the order {listed(names)}, which nobody said: "
        "give kind='ordinal', and list them from lowest to highest in classes=",
    )


def _prevalence(posterior: Posterior) -> Iterator[Doubt]:
    story: Any = posterior.story
    data, learned = posterior.data, is_dataclass(story) and getattr(story, "prevalence", "") == "learned"
    mass = getattr(story, "prevalence_mass", 0) if learned else 0
    mass = house_prevalence(data.n_classes) if mass is None else mass
    if mass <= 1 or data.n_classes * mass < WEIGHT * data.n_items or networks_of(story) or posterior.memory:
        return
    raw = posterior.result.probabilities if posterior.correction is None else posterior.correction.raw
    votes = data.votes()
    top = votes == votes.max(1, keepdims=True)
    voted = (top / top.sum(1, keepdims=True))[votes.sum(1) > 0].mean(0)
    share = raw.mean(0)
    if max(np.abs(share - voted).max(), np.abs(share - posterior.result.prevalence).max()) < 2 * DRAWN:
        return
    try:
        free = _refitted(replace(story, prevalence_mass=1.0), posterior).result.probabilities.mean(0)
    except CrowdpplError:  # vb may not treat it; a doubt too few is better than a fit that fails for one
        return
    worst = int(np.abs(free - share).argmax())
    if abs(free[worst] - share[worst]) > DRAWN:
        yield Doubt(
            "prevalence",
            f"{share[worst]:.0%} of the items are {plain(data.classes[worst])!r} by the fit, and {free[worst]:.0%} "
            f"where the prior of the prevalence weighs one item a class, not {mass:g}: it draws the classes' "
            "shares together, against the labels. Take the setting prevalence_mass=1, or give known truths (gold=)",
        )


def _refitted(story: Story, posterior: Posterior) -> Posterior:
    """Another story's fit to the same labels, by vb; it is not shown, so that nothing is warned of."""
    alone: Any = import_module("crowdppl.fitting").fit_alone  # by name, because it knows posteriors
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        found: Posterior = alone(story, posterior.data, "vb", None, {"seed": posterior.options.get("seed", 0)})
    return found


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
        f"{listed(parts)}), so that means over chains are of nothing. Give known truths (gold=), lengthen the "
        f"warm-up, in which chains are relabelled, or {leaning(posterior)}",
    )


def _abstained(posterior: Posterior) -> Iterator[Doubt]:
    data = posterior.data
    if not data.alphabet.informative or networks_of(posterior.story):  # a network may know the truth from features
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
