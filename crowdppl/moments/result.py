"""What moments tell: confusions and prevalence, and what they leave open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import listed, warn, whole_number
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.coded import require_labels
from crowdppl.errors import DataError, DoubtWarning
from crowdppl.moments.joints import SHARED, Floats, Ints, Opinions
from crowdppl.moments.projections import naming

FLOOR = 1e-6
"""Least probability in ``Moments.start``: a label that never came does not rule a class out."""
ERRORS = 3.0
"""Standard errors beyond which a difference is no chance."""
PAIRS = ("multispa", "coupled_kl", "symnmf")
"""Methods that read pairs of annotators alone, which determine confusions only if classes have experts."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Confusions and prevalence as moments of labels tell them, without a truth.

    Attributes:
        method: the function's name.
        confusion: probabilities (A, K, K) [annotator, truth, label]; rows sum to one, and may hold zeros.
        prevalence: share of each class (K,).
        annotators, classes: ids in the order of the arrays.
        doubts: what the moments leave open: "few shared", "naming", "separability", "class experts".
    """

    method: str
    confusion: Floats
    prevalence: Floats
    annotators: pd.Index[Any]
    classes: pd.Index[Any]
    doubts: tuple[Doubt, ...]

    @property
    def start(self) -> dict[str, Tensor]:
        """Values of the sites "confusion" and "prevalence", for ``start=`` or ``crowdppl.primitives.fixed``.

        Probabilities are at least 1e-6.

        Examples:
            >>> data = crowdppl.simulate_annotators([0, 1] * 100, {"hammer": 5}, seed=0).data
            >>> found = crowdppl.moments.multispa(data)
            >>> crowdppl.fit("dawid_skene", data, inference="em", start=found.start).diagnostics()["converged"]
            True
        """
        found = {"confusion": self.confusion, "prevalence": self.prevalence}
        raised = {name: np.maximum(x, FLOOR) for name, x in found.items()}
        return {name: torch.from_numpy(x / x.sum(-1, keepdims=True)) for name, x in raised.items()}


def opinions_of(data: Annotations, most: int | None) -> tuple[Opinions, Ints]:
    """The opinions of the annotators with most labels, and their codes; of all where ``most`` is None.

    DataError where labels are no classes, or no two annotators share five items.
    """
    data = require_annotations(data)
    _ = data.classes  # refuses numbers
    require_labels(data.blocks)
    every = Opinions.of(data.blocks)
    chosen = every.most_active(every.n_annotators if most is None else whole_number("most", most, 3))
    return every.of_annotators(chosen), chosen


def moments_of(
    method: str, data: Annotations, opinions: Opinions, chosen: Ints, confusion: Floats, prevalence: Floats
) -> Moments:
    """The result of estimates (M, K, K) of the ``chosen`` annotators, NaN where there is none.

    Classes get the names by which the crowd calls them most. Annotators without an estimate get the mean of others.
    """
    known = found_of(confusion)
    if not known.any():
        raise none_known(data.n_annotators)
    mean: Floats = np.average(confusion[known], axis=0, weights=opinions.counts[known])
    order = naming(mean)
    out = np.broadcast_to(mean[order], (data.n_annotators, *mean.shape)).copy()
    out[chosen[known]] = confusion[known][:, order]
    found = prevalence[order]
    unknown = np.setdiff1d(np.arange(data.n_annotators), chosen[known])
    doubts = (*_few_shared(data, unknown), *_of_classes(method, data, opinions, out[chosen], found))
    for each in doubts:
        warn(str(each), DoubtWarning)
    return Moments(method, out, found, data.annotators, data.classes, doubts)


def found_of(confusion: Floats) -> NDArray[np.bool_]:
    """Which annotators have an estimate, (A,)."""
    return np.asarray(np.isfinite(confusion).all((1, 2)))


def prevalence_of(opinions: Opinions, confusion: Floats) -> Floats:
    """The prevalence (K,) under which confusions explain best how often each annotator gives each class."""
    from scipy.optimize import nnls  # slow to import

    k = opinions.n_classes
    known = found_of(confusion)
    root = np.sqrt(opinions.counts[known])[:, None]
    table = root[..., None] * confusion[known].swapaxes(1, 2)
    found = nnls(table.reshape(-1, k), (root * opinions.rates[known]).ravel())[0]
    return np.asarray(found / found.sum())


def filled(opinions: Opinions, confusion: Floats) -> Floats:
    """Confusions with the mean of others in place of those that are NaN."""
    known = found_of(confusion)
    mean = np.average(confusion[known], axis=0, weights=opinions.counts[known])
    return np.where(known[:, None, None], confusion, mean)


def only_shared(opinions: Opinions, confusion: Floats) -> Floats:
    """Confusions, NaN of annotators who share fewer than five items with everybody."""
    return np.where((opinions.shared.max(1) >= SHARED)[:, None, None], confusion, np.nan)


def none_known(n_annotators: int) -> DataError:
    """The error where no annotator's confusion can be found."""
    return DataError(
        f"none of {n_annotators} annotators shares {SHARED} items with others that tell all classes apart, which "
        "moments of pairs need; collect labels of the same items by several annotators, or fit a method with a "
        "prior, such as crowdppl.fit('one_coin', data)"
    )


def _few_shared(data: Annotations, unknown: Ints) -> Iterator[Doubt]:
    """Annotators whose confusions are the mean of others."""
    if len(unknown):
        names = tuple(data.annotators.to_numpy()[unknown].tolist())
        yield Doubt(
            "few shared",
            f"{len(names)} of {data.n_annotators} annotators ({listed([repr(x) for x in names])}) share too few "
            f"items with others (fewer than {SHARED} with each, or classes that these do not tell apart): they are "
            "given the mean confusion of the others. Collect labels of items that others label too, or go on "
            "from here by a fit (start= of these moments' start)",
            {"annotators": names},
            {"annotators": len(names)},
            ("crowdppl.fit('bayesian_dawid_skene', data)",),
        )


def _of_classes(
    method: str, data: Annotations, o: Opinions, confusion: Floats, prevalence: Floats
) -> Iterator[Doubt]:
    """What cannot be told of classes: their names, which is which, and confusions that only pairs determine."""
    mean, k = np.average(confusion, axis=0, weights=o.counts), o.n_classes
    ids, items = data.classes.tolist(), np.maximum(o.weight.sum() * prevalence, 1e-9)
    top = mean.argmax(1)
    if len(odd := np.flatnonzero(top != np.arange(k))):
        parts = [
            f"{ids[t]!r} is called {ids[top[t]]!r} ({mean[t, top[t]]:.2f}, {mean[t, t]:.2f} right)" for t in odd
        ]
        yield Doubt(
            "naming",
            f"moments do not name classes; by the crowd's labels, {listed(parts)}: classes may have traded places, "
            "or be named for one that is hardly used. Give known truths to a fit (gold=)",
            {"classes": tuple(ids[t] for t in odd), "answers": tuple(ids[t] for t in top[odd])},
            {"right": tuple(mean[odd, odd].tolist())},
            ("crowdppl.fit('bayesian_dawid_skene', data, gold=gold)",),
        )
    spread = mean * (1 - mean) / items[:, None]
    differ = np.abs(mean[:, None] - mean) / np.sqrt(np.maximum(spread[:, None] + spread, 1e-300))
    alike = [(t, u) for t in range(k) for u in range(t) if differ[t, u].max() < ERRORS]
    if alike:
        pairs = [f"{ids[u]!r} and {ids[t]!r}" for t, u in alike]
        yield Doubt(
            "separability",
            f"annotators call items of some classes alike, as far as these labels tell: {listed(pairs)}. Moments "
            "divide by such differences, and estimates of these classes are mostly noise: join the classes, or "
            "take a method with a prior",
            {"classes": tuple(ids[t] for t in sorted({x for pair in alike for x in pair}))},
            {"pairs": len(alike)},
            ("crowdppl.fit('bayesian_dawid_skene', data)",),
        )
    if method in PAIRS:
        given = o.counts[:, None, None] * prevalence[:, None] * confusion  # (A, truth, label)
        total = np.maximum(given.sum(1, keepdims=True), 1e-300)
        own = np.where(total >= SHARED, given / total, 0)
        foreign = np.where(own > 0.5, (1 - own) * total - ERRORS**2 * own, np.inf)
        without = np.flatnonzero(foreign.min((0, 2)) > 0)
        if len(without):
            best = own.max((0, 2))[without]
            parts = [f"{ids[t]!r} ({p:.2f})" for t, p in zip(without, best, strict=True)]
            yield Doubt(
                "class experts",
                f"for {len(without)} of {k} classes no annotator has an answer that is given to items of this "
                f"class alone (the share of the class among the items of its purest answer: {listed(parts)}). "
                "Pairs of annotators then leave confusions open; third moments (spectral, tensor) or a fit do not",
                {"classes": tuple(ids[t] for t in without)},
                {"purity": tuple(best.tolist())},
                ("crowdppl.moments.tensor(data)", "crowdppl.fit('bayesian_dawid_skene', data)"),
            )
