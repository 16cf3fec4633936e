"""Doubts about classes: which are taken for each other, fall together, or have too many or too few items."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import listed
from crowdppl.criticism.doubts.search import AUTO, Search, doubt, quoted
from crowdppl.criticism.tails import ERRORS
from crowdppl.data.ids import ranked
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.parts import compares
from crowdppl.data.kinds.space import GRADES
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from crowdppl.inference.coin_tables import CoinTables
from crowdppl.inference.engines import refusal
from crowdppl.inference.fit import fit_one
from crowdppl.inference.options import Options
from crowdppl.inference.result import Fit
from crowdppl.networks.outputs import networks_of
from crowdppl.primitives.model import Card, card_of
from crowdppl.results.spans import tags_of

COINS = (("right", "wrong"), ("knows", "guesses"))
"""Settings that are pseudo-counts of labels on the diagonal, and of those beside it."""
UNUSED = {"crowd_prior_strength": (None, 0), "prior": ("default",), "form": ("generative",)}
"""Settings under which prior_strength and prior_accuracy have no effect, unless they have these values."""
MARGIN = 0.8
"""The ratio by which a class has to fall short of the agreement of labels, besides ``ERRORS`` standard errors."""
MAX_PULL = 0.05
"""How far the prior of the prevalence may pull the share of a class."""


def _lean(search: Search) -> tuple[str, str]:
    """How to give the diagonal more prior weight: the end of a sentence, and the call."""
    model: Any = search.posterior.model
    known = {field.name: getattr(model, field.name) for field in fields(model)} if is_dataclass(model) else {}
    for one, other in COINS:
        if all(isinstance(known.get(name), int | float) for name in (one, other)):
            now = f"{known[one]:g}, where {other}= is {known[other]:g}"
            text = f"let the prior lean more on the diagonal, by the setting {one}= (now {now})"
            return text, search.with_setting(one, 2 * known[one])
    mass, share = known.get("prior_strength"), known.get("prior_accuracy", "")
    share = (1 + 1 / search.posterior.data.n_classes) / 2 if share is None else share
    used = all(known.get(name, usual[0]) in usual for name, usual in UNUSED.items())
    if used and isinstance(mass, int | float) and isinstance(share, int | float):
        now = f"prior_accuracy= (now {share:.2g}) and prior_strength= (now {mass:g} labels a row)"
        text = f"let the prior lean more on the diagonal, by the settings {now}"
        return text, search.with_setting("prior_strength", 2 * mass)
    name = search.methods[2]
    return f"take a method whose prior leans on the diagonal, such as {name}", f"crowdppl.fit({name!r}, data)"


@doubt("diagonal")
def diagonal(search: Search) -> Iterator[Doubt]:
    """The mean confusion has a class whose most frequent answer is another class, beyond chance.

    Where labels depend on others, as on the tag before, some answers cannot come in some contexts: the labels of
    the class's items are counted instead. Of BIO tags, O is no other class: a span is overlooked.
    """
    posterior, given, result = search.posterior, search.given, search.posterior.result
    weight, table, n_classes = given / max(1, given.sum()), result.confusions, posterior.data.n_classes
    if isinstance(table, CoinTables):
        top, most, own = table.most_frequent(weight)
    else:
        mean = np.einsum("a,akl->kl", weight, table)[:, :n_classes]
        if hasattr(posterior.model, "derived_covariates") and posterior.memory is None:
            mean = class_answers(posterior)
        if (tags := tags_of(posterior.data)) is not None:
            none = ~tags.begins & (tags.inside < 0)
            mean = np.where(none & ~none[:, None], 0, mean)
        top, most, own = mean.argmax(1), mean.max(1), mean.diagonal()
    # An update's items may be of few classes; then the prevalence says of how many classes all labels were.
    share = result.probabilities.mean(0) if posterior.memory is None else result.prevalence
    labels = np.maximum(given.sum() * share, 1e-9)
    swapped = np.flatnonzero(most - own > ERRORS * np.sqrt((most + own) / labels))
    if len(swapped):
        names, answers = search.classes(swapped), search.classes(top[swapped])
        shares, right = (tuple(x[swapped].tolist()) for x in (most, own))
        parts = [
            f"{name!r} is called {answer!r} ({p:.2f}, and {q:.2f} right)"
            for name, answer, p, q in zip(names, answers, shares, right, strict=True)
        ]
        lean, call = _lean(search)
        calls: tuple[str, ...] = (search.refit(gold="gold"), call)
        cause = (
            "The fit may have swapped them, or all annotators are misled alike, which labels cannot tell apart: "
            f"give some known truths of them (gold=), or {lean}"
        )
        if _confirmed(posterior, swapped, top[swapped]):
            calls = ("posterior.confusion()",)
            cause = (
                "Labels of known truths say the same: annotators are misled alike, and the fit allows for it. "
                "Tell annotators what sets these apart; posterior.confusion() shows who needs it"
            )
        yield Doubt(
            "diagonal",
            f"the most frequent answer to {len(swapped)} of {n_classes} {search.called} is another: "
            f"{listed(parts)}. {cause}",
            {"classes": names, "answers": answers},
            {"classes": n_classes, "share": shares, "right": right},
            calls,
        )


def _confirmed(posterior: Fit, classes: np.ndarray, answers: np.ndarray) -> bool:
    """Whether items known to be of each class have more labels of its answer than of the class."""
    gold, votes = posterior.data.gold_codes, posterior.data.votes()
    if gold is None:
        return False
    given = np.stack([votes[gold == k].sum(0) for k in classes])
    rows = np.arange(len(classes))
    return bool((given[rows, answers] > given[rows, classes]).all())


def class_answers(posterior: Fit) -> np.ndarray:
    """Shares of classes among labels of the items that a fit gives to each class, (K, K)."""
    given = posterior.uncorrected().result.probabilities.T @ posterior.data.votes()
    return np.asarray(given / np.maximum(given.sum(1, keepdims=True), 1e-9))


def class_agreement(posterior: Fit) -> tuple[np.ndarray, np.ndarray]:
    """How often labels name the class of their item, and how often they repeat another label of it.

    The first share of class k is among labels of items that the fit gives to k, the second, a mean over items,
    among all other labels of items with a label k. (K,) each, NaN where nothing is counted.
    """
    own, given, repeated, several = np.zeros((4, posterior.data.n_classes))
    for votes, p in _votes_and_shares(posterior):
        labels = votes.sum(1)
        others = np.where(labels > 1, 1 / np.maximum(labels - 1, 1), 0)
        own += np.einsum("ik,ik->k", votes, p)
        given += labels @ p
        repeated += np.einsum("i,ik,ik->k", others, votes, votes) - others @ votes
        several += (labels > 1) @ votes
    with np.errstate(divide="ignore", invalid="ignore"):
        return own / given, repeated / several


def _votes_and_shares(posterior: Fit) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """How often items were given each class, and their probabilities before a correction, by block, (n, K) each."""
    data, p = posterior.data, posterior.uncorrected().result.probabilities
    for block in data.blocks:
        at = data.order[block.offset : block.offset + block.n_items]
        yield block.vote_counts().double().cpu().numpy(), p[at]


def agreement_errors(posterior: Fit, classes: np.ndarray, agreement: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The standard error, by items, of the difference of the two shares of some classes, (classes,)."""
    own, other = (share[classes] for share in agreement)
    every, repeats, squares = np.zeros((3, len(classes)))
    for votes, p in _votes_and_shares(posterior):
        labels = votes.sum(1)
        every += labels @ p[:, classes]
        repeats += (labels > 1) @ votes[:, classes]
    for votes, p in _votes_and_shares(posterior):
        labels, given = votes.sum(1, keepdims=True), votes[:, classes]
        again = given * (given - 1) / np.maximum(labels - 1, 1) - other * given * (labels > 1)
        pull = p[:, classes] * (given - own * labels) / every - again / repeats
        squares += np.einsum("ik,ik->k", pull, pull)
    return np.sqrt(squares)


def contradicted(posterior: Fit) -> list[int]:
    """Codes of the classes whose items get their label less often than it is repeated."""
    own, other = agreement = class_agreement(posterior)
    below = np.flatnonzero(own < MARGIN * other)
    if not len(below):
        return []
    far = own[below] < other[below] - ERRORS * agreement_errors(posterior, below, agreement)
    return [int(k) for k in below[far]]


@doubt("collapse")
def collapse(search: Search) -> Iterator[Doubt]:
    """Labels agree with one another more than with the fit on a class, beyond chance; not of comparisons."""
    posterior = search.posterior
    compared = posterior.data.alphabet.kind.parts
    if compared is not None and compared.ranks:  # sides are no classes that could trade places
        return
    found = contradicted(posterior)
    if not found:
        return
    own, other = class_agreement(posterior)
    items, labels = (x.sum(0) / x.sum() for x in (posterior.result.probabilities, posterior.data.votes()))
    names = search.classes(found)
    figures = {"items": items, "labels": labels, "named": own, "repeated": other}
    parts = [
        f"{name!r} ({items[k]:.0%} of items, {labels[k]:.0%} of labels; {own[k]:.0%} of the labels of its items "
        f"name it, and {other[k]:.0%} of those beside a label that does)"
        for name, k in zip(names, found, strict=True)
    ]
    yield Doubt(
        "collapse",
        f"labels agree with one another more than with the fit on {len(found)} of {len(own)} {search.called}: "
        f"{listed(parts)}. They fell together, wandered off or traded places: take a method with fewer "
        "parameters or a prior that leans on the diagonal, or fit('auto', data), or give known truths (gold=)",
        {"classes": names},
        {"classes": len(own), **{name: tuple(x[found].tolist()) for name, x in figures.items()}},
        (AUTO, "crowdppl.fit('one_coin', data)", search.refit(gold="gold")),
    )


def _of_grades(card: Card | None) -> bool:
    """Whether a method takes grades."""
    return card is not None and KINDS[card.kind].space == GRADES


@doubt("unnamed")
def unnamed(search: Search) -> Iterator[Doubt]:
    """Over a hundredth of the items, and more than half an item, are of classes that no label or truth names."""
    posterior, data, card = search.posterior, search.posterior.data, card_of(search.posterior.model)
    if posterior.memory is not None or _of_grades(card) or compares(data):
        return  # earlier labels may have named it; a grade may lie between others; sides are there without answers
    named: np.ndarray = search.named.sum(0) > 0
    if data.gold_codes is not None:
        named[data.gold_codes[data.gold_codes >= 0]] = True
    taken = float(posterior.result.probabilities[:, ~named].sum())
    if taken > max(0.01 * data.n_items, 0.5):
        names, known = search.classes(np.flatnonzero(~named)), list(search.classes(np.flatnonzero(named)))
        fewer = len(known) > 1  # there must be two
        yield Doubt(
            "unnamed",
            f"{taken:.0f} of {data.n_items} items are of {search.called} that no label names ({quoted(names)}): "
            f"they take what fits the others badly; {'leave them out of classes=, or ' * fewer}give known truths "
            "(gold=) of them",
            {"classes": names},
            {"items": taken},
            (*[search.reread(classes=str(known))] * fewer, search.refit(gold="gold")),
        )


@doubt("order")
def order(search: Search) -> Iterator[Doubt]:
    """A method for grades has nominal classes, which it takes as they are sorted."""
    posterior, data, card = search.posterior, search.posterior.data, card_of(search.posterior.model)
    if not _of_grades(card) or data.space.ordered or ranked(data.classes):
        return
    names = search.classes(range(data.n_classes))
    yield Doubt(
        "order",
        f"{posterior.method} is for grades, and takes the classes in the order {quoted(names)}, which was not "
        "given: set kind='ordinal', and list them from lowest to highest in classes=",
        {"classes": names},
        remedies=(search.reread(kind="'ordinal'", classes=str(list(names))),),
    )


@doubt("prevalence", thorough=True)
def prevalence(search: Search) -> Iterator[Doubt]:
    """A prior of one item a class changes the share of a class by .05; looked for with ``thorough`` alone."""
    posterior, data = search.posterior, search.posterior.data
    model: Any = posterior.model
    learned = is_dataclass(model) and getattr(model, "prevalence", "") == "learned"
    mass = getattr(model, "prevalence_strength", 0) if learned else 0
    if mass <= 1 or data.n_classes * mass < 0.05 * data.n_items or networks_of(model) or posterior.memory:
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
            free = fit_one(light, data, "vb", options, name=posterior.method).result.probabilities.mean(0)
    except CrowdpplError:  # vb may not support it; a doubt too few is better than a fit that fails for one
        return
    worst = int(np.abs(free - share).argmax())
    if abs(free[worst] - share[worst]) > MAX_PULL:
        names = search.classes([worst])
        yield Doubt(
            "prevalence",
            f"{share[worst]:.0%} of items are {quoted(names)} by the fit, and {free[worst]:.0%} "
            f"where the prior of the prevalence weighs one item a class, not {mass:g}: it pulls the classes' "
            "shares together. Set prevalence_strength=1",
            {"classes": names},
            {"share": float(share[worst]), "free": float(free[worst]), "strength": float(mass)},
            (search.with_setting("prevalence_strength", 1.0),),
        )


@doubt("permuted", needs=("result", "diagnostics", "permutations"))
def permuted(search: Search) -> Iterator[Doubt]:
    """Some chains of a sampler name the classes otherwise than the votes do, and chains disagree.

    Chains that agree all pass from one order to another, as where labels hardly tell classes apart.
    """
    posterior, told = search.posterior, search.posterior.result.diagnostics
    found = np.asarray(told["permutations"])
    if not len(found) or (found == found[0]).all() or told.get("converged"):
        return
    odd = np.flatnonzero((found != np.arange(found.shape[1])).any(1))
    moved = np.flatnonzero(found[odd[0]] != np.arange(found.shape[1]))
    names, answers = search.classes(moved), search.classes(found[odd[0]][moved])
    parts = [f"{name!r} for {other!r}" for name, other in zip(names, answers, strict=True)]
    lean, call = _lean(search)
    by_vb = refusal(posterior.model, "vb", Options()) is None
    yield Doubt(
        "permuted",
        f"{len(odd)} of {len(found)} chains call the {search.called} otherwise than the votes do (chain {odd[0]}: "
        f"{listed(parts)}), so that means over chains mean nothing. Give known truths (gold=), lengthen the "
        f"warm-up, in which chains are relabelled, {'fit by vb, which starts from the votes, ' * by_vb}or {lean}",
        {"classes": names, "answers": answers},
        {"chains": len(found), "odd": len(odd)},
        (
            search.refit(gold="gold"),
            search.refit(warmup=str(2 * posterior.options.get("warmup", 1000))),
            *[search.refit(inference="'vb'")] * by_vb,
            call,
        ),
    )
