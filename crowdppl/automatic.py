"""The method "auto": several methods, weighed and made honest by labels that they were not shown."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.annotations import Annotations
from crowdppl.comparison import stacking_weights
from crowdppl.correction import RATES, Correction, apply_map, discount, fit_map
from crowdppl.decoding import row_codes
from crowdppl.errors import CrowdpplWarning
from crowdppl.inference import fit
from crowdppl.inference.predictive import left_out, refit
from crowdppl.posterior import Posterior
from crowdppl.splitting import keep, label_folds

if TYPE_CHECKING:
    from crowdppl.inference.options import FitOptions

BLENDED = "mixed_membership"
"""The method whose items may lie between classes: it corrects itself, and no discount is looked for."""
SHARP = ("hierarchical_dawid_skene",)
"""Methods that take labels for independent given the truth, to be discounted."""
FOLDS, GOLD_FOLDS = 5, 5
FEWEST_GOLD = 10
THIN = 2.0
"""Labels an item below which labels left out have nothing to say."""
DRAWS = 20
TOLERANCE, STEPS = 1e-6, 300


def fit_auto(data: Annotations, options: FitOptions) -> Posterior:
    """Fits mixed membership and hierarchical Dawid-Skene, and averages them as labels left out advise.

    Dawid-Skene takes an item's labels for independent given its truth, which on real annotations they are not; it
    is discounted by the correlation under which it predicts labels left out best (``discount``). Mixed membership
    knows that labels of an item err together. The average of both is weighed by the same labels (stacking, as in
    ``compare``), so that data which are as Dawid-Skene says are not treated too cautiously. With ten known truths
    or more, which also inform the fits, a map is fitted on top, to probabilities of items whose truth the fit was
    not told (cross-fitting).

    Args:
        data: annotations, with gold or without.
        options: of the engine: seed, device, tolerance and max_iterations are used.

    Returns:
        The posterior of the method with the larger weight, with corrected probabilities; ``correction`` says what
        was done, ``uncorrected()`` gives the method's own.
    """
    began = time.perf_counter()
    given: dict[str, Any] = {"tolerance": TOLERANCE, "max_iterations": STEPS, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        plain = data if data.gold_codes is None else data.with_gold(None)
        free = {name: fit(name, plain, inference="vb", **given) for name in (BLENDED, *SHARP)}
        correction = _weigh(free, plain, free[BLENDED].options["seed"])
        members = free if plain is data else {name: refit(member, data) for name, member in free.items()}
        mixed = _mixture(members, correction, data)
        if plain is not data:
            correction, mixed = _map(free, correction, mixed, data)
    main = members[max(correction.weights, key=lambda name: correction.weights[name])]
    correction = replace(correction, raw=main.result.probabilities)
    diagnostics = main.result.diagnostics | {"seconds": time.perf_counter() - began}
    result = replace(main.result, probabilities=mixed, diagnostics=diagnostics)
    return replace(main, result=result, correction=correction)


def _weigh(members: Mapping[str, Posterior], data: Annotations, seed: int) -> Correction:
    """Discounts and weights, from labels left out."""
    empty = np.empty((0, 0))
    labels = labels_an_item(data)
    if labels[labels > 0].mean() < THIN:
        note = (
            f"{labels[labels > 0].mean():.2f} labels an item are too few for labels left out to say how far labels "
            "of an item depend on each other, so that mixed membership stands alone"
        )
        return Correction(empty, {BLENDED: 1.0}, {BLENDED: 0.0}, {}, notes=(note,))
    fold = label_folds(data, FOLDS, seed)
    logs: dict[str, list[np.ndarray]] = {name: [] for name in members}
    for number in range(FOLDS):
        out = fold == number
        part = keep(data, ~out)
        for name, member in members.items():
            again = refit(member, part)
            found = (
                left_out(again, data, out, draws=DRAWS)[0][None] if name == BLENDED else _tried(again, data, out)
            )
            logs[name].append(found)
    joined = {name: np.concatenate(parts, 1) for name, parts in logs.items()}
    best = {name: int(x.mean(1).argmax()) for name, x in joined.items()}
    rows = np.stack([joined[name][best[name]] for name in members], 1)
    weights = stacking_weights(rows)
    scores = {name: float(rows[:, n].mean()) for n, name in enumerate(members)}
    scores["average"] = float(np.log(np.exp(rows) @ weights).mean())
    rates = {name: RATES[best[name]] if name in SHARP else 0.0 for name in members}
    return Correction(empty, dict(zip(members, weights.tolist(), strict=True)), rates, scores)


def _tried(posterior: Posterior, full: Annotations, out: np.ndarray) -> np.ndarray:
    """log p(label) of each label left out under each discount: (rates, n)."""
    item, cell = row_codes(full.blocks, full.order)
    annotator, answer = np.divmod(cell[out], np.int32(full.n_answers))
    table = posterior.result.table[annotator, :, answer]  # (n, K)
    labels = labels_an_item(posterior.data)
    p = [discount(posterior.result.probabilities, labels, rate)[item[out]] for rate in RATES]
    return np.asarray(np.log(np.clip([(row * table).sum(1) for row in p], 1e-300, None)))


def _mixture(members: Mapping[str, Posterior], correction: Correction, data: Annotations) -> np.ndarray:
    """Discounted and averaged probabilities, (N, K)."""
    labels, out = labels_an_item(data), np.zeros((data.n_items, data.n_classes))
    for name, weight in correction.weights.items():
        out += weight * discount(members[name].result.probabilities, labels, correction.rates[name])
    return np.asarray(out / out.sum(1, keepdims=True))


def _map(
    free: Mapping[str, Posterior], correction: Correction, mixed: np.ndarray, data: Annotations
) -> tuple[Correction, np.ndarray]:
    """A map fitted to known truths, each seen by fits that were not told it; truths that are known stay.

    These fits start from those without any gold: one that started from a truth would remember it.
    """
    gold = data.gold
    assert data.gold_codes is not None and gold is not None
    known = np.flatnonzero(data.gold_codes >= 0)
    if len(known) < FEWEST_GOLD:
        note = f"{len(known)} known truths are too few for a map (at least {FEWEST_GOLD}); they inform the fit"
        return replace(correction, notes=(*correction.notes, note)), mixed
    stream = np.random.default_rng(free[BLENDED].options["seed"])
    fold = stream.permutation(len(known)) % GOLD_FOLDS
    p = np.empty((len(known), data.n_classes))
    for number in range(GOLD_FOLDS):
        hidden = known[fold == number]
        blind = data.with_gold(gold.drop(data.items[hidden]))
        again = {name: refit(free[name], blind) for name in correction.weights}
        p[fold == number] = _mixture(again, correction, blind)[hidden]
    scale, shift = fit_map(p, data.gold_codes[known])
    mapped = apply_map(mixed, scale, shift)
    mapped[known] = mixed[known]
    return replace(correction, gold=len(known), scale=scale, shift=tuple(shift.tolist())), mapped


def labels_an_item(data: Annotations) -> np.ndarray:
    """Number of labels of each item in codebook order, (N,); abstentions count."""
    item, _ = row_codes(data.blocks, data.order)
    return np.bincount(item, minlength=data.n_items)
