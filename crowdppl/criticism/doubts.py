"""Doubts: what the labels show to be wrong with a fit, each with a remedy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from crowdppl.core.validation import listed, switch
from crowdppl.criticism import collusion
from crowdppl.criticism.checks import Design, collapse, predictive_check
from crowdppl.criticism.collusion import excess_agreement, shares_more
from crowdppl.criticism.spammers import names_one_class
from crowdppl.criticism.sparse_data import sparse_data
from crowdppl.data.blocks import count_repeats, row_sizes
from crowdppl.data.checks import cell_counts
from crowdppl.data.ids import native, ranked
from crowdppl.data.split import whole_units
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, MethodError
from crowdppl.evaluation.heldout import heldout_score
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.engines import fit_model
from crowdppl.inference.options import Options
from crowdppl.inference.result import ClassProbabilities, Fit
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.model import card_of
from crowdppl.results.correction import MIN_GOLD, labels_an_item, members
from crowdppl.results.leave_one_out import standard_error
from crowdppl.results.tables import information, informative_part


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe a fit as it is.

    Attributes:
        kind: as ``doubts`` lists them, or a kind of the method's own, such as "diffuse" and "modes" of mmlc.
        text: what was found, in figures, and what can be done.
    """

    kind: str
    text: str

    @property
    def general(self) -> bool:
        """Whether it is true of all such fits, whatever their labels; ``fit`` does not warn of it."""
        return self.kind == "bias"

    def __str__(self) -> str:
        return self.text


def doubts(posterior: Fit, thorough: bool = False) -> tuple[Doubt, ...]:
    """Looks for problems of a fit, in this order; nothing found is no proof that all is well.

    - thin: more than a quarter of the labels are by annotators who gave fewer than 2 for each free parameter that
      the method has for an annotator, or fewer than 8 for each row of these. Not where the posterior is narrow all
      the same; nor for draws of a sampler, unless annotators agree less than the mean table expects, or it expects
      next to nothing: the draws then rest on a prior that is wrong, or flat.
    - diagonal: the mean confusion has a class whose most frequent answer is another class, beyond chance.
    - collapse: labels agree with one another more than with the fit on a class, beyond chance. Not of comparisons.
    - spammers: annotators whose labels say less than .05 bits about the truth, beyond chance.
    - one class: over a quarter of the labels are by annotators who name one class alone, where others name it, too.
    - unanimous: no two labels of an item differ, on ten items or more.
    - unnamed: over a hundredth of the items are of classes that no label or truth names.
    - order: a method for grades has nominal classes, which it takes as they are sorted.
    - prevalence, with ``thorough`` alone: a prior of one item a class changes the share of a class by .05.
    - permuted: some chains of a sampler name the classes otherwise than the votes do.
    - abstained: the fit is sure of the truth of items whose labels are all abstentions.
    - copying, colluding: pairs and groups of ``crowdppl.suspicious_annotators`` at level .01, unless most pairs
      stand out, as where items are hard for all. Without ``thorough`` up to 200,000 pairs of labels (fewer
      with over 22 classes), by em 20,000.
    - together: over .05 of the disagreements that the fit expects among labels of an item are none, beyond chance;
      by em or vb, of one member of ``auto``, and not where thin or where a network decides how labels agree.
    - what the method itself offers: a model may have ``doubts(fit)``, which returns pairs of a kind and a text.
    - misfit, with ``thorough`` alone: labels drawn from the fit differ from those given, at level .01 of
      ``crowdppl.predictive_check``. Not for corrected posteriors.
    - votes: labels are predicted worse than by a majority vote, beyond chance: with ``thorough``, labels left out
      of fits; else, after maximum likelihood with a confusion matrix for each annotator, each label without
      itself in its annotator's row. Of a corrected posterior, the method's own predictions.
    - bias: probabilities are corrected without known truths, which alone show a bias that annotators share.

    Where labels are numbers, there are those that the method itself offers, and "copying": errors of two annotators
    correlate by more than .5, at level .01 over all pairs, on items with two other labels at least.

    Args:
        thorough: whether to fit again, ten times in all, for more doubts; gibbs then takes 200 sweeps at most.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).doubts()
        ()
    """
    thorough = switch("thorough", thorough)
    if not isinstance(posterior.result.truth, ClassProbabilities):
        return (*_copied_numbers(posterior, thorough), *doubts_of_model(posterior))
    counts = cell_counts(posterior.data.blocks)[:, : posterior.data.n_classes]
    # Labels of each annotator that name a class, and all those before an update, abstentions included.
    given = counts.sum(1) + (0 if posterior.memory is None else posterior.memory.labels)
    thin = [Doubt("thin", text) for text in sparse_data(posterior, given)]
    return (
        *thin,
        *_diagonal(posterior, given),
        *(Doubt("collapse", text) for text in collapse(posterior)),
        *_spammers(posterior, given, sources := names_one_class(posterior.data)),
        *_one_class(posterior, given, sources),
        *_unanimous(posterior),
        *_unnamed(posterior, counts),
        *_order(posterior),
        *(_prevalence(posterior) if thorough else ()),
        *_permuted(posterior),
        *_abstained(posterior),
        *dependence(posterior, thorough),
        *(() if thin else _together(posterior, thorough)),  # where a prior decides what is expected
        *doubts_of_model(posterior),
        *(misfit(posterior) if thorough else ()),
        *(worse_than_votes(posterior) if thorough else overfitting(posterior)),
        *_bias(posterior),
    )


def doubts_of_model(posterior: Fit) -> list[Doubt]:
    """The doubts that the model itself offers."""
    offered = getattr(posterior.model, "doubts", None)
    return [] if offered is None else [Doubt(kind, text) for kind, text in offered(posterior)]


def _bias(posterior: Fit) -> Iterator[Doubt]:
    correction = posterior.correction
    if correction is None or correction.gold:
        return
    size = correction.temperature
    assumed = "none is assumed" if size in (None, 1) else f"assumed as on other data sets: p^(1/{size:.2f})"
    yield Doubt(
        "bias",
        f"labels cannot tell a bias that annotators share from the truth ({assumed}): where many are misled alike, "
        f"probabilities are too sure; {MIN_GOLD} known truths or more (gold=) would show it",
    )


def _ids(posterior: Fit, codes: Sequence[int] | np.ndarray) -> str:
    return listed([repr(native(posterior.data.annotators[code])) for code in codes])


ERRORS = 2
"""Standard errors beyond which a difference is no chance."""


def _diagonal(posterior: Fit, given: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    weight, table = given / max(1, given.sum()), result.confusions
    if isinstance(table, CoinTables):
        top, most, own = table.most_frequent(weight)
    else:
        mean = np.einsum("a,akl->kl", weight, table)[:, : data.n_classes]
        top, most, own = mean.argmax(1), mean.max(1), mean.diagonal()
    # An update's items may be of few classes; then the prevalence says of how many classes all labels were.
    share = result.probabilities.mean(0) if posterior.memory is None else result.prevalence
    labels = np.maximum(given.sum() * share, 1e-9)
    swapped = np.flatnonzero(most - own > 2 * np.sqrt((most + own) / labels))
    if len(swapped):
        names = [repr(native(name)) for name in data.classes]
        parts = [f"{names[k]} is called {names[top[k]]} ({most[k]:.2f}, and {own[k]:.2f} right)" for k in swapped]
        yield Doubt(
            "diagonal",
            f"the most frequent answer to {len(swapped)} of {len(names)} classes is another: {listed(parts)}. The "
            "fit may have swapped them, or all annotators are misled alike, which labels cannot tell apart: give "
            f"some known truths (gold=), or {_diagonal_remedy(posterior)}",
        )


COINS = (("right", "wrong"), ("knows", "guesses"))
"""Settings that are pseudo-counts of labels on the diagonal, and of those beside it."""
UNUSED = {"crowd_prior_strength": (None, 0), "prior": ("default",), "form": ("generative",)}
"""Settings under which prior_strength and prior_accuracy have no effect, unless they have these values."""


def _diagonal_remedy(posterior: Fit) -> str:
    """How to give the diagonal more prior weight, as the end of a sentence."""
    model: Any = posterior.model
    known = {field.name: getattr(model, field.name) for field in fields(model)} if is_dataclass(model) else {}
    for one, other in COINS:
        if all(isinstance(known.get(name), int | float) for name in (one, other)):
            now = f"{known[one]:g}, where {other}= is {known[other]:g}"
            return f"let the prior lean more on the diagonal, by the setting {one}= (now {now})"
    mass, share = known.get("prior_strength"), known.get("prior_accuracy", "")
    share = (1 + 1 / posterior.data.n_classes) / 2 if share is None else share
    used = all(known.get(name, usual[0]) in usual for name, usual in UNUSED.items())
    if used and isinstance(mass, int | float) and isinstance(share, int | float):
        now = f"prior_accuracy= (now {share:.2g}) and prior_strength= (now {mass:g} labels a row)"
        return f"let the prior lean more on the diagonal, by the settings {now}"
    return "take a method whose prior leans on the diagonal, such as bayesian_dawid_skene"


MAX_ONE_CLASS, MIN_UNANIMOUS, FIRST_ITEMS, SPAMMER_BITS = 0.25, 10, 1_000, 0.05
"""Share of labels by annotators who only ever name one class; unanimous items of several labels; items that are
looked at first; information below which an annotator is a spammer: three times as much has to be ruled out by the
labels."""


def _one_class(posterior: Fit, given: np.ndarray, sources: np.ndarray) -> Iterator[Doubt]:
    share = given[sources].sum() / max(1, given.sum())
    if share > MAX_ONE_CLASS and not posterior.data.alphabet.informative:
        yield Doubt(
            "one class",
            f"{sources.sum()} of {len(given)} annotators, with {share:.0%} of all labels, only ever say one class "
            "or nothing, and what they leave unsaid tells as well: give it as a label named in abstentions=, with "
            "informative_abstentions=True",
        )


def _unanimous(posterior: Fit) -> Iterator[Doubt]:
    blocks = posterior.data.blocks
    first = blocks[0].subset(np.arange(min(blocks[0].n_items, FIRST_ITEMS)), 1.0)  # which mostly shows it
    if any(bool(((block.vote_counts() > 0).sum(1) > 1).any()) for block in (first, *blocks)):
        return
    several = sum(int((block.vote_counts().sum(1) > 1).sum()) for block in blocks)
    if several >= MIN_UNANIMOUS:
        yield Doubt(
            "unanimous",
            f"the labels of each of {several} items are all the same: they may be copies, or aggregated "
            "already, and do not show who errs. Give the labels as annotators gave them, or known truths (gold=)",
        )


def _spammers(posterior: Fit, given: np.ndarray, sources: np.ndarray) -> Iterator[Doubt]:
    data, result = posterior.data, posterior.result
    even = np.full(data.n_classes, 1 / data.n_classes)
    table = informative_part(posterior, result.confusions)
    bits = np.maximum(*(information(table, share) for share in (result.prevalence, even)))
    error = 1 / np.sqrt(2 * math.log(2) * np.maximum(given, 1))
    bad = np.flatnonzero(~sources & (bits < SPAMMER_BITS) & (bits**0.5 + 2 * error < (3 * SPAMMER_BITS) ** 0.5))
    if len(bad):
        bad = bad[np.argsort(-given[bad], kind="stable")]
        yield Doubt(
            "spammers",
            f"{len(bad)} of {len(given)} annotators, with {given[bad].sum() / given.sum():.0%} of all labels, say "
            f"less than {SPAMMER_BITS} bits about the truth: {_ids(posterior, bad)}. The fit makes little of them; "
            "posterior.without([...]) fits without them",
        )


MAX_UNNAMED = 0.01
"""Share of the items that may be of classes that no label names; where items are few, half an item."""


def _unnamed(posterior: Fit, counts: np.ndarray) -> Iterator[Doubt]:
    data, card = posterior.data, card_of(posterior.model)
    if posterior.memory is not None or (card is not None and card.kind == "ordinal"):
        return  # earlier labels may have named it; a grade may lie between those that were given
    named: np.ndarray = counts.sum(0) > 0
    if data.gold_codes is not None:
        named[data.gold_codes[data.gold_codes >= 0]] = True
    taken = posterior.result.probabilities[:, ~named].sum(0)
    if taken.sum() > max(MAX_UNNAMED * data.n_items, 0.5):
        classes = listed([repr(native(name)) for name in data.classes[~named]])
        yield Doubt(
            "unnamed",
            f"{taken.sum():.0f} of {data.n_items} items are of classes that no label names ({classes}): they take "
            "what fits the others badly; leave them out of classes=, or give known truths (gold=) of them",
        )


def _order(posterior: Fit) -> Iterator[Doubt]:
    card, data = card_of(posterior.model), posterior.data
    if card is None or card.kind != "ordinal" or data.kind == "ordinal" or ranked(data.classes):
        return
    names = [repr(native(name)) for name in data.classes]
    yield Doubt(
        "order",
        f"{posterior.method} is for grades, and takes the classes in the order {listed(names)}, which was not "
        "given: set kind='ordinal', and list them from lowest to highest in classes=",
    )


MAX_PULL = 0.05
"""How far the prior of the prevalence may pull the share of a class."""
PULL_WEIGHT = 0.05
"""Share of the items from which on the weight of that prior is questioned."""


def _prevalence(posterior: Fit) -> Iterator[Doubt]:
    model: Any = posterior.model
    data, learned = posterior.data, is_dataclass(model) and getattr(model, "prevalence", "") == "learned"
    mass = getattr(model, "prevalence_strength", 0) if learned else 0
    if mass <= 1 or data.n_classes * mass < PULL_WEIGHT * data.n_items or networks_of(model) or posterior.memory:
        return
    share = posterior.uncorrected().result.probabilities.mean(0)
    votes = data.votes()
    top = votes == votes.max(1, keepdims=True)
    voted = (top / top.sum(1, keepdims=True))[votes.sum(1) > 0].mean(0)
    if max(np.abs(share - voted).max(), np.abs(share - posterior.result.prevalence).max()) < 2 * MAX_PULL:
        return
    options, light = Options(seed=posterior.options.get("seed", 0)), replace(model, prevalence_strength=1.0)
    try:
        with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
            free = fit_model(light, posterior.method, data, "vb", options).result.probabilities.mean(0)
    except CrowdpplError:  # vb may not support it; a doubt too few is better than a fit that fails for one
        return
    worst = int(np.abs(free - share).argmax())
    if abs(free[worst] - share[worst]) > MAX_PULL:
        yield Doubt(
            "prevalence",
            f"{share[worst]:.0%} of items are {native(data.classes[worst])!r} by the fit, and {free[worst]:.0%} "
            f"where the prior of the prevalence weighs one item a class, not {mass:g}: it pulls the classes' "
            "shares together. Set prevalence_strength=1, or give known truths (gold=)",
        )


def _permuted(posterior: Fit) -> Iterator[Doubt]:
    found = np.asarray(posterior.result.diagnostics.get("permutations", []))
    if not len(found) or (found == found[0]).all():
        return
    odd = np.flatnonzero((found != np.arange(found.shape[1])).any(1))
    names = [repr(native(name)) for name in posterior.data.classes]
    parts = [f"{names[k]} for {names[to]}" for k, to in enumerate(found[odd[0]]) if k != to]
    yield Doubt(
        "permuted",
        f"{len(odd)} of {len(found)} chains call the classes otherwise than the votes do (chain {odd[0]}: "
        f"{listed(parts)}), so that means over chains mean nothing. Give known truths (gold=), lengthen the "
        f"warm-up, in which chains are relabelled, or {_diagonal_remedy(posterior)}",
    )


SURE = 0.9
"""Probability above which a truth that rests on abstentions alone is doubted."""


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
            "is known to depend on the class, leave informative_abstentions out",
        )


DEPENDENCE_LEVEL, SHARED_ERRORS = 0.01, 0.5
"""Chance that some pair of honest annotators is taken for copiers, and least correlation of errors of numbers."""
TOGETHER, TOGETHER_ERRORS, TOGETHER_PAIRS = 0.05, 1.96, 100_000
"""Joint errors that are doubted, in standard errors too, and the pairs of labels of an item that are looked at."""
PAIRS_BY_MODEL = 50_000
"""Those where the model predicts how they agree, times the square of the number of classes."""
MAX_REPEATED = 0.05
"""Share of repeats of an annotator's label of an item beyond which agreement cannot be tested."""
QUICK_PAIRS = {"em": 20_000}
MAX_PAIRS, MAX_SIZE = 200_000, 100_000_000
"""Pairs of labels of one item up to which copying is looked for beside a fit, by em fewer; and times K squared."""
HOW = "crowdppl.suspicious_annotators(posterior) has the figures, posterior.without([...]) fits without them"


def dependence(posterior: Fit, thorough: bool) -> Iterator[Doubt]:
    """Pairs that stand out ("copying") and groups that they form ("colluding")."""
    if not _testable(posterior, thorough):
        return
    excess = excess_agreement(posterior, alone=True)  # the model's own expectation takes longer
    if not (excess.tail * len(excess.tail) <= DEPENDENCE_LEVEL).any():  # no pair can stand out from the others
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
            f"annotators {_ids(posterior, [excess.one[first], excess.other[first]])} agree in "
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
            f"{_ids(posterior, members)}{most}. {HOW}",
        )


def _copied_numbers(posterior: Fit, thorough: bool) -> Iterator[Doubt]:
    """Pairs whose errors of numbers are shared."""
    sizes = np.concatenate([row_sizes(block) for block in posterior.data.blocks]).astype(np.int64)
    many = not thorough and (sizes * (sizes - 1)).sum() / 2 > MAX_PAIRS
    if posterior.data.kind != "real" or sizes.max(initial=0) < 4 or many:  # the two, and two others
        return
    pair, correlation, p = collusion.shared_errors(Design.of(posterior.data, numbers=True))
    found = np.flatnonzero((correlation > SHARED_ERRORS) & (p <= DEPENDENCE_LEVEL))
    if len(found):
        first = found[np.argmax(correlation[found])]
        who = _ids(posterior, np.divmod(pair[first], posterior.data.n_annotators))
        more = f"; {len(found)} pairs stand out like this" if len(found) > 1 else ""
        yield Doubt(
            "copying",
            f"errors of annotators {who} correlate by {min(correlation[first], 1):.2f}{more}: one may copy the "
            "other, and both then count as precise. posterior.without([...]) fits without them",
        )


def _together(posterior: Fit, thorough: bool) -> Iterator[Doubt]:
    """Errors that meet on the same items, whoever makes them; tried beside em and vb alone."""
    fits = [*members(posterior).values()]
    alone = next((fit for fit in fits if not shares_more(fit.model)), fits[0])
    more = shares_more(alone.model)
    if alone.inference not in ("em", "vb") or (more and networks_of(alone.model)) or not _testable(alone, thorough):
        return
    most = PAIRS_BY_MODEL // posterior.data.n_classes**2 if more else TOGETHER_PAIRS
    try:
        share, error = collusion.joint_errors(alone, most)
    except (MethodError, DataError):  # its plate is not that of items; or an item's labels are one annotator's
        return
    if share > TOGETHER and share > TOGETHER_ERRORS * error:
        yield Doubt(
            "together",
            f"labels of an item agree more than the fit expects: {share:.0%} of the disagreements expected "
            "are none. Annotators copy one source, are models of one family or are misled by the same items, or "
            "the method is too coarse for them; probabilities are then too sure. Give known truths (gold=), take "
            "fit('auto', data), or leave some annotators out (posterior.without([...]))",
        )


def _testable(posterior: Fit, thorough: bool) -> bool:
    """Whether labels of an item are of several annotators, and not too many to be compared beside a fit."""
    data = posterior.data
    sizes = labels_an_item(data).astype(np.int64)
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    most = min(QUICK_PAIRS.get(posterior.inference, MAX_PAIRS), MAX_SIZE // data.n_classes**2)
    if not pairs or (pairs > most and not thorough):
        return False
    return count_repeats(data.blocks) <= MAX_REPEATED * data.n_labels


MISFIT_LEVEL, MISFIT_DRAWS = 0.01, 100
"""Of the check of labels drawn from the fit."""
MAX_DRAWN_LABELS = 1_000_000
"""Labels up to which they are drawn: each takes 8 bytes a draw."""
SHARED_CAUSES = (
    "Labels of an item may have more in common than its truth, and probabilities are then too sure: fit('auto', "
    "data) or calibrate=True correct them"
)
CAUSES = {
    "class_shares": "Annotators differ in what they answer by more than the method allows: one with a confusion "
    "matrix for each may fit better"
}
"""Causes of a statistic that stands out, other than what labels of an item have in common."""


def misfit(posterior: Fit) -> Iterator[Doubt]:
    """Labels drawn from the fit are unlike those given."""
    if posterior.correction is not None or posterior.data.n_labels > MAX_DRAWN_LABELS:
        return
    try:
        check = predictive_check(posterior, draws=MISFIT_DRAWS, seed=posterior.options["seed"])
    except DataError:  # no item has two labels
        return
    if check.p_value <= MISFIT_LEVEL:
        seen = check.table.loc[check.worst]
        yield Doubt(
            "misfit",
            f"labels drawn from the fit are unlike those given (p = {check.p_value:.2g}), most of all in "
            f"{check.worst}: {seen['observed']:.3g}, and {seen['low']:.3g} to {seen['high']:.3g} in 95 % of draws. "
            f"{CAUSES.get(check.worst, SHARED_CAUSES)}; crowdppl.predictive_check(posterior) shows more",
        )


MAX_SWEEPS = 100
"""Of gibbs to warm up, and to draw, where labels are left out."""


def worse_than_votes(posterior: Fit) -> Iterator[Doubt]:
    """Labels left out are predicted worse than by a majority vote; of a correction, by its method's own."""
    posterior = posterior.uncorrected()
    options = posterior.options
    if posterior.inference == "gibbs":
        brief = {name: min(MAX_SWEEPS, options[name]) for name in ("warmup", "draws")}
        posterior = replace(posterior, options={**options, **brief})
    try:
        own = heldout_score(posterior)
        votes = heldout_score("majority_vote", posterior.data, inference="em", seed=options["seed"])
    except DataError:  # no item has labels of two annotators: none can be left out
        return
    ours, theirs = (score.labels["log_p"].to_numpy() for score in (own, votes))
    remedy = "crowdppl.compare finds a method that fits better, and fit('auto', data) chooses by it"
    unit = own.labels["unit"].to_numpy()
    yield from _worse(f"{posterior.method} predicts labels left out", ours, theirs, unit, remedy)


def _worse(what: str, own: np.ndarray, votes: np.ndarray, unit: np.ndarray, remedy: str) -> Iterator[Doubt]:
    """The doubt that log-probabilities of labels are below those by a majority vote."""
    apart = own - votes
    error = standard_error(apart, unit)
    if apart.mean() < -ERRORS * error:
        yield Doubt(
            "votes",
            f"{what} worse than a majority vote: {own.mean():.3f} nats a label against {votes.mean():.3f} "
            f"(difference {apart.mean():.3f}, standard error {error:.3f}). {remedy}",
        )


MAX_QUICK_LABELS = 20_000
"""Labels up to which overfitting is looked for beside a fit."""
TABLE_TOLERANCE = 0.02
"""Largest difference between a table and the shares of its labels, which are counted after the last iteration."""


def overfitting(posterior: Fit) -> Iterator[Doubt]:
    """Labels, each taken out of its annotator's row, are predicted worse than by a majority vote.

    For maximum likelihood with a confusion matrix for each annotator. Other items' truths still depend on the
    label, so that some doubts are missed, and none is raised in error.
    """
    posterior, data = posterior.uncorrected(), posterior.data
    if posterior.memory is not None or data.n_answers > data.n_classes or data.n_labels > MAX_QUICK_LABELS:
        return
    sites, table = posterior.result.sites.values(), posterior.result.confusions
    if isinstance(table, CoinTables) or {site.family for site in sites} != {"point"}:
        return
    if not any(x.mean.shape == table.shape and np.allclose(x.mean, table, atol=1e-6) for x in sites):
        return
    item, annotator, label = data.label_codes()
    share = posterior.result.probabilities[item]
    counts = np.zeros((data.n_annotators, data.n_classes, data.n_classes))
    np.add.at(counts.transpose(0, 2, 1), (annotator, label), share)
    total = counts.sum(-1, keepdims=True)
    seen = np.broadcast_to(total > 1, counts.shape)
    if (np.abs(counts / np.maximum(total, MIN_PROBABILITY) - table)[seen] >= TABLE_TOLERANCE).any():
        return  # a prior has a part in the rows
    scored = np.bincount(item)[item] > 1  # nothing predicts an item's only label
    if not scored.any():
        return
    own = log_p_without_label(table, counts, annotator, label, share)
    votes = log_p_by_vote(data.votes(), data.gold_codes, item, label)
    remedy = (
        "By maximum likelihood an answer that an annotator never gave is impossible: take bayesian_dawid_skene, or "
        "a method that crowdppl.compare finds; fit('auto', data) chooses by it"
    )
    what = f"{posterior.method} predicts a label from the others"
    yield from _worse(what, own[scored], votes[scored], whole_units(data)[item[scored]], remedy)


MIN_PROBABILITY = math.exp(-80)
"""Of a label, before a logarithm."""
KNOWN = 1e6
"""Logit of a known truth: more than any number of votes makes."""
MAX_ROUNDS, SETTLED = 100, 1e-6
"""Of the search for the accuracy that a majority vote has, and the change at which it ends."""


def log_p_without_label(
    table: np.ndarray, counts: np.ndarray, annotator: np.ndarray, label: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Log-probability of each label, (S,), by its annotator's and its item's other labels; of [annotator, truth,
    label] and shares (S, K) of the item's truth by all labels.
    """
    rest = np.maximum(counts[annotator, :, label] - share, 0)
    total = counts.sum(-1)[annotator] - share
    nothing = total < 1e-9
    p = np.where(nothing, 1 / table.shape[-1], rest / np.where(nothing, 1, total))
    truth = share / np.maximum(table[annotator, :, label], MIN_PROBABILITY)
    truth /= truth.sum(1, keepdims=True)
    return np.asarray(np.log((truth * np.maximum(p, MIN_PROBABILITY)).sum(1)))


def log_p_by_vote(votes: np.ndarray, gold: np.ndarray | None, item: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Log-probability of each label, (S,), by its item's other labels, where all annotators are right as often."""
    from scipy.special import softmax  # slow to import

    def weight(right: float) -> float:
        return math.log(right * (k - 1) / (1 - right))

    k, prior, rows = votes.shape[1], np.zeros(votes.shape), np.arange(len(item))
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        prior[known, gold[known]] = KNOWN
    right, before = 0.5 * (1 + 1 / k), 0.0
    for _ in range(MAX_ROUNDS):
        if abs(right - before) < SETTLED:
            break
        truth = softmax(votes * weight(right) + prior, axis=1)
        before, right = right, float(np.clip((truth * votes).sum() / votes.sum(), 1e-9, 1 - 1e-9))
    same = softmax((votes[item] - np.eye(k)[label]) * weight(right) + prior[item], axis=1)[rows, label]
    return np.asarray(np.log(same * right + (1 - same) * (1 - right) / (k - 1)))
