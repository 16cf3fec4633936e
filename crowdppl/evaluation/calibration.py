"""Calibration: probabilities discounted and averaged by held-out labels, and mapped to known truths."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from crowdppl import registry
from crowdppl.criticism.doubts.classes import contradicted
from crowdppl.criticism.expected_agreement import shares_more
from crowdppl.criticism.joint_errors import joint_errors
from crowdppl.data.annotations import Annotations
from crowdppl.data.split import keep, label_folds, whole_units
from crowdppl.errors import CrowdpplWarning
from crowdppl.evaluation.heldout import LEAST_WEIGHT, select_volume, stacking_weights
from crowdppl.inference.fit import fit_one
from crowdppl.inference.predict.answers import label_tables
from crowdppl.inference.predict.held_out import left_out
from crowdppl.inference.predict.predictive import refit
from crowdppl.inference.predict.update import options_of, problem_of
from crowdppl.inference.problem import model_runs
from crowdppl.inference.result import Correction, Fit, uninterrupted
from crowdppl.primitives.model import Model, discount_of
from crowdppl.results.correction import (
    MIN_GOLD,
    RATES,
    annotators_an_item,
    averaged,
    corrected,
    design_effect,
    fit_member,
    known_shares,
    map_of,
    members,
    too_sparse,
    truncated_evidence,
)
from crowdppl.results.leave_one_out import standard_error
from crowdppl.results.spans import Decisions, channel_log_p, decided_by_marks, found_by, of_sequences, tags_of
from crowdppl.results.updating import labels_without, refitted

FOLDS = 5
AVERAGE = "average"
"""Name of the score of all members together."""
MIN_DRAWS, MAX_DRAWS = 20, 100
"""Draws over which predictions are averaged: the logarithm of a mean over few is biased downwards."""
WORK, PLACES = 400_000, 10_000_000
"""Draws times labels, and draws times items times their states, beyond which there are the fewest draws."""
LABELS, MAX_LABELS = 5_000, 20_000
"""Labels that are left out in whole folds, about, as each fold costs a refit; and at most, of a larger fold."""
SETTLED = 3e-5
"""Relative gain, at least, at which such a refit stops. At 1e-4, labels that are left out still show in it."""
OWN_SHARES = tuple(n / 10 for n in range(10, -1, -1))
"""Of a method's own probabilities of spans, beside those by marks, among which annotators left out choose."""
BIAS, FEW, FEW_ANNOTATORS, MANY_CLASSES, JOINT, DOUBTED = 0.5, 0.6, 30.0, 0.7, 0.01, 0.5
"""Of the temperature for a bias that annotators share (``shared_bias``): its logarithm where annotators are many,
what few add, how many are few, the power of the number of classes, the joint errors that show it, and the part of
their standard error that they must exceed."""


def calibrated(
    members: Mapping[str, Fit],
    data: Annotations,
    weighed: Correction | None = None,
    models: Mapping[str, Model] | None = None,
    biased: bool = False,
) -> Fit:
    """Corrects the probabilities of one method, or averages those of several fits without gold, by name.

    Each member is discounted (``design_effect``) by the smallest correlation of an item's labels under which it
    predicts held-out labels within a standard error of the best, and members are averaged under the weights for
    which the average predicts them best (stacking). Of five folds of the labels, as many are held out in turn as
    have about 5,000 labels. Annotators who are ``biased`` share a bias (``shared_bias``). With ten known truths or
    more, a map from these probabilities and annotators' votes to truths is fitted on top (``VotesMap``), and the
    fits themselves are not given them; with fewer, they are. The first member stands alone where labels are few.

    Returns the member of the largest weight, with corrected probabilities and a ``correction``.
    """
    plain = data.with_gold(None)
    correction = (
        stacked(members, plain, models) if weighed is None else replace(weighed, temperature=None, shares=None)
    )
    used = {name: members[name] for name in correction.weights}
    seed = next(iter(members.values())).options["seed"]
    known = 0 if data.gold_codes is None else int((data.gold_codes >= 0).sum())
    given = {name: replace(fit, data=data) for name, fit in used.items()}
    if known:
        correction = replace(correction, of_spans={})
    if 0 < known < MIN_GOLD:
        few = f"{known} known truths are too few for a map (at least {MIN_GOLD}); they inform the fit"
        correction = replace(correction, notes=(*correction.notes, few))
        named = "{}, with the known truths".format  # in warnings
        given = {n: uninterrupted(fit_member(named(n), partial(refit, fit, data))) for n, fit in used.items()}
    correction = replace(correction, notes=(*correction.notes, *_truncation_notes(given, correction, data)))
    for name, share in correction.of_spans.items():
        told = f"probabilities of spans are {share:.1f} {name} and {1 - share:.1f} what annotators mark"
        correction = replace(correction, notes=(*correction.notes, f"{told}, by marks of annotators left out"))
    raw = {name: fit.result.probabilities for name, fit in given.items()}
    if biased:
        shares = known_shares(corrected(correction, raw, plain))
        correction = replace(correction, temperature=shared_bias(members), shares=shares)
    if known >= MIN_GOLD:
        correction = replace(correction, gold=known, truth_map=map_of(correction, raw, data, seed))
    return averaged(given, correction)


def shared_bias(members: Mapping[str, Fit]) -> float:
    """How much less evidence is worth for a bias that annotators may share: the temperature T of p^(1/T).

    log T = (1 - exp(-r / .01)) (.5 + .6 exp(-A / 30)) (2 / K)^.7

    with A annotators, K classes and joint errors r (``crowdppl.criticism.joint_errors.joint_errors``), less half
    their standard error, of the first member whose labels are independent given the truth; 1 where there is none,
    or r is below 0. Labels cannot tell such a bias from the truth, so that its size is that of other data sets: the
    numbers are fitted to the known truths of 21 public ones (docs/benchmarks.md). Few annotators, such as models,
    share more of their errors; among two classes all errors on an item are the same error; and where annotators err
    independently there is no bias. Where a class is rare, few labels disagree, and joint errors are uncertain.
    """
    alone = next((fit for fit in members.values() if not shares_more(fit.model)), None)
    if alone is None:
        return 1.0
    n_annotators = len(np.unique(alone.data.label_codes()[1]))
    size = (BIAS + FEW * np.exp(-n_annotators / FEW_ANNOTATORS)) * (2 / alone.data.n_classes) ** MANY_CLASSES
    joint, error = joint_errors(alone)
    sure = joint - DOUBTED * error
    return float(np.exp(size * (1 - np.exp(-sure / JOINT)))) if sure > 0 else 1.0  # of one item, the error is NaN


def stacked(members: Mapping[str, Fit], data: Annotations, models: Mapping[str, Model] | None = None) -> Correction:
    """Discounts and weights of members, from labels left out of data without gold.

    These cannot see a class that wandered off: members that labels contradict (``contradicted``) take no part,
    unless there is no other; nor do chains of sequences whose decisions another predicts as well or better
    (``decision_logs``). Of ``models`` before ``setup``, settings such as groups are found anew without the
    held-out labels.
    """
    empty, first = np.empty((0, 0)), next(iter(members))
    if too_sparse(data):
        note = (
            f"{annotators_an_item(data):.2f} annotators an item are too few to estimate the correlation of its "
            f"labels; {first} is not corrected"
        )
        return Correction(empty, {first: 1.0}, {first: 0.0}, {}, notes=(note,))
    lost = {name: n for name, fit in members.items() if (n := len(contradicted(fit)))}
    lost = lost if len(lost) < len(members) else {}
    members = {name: fit for name, fit in members.items() if name not in lost}
    told = f"{{}} takes no part: labels contradict it on {{}} of {data.n_classes} classes"
    notes = tuple(told.format(name, n) for name, n in lost.items())
    of_spans: dict[str, float] = {}
    rivals = _rivals(members)
    if judges := rivals or (dict([*members.items()][:1]) if tags_of(data) else {}):
        decided, sequence, shares = decision_logs(judges, data, models)
        asked = len(sequence) > 0  # of labels that mark nothing, no chain can be judged
        chosen = [*judges][first_of_best(np.stack([*decided.values()]), sequence) if asked else 0]
        of_spans = {name: share for name, share in shares.items() if name == chosen}
        if rivals:
            members = {name: fit for name, fit in members.items() if name == chosen or name not in _chains(rivals)}
            each = ", ".join(f"{name} {x.mean():.4f}" for name, x in decided.items() if asked) or "nothing"
            notes += (f"by what annotators left out mark, {chosen} stands, and other chains take no part: {each}",)
    logs, owner = heldout_logs(members, data, models)
    if data.n_labels > LABELS:
        notes += (f"weights and discounts are from {len(owner):,} of {data.n_labels:,} labels, left out in turn",)
    best = {name: first_of_best(x, owner) for name, x in logs.items()}
    rows = np.stack([logs[name][best[name]] for name in members], 1)
    found = stacking_weights(rows)
    found = np.where(found < LEAST_WEIGHT, 0.0, found)
    weights = {name: w for name, w in zip(members, (found / found.sum()).tolist(), strict=True) if w}
    scores = {name: float(rows[:, n].mean()) for n, name in enumerate(members)}
    if len(members) > 1:
        scores[AVERAGE] = float(np.log(np.exp(rows) @ found / found.sum()).mean())
    rates = {name: (0.0, *RATES)[best[name]] for name in weights}
    of_spans = {name: share for name, share in of_spans.items() if name in weights}
    return Correction(empty, weights, rates, scores, notes=notes, of_spans=of_spans)


def first_of_best(logs: np.ndarray, owner: np.ndarray) -> int:
    """The first row (no or a small discount, a plain method) within a standard error of the best, by owner."""
    best = int(logs.mean(1).argmax())
    behind = (logs[best] - row for row in logs[:best])
    return next((n for n, x in enumerate(behind) if x.mean() <= standard_error(x, owner)), best)


def heldout_logs(
    members: Mapping[str, Fit], data: Annotations, models: Mapping[str, Model] | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """log p(held-out label) by each member, then under each discount, (1 + rates, n); and their units (n,)."""
    seed = next(iter(members.values())).options["seed"]
    item = data.label_codes()[0]
    fold = label_folds(data, FOLDS, seed)
    fold[fold >= max(1, round(LABELS / np.count_nonzero(fold == 0)))] = -1
    fold = first_folds(MAX_LABELS, fold, item, seed)
    logs: dict[str, list[np.ndarray]] = {name: [] for name in members}
    draws = {name: _enough_draws(member, data) for name, member in members.items()}
    used = range(int(fold.max()) + 1)
    for number in used:
        out = fold == number
        for name, again in _again(members, keep(data, ~out), models):
            own = left_out(again, data, out, together=False, draws=draws[name])[0]
            logs[name].append(np.concatenate([own[None], _tried(again, data, out)]))
    owner = whole_units(data)[np.concatenate([item[fold == number] for number in used])]
    return {name: np.concatenate(parts, 1) for name, parts in logs.items()}, owner


def _again(
    members: Mapping[str, Fit], part: Annotations, models: Mapping[str, Model] | None
) -> Iterator[tuple[str, Fit]]:
    """Members fitted to some of the labels, coarsely."""
    for name, member in members.items():
        tolerance = max(SETTLED, member.options.get("tolerance") or 0.0)
        coarse = replace(member, options={**member.options, "tolerance": tolerance})
        yield name, _quietly(coarse, part, (models or {}).get(name))


def _chains(members: Mapping[str, Fit]) -> list[str]:
    """Members by which truths follow one another."""
    return [name for name, fit in members.items() if of_sequences(fit.model)]


def _rivals(members: Mapping[str, Fit]) -> dict[str, Fit]:
    """Chains, and a member that takes items one by one, whose labels are independent given the truth as theirs."""
    chains = _chains(members)
    alone = [name for name, fit in members.items() if name not in chains and not shares_more(fit.model)]
    return {name: members[name] for name in (*alone[:1], *chains)} if chains and alone else {}


def decision_logs(
    members: Mapping[str, Fit], data: Annotations, models: Mapping[str, Model] | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, float]]:
    """How well members predict what annotators left out decide about sequences: log-probabilities of marks, (n,).

    And the sequence of each, and of spans the share of each member in their probabilities (``own_share``). The
    labels of a span are one decision (``crowdppl.results.spans``). A method that knows an annotator's last label
    predicts the next one well whatever the truth is; here, a member tells of nothing but the truth.
    """
    fold = label_folds(data, FOLDS, next(iter(members.values())).options["seed"])
    item, annotator, _ = data.label_codes()
    pairs = whole_units(data)[item[fold == 0]] * np.int64(data.n_annotators) + annotator[fold == 0]
    parts: dict[str, list[np.ndarray]] = {name: [] for name in members}
    questions, by_marks = list[Decisions](), list[np.ndarray]()
    for number in range(min(FOLDS, max(1, round(LABELS / len(np.unique(pairs)))))):
        out = fold == number
        found = {name: found_by(again) for name, again in _again(members, keep(data, ~out), models)}
        questions.append(Decisions.of(data, out, [spans for spans, _ in found.values()]))
        for name, each in found.items():
            parts[name].append(questions[-1].shares(*each))
        if tags_of(data):
            by_marks.append(questions[-1].shares(*decided_by_marks(data, ~out)))
    asked, own = Decisions.joined(questions), {name: np.concatenate(x) for name, x in parts.items()}
    logs = {name: channel_log_p(x, asked.marked) for name, x in own.items()}
    told = {name: own_share(x, np.concatenate(by_marks), asked) for name, x in own.items() if by_marks}
    return logs, asked.unit, told


def own_share(own: np.ndarray, by_marks: np.ndarray, asked: Decisions) -> float:
    """The largest share of a method's own probabilities of spans, beside those by marks, that marks left out bear.

    That is, under which they are as probable as under any, within a standard error. Of each question, (n,); those
    count that are about spans that the method found.
    """
    found = own > 0
    if not found.any():
        return 1.0
    averages = (share * own[found] + (1 - share) * by_marks[found] for share in OWN_SHARES)
    size = np.subtract(*asked.spans[asked.decision[found], 1::-1].T)
    logs = np.stack([channel_log_p(x, asked.marked[found], size) for x in averages])
    return OWN_SHARES[first_of_best(logs, asked.unit[found])]


def _enough_draws(member: Fit, data: Annotations) -> int:
    """Draws over which a member's predictions are averaged."""
    with model_runs(member.model, member.data):
        states = problem_of(member, member.data, options_of(member, device="cpu")).states
    most = min(WORK // max(data.n_labels, 1), PLACES // (data.n_items * states))
    return min(MAX_DRAWS, max(MIN_DRAWS, most))


def _quietly(member: Fit, data: Annotations, model: Model | None = None) -> Fit:
    """A fit to some of the labels or truths, without warnings."""
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        return uninterrupted(refit(member, data, model, select_volume=select_volume))


def first_folds(n: int, fold: np.ndarray, item: np.ndarray, seed: int) -> np.ndarray:
    """The folds, one after the other, up to n labels; of the last one, those of random items; -1 for all others."""
    found = np.flatnonzero(fold >= 0)
    turn = np.random.default_rng(seed).permutation(item.max() + 1)
    order = found[np.lexsort((turn[item[found]], fold[found]))]
    new = (np.diff(fold[order]) != 0) | (np.diff(item[order]) != 0)
    ends = np.append(np.flatnonzero(new), len(order) - 1) + 1  # after the last label of an item in a fold
    chosen = order[: max(ends[0], ends[ends <= n].max(initial=0))]
    out = np.full_like(fold, -1)
    out[chosen] = fold[chosen]
    return out


def _tried(posterior: Fit, full: Annotations, out: np.ndarray) -> np.ndarray:
    """log p(label) of each label left out, one more label of the truth, under each discount: (rates, n)."""
    item, table = full.label_codes()[0], label_tables(posterior, full, np.flatnonzero(out))
    labels = posterior.data.votes().sum(1)
    p = [design_effect(posterior.result.probabilities, labels, rate)[item[out]] for rate in RATES]
    return np.asarray(np.log(np.clip([(row * table).sum(1) for row in p], 1e-300, None)))


def _truncation_notes(members: Mapping[str, Fit], correction: Correction, data: Annotations) -> Iterator[str]:
    """A note where items have more evidence than a probability can hold, and a discount makes that matter."""
    labels = data.votes().sum(1)
    out = np.any(
        [truncated_evidence(members[n].result.probabilities, labels, r) for n, r in correction.rates.items()], 0
    )
    out = out if data.gold_codes is None else out & (data.gold_codes < 0)
    if out.any():
        yield (
            f"{out.sum():,} of {data.n_items:,} items have more evidence than probabilities can hold (690 nats), "
            "and the discount took that for all: their probabilities are too low"
        )


AUTO_NOTE = "auto: "
"""How its notes begin, which later corrections carry on."""


def with_notes(posterior: Fit, notes: Iterable[str]) -> Fit:
    """The fit with further notes in its correction."""
    assert posterior.correction is not None
    notes = (*posterior.correction.notes, *notes)
    return replace(posterior, correction=replace(posterior.correction, notes=notes))


def corrected_again(posterior: Fit, data: Annotations) -> Fit:
    """A corrected posterior with other labels of the same items: its methods are fitted, weighed, corrected anew.

    Methods that were averaged start from the old truth, unless some truths are known, which such a fit would
    remember. Settings found in the labels, such as groups of annotators, are kept.
    """
    before = posterior.correction
    assert before is not None
    plain = data.with_gold(None)
    again: dict[str, Fit] = {}
    kept = members(posterior) if plain is data else {}
    for name in [name for name in before.scores if name != AVERAGE] or list(before.weights):
        if name in kept:
            fitted = fit_member(name, partial(refit, kept[name], plain))
        else:
            model = posterior.model if name == posterior.method else registry.resolve(name)
            how: Any = {"name": registry.name_of(model), "select_volume": select_volume}
            fit = partial(fit_one, model, plain, posterior.inference, options_of(posterior), **how)
            fitted = fit_member(name, fit)
        again[name] = uninterrupted(fitted)
    fixed = None
    if discount_of(posterior.model):  # of a panel of models, whose labels tell no weights
        fixed = replace(before, truth_map=None, gold=0, others={}, notes=())
    found = calibrated(again, data, fixed, biased=before.temperature is not None)
    return with_notes(found, [note for note in before.notes if note.startswith(AUTO_NOTE)])


def without(posterior: Fit, annotators: Iterable[Any]) -> Fit:
    """The fit without the labels of some annotators, which starts from the truth found before.

    Items, classes and ids stay; the annotators keep a row in the tables, that of an annotator without labels. A
    corrected posterior is corrected anew, by further fits; after an update it keeps its weights and discounts.

    Args:
        annotators: ids.

    Raises:
        DataError: for an id that is not one of the fit, or when no label would be left.
        MethodError: after ``update``, for an annotator who gave labels before it.
        KeyboardInterrupt: when Ctrl-C stops one of the fits of a corrected posterior.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.without(["1"]).data.n_labels
        180
    """
    left = labels_without(posterior, annotators)
    if posterior.correction is not None and posterior.memory is None:
        return corrected_again(posterior, left)
    return refitted(posterior, left)
